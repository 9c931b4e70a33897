"""Session hooks: what happens around each step of training."""

import datetime
import os
import time

import tensorflow.compat.v1 as tf

from cifar10 import Error, checkpoints, cifar10


class LoggerHook(tf.train.SessionRunHook):
  """Prints the tutorial's line: step, loss, and how fast it goes."""

  def __init__(
    self, loss, log_frequency, batch_size, num_batches=1, clock=None
  ):
    """Makes the hook.

    Args:
      loss: float32 [] to print.
      log_frequency: steps between lines.
      batch_size: examples a batch.
      num_batches: batches a step, one for each tower.
      clock: hook before this one, which knows the global step as its `step`;
        None: nobody else counts it.
    """
    self._clock = clock
    self._loss = loss
    self._log_frequency = log_frequency
    self._batch_size = batch_size
    self._num_batches = num_batches

  def after_create_session(self, session, coord):
    # The step that runs next: the global step before its update.
    self._step = int(session.run(tf.train.get_global_step()))
    self._line_step = None  # that of the last line
    self._fault = None

  def before_run(self, run_context):
    if self._line_step is None:
      self._time, self._time_step = time.perf_counter(), self._step
    if self._is_due():
      return tf.train.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    next_step = self._clock.step if self._clock else self._step + 1
    if self._is_due():
      try:
        self._print_line(run_values.results, next_step - self._time_step)
      except OSError as e:  # whoever read the lines is gone, the run is not
        self._fault = e
        run_context.request_stop()
      self._line_step, self._time_step = self._step, next_step
    self._step = next_step

  def end(self, session):
    if self._fault:
      raise Error(
        'standard output: %s: stopped, the run is saved' % self._fault.strerror
      )

  def _is_due(self):
    if self._line_step is None:
      return True
    # Others may have done the very step that is a multiple.
    last, now = self._line_step, self._step
    return last // self._log_frequency != now // self._log_frequency

  def _print_line(self, loss, steps):
    now = time.perf_counter()
    # A clock that stood still must not divide by zero.
    duration = max(now - self._time, 1e-6)
    self._time = now
    batches = max(steps, 1) * self._num_batches
    print(
      '%s: step %d, loss = %.2f (%.1f examples/sec; %.3f sec/batch)'
      % (
        datetime.datetime.now().isoformat(' ', 'microseconds'),
        self._step,
        loss,
        batches * self._batch_size / duration,
        duration / batches,
      ),
      flush=True,
    )


def diverged(what, step, rate, train_dir):
  """Returns the error that ends a run in which something is not finite.

  Args:
    what: what is infinite or no number.
    step: the step at which it was.
    rate: the learning rate of that step.
    train_dir: the folder of the checkpoints, all of them finite.
  """
  kept = map(os.path.basename, checkpoints.listed(train_dir))
  return Error(
    'step %d: %s is not finite, at the learning rate %g: the newest of the '
    'checkpoints in %s (%s) may have diverged already: remove those and go on '
    'with a lower --learning_rate, or start afresh with --overwrite'
    % (step, what, rate, train_dir, ', '.join(kept) or 'none')
  )


class FiniteVariables(tf.train.CheckpointSaverListener):
  """Refuses to save variables that are infinite or no number.

  A step checks its loss and gradients, but not what it makes of the variables.
  """

  def __init__(self, train_dir):
    self._train_dir = train_dir

  def begin(self):
    self._checked = [
      tf.debugging.check_numerics(v, v.op.name)
      for v in tf.global_variables()
      if v.dtype.is_floating
    ]
    (self._rate,) = tf.get_collection(cifar10.LEARNING_RATE)

  def before_save(self, session, global_step_value):
    try:
      session.run([value.op for value in self._checked])
    except tf.errors.InvalidArgumentError as e:
      raise diverged(
        what_is_not_finite(e),
        global_step_value - 1,  # that of the step which made it so
        session.run(self._rate),
        self._train_dir,
      ) from e


def what_is_not_finite(error):
  """Returns what a failed check says is not finite; None for other errors."""
  type_ = error.op.type if error.op is not None else None
  if type_ == 'CheckNumerics':
    return checkpoints.first_line(error).split(' : ')[0]
  # A histogram of what is not a number fails before the loss is checked.
  return 'what a summary shows' if type_ == 'HistogramSummary' else None


class GraphWriterHook(tf.train.SessionRunHook):
  """Writes the graph that TensorBoard draws: a step of training, no more.

  Saving, initialization and summaries touch every layer. Drawn beside them, the
  layers would not stand in the order in which a picture goes through them.
  """

  def __init__(self, train_dir, train_op):
    self._train_dir = train_dir
    self._train_op = train_op

  def after_create_session(self, session, coord):
    graph_def = tf.graph_util.extract_sub_graph(
      self._train_op.graph.as_graph_def(), [self._train_op.name]
    )
    graph_def.library.Clear()
    # TensorBoard draws the newest graph: this comes after the saver hook's.
    tf.summary.FileWriterCache.get(self._train_dir).add_event(
      tf.Event(wall_time=time.time(), graph_def=graph_def.SerializeToString())
    )


class RunWriter(tf.train.CheckpointSaverListener):
  """Writes what goes with a checkpoint, before it.

  That is `run.json`, and the summaries that wait in memory: after a kill the
  run goes on from the checkpoint, and its charts would miss their steps.
  """

  def __init__(self, train_dir, run):
    self._train_dir = train_dir
    self._run = run
    self._folder = None

  def before_save(self, session, global_step_value):
    # A folder that was moved away is made anew for what is to be saved.
    is_gone = not os.path.lexists(self._train_dir)
    if self._folder is None or is_gone:
      os.makedirs(self._train_dir, exist_ok=True)
      checkpoints.write_run(self._train_dir, self._run)
      self._folder = os.stat(self._train_dir)
    elif not os.path.samestat(os.stat(self._train_dir), self._folder):
      raise Error(
        '%s is another folder now: nothing was written to it, the run goes on '
        'from its newest checkpoint where its own folder is' % self._train_dir
      )
    tf.summary.FileWriterCache.get(self._train_dir).flush()
