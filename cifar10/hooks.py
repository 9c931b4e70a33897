"""Session hooks: what happens around each step of training."""

import datetime
import math
import time

import tensorflow.compat.v1 as tf

from cifar10 import Error, checkpoints


class LoggerHook(tf.train.SessionRunHook):
  """Prints the tutorial's line: step, loss, and how fast it goes."""

  def __init__(self, loss, log_frequency, batch_size, num_batches=1):
    """Makes the hook.

    Args:
      loss: float32 [] to print.
      log_frequency: steps between lines.
      batch_size: examples a batch.
      num_batches: batches a step, one for each tower.
    """
    self._loss = loss
    self._log_frequency = log_frequency
    self._batch_size = batch_size
    self._num_batches = num_batches

  def after_create_session(self, session, coord):
    # The step that runs next: the global step before its update.
    self._step = int(session.run(tf.train.get_global_step()))
    self._steps_since = 0
    self._first = True
    self._fault = None

  def before_run(self, run_context):
    if self._first and not self._steps_since:
      self._time = time.perf_counter()
    if self._is_due():
      return tf.train.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self._steps_since += 1
    if self._is_due():
      try:
        self._print_line(run_values.results)
      except OSError as e:  # whoever read the lines is gone, the run is not
        self._fault = e
        run_context.request_stop()
      self._first = False
      self._steps_since = 0
    self._step += 1

  def end(self, session):
    if self._fault:
      raise Error(
        'standard output: %s: stopped, the run is saved' % self._fault.strerror
      )

  def _is_due(self):
    return self._first or self._step % self._log_frequency == 0

  def _print_line(self, loss):
    now = time.perf_counter()
    # A clock that stood still must not divide by zero.
    duration = max(now - self._time, 1e-6)
    self._time = now
    batches = self._steps_since * self._num_batches
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


def not_finite(what, train_dir):
  """Returns the error that ends a run which has diverged."""
  return Error(
    '%s is not finite, the run has diverged: start afresh with a lower '
    '--learning_rate, or remove the newest checkpoints in %s and go on'
    % (what, train_dir)
  )


class FiniteLossHook(tf.train.SessionRunHook):
  """Ends training at the first step whose loss is infinite or no number."""

  def __init__(self, loss, train_dir):
    self._loss = loss
    self._train_dir = train_dir

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    if not math.isfinite(run_values.results):
      raise not_finite('the loss', self._train_dir)


class FiniteVariables(tf.train.CheckpointSaverListener):
  """Refuses to save variables that are infinite or no number.

  The loss of a step is that before its update, so it cannot tell.
  """

  def __init__(self, train_dir):
    self._train_dir = train_dir

  def begin(self):
    self._all_finite = tf.reduce_all(
      [
        tf.reduce_all(tf.is_finite(v))
        for v in tf.global_variables()
        if v.dtype.is_floating
      ]
    )

  def before_save(self, session, global_step_value):
    if not session.run(self._all_finite):
      what = 'at global step %d a variable' % global_step_value
      raise not_finite(what, self._train_dir)


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
  """Writes `run.json` before the first checkpoint that it describes."""

  def __init__(self, train_dir, run):
    self._train_dir = train_dir
    self._run = run
    self._written = False

  def before_save(self, session, global_step_value):
    if not self._written:
      checkpoints.write_run(self._train_dir, self._run)
      self._written = True
