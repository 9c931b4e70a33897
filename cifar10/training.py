"""Training: one loop for one device, for many, and for a task of a cluster.

`train` is what the scripts call; its arguments are their flags.
"""

import contextlib
import dataclasses
import logging
import os
import re

import tensorflow.compat.v1 as tf

from cifar10 import (
  UsageError,
  charts,
  checkpoints,
  cifar10,
  cifar10_input,
  datasets,
  distributed,
  hooks,
  locks,
  overview,
  replicas,
  restarts,
  session,
  signals,
  starting,
  towers,
)
from cifar10.cluster import Cluster

TRAIN_DIR = '/tmp/cifar10_train'
MAX_STEPS = 100000

# The names of what a run writes into its folder, and `overwrite` removes. A
# process that was killed while it wrote leaves those that are half written.
_CHECKPOINT = r'model\.ckpt-\d+(\.index|\.meta|\.data-\d{5}-of-\d{5})?'
_HALF_WRITTEN = (
  r'((checkpoint|graph\.pbtxt|%s)\.(tmp|tempstate)\w+|run\.json\.\d+\.part)'
  % _CHECKPOINT
)
_RUN_FILES = (
  r'(checkpoint|events\.out\.tfevents\.\d+\..+|graph\.pbtxt|run\.json|%s|%s)'
  % (_CHECKPOINT, _HALF_WRITTEN)
)

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """What `train` is told.

  Attributes:
    data_dir: the folder that holds the data set's folder.
    dataset: name of the data set.
    label: 'fine', or 'coarse' for the other label that CIFAR-100 has.
    image_size: height and width of the pictures that the network sees.
    train_dir: the folder of checkpoints and summaries; a worker's summaries go
      to a folder in it. None: of a worker that writes none.
    max_steps: the global step at which training is done.
    batch_size: examples a batch.
    learning_rate: the rate of the first 350 epochs.
    min_queue_fraction: the part of all examples that the shuffle queue keeps.
    num_preprocess_threads: how many batches are made at the same time; with
      more than one, a seed does not repeat them.
    use_fp16: whether layers compute in float16.
    num_gpus: how many towers; None: the plain network, without towers.
    seed: int that repeats a run on CPUs; None: another run each time.
    finetune_from: the folder of another run, with whose layers a new run
      begins, all but the last; None: with random ones.
    overwrite: whether to start afresh, and remove the run in `train_dir`.
    log_frequency: steps between lines on standard output.
    log_device_placement: whether to log which device each operation is on.
    save_checkpoint_secs: seconds between checkpoints, unless the next is given.
    save_checkpoint_steps: steps between checkpoints.
    save_summaries_steps: steps between summaries.
    max_to_keep: how many checkpoints to keep.
    cluster: the `Cluster` of which this process is a task; None: it trains
      alone. Of its tasks only the chief saves in `train_dir`.
    sync_replicas: whether the gradients of all replicas make one update.
    replicas_to_aggregate: how many of them are enough; None: all.
    start_timeout_secs: how long a task waits for others that are not there.
  """

  data_dir: str = datasets.DATA_DIR
  dataset: str = 'cifar10'
  label: str = 'fine'
  image_size: int = cifar10.IMAGE_SIZE
  train_dir: str | None = TRAIN_DIR
  max_steps: int = MAX_STEPS
  batch_size: int = cifar10.BATCH_SIZE
  learning_rate: float = cifar10.INITIAL_LEARNING_RATE
  min_queue_fraction: float = cifar10_input.MIN_QUEUE_FRACTION
  num_preprocess_threads: int = cifar10_input.NUM_PREPROCESS_THREADS
  use_fp16: bool = False
  num_gpus: int | None = None
  seed: int | None = None
  finetune_from: str | None = None
  overwrite: bool = False
  log_frequency: int = 10
  log_device_placement: bool = False
  save_checkpoint_secs: int = 600
  save_checkpoint_steps: int | None = None
  save_summaries_steps: int = 100
  max_to_keep: int = 5
  cluster: Cluster | None = None
  sync_replicas: bool = False
  replicas_to_aggregate: int | None = None
  start_timeout_secs: int = 600

  @property
  def float_type(self):
    return 'float16' if self.use_fp16 else 'float32'


def train(**settings):
  """Trains until the global step is `max_steps`, on from where a run stopped.

  Args:
    **settings: the attributes of `Settings`.

  Raises:
    cifar10.Error: data or folder cannot be used, in one line that says why.
    cifar10.Interrupted: SIGINT or SIGTERM came; the state is saved.

  Returns:
    Whether the run is in `train_dir`: not of a task that is no chief.
  """
  settings = Settings(**settings)
  if settings.cluster is not None and restarts.was_restarted():
    settings = dataclasses.replace(settings, overwrite=False)
  if settings.seed is not None and settings.num_preprocess_threads > 1:
    raise UsageError(
      '--seed repeats a run with --num_preprocess_threads=1 only'
    )
  cluster = settings.cluster
  sync = replicas.sync_of(
    cluster, settings.sync_replicas, settings.replicas_to_aggregate
  )
  if cluster is None:
    _lead(settings)
    return True
  member = distributed.Member(
    cluster, settings.max_steps, settings.start_timeout_secs
  )
  if cluster.task.job == 'ps':
    member.serve()
  elif cluster.is_chief:
    with member.leading():
      _lead(settings, member, sync)
  else:
    _work(settings, member, sync)
  return cluster.is_chief


def _lead(settings, member=None, sync=None):
  """Trains alone or as a chief, which has the folder of the run."""
  train_dir, max_steps = settings.train_dir, settings.max_steps
  # Refuses a folder of another program, before any data is fetched.
  checkpoints.is_run(train_dir)
  if settings.finetune_from is not None:
    starting.check(settings.finetune_from, train_dir)
  if not settings.overwrite:
    checkpoints.check_same_run(
      train_dir,
      dataset=settings.dataset,
      label=settings.label,
      image_size=settings.image_size,
      float_type=settings.float_type,
    )
    if _is_finished(train_dir, max_steps):
      return
  split = _load(settings)
  checkpoints.make_folder('train_dir', train_dir)
  with locks.exclusive(train_dir):
    run = _prepare_folder(settings, split)
    # Again, as another process may have trained until a moment ago.
    if _is_finished(train_dir, max_steps):
      return
    if member is not None:
      member.wait_for_start()
    with _graph(settings, member):
      loss, train_op = _build(settings, split, member, sync)
      scaffold = starting.scaffold(
        train_dir, settings.max_to_keep, settings.finetune_from
      )
      _say_filling(settings, split)
      num_batches = (settings.num_gpus or 1) * (sync.aggregated if sync else 1)
      session.run(
        train_op,
        train_dir,
        scaffold=scaffold,
        session_hooks=[
          *([sync.hook(is_chief=True)] if sync else []),
          *_saving_hooks(settings, run, scaffold),
          overview.OverviewHook(
            settings, split, num_batches * settings.batch_size
          ),
          hooks.GraphWriterHook(train_dir, train_op),
          *([] if member else [tf.train.StopAtStepHook(last_step=max_steps)]),
          hooks.LoggerHook(
            loss,
            settings.log_frequency,
            settings.batch_size,
            num_batches,
            clock=member,
          ),
        ],
        files=split.files,
        log_device_placement=settings.log_device_placement,
        member=member,
      )


def _work(settings, member, sync):
  """Trains as a worker, which has no folder of the run."""
  split = _load(settings)
  if not member.wait_for_start():
    return
  with _graph(settings, member):
    _, train_op = _build(settings, split, member, sync)
    _say_filling(settings, split)
    session.run(
      train_op,
      None,
      scaffold=tf.train.Scaffold(),
      session_hooks=[
        *([sync.hook(is_chief=False)] if sync else []),
        *_worker_hooks(settings, member.cluster.task),
        distributed.WorkerLogger(member, settings.log_frequency),
      ],
      files=split.files,
      log_device_placement=settings.log_device_placement,
      member=member,
    )
  member.wait_for_end()


def _load(settings):
  split = datasets.load(
    settings.dataset, settings.data_dir, 'train', label=settings.label
  )
  if settings.use_fp16 and not tf.config.list_physical_devices('GPU'):
    log.info('--use_fp16 is slower than float32 on a CPU')
  return split


def _say_filling(settings, split):
  print(
    'Filling queue with %d CIFAR images before starting to train.'
    % cifar10_input.min_queue_examples(split, settings.min_queue_fraction),
    flush=True,
  )


@contextlib.contextmanager
def _graph(settings, member):
  """A graph to build and run in, on the devices of a task of a cluster."""
  with tf.Graph().as_default(), contextlib.ExitStack() as stack:
    if member is not None:
      stack.enter_context(member.devices())
    seed = settings.seed
    # Each replica reads a shuffle of its own.
    if seed is not None and member is not None:
      seed += member.rank
    tf.set_random_seed(seed)
    yield


def _build(settings, split, member, sync):
  """Builds the graph of this process; returns the loss and the step."""
  with signals.deferred():
    return build_graph(
      split,
      batch_size=settings.batch_size,
      learning_rate=settings.learning_rate,
      min_queue_fraction=settings.min_queue_fraction,
      num_preprocess_threads=settings.num_preprocess_threads,
      image_size=settings.image_size,
      use_fp16=settings.use_fp16,
      devices=towers.devices(settings.num_gpus),
      sync=sync,
      is_chief=member is None or member.is_chief,
    )


def _prepare_folder(settings, split):
  """Makes `train_dir` fit for this run, and returns what describes the run."""
  train_dir = settings.train_dir
  run = checkpoints.Run(
    dataset=split.spec.name,
    class_names=split.class_names,
    image_size=settings.image_size,
    float_type=settings.float_type,
    label=split.spec.label,
  )
  if not settings.overwrite:
    checkpoints.check_same_run(train_dir, class_names=run.class_names)
  if checkpoints.is_run(train_dir):
    _remove(train_dir, _RUN_FILES if settings.overwrite else _HALF_WRITTEN)
  return run


def _saving_hooks(settings, run, scaffold):
  """Returns the hooks that write summaries and checkpoints, in this order.

  The summary of a step is never newer than its state: it is written before.
  """
  train_dir, save_steps = settings.train_dir, settings.save_checkpoint_steps
  summary_steps = settings.save_summaries_steps
  writer = charts.Writer(train_dir)
  return [
    tf.train.SummarySaverHook(
      save_steps=summary_steps, summary_writer=writer, scaffold=scaffold
    ),
    tf.train.StepCounterHook(summary_steps, summary_writer=writer),
    tf.train.CheckpointSaverHook(
      train_dir,
      save_secs=None if save_steps else settings.save_checkpoint_secs,
      save_steps=save_steps,
      scaffold=scaffold,
      listeners=[
        hooks.FiniteVariables(train_dir),
        hooks.RunWriter(train_dir, run),
      ],
    ),
  ]


def _worker_hooks(settings, task):
  """Returns the hooks that write a worker's scalars beside the chief's."""
  if settings.train_dir is None:
    return []
  folder = os.path.join(settings.train_dir, '%s_%d' % (task.job, task.index))
  checkpoints.make_folder('train_dir', folder)
  return charts.scalar_hooks(folder, settings.save_summaries_steps)


def _is_finished(train_dir, max_steps):
  """Says so where there is nothing left to train; touches no file."""
  path = checkpoints.newest(train_dir)
  step = checkpoints.read_global_step(path) if path else 0
  if step >= max_steps:
    log.info(
      'Nothing to do: %s is at step %d, --max_steps is %d',
      path,
      step,
      max_steps,
    )
  return step >= max_steps


def _remove(train_dir, pattern):
  """Removes the files whose names are a pattern's, and no folders."""
  # A writer of an earlier run in this process would go on in a removed file.
  tf.summary.FileWriterCache.clear()
  for name in os.listdir(train_dir):
    path = os.path.join(train_dir, name)
    if re.fullmatch(pattern, name) and os.path.isfile(path):
      os.remove(path)


def build_graph(
  split,
  *,
  batch_size=cifar10.BATCH_SIZE,
  learning_rate=cifar10.INITIAL_LEARNING_RATE,
  min_queue_fraction=cifar10_input.MIN_QUEUE_FRACTION,
  num_preprocess_threads=cifar10_input.NUM_PREPROCESS_THREADS,
  image_size=cifar10.IMAGE_SIZE,
  use_fp16=False,
  devices=(None,),
  sync=None,
  is_chief=True,
):
  """Builds input, network and training in the default graph.

  Args:
    split: the `datasets.Split` to train on.
    batch_size: examples a batch, one batch for each device.
    learning_rate: the rate of the first 350 epochs.
    min_queue_fraction: the part of all examples that the shuffle queue keeps.
    num_preprocess_threads: how many batches are made at the same time; with
      more than one, a seed does not repeat them.
    image_size: height and width of the pictures that the network sees.
    use_fp16: whether layers compute in float16.
    devices: a device for each tower; (None,) builds no towers.
    sync: `replicas.Sync` that gathers the gradients of several replicas;
      None: there is one, or each updates the variables by itself.
    is_chief: whether this is the one replica, or the first.

  Returns:
    The loss (float32 [], the towers' mean) and the operation that does a step.
  """
  batches = cifar10_input.distorted_batches(
    split,
    batch_size,
    min_queue_fraction,
    num_batches=len(devices),
    num_preprocess_threads=num_preprocess_threads,
    image_size=image_size,
  )
  with tf.device('/cpu:0'):
    global_step = tf.train.get_or_create_global_step()
  schedule = {
    'batch_size': batch_size * len(devices) * (sync.aggregated if sync else 1),
    'num_examples': split.num_examples,
    'learning_rate': learning_rate,
    'average_losses': is_chief or sync is None,
    'wrap_optimizer': sync and sync.wrap,
  }
  if devices[0] is None:
    images, labels = batches[0]
    logits = cifar10.inference(images, split.num_classes, use_fp16)
    loss = cifar10.loss(logits, labels)
    return loss, cifar10.train(loss, global_step, **schedule)
  loss, losses, gradients = towers.build(
    batches, devices, num_classes=split.num_classes, use_fp16=use_fp16
  )
  train_op = cifar10.train(
    loss, global_step, losses=losses, gradients=gradients, **schedule
  )
  return loss, train_op
