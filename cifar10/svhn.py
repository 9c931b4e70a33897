"""The Street View House Numbers, from the files that its publisher serves.

Netzer et al. 2011, "Reading Digits in Natural Images with Unsupervised Feature
Learning", cropped digits: `train_32x32.mat` and `test_32x32.mat` hold X, uint8
[32, 32, 3, n], and y, [n, 1], from 1 to 10, which stands for the digit 0.
"""

import logging
import os

import numpy as np

from cifar10 import Error, datasets, records, specs
from cifar10.archives import DataError

_CLASS_NAMES = tuple('0123456789')

log = logging.getLogger(__name__)


def from_mat(image_dir, dataset, data_dir, seed=0):
  """Makes a data set of the two files of cropped digits.

  Args:
    image_dir: the folder that holds `train_32x32.mat` and `test_32x32.mat`.
    dataset: name of the data set to make.
    data_dir: the folder that is to hold the data set's folder.
    seed: of the shuffle.

  Raises:
    DataError: a file is not there, or is another one.
    cifar10.UsageError: the name cannot be used, or is taken.
    cifar10.Error: SciPy is not installed, which reads them.
  """
  rng = np.random.default_rng(seed)
  spec = datasets.find_spec(dataset)
  records.check_new(dataset, data_dir)
  splits = {
    split: _read(os.path.join(image_dir, split + '_32x32.mat'))
    for split in ('train', 'test')
  }
  with records.new_folder(dataset, data_dir) as folder:
    datasets.write_class_names(spec, folder, _CLASS_NAMES)
    for split, (images, labels) in splits.items():
      order = rng.permutation(len(labels))
      records.write(
        spec, folder, split, ((labels[i], images[..., i]) for i in order)
      )


def _read(path):
  """Returns the pictures, uint8 [32, 32, 3, n], and their digits, list of n.

  Raises:
    DataError: the file is not there, or is another one.
    cifar10.Error: SciPy is not installed.
  """
  try:
    import scipy.io
  except ImportError as e:
    raise Error(
      'reading .mat files takes SciPy: pip install scipy, and try again'
    ) from e
  try:
    with open(path, 'rb') as f:
      log.info('Reading %s', path)
      values = scipy.io.loadmat(f)
    images, labels = values['X'], values['y'].ravel()
  except FileNotFoundError as e:
    raise DataError(
      '%s is not there: get it from http://ufldl.stanford.edu/housenumbers/, '
      'and name its folder by --image_dir' % path
    ) from e
  except MemoryError:
    raise
  except Exception as e:  # what SciPy raises for broken files is anything
    reason = 'no variable %s' % e if isinstance(e, KeyError) else str(e)
    raise DataError(
      '%s is not the published file: it cannot be read: %s'
      % (path, ' '.join(reason.split()))
    ) from e
  shape = (specs.HEIGHT, specs.WIDTH, specs.DEPTH, len(labels))
  if (
    images.shape != shape
    or images.dtype != np.uint8
    or not len(labels)
    or not np.isin(labels, range(1, 11)).all()
  ):
    raise DataError(
      '%s is not the published file: X is %s %s, wanted are uint8 [32, 32, 3, '
      'n], and y from 1 to 10' % (path, images.dtype, list(images.shape))
    )
  return images, (labels % 10).astype(np.uint8).tolist()
