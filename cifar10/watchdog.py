"""Ends training on a signal or when its files change, while a step waits too.

Python runs no signal handler while a step is inside TensorFlow, and a step may
wait there for ever for input that does not come: TensorFlow's reader is silent
about files that have become empty, and its saver about a folder that is gone.
So a thread looks out for all of it. What it finds ends training after the
current step; a step that goes on waiting is ended by the coordinator, which has
the input queues closed.
"""

import os
import select
import signal
import threading
import time

import tensorflow.compat.v1 as tf

from cifar10 import signals

# Seconds between looks at the files, and those that a step may take after a
# signal. The contract gives ten from a signal to the end, a save included.
_INTERVAL_SECS = 1.0
_GRACE_SECS = 5.0


class Watchdog(tf.train.SessionRunHook):
  """The hook, and the context in which it watches.

  Attributes:
    signum: the signal that came, or None.
    fault: what is wrong with a file or folder, or None.
  """

  def __init__(self, files=(), folder=None):
    """Makes the hook.

    Args:
      files: paths of files that stay as long as they are.
      folder: path of a folder that stays where it is; None: there is none.
    """
    self.signum = None
    self.fault = None
    self._sizes = {path: os.stat(path).st_size for path in files}
    self._folder = folder and (folder, os.stat(folder))
    self._coordinator = None

  def __enter__(self):
    self._reading, self._writing = os.pipe()
    os.set_blocking(self._writing, False)
    # Only the main thread may handle signals; in a notebook's other threads
    # they stay with whoever has them.
    self._previous = {}
    if threading.current_thread() is threading.main_thread():
      self._previous = {
        s: signal.signal(s, self._handle) for s in signals.SIGNALS
      }
      self._previous_fd = signal.set_wakeup_fd(
        self._writing, warn_on_full_buffer=False
      )
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()
    return self

  def __exit__(self, *_):
    for signum, handler in self._previous.items():
      signal.signal(signum, handler)
    if self._previous:
      signal.set_wakeup_fd(self._previous_fd)
    os.close(self._writing)
    self._thread.join()
    os.close(self._reading)

  def after_create_session(self, session, coord):
    self._coordinator = coord

  def after_run(self, run_context, run_values):
    if self.signum or self.fault:
      run_context.request_stop()

  def _handle(self, signum, _):
    self.signum = self.signum or signum

  def _watch(self):
    """Runs in the thread, until the pipe is closed."""
    deadline = None
    while True:
      ready, _, _ = select.select([self._reading], [], [], _INTERVAL_SECS)
      if ready:
        numbers = os.read(self._reading, 16)
        if not numbers:
          return
        for signum in filter(signals.SIGNALS.__contains__, numbers):
          now = time.monotonic()
          if deadline is None:
            self.signum = self.signum or signum
            first_time, deadline = now, now + _GRACE_SECS
          elif now - first_time > signals.REPEAT_SECS:
            signals.end_at_once(signum)
      self.fault = self.fault or self._find_fault()
      late = deadline and time.monotonic() > deadline
      if (self.fault or late) and self._coordinator:
        self._coordinator.request_stop()

  def _find_fault(self):
    if self._folder:
      folder, status = self._folder
      try:
        is_there = os.path.samestat(os.stat(folder), status)
      except FileNotFoundError:
        is_there = False
      except OSError:  # a network's file system may come back
        return None
      if not is_there:
        return '%s was moved, removed or replaced during training' % folder
    for path, size in self._sizes.items():
      try:
        now = os.stat(path).st_size
      except FileNotFoundError:
        return '%s was removed during training' % path
      except OSError:
        continue
      if now != size:
        return '%s had %d bytes, and has %d now' % (path, size, now)
    return None
