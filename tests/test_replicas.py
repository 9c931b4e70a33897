import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import UsageError, cifar10, cluster, replicas

STEPS = 20
BATCH = 128


def cluster_of(num_ps, num_workers, index=0):
  """Returns a cluster on free ports, as worker `index` sees it."""
  ports = cluster.free_ports(num_ps + num_workers)
  hosts = ['127.0.0.1:%d' % port for port in ports]
  return cluster.resolve(
    {},
    job_name='worker',
    task_index=index,
    ps_hosts=','.join(hosts[:num_ps]),
    worker_hosts=','.join(hosts[num_ps:]),
  )


def build(images, labels, batch_size, sync=None, is_chief=True):
  """Builds a step of training in the default graph."""
  tf.set_random_seed(5)
  loss = cifar10.loss(cifar10.inference(images), labels)
  return cifar10.train(
    loss,
    tf.train.get_or_create_global_step(),
    batch_size=batch_size,
    learning_rate=0.1,
    average_losses=is_chief,
    wrap_optimizer=sync and sync.wrap,
  )


def placeholders(batch_size):
  return (
    tf.placeholder(tf.float32, [batch_size, 24, 24, 3]),
    tf.placeholder(tf.int32, [batch_size]),
  )


@pytest.fixture
def batches(rng):
  """The pictures and labels of each step."""
  return [
    (
      rng.normal(size=[BATCH, 24, 24, 3]).astype(np.float32),
      rng.integers(0, 10, BATCH).astype(np.int32),
    )
    for _ in range(STEPS)
  ]


def variables_of(session):
  variables = {v.op.name: v for v in tf.global_variables()}
  return session.run(variables)


def train_alone(batches):
  with tf.Graph().as_default():
    inputs = placeholders(BATCH)
    train_op = build(*inputs, BATCH)
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      for batch in batches:
        session.run(train_op, dict(zip(inputs, batch)))
      return variables_of(session)


def work(members, server, batches, results):
  """Is one of two replicas, which sees every second half of the batches."""
  half = BATCH // 2
  rows = slice(members.task.index * half, (members.task.index + 1) * half)
  with (
    tf.Graph().as_default(),
    tf.device(replicas.device_setter(members)),
  ):
    sync = replicas.sync_of(members, True, None)
    inputs = placeholders(half)
    train_op = build(*inputs, BATCH, sync, members.is_chief)
    with tf.train.MonitoredTrainingSession(
      server.target,
      is_chief=members.is_chief,
      hooks=[sync.hook(members.is_chief)],
      stop_grace_period_secs=1,
    ) as session:
      for images, labels in batches:
        session.run(train_op, dict(zip(inputs, (images[rows], labels[rows]))))
      if members.is_chief:
        results.update(
          session.run_step_fn(
            lambda step_context: variables_of(step_context.session)
          )
        )


def test_two_replicas_equal_one_of_twice_the_batch(batches):
  first = cluster_of(num_ps=1, num_workers=2)
  spec = tf.train.ClusterSpec(first.spec)
  servers = {
    (task.job, task.index): tf.train.Server(spec, task.job, task.index)
    for task in first.tasks
  }
  results, threads = {}, []
  for task in first.replicas:
    members = cluster.Cluster(first.tasks, task)
    server = servers[task.job, task.index]
    thread = threading.Thread(
      target=work, args=(members, server, batches, results), daemon=True
    )
    thread.start()
    threads.append(thread)
  for thread in threads:
    thread.join(timeout=120)
  expected = train_alone(batches)
  assert results['global_step'] == expected['global_step'] == STEPS
  averages = {key for key in expected if key.endswith('/avg')}
  assert results.keys() == expected.keys()
  for key in expected.keys() - averages:
    np.testing.assert_allclose(results[key], expected[key], atol=1e-4)
  # It moved by much more than the two differ.
  for key, value in train_alone([]).items():
    if key.endswith('weights'):
      assert np.abs(expected[key] - value).max() > 5e-4


def placed(num_ps):
  """Returns a worker's step, where it would run."""
  members = cluster_of(num_ps=num_ps, num_workers=2, index=1)
  with tf.Graph().as_default(), tf.device(replicas.device_setter(members)):
    return build(*placeholders(BATCH), BATCH)


def device_of(op):
  """Returns where an operation runs: by its variable, if it has one."""
  handles = [t.op for t in op.inputs if t.dtype == tf.resource]
  return device_of(handles[0]) if handles else op.device


def bytes_between(step, source, target):
  """Returns the bytes of tensors that go from devices to others in a step."""
  seen, sent, left = set(), {}, [step]
  while left:
    op = left.pop()
    if op in seen:
      continue
    seen.add(op)
    left += op.control_inputs
    for tensor in op.inputs:
      left.append(tensor.op)
      ends = device_of(tensor.op), device_of(op)
      if source in ends[0] and target in ends[1]:
        size = tensor.shape.num_elements() * tensor.dtype.size
        sent[tensor.name, ends[1]] = size
  return sum(sent.values())


def test_variables_are_balanced_over_parameter_servers():
  graph = placed(num_ps=2).graph
  where = {
    v.op.name: v.device
    for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
  }
  weights = 'local3/weights'
  device = where[weights]
  # It is 83 % of all: nothing else of size is beside it.
  for name in ('conv2/weights', 'local4/weights'):
    assert where[name].startswith('/job:ps/')
    assert where[name] != device
  for name, where_it_is in where.items():
    average = where.get(name + '/ExponentialMovingAverage')
    assert average in (None, where_it_is)


@pytest.mark.parametrize('num_ps', [1, 2])
def test_each_weight_and_each_gradient_is_sent_once_a_step(num_ps):
  step = placed(num_ps)
  weights = 4 * 1068298  # DESIGN.md's number of parameters, float32
  assert weights <= bytes_between(step, 'job:ps', 'job:worker') < weights + 200
  assert weights <= bytes_between(step, 'job:worker', 'job:ps') < weights + 200


def test_what_flags_cannot_ask_for():
  members = cluster_of(num_ps=1, num_workers=2)
  assert replicas.sync_of(members, False, None) is None
  assert replicas.sync_of(members, True, None).aggregated == 2
  assert replicas.sync_of(members, True, 1).aggregated == 1
  for args, said in (
    ((members, False, 1), 'needs --sync_replicas'),
    ((None, True, None), 'needs a cluster'),
    ((members, True, 3), '--replicas_to_aggregate=3: there are 2 replicas'),
  ):
    with pytest.raises(UsageError, match=said):
      replicas.sync_of(*args)
