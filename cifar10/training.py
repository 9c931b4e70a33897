"""Training: hooks, and one loop for one device or many.

`train` is what the scripts call; its arguments are their flags.
"""

import logging
import os
import re
import signal

import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  Interrupted,
  UsageError,
  checkpoints,
  cifar10,
  cifar10_input,
  datasets,
  hooks,
  locks,
  signals,
  towers,
  watchdog,
)

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


def train(
  *,
  data_dir=datasets.DATA_DIR,
  dataset='cifar10',
  train_dir=TRAIN_DIR,
  max_steps=MAX_STEPS,
  batch_size=cifar10.BATCH_SIZE,
  learning_rate=cifar10.INITIAL_LEARNING_RATE,
  min_queue_fraction=cifar10_input.MIN_QUEUE_FRACTION,
  num_preprocess_threads=cifar10_input.NUM_PREPROCESS_THREADS,
  use_fp16=False,
  num_gpus=None,
  seed=None,
  overwrite=False,
  log_frequency=10,
  log_device_placement=False,
  save_checkpoint_secs=600,
  save_checkpoint_steps=None,
  save_summaries_steps=100,
  max_to_keep=5,
):
  """Trains until the global step is `max_steps`, on from where a run stopped.

  Args:
    data_dir: the folder that holds the data set's folder.
    dataset: name of the data set.
    train_dir: the folder of checkpoints and summaries.
    max_steps: the global step at which training is done.
    batch_size: examples a batch.
    learning_rate: the rate of the first 350 epochs.
    min_queue_fraction: the part of all examples that the shuffle queue keeps.
    num_preprocess_threads: how many batches are made at the same time; with
      more than one, a seed does not repeat them.
    use_fp16: whether layers compute in float16.
    num_gpus: how many towers; None: the plain network, without towers.
    seed: int that repeats a run on CPUs; None: another run each time.
    overwrite: whether to start afresh, and remove the run in `train_dir`.
    log_frequency: steps between lines on standard output.
    log_device_placement: whether to log which device each operation is on.
    save_checkpoint_secs: seconds between checkpoints, unless the next is given.
    save_checkpoint_steps: steps between checkpoints.
    save_summaries_steps: steps between summaries.
    max_to_keep: how many checkpoints to keep.

  Raises:
    cifar10.Error: data or folder cannot be used, in one line that says why.
    cifar10.Interrupted: SIGINT or SIGTERM came; the state is saved.
  """
  if seed is not None and num_preprocess_threads > 1:
    raise UsageError(
      '--seed repeats a run with --num_preprocess_threads=1 only'
    )
  # Refuses a folder of another program, before any data is fetched.
  checkpoints.is_run(train_dir)
  if not overwrite:
    checkpoints.check_same_run(
      train_dir, dataset=dataset, float_type=_float_type(use_fp16)
    )
    if _is_finished(train_dir, max_steps):
      return
  split = datasets.load(dataset, data_dir, 'train')
  if use_fp16 and not tf.config.list_physical_devices('GPU'):
    log.info('--use_fp16 is slower than float32 on a CPU')
  checkpoints.make_folder('train_dir', train_dir)
  with locks.exclusive(train_dir), tf.Graph().as_default():
    run = _prepare_folder(train_dir, split, use_fp16, overwrite)
    # Again, as another process may have trained until a moment ago.
    if _is_finished(train_dir, max_steps):
      return
    with signals.deferred():
      tf.set_random_seed(seed)
      loss, train_op = build_graph(
        split,
        batch_size=batch_size,
        learning_rate=learning_rate,
        min_queue_fraction=min_queue_fraction,
        num_preprocess_threads=num_preprocess_threads,
        use_fp16=use_fp16,
        devices=towers.devices(num_gpus),
      )
      scaffold = _scaffold(train_dir, max_to_keep)
    print(
      'Filling queue with %d CIFAR images before starting to train.'
      % cifar10_input.min_queue_examples(split, min_queue_fraction),
      flush=True,
    )
    run_session(
      train_op,
      train_dir,
      scaffold=scaffold,
      session_hooks=[
        *_saving_hooks(
          train_dir,
          run,
          scaffold,
          summary_steps=save_summaries_steps,
          save_secs=None if save_checkpoint_steps else save_checkpoint_secs,
          save_steps=save_checkpoint_steps,
        ),
        hooks.GraphWriterHook(train_dir, train_op),
        tf.train.StopAtStepHook(last_step=max_steps),
        hooks.LoggerHook(loss, log_frequency, batch_size, num_gpus or 1),
      ],
      files=split.files,
      log_device_placement=log_device_placement,
    )


def _float_type(use_fp16):
  return 'float16' if use_fp16 else 'float32'


def _prepare_folder(train_dir, split, use_fp16, overwrite):
  """Makes `train_dir` fit for this run, and returns what describes the run."""
  run = checkpoints.Run(
    dataset=split.spec.name,
    class_names=split.class_names,
    image_size=cifar10.IMAGE_SIZE,
    float_type=_float_type(use_fp16),
  )
  if not overwrite:
    checkpoints.check_same_run(
      train_dir, class_names=run.class_names, image_size=run.image_size
    )
  if checkpoints.is_run(train_dir):
    _remove(train_dir, _RUN_FILES if overwrite else _HALF_WRITTEN)
  return run


def _saving_hooks(
  train_dir, run, scaffold, *, summary_steps, save_secs, save_steps
):
  """Returns the hooks that write summaries and checkpoints, in this order.

  The summary of a step is never newer than its state: it is written before.
  """
  return [
    tf.train.SummarySaverHook(
      save_steps=summary_steps, output_dir=train_dir, scaffold=scaffold
    ),
    tf.train.StepCounterHook(summary_steps, output_dir=train_dir),
    tf.train.CheckpointSaverHook(
      train_dir,
      save_secs=save_secs,
      save_steps=save_steps,
      scaffold=scaffold,
      listeners=[
        hooks.FiniteVariables(train_dir),
        hooks.RunWriter(train_dir, run),
      ],
    ),
  ]


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
  use_fp16=False,
  devices=(None,),
):
  """Builds input, network and training in the default graph.

  Args:
    split: the `datasets.Split` to train on.
    batch_size: examples a batch, one batch for each device.
    learning_rate: the rate of the first 350 epochs.
    min_queue_fraction: the part of all examples that the shuffle queue keeps.
    num_preprocess_threads: how many batches are made at the same time; with
      more than one, a seed does not repeat them.
    use_fp16: whether layers compute in float16.
    devices: a device for each tower; (None,) builds no towers.

  Returns:
    The loss (float32 [], the towers' mean) and the operation that does a step.
  """
  batches = cifar10_input.distorted_batches(
    split,
    batch_size,
    min_queue_fraction,
    num_batches=len(devices),
    num_preprocess_threads=num_preprocess_threads,
  )
  with tf.device('/cpu:0'):
    global_step = tf.train.get_or_create_global_step()
  schedule = {
    'batch_size': batch_size * len(devices),
    'num_examples': split.num_examples,
    'learning_rate': learning_rate,
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


def run_session(
  train_op,
  train_dir,
  *,
  scaffold,
  session_hooks,
  files=(),
  log_device_placement=False,
):
  """Opens the session and loops until a hook says to stop.

  Args:
    train_op: the operation that does a step.
    train_dir: the folder of the run.
    scaffold: `tf.train.Scaffold` that restores or initializes the variables.
      The graph has one learning rate in `cifar10.LEARNING_RATE`.
    session_hooks: hooks of the session, which also say when to stop.
    files: paths of the data, which must not change meanwhile.
    log_device_placement: whether to log which device each operation is on.

  Raises:
    cifar10.Error: something is not finite, the checkpoint does not fit, the
      data or the folder changed meanwhile, or an operation failed.
    cifar10.Interrupted: SIGINT or SIGTERM came; the state is saved.
  """
  watch = watchdog.Watchdog(files, train_dir)
  try:
    with (
      watch,
      tf.train.MonitoredTrainingSession(
        scaffold=scaffold,
        hooks=[watch, *session_hooks],
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
        config=cifar10.session_config(log_device_placement),
      ) as session,
    ):
      failed = _run_steps(session, train_op, train_dir)
  except Exception as e:
    # A writer of summaries may raise anything.
    is_ours = isinstance(e, (tf.errors.OpError, OSError))
    if not is_ours and 'events.out.tfevents' not in str(e):
      raise
    raise _error_of(watch.fault or checkpoints.first_line(e), train_dir) from e
  _check_outcome(watch, failed, train_dir)


def _check_outcome(watch, failed, train_dir):
  """Raises what ended training before its last step, if something did."""
  if watch.fault:
    raise Error(
      '%s: the run is saved in %s: mend that and go on'
      % (watch.fault, train_dir)
    )
  if watch.signum:
    name = signal.Signals(watch.signum).name
    raise Interrupted(
      '%s: the run is saved in %s' % (name, train_dir), watch.signum
    )
  if failed is not None:
    raise _error_of(checkpoints.first_line(failed), train_dir) from failed


def _run_steps(session, train_op, train_dir):
  """Runs steps until a hook says to stop; returns the error of one that fails.

  Leaving the session without an error saves the state. It then raises the first
  error of the input's threads, if that is why the step failed.

  Raises:
    cifar10.Error: something is not finite; nothing is to be saved.
  """
  now = [tf.train.get_global_step(), *tf.get_collection(cifar10.LEARNING_RATE)]

  def look(step_context):
    return step_context.session.run(now)

  step, _ = session.run_step_fn(look)
  while not session.should_stop():
    try:
      session.run(train_op)
      step += 1
    except tf.errors.OpError as e:
      what = hooks.what_is_not_finite(e)
      if what is None:
        return e
      _, rate = session.run_step_fn(look)
      raise hooks.diverged(what, step, rate, train_dir) from e
  return None


def _error_of(reason, train_dir):
  """Returns the error that ends training, which says what is left of it."""
  paths = checkpoints.listed(train_dir)
  return Error(
    'training in %s failed: %s: mend that, and it goes on from %s'
    % (train_dir, reason, paths[-1] if paths else 'the start')
  )


def _scaffold(train_dir, max_to_keep):
  """Returns what sets the variables of a new session, and saves them.

  The newest checkpoint is looked up when a session is made, not now: a session
  that is made again after a fault goes on from what was saved since.
  """
  saver = tf.train.Saver(max_to_keep=max_to_keep, save_relative_paths=True)
  variables = {v.op.name: v for v in tf.global_variables()}
  # The original's multi-GPU program kept no averages of losses.
  optional = [key for key in variables if key.endswith('/avg')]

  def restore(_, session):
    path = checkpoints.newest(train_dir)
    if path is None:
      log.info('Starting a new run in %s', train_dir)
      return
    checkpoints.restore(session, path, variables, optional)
    # Those that the index names count for max_to_keep, which may be lower than
    # it was. All others are nobody's to remove, nor are newer ones, not whole.
    paths = checkpoints.listed(train_dir)
    paths = paths[: paths.index(path)] if path in paths else paths
    paths.append(path)
    for old in paths[:-max_to_keep]:
      tf.train.remove_checkpoint(old)
    saver.recover_last_checkpoints(paths[-max_to_keep:])
    log.info(
      'Resuming from %s at step %d', path, checkpoints.read_global_step(path)
    )

  return tf.train.Scaffold(saver=saver, init_fn=restore)
