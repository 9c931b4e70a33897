"""What every test may use."""

import contextlib
import dataclasses
import hashlib
import os
import tarfile

import data_sets
import numpy as np
import pytest
import servers
import tensorflow.compat.v1 as tf
from pictures import write_records
from processes import run

from cifar10 import archives, datasets

# As the scripts have it: deprecation warnings are no news to anybody.
tf.logging.set_verbosity(tf.logging.ERROR)


@pytest.fixture
def rng():
  return np.random.default_rng(0)


@pytest.fixture
def small_data(tmp_path, rng):
  """DATA_DIR of a data set called `small`: 50 training, 20 test examples."""
  folder = tmp_path / 'data' / 'small-batches-bin'
  folder.mkdir(parents=True)
  for name, n in [(name, 10) for name in data_sets.TRAIN_FILES] + [
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


@pytest.fixture
def folder(tmp_path):
  """A small CIFAR-10."""
  folder = tmp_path / 'cifar-10-batches-bin'
  data_sets.write_cifar10(folder)
  return folder


@pytest.fixture
def own(tmp_path):
  """A data set of one's own, with three classes."""
  folder = tmp_path / 'pets-batches-bin'
  data_sets.write_records(folder / 'data_batch_1.bin', 0, 1, 2)
  data_sets.write_records(folder / 'test_batch.bin', 2)
  (folder / 'batches.meta.txt').write_text('cat\n\n  dog \nred fox\n\n')
  return folder


@pytest.fixture
def published(tmp_path, monkeypatch):
  """An archive that stands for the published one, placed by hand."""
  folder = tmp_path / 'published' / 'cifar-10-batches-bin'
  data_sets.write_cifar10(folder)
  path = tmp_path / 'cifar-10-binary.tar.gz'
  with tarfile.open(path, 'w:gz') as tar:
    tar.add(folder, folder.name)
  spec = datasets.SPECS['cifar10']
  digest = hashlib.sha256(path.read_bytes()).hexdigest()
  archive = archives.Archive(spec.archive.url, path.stat().st_size, digest)
  spec = dataclasses.replace(spec, archive=archive)
  monkeypatch.setitem(datasets.SPECS, 'cifar10', spec)
  return path


@pytest.fixture
def small_run(small_data, tmp_path):
  """Flags of a training run that takes little time."""
  return {
    'data_dir': small_data,
    'dataset': 'small',
    'train_dir': tmp_path / 'run',
    'batch_size': 4,
  }


@pytest.fixture
def no_proxy(monkeypatch):
  monkeypatch.setenv('no_proxy', '127.0.0.1')


@pytest.fixture
def serve(no_proxy):
  """Returns a function that starts a server, to be stopped after the test."""
  with contextlib.ExitStack() as stack:
    yield lambda reply: stack.enter_context(servers.running(reply))


@pytest.fixture(scope='session')
def sample(tmp_path_factory):
  """Flags that name the sample set, drawn once."""
  data_dir = tmp_path_factory.mktemp('data')
  for is_drawn in (False, True):
    out, err = run('prepare_data', action='sample', data_dir=data_dir)
    assert out[0].startswith('10000 train examples in %s' % data_dir)
    assert out[1].startswith('2000 test examples in %s' % data_dir)
    assert is_drawn or err == ['Drawing the sample data set in %s' % data_dir]
  return {'data_dir': data_dir, 'dataset': 'sample'}


@pytest.fixture
def sample_run(tmp_path, sample):
  """Flags of a training run that takes little time."""
  return {**sample, 'train_dir': tmp_path / 'run', 'batch_size': 16}
