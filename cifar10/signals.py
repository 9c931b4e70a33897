"""SIGINT and SIGTERM, kept back while TensorFlow must not be interrupted.

An exception that a handler raises inside one of its callbacks comes out as
another one, is swallowed, or is printed with its traceback.
"""

import contextlib
import os
import signal
import threading
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Seconds within which another signal is the first one once more: a wrapper that
# passes signals on makes two of a Ctrl-C, which the terminal sends to all.
REPEAT_SECS = 1.0

# The descriptor of standard error; another one while 2 is put aside.
stderr = 2


@contextlib.contextmanager
def deferred():
  """Keeps signals back until the end of the block; a second one ends it all."""
  # Only the main thread may handle signals; in a notebook's other threads they
  # stay with whoever has them.
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  received, first_time = [], 0.0

  def handle(signum, _):
    nonlocal first_time
    if not received:
      first_time = time.monotonic()
      received.append(signum)
    elif time.monotonic() - first_time > REPEAT_SECS:
      end_at_once(signum)

  previous = {signum: signal.signal(signum, handle) for signum in SIGNALS}
  try:
    yield
  finally:
    for signum, handler in previous.items():
      signal.signal(signum, handler)
    if received:
      signal.raise_signal(received[0])


def end_at_once(signum):
  """Ends the process, whatever it is doing."""
  os.write(stderr, b'second signal: ended at once\n')
  os._exit(128 + signum)
