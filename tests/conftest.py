"""What every test may use."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import write_records

# As the scripts have it: deprecation warnings are no news to anybody.
tf.logging.set_verbosity(tf.logging.ERROR)

FIVE_BATCHES = ['data_batch_%d.bin' % i for i in range(1, 6)]


@pytest.fixture
def rng():
  return np.random.default_rng(0)


@pytest.fixture
def small_data(tmp_path, rng):
  """DATA_DIR of a data set called `small`: 50 training, 20 test examples."""
  folder = tmp_path / 'data' / 'small-batches-bin'
  folder.mkdir(parents=True)
  for name, n in [(name, 10) for name in FIVE_BATCHES] + [
    ('test_batch.bin', 20)
  ]:
    images = rng.integers(0, 256, [n, 32, 32, 3], np.uint8)
    write_records(folder / name, np.arange(n) % 10, images)
  names = ['class%d' % i for i in range(10)]
  (folder / 'batches.meta.txt').write_text('\n'.join(names) + '\n')
  return tmp_path / 'data'


@pytest.fixture(scope='session')
def real_data():
  """DATA_DIR of the real pictures; skips where there are none."""
  data_dir = os.environ.get('CIFAR10_TEST_DATA')
  if not data_dir:
    pytest.skip('CIFAR10_TEST_DATA names no folder of real pictures')
  return data_dir
