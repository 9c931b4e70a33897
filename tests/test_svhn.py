"""SVHN's files, as its publisher has them."""

import collections
import sys

import numpy as np
import pytest

from cifar10 import Error, UsageError, datasets, records, svhn
from cifar10.archives import DataError

io = pytest.importorskip('scipy.io')


@pytest.fixture
def folder(tmp_path, rng):
  """The two .mat files: 21 and 10 digits; returns their folder."""
  for name, n in (('train', 21), ('test', 10)):
    images = rng.integers(0, 256, [32, 32, 3, n], np.uint8)
    labels = (np.arange(n) % 10 + 1).astype(np.uint8)[:, None]
    io.savemat(
      str(tmp_path / ('%s_32x32.mat' % name)), {'X': images, 'y': labels}
    )
  return tmp_path


def test_digits_and_pixels(folder, tmp_path):
  svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))
  for name, n in (('train', 21), ('test', 10)):
    split = datasets.load('svhn', str(tmp_path / 'data'), name)
    assert split.class_names == tuple('0123456789')
    assert split.num_examples == n
    published = io.loadmat(str(folder / ('%s_32x32.mat' % name)))
    expected = collections.Counter(
      # 10 stands for the digit 0.
      (0 if label == 10 else label, published['X'][:, :, :, i].tobytes())
      for i, label in enumerate(published['y'][:, 0].tolist())
    )
    found = [(label, p.tobytes()) for label, p in records.read(split)]
    assert collections.Counter(found) == expected
    assert [label for label, _ in found] != [
      label % 10 for label in published['y'][:, 0].tolist()
    ]


def test_labels_that_are_floats(folder, tmp_path):
  path = str(folder / 'train_32x32.mat')
  values = io.loadmat(path)
  io.savemat(path, {'X': values['X'], 'y': values['y'].astype(float)})
  svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))
  split = datasets.load('svhn', str(tmp_path / 'data'))
  assert sorted({label for label, _ in records.read(split)}) == [*range(10)]


def _gone(path):
  path.unlink()


def _no_mat(path):
  path.write_bytes(b'x' * 500)


def _other_variables(path):
  io.savemat(str(path), {'Z': np.zeros(3)})


def _other_labels(path):
  images = np.zeros([32, 32, 3, 2], np.uint8)
  io.savemat(str(path), {'X': images, 'y': np.array([[0], [9]])})


def _other_shape(path):
  io.savemat(str(path), {'X': np.zeros([32, 32, 3]), 'y': np.array([[1], [9]])})


@pytest.mark.parametrize(
  'spoil, said',
  [
    (_gone, 'is not there: get it from http'),
    (_no_mat, 'is not the published file'),
    (_other_variables, "no variable 'X'"),
    (_other_labels, 'y from 1 to 10'),
    (_other_shape, 'X is float64'),
  ],
)
def test_other_files(spoil, said, folder, tmp_path):
  path = folder / 'test_32x32.mat'
  spoil(path)
  with pytest.raises(DataError) as raised:
    svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))
  assert str(raised.value).startswith(str(path))
  assert said in str(raised.value)
  assert not (tmp_path / 'data').exists()


def test_a_name_that_is_taken(folder, tmp_path):
  svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))
  with pytest.raises(UsageError, match='is there already'):
    svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))


def test_without_scipy(folder, tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'scipy.io', None)
  monkeypatch.setitem(sys.modules, 'scipy', None)
  with pytest.raises(Error, match='pip install scipy'):
    svhn.from_mat(str(folder), 'svhn', str(tmp_path / 'data'))
  assert not (tmp_path / 'data').exists()
