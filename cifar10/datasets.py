"""Data sets on disk: which files they are, checking, fetching and drawing them.

A data set is a record of facts (`Spec`) in a registry (`SPECS`). `load` turns
one into the files, class names and sizes of one split (`Split`) and fetches or
draws what is not there yet. Nothing here needs TensorFlow.
"""

import dataclasses
import fnmatch
import logging
import os
import re

import numpy as np

from cifar10 import UsageError, archives, locks, sample
from cifar10.archives import Archive, DataError

HEIGHT = WIDTH = 32
DEPTH = 3
IMAGE_BYTES = HEIGHT * WIDTH * DEPTH
DATA_DIR = '/tmp/cifar10_data'
# The publisher's page of both archives; sizes and checksums are those of the
# files that it served when this was written.
_BASE_URL = 'https://www.cs.toronto.edu/~kriz/'
_SAMPLES_PER_FILE = 2000
_OR_REMAKE = ', or move those away to have all files made anew'

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Spec:
  """What is known of a data set before any file is looked at.

  Attributes:
    name: what `--dataset` calls it.
    folder: the folder of its files, below DATA_DIR.
    class_names: names in label order, or () where only the names file knows.
    label_bytes: label bytes at the start of each record.
    label_index: which of them is the label (0 is the first).
    train_files: pattern of the training files.
    required_files: training files that must be there.
    eval_file: the file of the evaluation split.
    names_file: the text file of class names, one a line.
    archive: the published `Archive`, or None.
    drawn: whether `sample` draws it.
  """

  name: str
  folder: str
  class_names: tuple = ()
  label_bytes: int = 1
  label_index: int = 0
  train_files: str = 'data_batch_*.bin'
  required_files: tuple = ()
  eval_file: str = 'test_batch.bin'
  names_file: str = 'batches.meta.txt'
  archive: Archive | None = None
  drawn: bool = False

  @property
  def record_bytes(self):
    return self.label_bytes + IMAGE_BYTES


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


_FIVE_BATCHES = tuple('data_batch_%d.bin' % i for i in range(1, 6))

_CIFAR10_NAMES = tuple(
  'airplane automobile bird cat deer dog frog horse ship truck'.split()
)

_CIFAR100_NAMES = tuple(
  """
  apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy
  bridge bus butterfly camel can castle caterpillar cattle chair chimpanzee
  clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
  flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
  leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
  oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
  poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
  shrew skunk skyscraper snail snake spider squirrel streetcar sunflower
  sweet_pepper table tank telephone television tiger tractor train trout tulip
  turtle wardrobe whale willow_tree wolf woman worm
  """.split()
)

SPECS = {
  spec.name: spec
  for spec in (
    Spec(
      name='cifar10',
      folder='cifar-10-batches-bin',
      class_names=_CIFAR10_NAMES,
      required_files=_FIVE_BATCHES,
      archive=Archive(
        _BASE_URL + 'cifar-10-binary.tar.gz',
        170052171,
        'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd',
      ),
    ),
    Spec(
      name='cifar100',
      folder='cifar-100-binary',
      class_names=_CIFAR100_NAMES,
      label_bytes=2,
      label_index=1,
      train_files='train.bin',
      required_files=('train.bin',),
      eval_file='test.bin',
      names_file='fine_label_names.txt',
      archive=Archive(
        _BASE_URL + 'cifar-100-binary.tar.gz',
        168513733,
        '58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec',
      ),
    ),
    Spec(
      name='sample',
      folder='sample-batches-bin',
      class_names=sample.CLASS_NAMES,
      required_files=_FIVE_BATCHES,
      drawn=True,
    ),
  )
}


def find_spec(name):
  """Returns the `Spec` called `name`.

  A name that is not in `SPECS` is a data set of one's own: the CIFAR-10 layout
  in `DATA_DIR/NAME-batches-bin/`, with a `batches.meta.txt`.

  Raises:
    cifar10.UsageError: `name` cannot be part of a folder's name.
  """
  if name in SPECS:
    return SPECS[name]
  if not re.fullmatch(r'\w[\w.-]*', name):
    raise UsageError(
      '--dataset=%s: a name holds letters, digits, "_", "." and "-", the last '
      'two not at its start' % name
    )
  return Spec(name=name, folder=name + '-batches-bin')


def check_known(name, data_dir):
  """Raises `cifar10.UsageError` for a data set that there cannot be."""
  spec = find_spec(name)
  if not (spec.drawn or spec.archive):
    prepare(spec, data_dir)


def load(name, data_dir=DATA_DIR, split='train', fetch=True):
  """Checks one split of a data set; fetches or draws the data set if need be.

  Args:
    name: a name in `SPECS`, or that of a data set of one's own.
    data_dir: the folder that holds the data set's folder, or that folder, or
      the data set's archive.
    split: 'train' or 'test'.
    fetch: whether to fetch or draw what is not there.

  Returns:
    The `Split`, every record of it within the data set's format.

  Raises:
    DataError: a file is missing, is no whole number of records, or holds a
      label that no class has.
    cifar10.UsageError: there is no such data set.
  """
  spec = find_spec(name)
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
      '--dataset=%s: there is no such data set: no .bin file in %s (known '
      'without files: %s)' % (spec.name, folder, ', '.join(SPECS))
    )
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


def _none_found(spec, folder):
  return DataError(
    '%s holds no .bin file of the data set %s' % (folder, spec.name)
  )


def _fill(spec, source, folder):
  """Fetches or draws a data set, one process at a time."""
  data_dir = os.path.dirname(folder)
  try:
    os.makedirs(data_dir, exist_ok=True)
    with locks.exclusive(data_dir, spec.folder + '.lock', True) as locked:
      if _matches(folder, '*.bin'):
        return  # another process has just done it
      if locked:
        names = [spec.archive.filename] if spec.archive else []
        archives.remove_leftovers(data_dir, spec.folder, *names)
      if spec.drawn:
        draw(spec, data_dir)
      else:
        archives.install(spec.archive, source, spec.folder)
  except OSError as e:
    raise DataError(
      'the data set %s is not there, and cannot be put into %s: %s: name a '
      '--data_dir that has space and can be written to'
      % (spec.name, folder, e.strerror)
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
  name = os.path.basename(os.path.abspath(folder))
  for other in SPECS.values():
    if other.folder == name and other != spec:
      raise UsageError(
        '--dataset=%s: %s is the folder of the data set %s'
        % (spec.name, folder, other.name)
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
    with open(os.path.join(folder, spec.names_file), 'w') as f:
      f.writelines(name + '\n' for name in spec.class_names)
