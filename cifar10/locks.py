"""Locks on folders: no two processes train in one, or fill it with data."""

import contextlib
import fcntl
import logging
import os
import re
import stat

from cifar10 import Error

LOCK_FILE = 'train.lock'

log = logging.getLogger(__name__)


@contextlib.contextmanager
def exclusive(directory, name=LOCK_FILE, wait=False):
  """Holds a lock within a block; its file is gone afterwards.

  The kernel keeps the lock, not the file: what a killed process leaves behind
  blocks nobody.

  Args:
    directory: the folder of the lock's file, which is there.
    name: the name of that file.
    wait: whether to wait for a process that holds it.

  Yields:
    Whether it is held: some file systems have no locks.

  Raises:
    cifar10.Error: another process holds it; the message names that process. Or
      the file cannot be written.
  """
  path = os.path.join(directory, name)
  file, locked = _open_locked(path, wait)
  with file:
    try:
      _write_holder(file, path)
      yield locked
    finally:
      # While the lock is held, so nobody else has written to this file. Another
      # folder may be in the place of ours, with the lock of another process.
      if _is_file_at(file, path):
        with contextlib.suppress(OSError):  # that is not what went wrong
          os.remove(path)


def _write_holder(file, path):
  try:
    file.seek(0)
    file.truncate()
    file.write('%d\n' % os.getpid())
    file.flush()
  except OSError as e:
    raise Error(
      '%s cannot be written: %s: free some space, or name another folder'
      % (path, e.strerror)
    ) from e


def _is_file_at(file, path):
  with contextlib.suppress(OSError):  # gone, or its folder is
    return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
  return False


def _open_locked(path, wait):
  """Opens and locks the file that is at `path` once it is locked."""
  while True:
    file = _open(path)
    try:
      _lock(file, path, wait)
    except BlockingIOError as e:
      holder = _read_holder(file)
      file.close()
      raise Error(
        '%s: process %s trains in this folder: end it, or name another '
        '--train_dir' % (os.path.dirname(path), holder)
      ) from e
    except OSError as e:
      log.info('%s cannot be locked (%s): see that no two use it', path, e)
      return file, False
    # Its last holder may have removed it between our opening and locking.
    if _is_file_at(file, path):
      return file, True
    file.close()


def _open(path):
  """Opens a lock's file, which must be none of somebody else's."""
  if os.path.lexists(path) and not _is_lock(path):
    raise Error('%s is no lock of this program: move it away' % path)
  descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
  return os.fdopen(descriptor, 'r+', encoding='utf-8')


def _is_lock(path):
  try:
    # A link or a pipe would be written to, or waited for.
    if not stat.S_ISREG(os.lstat(path).st_mode):
      return False
    with open(path, 'rb') as f:
      return re.fullmatch(rb'\d*\n?', f.read(100)) is not None
  except FileNotFoundError:  # its holder has just removed it
    return True


def _lock(file, path, wait):
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    if not wait:
      raise
    log.info('Waiting for process %s: %s', _read_holder(file), path)
    fcntl.flock(file, fcntl.LOCK_EX)


def _read_holder(file):
  file.seek(0)
  return file.read().strip() or 'another one'
