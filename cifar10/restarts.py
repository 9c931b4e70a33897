"""A process that starts itself anew, and how long it may take to get on.

Nothing within a process can end a call that is blocked inside TensorFlow.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import time

from cifar10 import Error, signals

_SAY_SECS = 30.0
_MAX_RESTARTS = 20

# Across a restart: since when (time.monotonic) there was no step, and how many
# restarts there were since.
_SINCE = 'CIFAR10_WAITING_SINCE'
_RESTARTS = 'CIFAR10_RESTARTS'
# And whether there was any.
_RESTARTED = 'CIFAR10_RESTARTED'

# Of two threads that restart, the second waits for the end of the first.
_once = threading.Lock()

log = logging.getLogger(__name__)


class Patience:
  """Says every half minute what is waited for; ends what takes too long.

  The time counts from the first call, or from before a restart.
  """

  def __init__(self, timeout_secs):
    self._timeout_secs = timeout_secs
    self._since = None

  def reset(self):
    os.environ.pop(_SINCE, None)
    os.environ.pop(_RESTARTS, None)
    self._since = None

  def wait_for(self, what):
    """Notes that `what` is not there, as before or from now on.

    Raises:
      cifar10.Error: it took too long.
    """
    now = time.monotonic()
    since = self._since  # another thread may reset it
    if since is None:
      since = float(os.environ.setdefault(_SINCE, str(now)))
      self._since, self._said = since, now
    if now - since > self._timeout_secs:
      raise Error(
        '%s: not there after %d seconds (--start_timeout_secs): start what is '
        'missing, or see why it ended' % (what, self._timeout_secs)
      )
    if now - self._said >= _SAY_SECS:
      log.info('Waiting for %s', what)
      self._said = now


def was_restarted():
  """Returns whether this process went on from an earlier life of its own."""
  return _RESTARTED in os.environ


def restart(reason):
  """Starts this process anew, with the same command line and process id."""
  _once.acquire()
  restarts = int(os.environ.get(_RESTARTS, 0)) + 1
  if restarts > _MAX_RESTARTS:
    log.info('%s; %d restarts without a step', reason, _MAX_RESTARTS)
    os._exit(1)
  os.environ[_RESTARTS] = str(restarts)
  os.environ[_RESTARTED] = '1'
  os.environ.setdefault(_SINCE, str(time.monotonic()))
  log.info('%s: starting anew', reason)
  # Signals wait until the new life can handle them: the mask is kept.
  signal.pthread_sigmask(signal.SIG_BLOCK, signals.SIGNALS)
  with contextlib.suppress(OSError):
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.stdout.fileno() != 1:  # put aside, see --log_device_placement
      os.dup2(sys.stdout.fileno(), 1)
  os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
