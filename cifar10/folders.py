"""Data sets from folders of pictures, and back.

  IMAGE_DIR/CLASS/…            a folder for each class; or
  IMAGE_DIR/{train,test}/CLASS/…

A class is called what its folder is called; classes are in alphabetical order.
"""

import concurrent.futures
import dataclasses
import itertools
import logging
import os

import numpy as np
from PIL import Image

from cifar10 import UsageError, archives, datasets, pictures, progress, records
from cifar10.archives import DataError
from cifar10.pictures import PictureError

TEST_FRACTION = 0.2
_MAX_CLASSES = 256  # a label is a byte
_SPLITS = ('train', 'test')

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Listing:
  """The files of a folder of pictures.

  Attributes:
    class_names: names in label order.
    files: dict from 'train' and 'test' to lists of (path, label).
  """

  class_names: tuple
  files: dict

  @property
  def num_files(self):
    return sum(map(len, self.files.values()))


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
  with records.new_folder(dataset, data_dir) as folder:
    listing = _list(image_dir, test_fraction, rng)
    skipped = _convert(listing, dataset, folder, rng)
  if skipped:
    log.info('%d of %d files skipped: see above', skipped, listing.num_files)


def _convert(listing, dataset, folder, rng):
  """Writes all files of a data set; returns how many pictures are skipped."""
  spec = datasets.find_spec(dataset)
  datasets.write_class_names(spec, folder, listing.class_names)
  done, skipped = itertools.count(1), 0
  with progress.line('Converting', listing.num_files) as show:
    for split in _SPLITS:
      files = listing.files[split]
      order = [files[i] for i in rng.permutation(len(files))]
      labels = iter([label for _, label in order])

      def read(order=order, labels=labels):
        nonlocal skipped
        for _, pixels in pictures.read_all(path for path, _ in order):
          show(next(done))
          label = next(labels)
          if isinstance(pixels, PictureError):
            log.warning('%s: skipped', pixels)
            skipped += 1
          else:
            yield label, pixels

      counts = records.write(spec, folder, split, read())
      _check_counts(split, counts, listing.class_names)
  return skipped


def _check_counts(split, counts, class_names):
  """Raises `DataError` where nothing is left to train on, or to evaluate."""
  if not counts:
    raise DataError('no picture for the %s split can be read' % split)
  for label, name in enumerate(class_names):
    if split == 'train' and not counts[label]:
      raise DataError('no picture of the class %s can be read' % name)


def _list(image_dir, test_fraction, rng):
  """Returns the `_Listing` of a folder of pictures."""
  if not os.path.isdir(image_dir):
    raise UsageError('--image_dir=%s: there is no such folder' % image_dir)
  names = _folders(image_dir)
  if 'train' not in names:
    if 'test' in names:
      raise DataError(
        '%s holds test/ and no train/: put a folder for each class into both, '
        'or into %s itself' % (image_dir, image_dir)
      )
    class_names = _class_names(image_dir)
    files = _class_files(image_dir, class_names)
    return _Listing(class_names, _split(files, test_fraction, rng))
  others = [name for name in names if name not in _SPLITS]
  if others:
    raise DataError(
      '%s holds %s beside train/: only train/ and test/ are read, move it away'
      % (image_dir, ', '.join(name + '/' for name in others[:3]))
    )
  train_dir = os.path.join(image_dir, 'train')
  class_names = _class_names(train_dir)
  train = _class_files(train_dir, class_names)
  if 'test' not in names:
    return _Listing(class_names, _split(train, test_fraction, rng))
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
  test = _class_files(test_dir, class_names, required=False)
  return _Listing(class_names, {'train': train, 'test': test})


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
      '%s holds %d folders: it takes one for each class, from 2 to %d'
      % (folder, len(names), _MAX_CLASSES)
    )
  for name in names:
    if name != ' '.join(name.split()) or not name.isprintable():
      raise DataError(
        '%s: %r cannot be a class name: rename the folder, blanks only between '
        'words' % (folder, name)
      )
  return names


def _class_files(folder, class_names, required=True):
  """Returns (path, label) of all files; says what is in no class's folder."""
  files = []
  for label, name in enumerate(class_names):
    class_dir = os.path.join(folder, name)
    paths = [path for path in pictures.find([class_dir]) if path != class_dir]
    if required and not paths:
      raise DataError(
        '%s holds no file: put the pictures of that class there, or remove it'
        % class_dir
      )
    files += [(path, label) for path in paths]
  with os.scandir(folder) as entries:
    for entry in sorted(entries, key=lambda e: e.name):
      if not entry.is_dir() and not entry.name.startswith('.'):
        log.warning('%s: in no class folder: skipped', entry.path)
  return files


def _split(files, test_fraction, rng):
  """Puts the same part of each class into the test split.

  Of a class with two files or more each split gets one at least.
  """
  fraction = TEST_FRACTION if test_fraction is None else test_fraction
  splits = {'train': [], 'test': []}
  for _, group in itertools.groupby(files, key=lambda file: file[1]):
    group = list(group)
    num_test = round(fraction * len(group))
    num_test = min(max(1, num_test), len(group) - 1)
    chosen = set(rng.permutation(len(group))[:num_test].tolist())
    for i, file in enumerate(group):
      splits['test' if i in chosen else 'train'].append(file)
  return splits


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
  image_dir = os.path.abspath(image_dir)
  if os.path.lexists(image_dir) and (
    not os.path.isdir(image_dir) or os.listdir(image_dir)
  ):
    raise UsageError(
      '--image_dir=%s is there already: name a new folder' % image_dir
    )
  for name in splits['train'].class_names:
    if name in ('.', '..') or '/' in name or '\0' in name:
      raise DataError('the class name %r cannot be that of a folder' % name)
  parent, base = os.path.split(image_dir)
  try:
    with archives.staging_folder(parent, base) as staging:
      for name, split in splits.items():
        _write_pictures(os.path.join(staging, name), split)
  except OSError as e:
    raise DataError(
      '--image_dir=%s cannot be written: %s: name a folder that has space and '
      'can be written to' % (image_dir, e.strerror or e)
    ) from e


def _write_pictures(folder, split):
  """Writes a split as PNG files, numbered in the order of its records."""
  for name in split.class_names:
    os.makedirs(os.path.join(folder, name))
  log.info('Writing %d pictures for %s', split.num_examples, folder)

  def write(numbered):
    number, (label, pixels) = numbered
    name = '%05d.png' % number
    path = os.path.join(folder, split.class_names[label], name)
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
