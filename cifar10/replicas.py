"""How the replicas of a cluster share variables and gradients: graph parts."""

import tensorflow.compat.v1 as tf

from cifar10 import UsageError


def device_setter(cluster):
  """Returns the device function for a replica's graph.

  Variables go to the parameter servers, each to the one that has the least
  bytes (round robin would put all weights on one of two, all biases on the
  other); all else goes to this task.

  Args:
    cluster: the `cluster.Cluster`.
  """
  sizes = [0] * len(cluster.of_job('ps'))

  def smallest(op):
    index = sizes.index(min(sizes))
    shape = tf.TensorShape(op.get_attr('shape'))
    sizes[index] += shape.num_elements() * op.get_attr('dtype').size
    return index

  return tf.train.replica_device_setter(
    cluster=tf.train.ClusterSpec(cluster.spec),
    worker_device=cluster.task.device,
    ps_strategy=smallest,
  )


class Sync:
  """Synchronous updates: each is the mean of the gradients of many replicas.

  It is `tf.train.SyncReplicasOptimizer`, without its initial tokens: with these
  one replica may supply all gradients of the first updates. Where fewer
  gradients than replicas are enough, a fast replica may still supply two.

  Attributes:
    aggregated: how many gradients make an update.
  """

  def __init__(self, aggregated, num_replicas):
    """Makes it.

    Args:
      aggregated: how many gradients make an update; further ones are dropped.
      num_replicas: how many replicas there are, at least as many.
    """
    self.aggregated = aggregated
    self._num_replicas = num_replicas
    self._optimizer = None

  def wrap(self, optimizer):
    """Returns an optimizer that hands the mean gradients to the given one."""
    self._optimizer = tf.train.SyncReplicasOptimizer(
      optimizer, self.aggregated, self._num_replicas
    )
    return self._optimizer

  def hook(self, is_chief):
    return _SyncHook(self._optimizer, is_chief)


class _SyncHook(tf.train.SessionRunHook):
  """Begins synchronous updates, as the optimizer's own hook does.

  That one gives out tokens unless it is told not to; and its thread, which at
  the end waits for gradients that do not come, ends with a traceback.
  """

  def __init__(self, optimizer, is_chief):
    self._optimizer = optimizer
    self._is_chief = is_chief

  def begin(self):
    self._init_op = self._optimizer.local_step_init_op
    if self._is_chief:
      self._init_op = self._optimizer.chief_init_op
      updates = self._optimizer.get_chief_queue_runner()
      self._runner = tf.train.QueueRunner(
        updates.queue,
        updates.enqueue_ops,
        queue_closed_exception_types=(
          tf.errors.OutOfRangeError,
          tf.errors.CancelledError,
        ),
      )

  def after_create_session(self, session, coord):
    session.run(self._init_op)
    if self._is_chief:
      self._runner.create_threads(session, coord, daemon=True, start=True)


def sync_of(cluster, sync_replicas, replicas_to_aggregate):
  """Returns the `Sync` that flags ask for; None: updates are asynchronous.

  Args:
    cluster: the `cluster.Cluster`, or None.
    sync_replicas: whether updates are synchronous.
    replicas_to_aggregate: how many gradients make an update; None: those of all
      replicas.

  Raises:
    UsageError: there are no replicas, or not as many.
  """
  if not sync_replicas:
    if replicas_to_aggregate is not None:
      raise UsageError('--replicas_to_aggregate needs --sync_replicas')
    return None
  if cluster is None:
    raise UsageError(
      '--sync_replicas needs a cluster: --job_name and addresses, or TF_CONFIG'
    )
  num_replicas = len(cluster.replicas)
  aggregated = replicas_to_aggregate or num_replicas
  if aggregated > num_replicas:
    raise UsageError(
      '--replicas_to_aggregate=%d: there are %d replicas'
      % (aggregated, num_replicas)
    )
  return Sync(aggregated, num_replicas)
