"""Tests of what is on disk: finding it, checking it, drawing it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from data_sets import (
  TRAIN_FILES,
  refusal,
  write_cifar10,
  write_cifar100,
  write_records,
)

from cifar10 import Error, UsageError, archives, datasets, sample

PROGRAM = 'import sys, cifar10.datasets; print("tensorflow" in sys.modules)'


def names_of(split):
  return [os.path.basename(path) for path in split.files]


@pytest.fixture(scope='module')
def drawn(tmp_path_factory):
  """DATA_DIR and training split of a sample data set, drawn once."""
  data_dir = tmp_path_factory.mktemp('data')
  return data_dir, datasets.load('sample', str(data_dir), 'train')


def test_import_loads_no_tensorflow():
  result = subprocess.run(
    [sys.executable, '-c', PROGRAM],
    cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    capture_output=True,
    text=True,
  )
  assert (result.stdout, result.stderr) == ('False\n', '')


def test_errors_are_ours():
  assert issubclass(datasets.DataError, Error)
  assert datasets.DataError is archives.DataError


@pytest.mark.parametrize(
  'name, folder, record_bytes, num_classes',
  [
    ('cifar10', 'cifar-10-batches-bin', 3073, 10),
    ('cifar100', 'cifar-100-binary', 3074, 100),
    ('sample', 'sample-batches-bin', 3073, 10),
    ('pets', 'pets-batches-bin', 3073, 0),
    ('my_pets-2.0', 'my_pets-2.0-batches-bin', 3073, 0),
  ],
)
def test_specs(name, folder, record_bytes, num_classes):
  spec = datasets.find_spec(name)
  assert spec.name == name
  assert spec.folder == folder
  assert spec.record_bytes == record_bytes
  assert len(spec.class_names) == num_classes
  assert spec.drawn == (name == 'sample')


def test_registry_is_keyed_by_name():
  assert list(datasets.SPECS) == ['cifar10', 'cifar100', 'sample']
  assert all(name == spec.name for name, spec in datasets.SPECS.items())


def test_published_archives():
  url = 'https://www.cs.toronto.edu/~kriz/'
  assert datasets.SPECS['cifar10'].archive == archives.Archive(
    url + 'cifar-10-binary.tar.gz',
    170052171,
    'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd',
  )
  assert datasets.SPECS['cifar100'].archive == archives.Archive(
    url + 'cifar-100-binary.tar.gz',
    168513733,
    '58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec',
  )


def test_cifar10_class_names():
  assert ' '.join(datasets.SPECS['cifar10'].class_names) == (
    'airplane automobile bird cat deer dog frog horse ship truck'
  )


def test_cifar100_class_names():
  names = datasets.SPECS['cifar100'].class_names
  assert len(set(names)) == 100
  # The publisher numbers the fine classes in alphabetical order.
  assert list(names) == sorted(names)
  assert (names[0], names[41], names[99]) == ('apple', 'lawn_mower', 'worm')


def test_cifar100_coarse_class_names():
  spec = datasets.find_spec('cifar100', 'coarse')
  names = spec.class_names
  assert len(set(names)) == 20
  assert list(names) == sorted(names)
  assert (names[0], names[9], names[19]) == (
    'aquatic_mammals',
    'large_man-made_outdoor_things',
    'vehicles_2',
  )
  assert spec.names_file == 'coarse_label_names.txt'
  assert (spec.record_bytes, spec.label_index) == (3074, 0)


@pytest.mark.parametrize('name', ['cifar10', 'sample', 'mine'])
def test_only_cifar100_has_coarse_labels(name):
  with pytest.raises(UsageError, match='--label=coarse: --dataset=%s' % name):
    datasets.find_spec(name, 'coarse')


@pytest.mark.parametrize(
  'name', ['', '.', '..', '../x', 'a/b', '/a', '.x', '-x', 'a b', 'a\n', 'a\0']
)
def test_names_that_are_no_part_of_a_path_are_refused(name):
  with pytest.raises(
    UsageError, match='(?s)--dataset=.*: a name holds letters'
  ):
    datasets.find_spec(name)


@pytest.mark.parametrize('data_dir', ['', 'cifar-10-batches-bin'])
def test_data_dir_is_above_the_files_or_holds_them(folder, tmp_path, data_dir):
  split = datasets.load('cifar10', str(tmp_path / data_dir), 'train')
  assert split.spec is datasets.SPECS['cifar10']
  assert split.files == tuple(str(folder / name) for name in TRAIN_FILES)
  assert split.num_examples == 10
  assert split.num_classes == 10
  assert split.class_names == datasets.SPECS['cifar10'].class_names


def test_data_dir_may_look_like_a_pattern(tmp_path):
  data_dir = tmp_path / 'a[b]*?'
  write_cifar10(data_dir / 'cifar-10-batches-bin')
  assert datasets.load('cifar10', str(data_dir)).num_examples == 10
  assert refusal('pets', data_dir, kind=UsageError)


def test_every_data_batch_is_read_in_numeric_order(folder, tmp_path):
  write_records(folder / 'data_batch_10.bin', 4)
  write_records(folder / 'data_batch_6.bin', 5, 6, 7)
  write_records(folder / 'other.bin', 255)
  split = datasets.load('cifar10', str(tmp_path), 'train')
  assert names_of(split) == TRAIN_FILES + [
    'data_batch_6.bin',
    'data_batch_10.bin',
  ]
  assert split.num_examples == 14


def test_evaluation_needs_only_the_files_it_reads(folder, tmp_path):
  for name in TRAIN_FILES:
    (folder / name).unlink()
  split = datasets.load('cifar10', str(tmp_path), 'test')
  assert names_of(split) == ['test_batch.bin']
  assert split.num_examples == 3


def test_training_needs_no_test_file(folder, tmp_path):
  (folder / 'test_batch.bin').unlink()
  assert datasets.load('cifar10', str(tmp_path), 'train').num_examples == 10
  message = refusal('cifar10', tmp_path, 'test')
  assert message.startswith('%s is missing' % (folder / 'test_batch.bin'))


def test_cifar100(tmp_path):
  folder = tmp_path / 'cifar-100-binary'
  write_cifar100(folder)
  train = datasets.load('cifar100', str(tmp_path), 'train')
  assert train.files == (str(folder / 'train.bin'),)
  assert (train.num_examples, train.num_classes) == (2, 100)
  test = datasets.load('cifar100', str(tmp_path), 'test')
  assert test.files == (str(folder / 'test.bin'),)
  assert test.num_examples == 1
  coarse = datasets.load('cifar100', str(tmp_path), 'test', label='coarse')
  assert (coarse.files, coarse.num_classes) == (test.files, 20)


def test_a_coarse_label_out_of_range(tmp_path):
  path = tmp_path / 'cifar-100-binary' / 'test.bin'
  write_records(path, (19, 99), (20, 0))
  assert datasets.load('cifar100', str(tmp_path), 'test').num_examples == 2
  with pytest.raises(datasets.DataError, match='record 1 has label 20'):
    datasets.load('cifar100', str(tmp_path), 'test', label='coarse')


def test_own_data_set(own, tmp_path):
  split = datasets.load('pets', str(tmp_path), 'train')
  assert split.class_names == ('cat', 'dog', 'red fox')
  assert split.num_classes == 3
  assert split.num_examples == 3
  test = datasets.load('pets', str(tmp_path), 'test')
  assert test.class_names == split.class_names
  assert test.num_examples == 1


def test_names_file_goes_before_what_is_known(folder, tmp_path):
  (folder / 'batches.meta.txt').write_bytes(b'a\r\nb\r\n' + b'c\r\n' * 8)
  split = datasets.load('cifar10', str(tmp_path))
  assert split.class_names == ('a', 'b') + ('c',) * 8


def test_names_file_may_begin_with_a_byte_order_mark(own, tmp_path):
  text = '\ufeffK\u00e4fer\nb\nc\n'
  (own / 'batches.meta.txt').write_text(text, encoding='utf-8')
  split = datasets.load('pets', str(tmp_path))
  assert split.class_names == ('K\u00e4fer', 'b', 'c')


@pytest.mark.skipif(os.geteuid() != 0, reason='only root may become another')
def test_the_folder_of_another_data_set_is_not_taken_for_this_one(own):
  with pytest.raises(UsageError, match='data set pets: say --dataset=pets'):
    datasets.load('cifar10', str(own))


def test_data_sets_that_are_there_are_named(own, tmp_path, serve, caplog):
  with pytest.raises(UsageError, match='which holds pets; name its --data_dir'):
    datasets.load('pest', str(tmp_path))
  with caplog.at_level('INFO', 'cifar10'):
    datasets.load('sample', str(tmp_path))
  assert caplog.messages[0] == (
    '--dataset=sample is not in %s, which holds pets' % tmp_path
  )


def test_a_read_only_folder_will_do(folder, tmp_path):
  for parent in (tmp_path, *tmp_path.parents[:2]):
    parent.chmod(0o755)
  os.seteuid(65534)
  try:
    assert not os.access(tmp_path, os.W_OK, effective_ids=True)
    assert datasets.load('cifar10', str(tmp_path)).num_examples == 10
  finally:
    os.seteuid(0)


def test_data_dir_is_the_archive(published, monkeypatch):
  monkeypatch.chdir(published.parent)
  name = published.name
  with pytest.raises(datasets.DataError, match='no .bin file'):
    datasets.load('cifar10', name, fetch=False)
  for data_dir in (name, published, name):
    assert datasets.load('cifar10', str(data_dir)).num_examples == 10
  assert sorted(os.listdir()) == [
    'cifar-10-batches-bin',
    'cifar-10-binary.tar.gz',
    'published',
  ]


def test_sample_is_drawn(drawn):
  data_dir, train = drawn
  test = datasets.load('sample', str(data_dir), 'test')
  assert names_of(train) == TRAIN_FILES
  assert names_of(test) == ['test_batch.bin']
  assert (train.num_examples, test.num_examples) == (10000, 2000)
  assert train.class_names == test.class_names == sample.CLASS_NAMES
  assert [path.name for path in data_dir.iterdir()] == ['sample-batches-bin']


def test_sample_is_balanced_and_named(drawn):
  folder = drawn[0] / 'sample-batches-bin'
  for path in folder.glob('*.bin'):
    labels = np.fromfile(path, np.uint8).reshape(-1, 3073)[:, 0]
    assert (np.bincount(labels) == [200] * 10).all()
  text = (folder / 'batches.meta.txt').read_text()
  assert tuple(text.splitlines()) == sample.CLASS_NAMES


def test_sample_is_drawn_once(drawn):
  data_dir, train = drawn
  times = [os.stat(path).st_mtime_ns for path in train.files]
  assert datasets.load('sample', str(data_dir), 'train') == train
  assert [os.stat(path).st_mtime_ns for path in train.files] == times


def test_sample_is_the_same_everywhere(tmp_path, monkeypatch):
  monkeypatch.setattr(datasets, '_SAMPLES_PER_FILE', 20)
  spec = datasets.SPECS['sample']
  contents = []
  for data_dir in (tmp_path / 'a', tmp_path / 'b'):
    folder = datasets.prepare(spec, str(data_dir))
    assert folder == str(data_dir / spec.folder)
    paths = (data_dir / spec.folder).iterdir()
    contents.append({path.name: path.read_bytes() for path in paths})
  assert contents[0] == contents[1]
  # No two files alike.
  assert len(set(contents[0].values())) == len(contents[0]) == 7


@pytest.mark.data
def test_published_files():
  data_dir = os.environ.get('CIFAR10_TEST_DATA', '')
  if not os.path.isdir(os.path.join(data_dir, 'cifar-10-batches-bin')):
    pytest.skip('CIFAR10_TEST_DATA names no folder of the real pictures')
  train = datasets.load('cifar10', data_dir, 'train')
  test = datasets.load('cifar10', data_dir, 'test')
  assert (train.num_examples, test.num_examples) == (50000, 10000)
  assert names_of(train) == TRAIN_FILES
  assert train.class_names == datasets.SPECS['cifar10'].class_names


def test_somebody_elses_bin_file_in_data_dir_is_not_the_data_set(tmp_path):
  (tmp_path / 'firmware.bin').write_bytes(b'mine')
  split = datasets.load('sample', str(tmp_path), 'test')
  assert split.files == (
    str(tmp_path / 'sample-batches-bin' / 'test_batch.bin'),
  )
  assert (tmp_path / 'firmware.bin').read_bytes() == b'mine'
