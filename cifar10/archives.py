"""Published archives: downloaded, checked, and unpacked without surprises.

Nothing is ever seen half-done under its final name, and only the archive that
was published, to the byte, is unpacked.
"""

import contextlib
import dataclasses
import hashlib
import http.client
import logging
import os
import shutil
import sys
import tarfile
import tempfile

from six.moves import urllib

from cifar10 import Error

_TIMEOUT_SECS = 60
_BLOCK_BYTES = 1 << 20

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
    data_dir: where to keep the archive and make the folder.
    folder: name of the one folder that the archive holds.

  Raises:
    DataError: the archive cannot be had, or is not the published one.
  """
  os.makedirs(data_dir, exist_ok=True)
  path = os.path.join(data_dir, archive.filename)
  if not os.path.exists(path):
    _fetch(archive, path)
  _check(archive, path)
  _extract(path, data_dir, folder)


def _fetch(archive, path):
  """Downloads to a temporary name, and moves it to `path` once checked."""
  log.info('Downloading %s to %s', archive.url, path)
  fd, part = tempfile.mkstemp(
    prefix=archive.filename + '.', suffix='.part', dir=os.path.dirname(path)
  )
  try:
    with os.fdopen(fd, 'wb') as f:
      try:
        _copy_url(archive, f)
      except (OSError, http.client.HTTPException) as e:
        raise DataError(
          'cannot download %s: %s; put the archive at %s by hand, or try '
          '--dataset=sample, which needs no network'
          % (archive.url, getattr(e, 'reason', None) or e, path)
        ) from e
    _check(archive, part, named=archive.url)
    os.chmod(part, 0o666 & ~_umask())
    os.replace(part, path)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.remove(part)


def _copy_url(archive, f):
  """Copies what the URL serves to `f`, at most one block too much."""
  done = 0
  with urllib.request.urlopen(archive.url, timeout=_TIMEOUT_SECS) as response:
    while done <= archive.num_bytes:
      block = response.read(_BLOCK_BYTES)
      if not block:
        break
      f.write(block)
      done += len(block)
      _show_progress('Downloading', done, archive.num_bytes)
  _end_progress()


def _show_progress(what, done, total):
  """Rewrites one line on a terminal; writes nothing anywhere else."""
  if sys.stderr.isatty():
    sys.stderr.write('\r%s %.1f%%' % (what, 100.0 * done / total))
    sys.stderr.flush()


def _end_progress():
  if sys.stderr.isatty():
    sys.stderr.write('\n')


def _check(archive, path, named=None):
  """Raises `DataError` unless `path` is the published archive to the byte."""
  num_bytes = os.path.getsize(path)
  if num_bytes != archive.num_bytes:
    raise DataError(
      '%s has %d bytes, the published archive %d: remove it and try again'
      % (named or path, num_bytes, archive.num_bytes)
    )
  digest = hashlib.sha256()
  with open(path, 'rb') as f:
    while block := f.read(_BLOCK_BYTES):
      digest.update(block)
  if digest.hexdigest() != archive.sha256:
    raise DataError(
      '%s has sha256 %s, the published archive %s: remove it and try again'
      % (named or path, digest.hexdigest(), archive.sha256)
    )


def _extract(path, data_dir, folder):
  """Unpacks the archive's files; refuses what would land anywhere else."""
  log.info('Unpacking %s', path)
  try:
    with tarfile.open(path) as tar:
      members = _wanted_members(tar, path, folder)
      with staging_folder(data_dir, folder) as staging:
        for member in members:
          target = os.path.join(staging, os.path.basename(member.name))
          with tar.extractfile(member) as source, open(target, 'wb') as f:
            shutil.copyfileobj(source, f)
  except (tarfile.TarError, EOFError) as e:
    raise DataError('%s cannot be unpacked: %s' % (path, e)) from e


def _wanted_members(tar, path, folder):
  """Returns the files of an archive; refuses all but files in `folder`."""
  members = []
  for member in tar:
    parent, name = os.path.split(os.path.normpath(member.name))
    if member.isreg() and parent == folder:
      members.append(member)
    elif not (member.isdir() and (parent, name) == ('', folder)):
      raise DataError(
        '%s: member %r is no file in %s/: refused, nothing was unpacked'
        % (path, member.name, folder)
      )
  return members


@contextlib.contextmanager
def staging_folder(data_dir, name):
  """Yields a folder to fill, and puts its files in place when all are there.

  Whoever looks sees no half-written file under its final name; a run that fails
  or is interrupted leaves nothing.
  """
  os.makedirs(data_dir, exist_ok=True)
  folder = os.path.join(data_dir, name)
  staging = tempfile.mkdtemp(prefix=name + '.', dir=data_dir)
  try:
    yield staging
    os.chmod(staging, 0o777 & ~_umask())
    try:
      os.rename(staging, folder)
    except OSError:  # the folder is there and not empty: go in file by file
      for name in sorted(os.listdir(staging)):
        os.replace(os.path.join(staging, name), os.path.join(folder, name))
  finally:
    shutil.rmtree(staging, ignore_errors=True)


def _umask():
  """Returns the process's file mode mask, which can only be read by setting."""
  mask = os.umask(0)
  os.umask(mask)
  return mask
