"""Published archives: downloaded, checked, and unpacked without surprises.

Nothing is ever seen half-done under its final name, and only the archive that
was published, to the byte, is unpacked.
"""

import contextlib
import dataclasses
import errno
import hashlib
import http.client
import logging
import os
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zlib

from cifar10 import Error, locks, progress

_TIMEOUT_SECS = 60
_BLOCK_BYTES = 1 << 20
_PART = '.part'  # ends the names of temporary folders

log = logging.getLogger(__name__)


class DataError(Error):
  """A data file is missing or is not what it should be."""


@dataclasses.dataclass(frozen=True)
class Archive:
  """A published .tar.gz: where it is, and how to know that it is whole."""

  url: str
  num_bytes: int
  sha256: str

  @property
  def filename(self):
    return os.path.basename(urllib.parse.urlparse(self.url).path)


def install(archive, data_dir, folder):
  """Downloads, checks and unpacks a published archive.

  An archive that is already in `data_dir`, placed there by hand, is used.

  Args:
    archive: the `Archive`.
    data_dir: where to keep the archive and make the folder, or a file: the
      archive itself, beside which the folder is made.
    folder: name of the one folder that the archive holds.

  Raises:
    DataError: the archive cannot be had, or is not the published one.
    OSError: there is no space for it.
  """
  path = data_dir
  if not os.path.isfile(path):
    os.makedirs(data_dir, exist_ok=True)
    path = os.path.join(data_dir, archive.filename)
  if not os.path.exists(path):
    _fetch(archive, path)
  else:
    _check(archive, path)
  _extract(path, os.path.dirname(path) or '.', folder)


def _check(archive, path):
  """Raises `DataError` for an archive that is not the published one."""
  try:
    fault = _fault(archive, path)
  except OSError as e:
    raise DataError('%s cannot be read: %s' % (path, e.strerror)) from e
  if fault:
    raise DataError(
      '%s is not the published archive %s: %s; remove it and try again'
      % (path, archive.url, fault)
    )


def _fetch(archive, path):
  """Downloads to a temporary folder, and moves to `path` what is whole."""
  log.info('Downloading %s to %s', archive.url, path)
  with temporary_folder(path) as folder:
    part = os.path.join(folder, archive.filename)
    try:
      _copy_url(archive, part)
      fault = _fault(archive, part)
    except urllib.error.HTTPError as e:
      fault = e
    except (OSError, http.client.HTTPException) as e:
      if _is_no_space(e):
        raise
      fault = getattr(e, 'reason', None) or e
    if fault:
      reason = ' '.join(str(fault).split())  # a server's words may have lines
      raise DataError(
        'cannot download %s: %s; name the folder that has the data with '
        '--data_dir, or put the archive at %s by hand, or try '
        '--dataset=sample, which needs no network' % (archive.url, reason, path)
      )
    os.replace(part, path)


def _copy_url(archive, path):
  """Copies what the URL serves to `path`, at most one byte too much."""
  done = 0
  limit = archive.num_bytes + 1
  with (
    urllib.request.urlopen(archive.url, timeout=_TIMEOUT_SECS) as response,
    open(path, 'wb') as f,
    progress.line('Downloading', archive.num_bytes) as show,
  ):
    while block := response.read(min(_BLOCK_BYTES, limit - done)):
      f.write(block)
      done += len(block)
      show(done)


def _fault(archive, path):
  """Returns how `path` differs from the published archive, or None."""
  num_bytes = os.path.getsize(path)
  if num_bytes != archive.num_bytes:
    return 'it has %d bytes, not %d' % (num_bytes, archive.num_bytes)
  digest = hashlib.sha256()
  with open(path, 'rb') as f:
    while block := f.read(_BLOCK_BYTES):
      digest.update(block)
  if digest.hexdigest() != archive.sha256:
    return 'its sha256 is %s, not %s' % (digest.hexdigest(), archive.sha256)
  return None


def _extract(path, data_dir, folder):
  """Unpacks the archive's files; refuses what would land anywhere else."""
  log.info('Unpacking %s', path)
  try:
    with tarfile.open(path, 'r:gz') as tar:
      members = _wanted_members(tar, path, folder)
      with staging_folder(data_dir, folder) as staging:
        for member in members:
          target = os.path.join(staging, _split_name(member)[1])
          with tar.extractfile(member) as source, open(target, 'wb') as f:
            shutil.copyfileobj(source, f)
  except (tarfile.TarError, EOFError, zlib.error, OSError) as e:
    if _is_no_space(e):
      raise
    raise DataError('%s cannot be unpacked: %s' % (path, e)) from e


def _is_no_space(error):
  reasons = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
  return getattr(error, 'errno', None) in reasons


def _wanted_members(tar, path, folder):
  """Returns the files of an archive; refuses all but files in `folder`."""
  members = []
  for member in tar:
    parent, name = _split_name(member)
    if member.isreg() and parent == folder:
      members.append(member)
    elif not (member.isdir() and (parent, name) == ('', folder)):
      raise DataError(
        '%s: member %r is no file in %s/: refused, nothing was unpacked'
        % (path, member.name, folder)
      )
  return members


def _split_name(member):
  """Returns the folder and the name of an archive's member."""
  return os.path.split(os.path.normpath(member.name))


@contextlib.contextmanager
def staging_folder(data_dir, name):
  """Yields a folder to fill, and puts its files in place when all are there.

  Whoever looks sees no half-written file under its final name; a run that fails
  or is interrupted leaves nothing.
  """
  os.makedirs(data_dir, exist_ok=True)
  folder = os.path.join(data_dir, name)
  with temporary_folder(folder) as parent:
    staging = os.path.join(parent, name)
    os.mkdir(staging)
    yield staging
    try:
      os.rename(staging, folder)
    except OSError:  # the folder is there and not empty: go in file by file
      for name in sorted(os.listdir(staging)):
        os.replace(os.path.join(staging, name), os.path.join(folder, name))


def temporary_folder(path):
  """Returns a context: a folder beside `path`, removed with all it holds.

  No one else can look into it, but what is made in it has the usual modes, and
  keeps them when it is moved out.
  """
  return tempfile.TemporaryDirectory(
    prefix=os.path.basename(path) + '.',
    suffix=_PART,
    dir=os.path.dirname(path),
    ignore_cleanup_errors=True,
  )


@contextlib.contextmanager
def exclusive(folder, name, *others):
  """Lets one process at a time make something in a folder, which is made.

  What processes that were killed have left of it is removed.

  Args:
    folder: where it is made.
    name: the name of what is made.
    *others: names of what is made on the way.
  """
  os.makedirs(folder, exist_ok=True)
  with locks.exclusive(folder, name + '.lock', wait=True) as locked:
    if locked:
      remove_leftovers(folder, name, *others)
    yield


def remove_leftovers(data_dir, *names):
  """Removes the temporary folders of processes that were killed.

  Args:
    data_dir: where to look, while no other process fills it.
    *names: what was to be made there.
  """
  for entry in os.listdir(data_dir):
    prefix = entry[: -len('.12345678' + _PART)]
    if prefix in names and re.fullmatch(r'\.\w{8}\.part', entry[len(prefix) :]):
      log.info('Removing %s of a process that was killed', entry)
      shutil.rmtree(os.path.join(data_dir, entry), ignore_errors=True)
