"""A session that trains: opened, steps run in it, and left saved."""

import contextlib
import signal

import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  Interrupted,
  checkpoints,
  cifar10,
  hooks,
  watchdog,
)


def run(
  train_op,
  train_dir,
  *,
  scaffold,
  session_hooks,
  files=(),
  log_device_placement=False,
  member=None,
):
  """Opens the session and loops until a hook says to stop.

  Args:
    train_op: the operation that does a step.
    train_dir: the folder of the run; None: of a worker, which has none.
    scaffold: `tf.train.Scaffold` that restores or initializes the variables.
      The graph has one learning rate in `cifar10.LEARNING_RATE`.
    session_hooks: hooks of the session, which also say when to stop.
    files: paths of the data, which must not change meanwhile.
    log_device_placement: whether to log which device each operation is on.
    member: the `distributed.Member` whose session this is; None: no cluster.

  Raises:
    cifar10.Error: something is not finite, the checkpoint does not fit, the
      data or the folder changed meanwhile, or an operation failed.
    cifar10.Interrupted: SIGINT or SIGTERM came; the state is saved.
  """
  watch = watchdog.Watchdog(files, train_dir)
  config = cifar10.session_config(log_device_placement)
  with contextlib.ExitStack() as stack:
    stack.enter_context(_explained(watch, train_dir, member))
    stack.enter_context(watch)
    cluster = {}
    if member is not None:
      stack.enter_context(member.watching(watch))
      session_hooks = [member, *session_hooks]
      config.device_filters.extend(member.device_filters())
      cluster = {
        'master': member.target,
        'is_chief': member.is_chief,
        # Of a thread that waits for gradients nothing more is to come.
        'stop_grace_period_secs': 1,
      }
    failed = None
    with tf.train.MonitoredTrainingSession(
      scaffold=scaffold,
      hooks=[watch, *session_hooks],
      save_checkpoint_secs=None,
      save_summaries_steps=None,
      save_summaries_secs=None,
      log_step_count_steps=None,
      config=config,
      **cluster,
    ) as session:
      failed = _run_steps(session, train_op, train_dir, member)
  _check_outcome(watch, failed, train_dir)


@contextlib.contextmanager
def _explained(watch, train_dir, member):
  """Makes errors of the block, TensorFlow's and the disk's, one of ours."""
  try:
    yield
  except Exception as e:
    if member is not None and isinstance(e, tf.errors.OpError):
      member.check(e)
      if member.has_ended and not member.is_chief:
        return  # nothing is lost
    # A writer of summaries may raise anything.
    is_ours = isinstance(e, (tf.errors.OpError, OSError))
    if not is_ours and 'events.out.tfevents' not in str(e):
      raise
    raise _error_of(watch.fault or checkpoints.first_line(e), train_dir) from e


def _check_outcome(watch, failed, train_dir):
  """Raises what ended training before its last step, if something did."""
  saved = 'the run is saved in %s' % train_dir
  if train_dir is None:
    saved = 'this worker has nothing to save'
  if watch.fault:
    raise Error('%s: %s: mend that and go on' % (watch.fault, saved))
  if watch.signum:
    name = signal.Signals(watch.signum).name
    raise Interrupted('%s: %s' % (name, saved), watch.signum)
  if failed is not None:
    raise _error_of(checkpoints.first_line(failed), train_dir) from failed


def _run_steps(session, train_op, train_dir, member):
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
  if member is None:
    run_step = session.run
  else:
    run_step = lambda op: session.run_step_fn(member.step_fn(op))
    if member.is_chief:
      member.say_begin()
    if step >= member.max_steps:
      return None
  while not session.should_stop():
    try:
      run_step(train_op)
      step += 1
    except tf.errors.OpError as e:
      what = hooks.what_is_not_finite(e)
      if what is None:
        return e
      step = step if member is None else member.step
      if train_dir is None:
        raise Error('step %d: %s is not finite' % (step, what)) from e
      _, rate = session.run_step_fn(look)
      raise hooks.diverged(what, step, rate, train_dir) from e
  return None


def _error_of(reason, train_dir):
  """Returns the error that ends training, which says what is left of it."""
  if train_dir is None:
    return Error(
      'this worker failed: %s: mend that, and start it anew' % reason
    )
  paths = checkpoints.listed(train_dir)
  return Error(
    'training in %s failed: %s: mend that, and it goes on from %s'
    % (train_dir, reason, paths[-1] if paths else 'the start')
  )
