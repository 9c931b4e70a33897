"""A lock on the folder of a run: two programs never train in it at once."""

import contextlib
import fcntl
import logging
import os

from cifar10 import Error

LOCK_FILE = 'train.lock'

log = logging.getLogger(__name__)


@contextlib.contextmanager
def exclusive(directory):
  """Holds the lock of a folder within; the file of it is gone afterwards.

  The kernel keeps the lock, not the file: what a killed process leaves behind
  blocks nobody.

  Args:
    directory: the folder, which is there.

  Raises:
    cifar10.Error: another process holds it; the message names that process.
  """
  path = os.path.join(directory, LOCK_FILE)
  with _open_locked(path) as file:
    file.truncate(0)
    file.write('%d\n' % os.getpid())
    file.flush()
    try:
      yield
    finally:
      # While the lock is held, so nobody else has written to this file.
      with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _open_locked(path):
  """Opens and locks the file that is at `path` once it is locked."""
  while True:
    file = open(path, 'a+', encoding='utf-8')  # noqa: SIM115
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
      with file:
        file.seek(0)
        holder = file.read().strip() or 'another one'
      raise Error(
        '%s: process %s trains in this folder: end it, or name another '
        '--train_dir' % (os.path.dirname(path), holder)
      ) from e
    except OSError as e:
      log.info('%s cannot be locked (%s): see that no two train', path, e)
      return file
    # Its last holder may have removed it between our opening and locking.
    with contextlib.suppress(FileNotFoundError):
      if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
        return file
    file.close()
