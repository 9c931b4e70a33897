"""Data sets from folders of pictures, and back.

  IMAGE_DIR/CLASS/…            a folder for each class; or
  IMAGE_DIR/{train,test}/CLASS/…

A class is called what its folder is called; classes are in alphabetical order.
"""

import collections
import concurrent.futures
import dataclasses
import itertools
import logging
import os
import re
import tempfile

import numpy as np
from PIL import Image

from cifar10 import UsageError, archives, datasets, pictures, progress, records
from cifar10.archives import DataError
from cifar10.pictures import PictureError

TEST_FRACTION = 0.2
_MAX_CLASSES = 256  # a label is a byte
_SHOWN_CLASSES = 20
_SPLITS = ('train', 'test')

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Listing:
  """The files of a folder of pictures.

  Attributes:
    class_names: names in label order.
    files: list of (path, label, split): the split is 'train' or 'test', or
      None where it is yet to be chosen.
    strays: how many files are in no class's folder.
  """

  class_names: tuple
  files: list
  strays: int


def from_folder(image_dir, dataset, data_dir, test_fraction=None, seed=0):
  """Makes a data set of the pictures in a folder.

  Args:
    image_dir: the folder, see above.
    dataset: name of the data set to make.
    data_dir: the folder that is to hold the data set's folder.
    test_fraction: the part of each class that becomes the test split; None: a
      fifth, or the folder `test` where there is one.
    seed: of the shuffle, and of which pictures are for testing.

  Raises:
    DataError: the folder holds no such classes, or there is no space.
    cifar10.UsageError: a name cannot be used, or is taken.
  """
  rng = np.random.default_rng(seed)
  records.check_new(dataset, data_dir)
  listing = _list(image_dir, test_fraction)
  spec = datasets.find_spec(dataset)
  with (
    records.new_folder(dataset, data_dir) as folder,
    tempfile.TemporaryFile(dir=folder) as spool,
  ):
    files = _read_all(listing.files, spool)
    labels = [label for _, label, _ in files]
    splits = _split(files, test_fraction or TEST_FRACTION, rng)
    _check_splits(labels, splits, listing.class_names)
    _say_counts(labels, splits, listing.class_names)
    datasets.write_class_names(spec, folder, listing.class_names)
    images = np.memmap(
      spool, np.uint8, 'r', shape=(len(files), *pictures.SHAPE)
    )
    for split, chosen in splits.items():
      chosen = rng.permutation(chosen)
      records.write(
        spec, folder, split, ((labels[i], images[i]) for i in chosen)
      )
  skipped = listing.strays + len(listing.files) - len(files)
  if skipped:
    total = listing.strays + len(listing.files)
    log.info('%d of %d files skipped: see above', skipped, total)


def _read_all(files, spool):
  """Writes the pixels of all pictures one after the other; says what is none.

  Args:
    files: list of (path, label, split).
    spool: the file to write to.

  Returns:
    The list of those that are pictures.
  """
  good = []
  with progress.line('Reading', len(files)) as show:
    read = pictures.read_all(path for path, _, _ in files)
    for i, (file, (_, pixels)) in enumerate(zip(files, read)):
      show(i + 1)
      if isinstance(pixels, PictureError):
        progress.clear()
        log.warning('%s: skipped', pixels)
      else:
        spool.write(pixels.tobytes())
        good.append(file)
  spool.flush()
  return good


def _split(files, test_fraction, rng):
  """Returns which files each split has: a dict of lists of indices.

  Where that is not given, the same part of each class is for testing; but of a
  class with two pictures or more each split gets one at least.
  """
  splits = {'train': [], 'test': []}
  open_ones = collections.defaultdict(list)
  for i, (_, label, split) in enumerate(files):
    (open_ones[label] if split is None else splits[split]).append(i)
  for group in open_ones.values():
    num_test = max(1, round(test_fraction * len(group)))
    order = rng.permutation(group).tolist()
    num_test = min(num_test, len(group) - 1)
    splits['test'] += order[:num_test]
    splits['train'] += order[num_test:]
  return splits


def _check_splits(labels, splits, class_names):
  """Raises `DataError` where nothing is there to train on, or to evaluate."""
  present = {labels[i] for i in splits['train']}
  for label, name in enumerate(class_names):
    if label not in present:
      raise DataError(
        'no picture of the class %s can be read: add some to its folder, or '
        'remove that' % name
      )
  if not splits['test']:
    raise DataError(
      'there is no picture to evaluate on: put some into a folder test/ beside '
      'train/, or give each class two or more'
    )


def _say_counts(labels, splits, class_names):
  """Says how many pictures each class has, and which has none to test."""
  counts = collections.Counter(labels)
  shown = ['%s %d' % (name, counts[i]) for i, name in enumerate(class_names)]
  if len(shown) > _SHOWN_CLASSES:
    shown[_SHOWN_CLASSES:] = ['…']
  log.info('%d classes: %s', len(class_names), ', '.join(shown))
  tested = {labels[i] for i in splits['test']}
  for label, name in enumerate(class_names):
    if label not in tested:
      log.warning('No picture of the class %s is there to evaluate on', name)


def _list(image_dir, test_fraction):
  """Returns the `_Listing` of a folder of pictures."""
  if not os.path.isdir(image_dir):
    raise UsageError('--image_dir=%s: there is no such folder' % image_dir)
  names = _folders(image_dir)
  if 'train' in names:
    return _list_splits(image_dir, names, test_fraction)
  if 'test' in names:
    raise DataError(
      '%s holds test/ and no train/: put a folder for each class into both, or '
      'into %s itself' % (image_dir, image_dir)
    )
  class_names = _class_names(image_dir)
  files = _class_files(image_dir, class_names, None)
  return _Listing(class_names, files, _say_strays(image_dir))


def _list_splits(image_dir, names, test_fraction):
  """Returns the `_Listing` of a folder that has a folder `train`."""
  others = [name for name in names if name not in _SPLITS]
  if others:
    raise DataError(
      '%s holds %s beside train/: only train/ and test/ are read: rename it or '
      'move it away' % (image_dir, ', '.join(name + '/' for name in others[:3]))
    )
  strays = _say_strays(image_dir)
  train_dir = os.path.join(image_dir, 'train')
  class_names = _class_names(train_dir)
  strays += _say_strays(train_dir)
  if 'test' not in names:
    files = _class_files(train_dir, class_names, None)
    return _Listing(class_names, files, strays)
  if test_fraction is not None:
    raise UsageError(
      '--test_fraction=%g: %s has a test/ of its own'
      % (test_fraction, image_dir)
    )
  test_dir = os.path.join(image_dir, 'test')
  for name in _folders(test_dir):
    if name not in class_names:
      raise DataError(
        '%s: a class without pictures in train/: add some, or remove it'
        % os.path.join(test_dir, name)
      )
  strays += _say_strays(test_dir)
  files = _class_files(train_dir, class_names, 'train')
  files += _class_files(test_dir, class_names, 'test')
  return _Listing(class_names, files, strays)


def _folders(folder):
  """Returns the names of the folders in a folder, sorted; none begins with ."""
  try:
    with os.scandir(folder) as entries:
      return sorted(
        e.name for e in entries if e.is_dir() and not e.name.startswith('.')
      )
  except OSError as e:
    raise DataError('%s cannot be read: %s' % (folder, e.strerror)) from e


def _class_names(folder):
  """Returns the class names that a folder's folders give.

  Raises:
    DataError: they are too few or too many, or no names for a line of text.
  """
  names = tuple(_folders(folder))
  if not 2 <= len(names) <= _MAX_CLASSES:
    raise DataError(
      '%s holds folders for %d classes: it takes one for each, 2 to %d of them'
      % (folder, len(names), _MAX_CLASSES)
    )
  for name in names:
    if name != ' '.join(name.split()) or not name.isprintable():
      raise DataError(
        '%s: %r cannot be a class name: rename the folder, blanks only between '
        'words' % (folder, name)
      )
  return names


def _class_files(folder, class_names, split):
  """Returns (path, label, split) of all files of all classes."""
  files = []
  for label, name in enumerate(class_names):
    class_dir = os.path.join(folder, name)
    if os.path.isdir(class_dir):
      _folders(class_dir)  # raises where it cannot be read
    paths = [path for path in pictures.find([class_dir]) if path != class_dir]
    if not paths and split != 'test':
      raise DataError(
        '%s holds no file: put the pictures of that class there, or remove it'
        % class_dir
      )
    files += [(path, label, split) for path in paths]
  return files


def _say_strays(folder):
  """Names the files that are in no class's folder; returns how many."""
  strays = 0
  for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    if not os.path.isdir(path) and not name.startswith('.'):
      log.warning('%s: in no class folder: skipped', pictures.shown(path))
      strays += 1
  return strays


def to_folder(image_dir, dataset, data_dir, label='fine'):
  """Writes the pictures of a data set as PNG files, a folder for each class.

  Args:
    image_dir: the folder to make, or an empty one.
    dataset: name of the data set.
    data_dir: the folder that holds the data set's folder.
    label: which label, see `datasets.find_spec`.

  Raises:
    DataError: a class's name cannot be a folder's, or there is no space.
    cifar10.UsageError: the folder is there, with something in it.
  """
  splits = {
    name: datasets.load(dataset, data_dir, name, label=label)
    for name in _SPLITS
  }
  _check_folder_names(splits['train'])
  image_dir = os.path.abspath(image_dir)
  _check_empty(image_dir)
  parent, base = os.path.split(image_dir)
  try:
    with archives.exclusive(parent, base):
      _check_empty(image_dir)
      with archives.staging_folder(parent, base) as staging:
        for name, split in splits.items():
          _write_pictures(os.path.join(staging, name), split, name)
  except OSError as e:
    raise DataError(
      '--image_dir=%s cannot be written: %s: name a folder that has space and '
      'can be written to' % (image_dir, e.strerror or e)
    ) from e


def _check_empty(image_dir):
  if os.path.lexists(image_dir) and (
    not os.path.isdir(image_dir) or os.listdir(image_dir)
  ):
    raise UsageError(
      '--image_dir=%s is there already: name a new folder' % image_dir
    )


def _check_folder_names(split):
  """Raises `DataError` where the class names cannot be those of folders."""
  names = split.class_names
  for name in names:
    if (
      re.search('[/\0]', name)
      or name.startswith('.')
      or len(os.fsencode(name)) > 255
      or names.count(name) > 1
    ):
      raise DataError(
        'the class name %r cannot be that of a folder: change it in %s of that '
        'data set' % (name, split.spec.names_file)
      )


def _write_pictures(folder, split, name):
  """Writes a split as PNG files, numbered in the order of its records."""
  for class_name in split.class_names:
    os.makedirs(os.path.join(folder, class_name))
  log.info('Writing %d %s pictures', split.num_examples, name)

  def write(numbered):
    number, (label, pixels) = numbered
    path = os.path.join(folder, split.class_names[label], '%05d.png' % number)
    Image.fromarray(np.ascontiguousarray(pixels)).save(path)
    return number

  with (
    concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    progress.line('Writing', split.num_examples) as show,
  ):
    numbered = enumerate(records.read(split))
    while block := list(itertools.islice(numbered, 1000)):
      for number in pool.map(write, block):
        show(number + 1)
