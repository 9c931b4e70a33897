"""Records of data sets: reading them, and writing data sets of one's own."""

import collections
import contextlib
import os

import numpy as np

from cifar10 import UsageError, archives, datasets, specs


@contextlib.contextmanager
def new_folder(name, data_dir):
  """Yields a folder to fill with a data set of one's own; puts it in place.

  Nothing is seen half-done: what fails or is interrupted leaves nothing.

  Args:
    name: name of the data set.
    data_dir: the folder that is to hold the data set's folder.

  Raises:
    cifar10.UsageError: the name is that of a data set that is known, or there
      is one of that name.
    DataError: there is no space, or the folder cannot be written to.
  """
  check_new(name, data_dir)
  spec = datasets.find_spec(name)
  with datasets.exclusive(spec, data_dir):
    check_new(name, data_dir)  # another process may just have made it
    with archives.staging_folder(data_dir, spec.folder) as staging:
      yield staging


def check_new(name, data_dir):
  """Raises `cifar10.UsageError` where a data set cannot be made, see above."""
  spec = datasets.find_spec(name)
  if name in datasets.SPECS:
    raise UsageError(
      '--dataset=%s: that is a data set of its own: give yours another name'
      % name
    )
  if os.path.exists(data_dir) and not os.path.isdir(data_dir):
    raise UsageError('--data_dir=%s: not a folder' % data_dir)
  folder = os.path.join(data_dir, spec.folder)
  if os.path.lexists(folder):
    raise UsageError(
      '--dataset=%s: %s is there already: remove it, or give another name'
      % (name, folder)
    )


def write(spec, folder, split, records, num_files=5):
  """Writes a split of a data set of one's own, spread evenly over its files.

  Args:
    spec: the `Spec`, in the CIFAR-10 layout.
    folder: where to.
    split: 'train', for data_batch_1.bin and so on, or 'test'.
    records: iterable of (label, uint8 [32, 32, 3]).
    num_files: how many files a training split has, fewer where there are fewer
      records.

  Returns:
    How many records of each label there are, a `collections.Counter`.
  """
  names = ['data_batch_%d.bin' % i for i in range(1, num_files + 1)]
  if split == 'test':
    names = [spec.eval_file]
  counts = collections.Counter()
  with contextlib.ExitStack() as stack:
    files = []
    for i, (label, pixels) in enumerate(records):
      if i < len(names):
        path = os.path.join(folder, names[i])
        files.append(stack.enter_context(open(path, 'wb')))
      files[i % len(names)].write(
        bytes([label]) + pixels.transpose(2, 0, 1).tobytes()
      )
      counts[label] += 1
  return counts


def read(split, read_ahead=1000):
  """Yields (label, uint8 [32, 32, 3]) of each record of a `Split`, in order."""
  spec = split.spec
  for path in split.files:
    with open(path, 'rb') as f:
      while block := f.read(read_ahead * spec.record_bytes):
        records = np.frombuffer(block, np.uint8).reshape(-1, spec.record_bytes)
        pixels = _pixels(records[:, spec.label_bytes :])
        yield from zip(records[:, spec.label_index].tolist(), pixels)


def _pixels(planes):
  """Turns uint8 [n, 3072], or [3072], into [n, 32, 32, 3]."""
  planes = planes.reshape(-1, specs.DEPTH, specs.HEIGHT, specs.WIDTH)
  return planes.transpose(0, 2, 3, 1)


def pick(split, indices):
  """Returns the pictures of some records of a `Split`, as they are asked for.

  Args:
    split: the `Split`.
    indices: their numbers, from 0, counted over all files in order.

  Returns:
    uint8 [n, 32, 32, 3].
  """
  spec = split.spec
  counts = [os.path.getsize(path) // spec.record_bytes for path in split.files]
  ends = np.cumsum(counts)
  images = np.empty(
    [len(indices), specs.HEIGHT, specs.WIDTH, specs.DEPTH], np.uint8
  )
  for image, index in zip(images, indices):
    i = int(np.searchsorted(ends, index, side='right'))
    with open(split.files[i], 'rb') as f:
      f.seek((index - ends[i] + counts[i]) * spec.record_bytes)
      f.seek(spec.label_bytes, os.SEEK_CUR)
      planes = np.frombuffer(f.read(specs.IMAGE_BYTES), np.uint8)
    image[:] = _pixels(planes)[0]
  return images
