"""Data sets on disk: which files they are, checking, fetching and drawing them.

A data set is a record of facts (`Spec`) in a registry (`SPECS`). `load` turns
one into the files, class names and sizes of one split (`Split`) and fetches or
draws what is not there yet. Nothing here needs TensorFlow.
"""

import contextlib
import dataclasses
import fnmatch
import logging
import os

import numpy as np

from cifar10 import UsageError, archives, sample
from cifar10.archives import DataError
from cifar10.specs import SPECS, Spec, find_spec

DATA_DIR = '/tmp/cifar10_data'
_SAMPLES_PER_FILE = 2000
_OWN = '-batches-bin'  # ends the names of folders of data sets of one's own
_OR_REMAKE = ', or move those away to have all files made anew'

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Split:
  """One split of a data set, checked: `files` hold `num_examples` records.

  Attributes:
    spec: the data set's `Spec`.
    files: tuple of paths, in reading order.
    class_names: tuple of str, in label order.
    num_examples: records in all files together.
  """

  spec: Spec
  files: tuple
  class_names: tuple
  num_examples: int

  @property
  def num_classes(self):
    return len(self.class_names)


def check_known(name, data_dir, label='fine'):
  """Raises `cifar10.UsageError` for a data set that there cannot be."""
  spec = find_spec(name, label)
  if not (spec.drawn or spec.archive):
    prepare(spec, data_dir)


def load(name, data_dir=DATA_DIR, split='train', fetch=True, label='fine'):
  """Checks one split of a data set; fetches or draws the data set if need be.

  Args:
    name: a name in `SPECS`, or that of a data set of one's own.
    data_dir: the folder that holds the data set's folder, or that folder, or
      the data set's archive.
    split: 'train' or 'test'.
    fetch: whether to fetch or draw what is not there.
    label: which label, see `find_spec`.

  Returns:
    The `Split`, every record of it within the data set's format.

  Raises:
    DataError: a file is missing, is no whole number of records, or holds a
      label that no class has.
    cifar10.UsageError: there is no such data set.
  """
  spec = find_spec(name, label)
  folder = prepare(spec, data_dir, fetch)
  files = _split_files(spec, folder, split)
  class_names = _read_class_names(spec, folder)
  counts = [_check_file(spec, path, len(class_names)) for path in files]
  return Split(spec, tuple(files), class_names, sum(counts))


def prepare(spec, data_dir, fetch=True):
  """Returns the folder of the .bin files; fills it where it holds none.

  Raises:
    DataError: the archive cannot be had, or is not the published one.
    cifar10.UsageError: there are no files, and nowhere to get them from.
  """
  if os.path.exists(data_dir) and not os.path.isdir(data_dir):
    return _prepare_from_file(spec, data_dir, fetch)
  folder = os.path.join(data_dir, spec.folder)
  if _matches(folder, '*.bin'):
    return folder
  # DATA_DIR may be that folder itself; a .bin file of another name there is
  # somebody else's.
  if _matches(data_dir, spec.train_files) or _matches(data_dir, spec.eval_file):
    _check_folder_name(spec, data_dir)
    return data_dir
  _check_version(spec, data_dir, folder)
  own_name = os.path.basename(os.path.abspath(data_dir)) == spec.folder
  if not fetch or own_name:
    raise _none_found(spec, data_dir)
  if not (spec.drawn or spec.archive):
    raise UsageError(
      '--dataset=%s: there is no such data set: no .bin file in %s%s; name its '
      '--data_dir, or make it first (prepare_data.py --action=%s)'
      % (
        spec.name,
        folder,
        _others(data_dir),
        'svhn' if spec.name == 'svhn' else 'from_folder',
      )
    )
  others = _others(data_dir)
  if others:
    log.info('--dataset=%s is not in %s%s', spec.name, data_dir, others)
  _fill(spec, data_dir, folder)
  return folder


def _prepare_from_file(spec, path, fetch):
  """Returns the folder of the .bin files, for a DATA_DIR that is an archive."""
  archive = spec.archive
  if archive is None or os.path.getsize(path) != archive.num_bytes:
    what = 'not a folder'
    if archive:
      what += ', nor the %d bytes of %s' % (archive.num_bytes, archive.url)
    raise UsageError('--data_dir=%s: %s' % (path, what))
  folder = os.path.join(os.path.dirname(path) or '.', spec.folder)
  if not _matches(folder, '*.bin'):
    if not fetch:
      raise _none_found(spec, folder)
    _fill(spec, path, folder)
  return folder


def _others(data_dir):
  """Returns words that name the data sets of a folder, '' if there are none."""
  names = [
    os.path.basename(path).removesuffix(_OWN)
    for path in sorted(_matches(data_dir, '?*' + _OWN))
    if _matches(path, '*.bin')
  ]
  known = {spec.folder.removesuffix(_OWN): name for name, spec in SPECS.items()}
  names = [known.get(name, name) for name in names]
  return ', which holds %s' % ', '.join(names) if names else ''


def _none_found(spec, folder):
  return DataError(
    '%s holds no .bin file of the data set %s' % (folder, spec.name)
  )


def _fill(spec, source, folder):
  """Fetches or draws a data set, one process at a time."""
  data_dir = os.path.dirname(folder)
  with exclusive(spec, data_dir):
    if _matches(folder, '*.bin'):
      return  # another process has just done it
    if spec.drawn:
      draw(spec, data_dir)
    else:
      archives.install(spec.archive, source, spec.folder)


@contextlib.contextmanager
def exclusive(spec, data_dir):
  """Lets one process at a time make a data set in a folder.

  Raises:
    DataError: there is no space, or the folder cannot be written to.
  """
  try:
    names = [spec.archive.filename] if spec.archive else []
    with archives.exclusive(data_dir, spec.folder, *names):
      yield
  except OSError as e:
    raise DataError(
      'the data set %s is not there, and cannot be put into %s: %s: name a '
      '--data_dir that has space and can be written to'
      % (spec.name, os.path.join(data_dir, spec.folder), e.strerror or e)
    ) from e


def _check_version(spec, *folders):
  """Raises `DataError` where files are of another version than the binary."""
  if not spec.archive:
    return
  names = (*spec.required_files, spec.eval_file)
  for folder in folders:
    for suffix, version in (('', 'Python'), ('.mat', 'MATLAB')):
      others = [os.path.splitext(name)[0] + suffix for name in names]
      paths = [os.path.join(folder, name) for name in others]
      # One file of such a name may be anybody's.
      if all(map(os.path.isfile, paths)):
        raise DataError(
          '%s is of the %s version%s' % (paths[0], version, _wanted(spec))
        )


def _wanted(spec):
  """Returns which archive holds the files that are wanted, if one does."""
  if not spec.archive:
    return ''
  return ': the binary version is wanted, %s' % spec.archive.url


def _check_folder_name(spec, folder):
  """Raises `UsageError` where a folder has the name of another data set's."""
  base = os.path.basename(os.path.abspath(folder))
  names = {other.folder: other.name for other in SPECS.values()}
  if base.endswith(_OWN):
    names.setdefault(base, base.removesuffix(_OWN))
  if names.get(base, spec.name) != spec.name:
    raise UsageError(
      '--dataset=%s: %s is the folder of the data set %s: say --dataset=%s'
      % (spec.name, folder, names[base], names[base])
    )


def _matches(folder, pattern):
  """Returns the paths of the files in a folder whose names match a pattern."""
  try:
    names = os.listdir(folder or '.')
  except (FileNotFoundError, NotADirectoryError):
    return []
  except OSError as e:
    raise DataError(
      '%s cannot be read: %s: make it readable, or name another --data_dir'
      % (folder, e.strerror)
    ) from e
  return [
    os.path.join(folder, name)
    for name in fnmatch.filter(names, pattern)
    if not name.startswith('.')  # as some systems keep beside a file
  ]


def _split_files(spec, folder, split):
  """Returns the paths of a split's files, in reading order."""
  if split == 'test':
    files = [os.path.join(folder, spec.eval_file)]
  else:
    # data_batch_10 comes after data_batch_9.
    files = sorted(
      _matches(folder, spec.train_files), key=lambda path: (len(path), path)
    )
  required = [os.path.join(folder, name) for name in spec.required_files]
  for path in files if split == 'test' else required:
    if not os.path.exists(path):
      raise DataError(
        '%s is missing, other .bin files are there: put it back%s%s'
        % (
          path,
          _OR_REMAKE if spec.archive or spec.drawn else '',
          _wanted(spec),
        )
      )
  if not files:
    raise DataError('%s holds no %s to train on' % (folder, spec.train_files))
  return files


def class_names(name, data_dir=DATA_DIR, label='fine'):
  """Returns the class names of a data set, which need not be there if known.

  Raises:
    DataError: only files that are not there know them.
    cifar10.UsageError: there is no such data set.
  """
  spec = find_spec(name, label)
  if spec.class_names:
    return spec.class_names
  return _read_class_names(spec, prepare(spec, data_dir, fetch=False))


def _read_class_names(spec, folder):
  """Returns the class names: the names file's, else those that are known."""
  path = os.path.join(folder, spec.names_file)
  if not os.path.exists(path):
    if spec.class_names:
      return spec.class_names
    raise DataError(
      '%s is missing: write the class names there, one a line, in the order of '
      'the labels' % path
    )
  try:
    if not os.path.isfile(path):
      raise OSError('it is no file')
    with open(path, encoding='utf-8-sig') as f:  # some editors write a mark
      names = tuple(line.strip() for line in f if line.strip())
  except (OSError, UnicodeDecodeError) as e:
    raise DataError(
      '%s cannot be read as UTF-8 text, one class name a line: %s' % (path, e)
    ) from e
  if not names:
    raise DataError('%s names no class: write one name a line' % path)
  return names


def _check_file(spec, path, num_classes):
  """Returns how many records a .bin file holds, after checking every label."""
  if not os.path.isfile(path):
    raise DataError(
      '%s is not a file: put the records there%s' % (path, _wanted(spec))
    )
  num_bytes = os.path.getsize(path)
  num_records, rest = divmod(num_bytes, spec.record_bytes)
  if rest or not num_records:
    raise DataError(
      '%s has %d bytes: not a whole number of %s records of %d bytes each%s'
      % (path, num_bytes, spec.name, spec.record_bytes, _wanted(spec))
    )
  try:
    records = np.memmap(
      path, np.uint8, 'r', shape=(num_records, spec.record_bytes)
    )
  except (OSError, ValueError) as e:  # the latter if it has just been cut
    raise DataError(
      '%s of %d bytes cannot be read: %s: make it readable'
      % (path, num_bytes, getattr(e, 'strerror', e))
    ) from e
  labels = np.array(records[:, spec.label_index])
  wrong = np.flatnonzero(labels >= num_classes)
  if wrong.size:
    first = labels.min() == 1 and labels.max() == num_classes
    raise DataError(
      '%s: record %d has label %d, labels go from 0 to %d%s'
      % (
        path,
        wrong[0],
        labels[wrong[0]],
        num_classes - 1,
        ': here they seem to begin at 1, subtract that' if first else '',
      )
    )
  return num_records


def draw(spec, data_dir):
  """Draws the sample set into `data_dir`: five training files and one test."""
  log.info('Drawing the sample data set in %s', data_dir)
  with archives.staging_folder(data_dir, spec.folder) as folder:
    for seed, name in enumerate(spec.required_files + (spec.eval_file,)):
      with open(os.path.join(folder, name), 'wb') as f:
        f.write(sample.records(_SAMPLES_PER_FILE, seed=seed))
    write_class_names(spec, folder, spec.class_names)


def write_class_names(spec, folder, class_names):
  """Writes the names file of a data set."""
  path = os.path.join(folder, spec.names_file)
  with open(path, 'w', encoding='utf-8') as f:
    f.writelines(name + '\n' for name in class_names)
