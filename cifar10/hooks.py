"""Session hooks: what happens around each step of training."""

import datetime
import signal
import time

import tensorflow.compat.v1 as tf

from cifar10 import checkpoints


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

  def before_run(self, run_context):
    if self._first and not self._steps_since:
      self._time = time.perf_counter()
    if self._is_due():
      return tf.train.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self._steps_since += 1
    if self._is_due():
      self._print_line(run_values.results)
      self._first = False
      self._steps_since = 0
    self._step += 1

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


class StopAtSignalHook(tf.train.SessionRunHook):
  """Ends training after the step during which SIGINT or SIGTERM came."""

  _SIGNALS = (signal.SIGINT, signal.SIGTERM)

  def __init__(self):
    self.signum = None

  def __enter__(self):
    self._previous = {s: signal.signal(s, self._handle) for s in self._SIGNALS}
    return self

  def __exit__(self, *_):
    for signum, handler in self._previous.items():
      signal.signal(signum, handler)

  def _handle(self, signum, _):
    self.signum = signum

  def after_run(self, run_context, run_values):
    if self.signum:
      run_context.request_stop()


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
