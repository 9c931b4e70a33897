"""Data sets of folders of pictures, and folders of data sets."""

import collections
import errno
import os
import shutil

import numpy as np
import pytest
from pictures import write_folder, write_gif, write_records
from PIL import Image

from cifar10 import UsageError, datasets, folders, progress, records
from cifar10.archives import DataError

PETS = 'pets-batches-bin'


@pytest.fixture
def convert(tmp_path):
  """Converts `tmp_path / 'in'` to a data set called `pets`."""

  def function(**kwargs):
    folders.from_folder(
      str(tmp_path / 'in'), 'pets', str(tmp_path / 'data'), **kwargs
    )
    return tmp_path / 'data' / PETS

  return function


def read_split(tmp_path, split, name='pets', **kwargs):
  """Returns a list of (class name, pixels as bytes) of a data set."""
  split = datasets.load(name, str(tmp_path / 'data'), split, **kwargs)
  return [
    (split.class_names[label], pixels.tobytes())
    for label, pixels in records.read(split)
  ]


def as_pairs(written):
  return sorted(
    (name, pixels.tobytes()) for name in written for pixels in written[name]
  )


def test_train_and_test_folders(convert, tmp_path, rng):
  train = write_folder(tmp_path / 'in' / 'train', rng, dog=7, cat=6, newt=9)
  test = write_folder(tmp_path / 'in' / 'test', rng, dog=3, cat=1)
  folder = convert()
  assert sorted(path.name for path in folder.iterdir()) == [
    'batches.meta.txt',
    *('data_batch_%d.bin' % i for i in range(1, 6)),
    'test_batch.bin',
  ]
  assert (folder / 'batches.meta.txt').read_text() == 'cat\ndog\nnewt\n'
  sizes = [
    (folder / ('data_batch_%d.bin' % i)).stat().st_size for i in range(1, 6)
  ]
  assert sizes == [3073 * n for n in (5, 5, 4, 4, 4)]
  found = read_split(tmp_path, 'train')
  assert sorted(found) == as_pairs(train)
  assert [name for name, _ in found] != sorted(name for name, _ in found)
  assert sorted(read_split(tmp_path, 'test')) == as_pairs(test)
  assert os.listdir(tmp_path / 'data') == [PETS]


def test_a_record_is_the_label_and_the_planes(convert, tmp_path, rng):
  written = write_folder(tmp_path / 'in' / 'train', rng, a=1, b=1)
  write_folder(tmp_path / 'in' / 'test', rng, b=1)
  folder = convert()
  found = {(folder / ('data_batch_%d.bin' % i)).read_bytes() for i in (1, 2)}
  assert found == {
    bytes([label]) + written[name][0].transpose(2, 0, 1).tobytes()
    for label, name in enumerate('ab')
  }
  # Two records fill two files: an empty one would be refused.
  assert not (folder / 'data_batch_3.bin').exists()


@pytest.mark.parametrize('fraction, tests', [(None, 4), (0.5, 10), (0.01, 1)])
def test_a_part_of_each_class_is_for_testing(
  fraction, tests, convert, tmp_path, rng
):
  written = write_folder(tmp_path / 'in', rng, a=20, b=20, c=1, d=2)
  convert(test_fraction=fraction)
  train, test = (read_split(tmp_path, name) for name in ('train', 'test'))
  counts = collections.Counter(name for name, _ in test)
  assert counts == {'a': tests, 'b': tests, 'd': 1}
  assert sorted(train + test) == as_pairs(written)


def test_the_seed_says_which_and_in_which_order(tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=20, b=20)
  made = []
  for name, seed in (('x', 3), ('y', 3), ('z', 4)):
    folders.from_folder(
      str(tmp_path / 'in'), name, str(tmp_path / 'data'), seed=seed
    )
    made.append(
      [read_split(tmp_path, split, name) for split in ('train', 'test')]
    )
  assert made[0] == made[1]
  assert made[0][0] != made[2][0]
  assert sorted(made[0][1]) != sorted(made[2][1])


def test_pictures_of_every_kind_and_size(convert, tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=2, b=2)
  folder = tmp_path / 'in' / 'b'
  Image.new('L', (640, 480), 9).save(folder / 'x.jpg')
  Image.new('1', (5, 3)).save(folder / 'x.bmp')
  write_gif(folder / 'x.gif', (255, 0, 0), (0, 0, 255))
  convert()
  found = read_split(tmp_path, 'train') + read_split(tmp_path, 'test')
  assert len(found) == 7
  assert {bytes([9]) * 3072, bytes(3072)} <= {pixels for _, pixels in found}


def test_what_is_broken_is_said_skipped_and_counted(
  convert, tmp_path, rng, caplog
):
  written = write_folder(tmp_path / 'in' / 'train', rng, a=3, b=3)
  write_folder(tmp_path / 'in' / 'test', rng, a=1)
  broken = tmp_path / 'in' / 'train' / 'a' / '001.png'
  broken.write_bytes(broken.read_bytes()[:100])
  (tmp_path / 'in' / 'train' / 'a' / '.DS_Store').write_text('x')
  (tmp_path / 'in' / 'train' / 'b' / 'Thumbs.db').write_text('x')
  (tmp_path / 'in' / 'train' / 'notes.txt').write_text('x')
  del written['a'][1]
  with caplog.at_level('INFO', 'cifar10'):
    convert()
  said = caplog.text
  assert '%s: cannot be read: ' % broken in said
  assert 'Thumbs.db: no picture of a kind' in said
  assert 'notes.txt: in no class folder: skipped' in said
  assert '.DS_Store' not in said
  assert '2 classes: a 3, b 3' in said
  assert 'No picture of the class b is there to evaluate on' in said
  assert caplog.messages[-1] == '3 of 9 files skipped: see above'
  assert sorted(read_split(tmp_path, 'train')) == as_pairs(written)


def _classes(count):
  return {'c%03d' % i: 1 for i in range(count)}


def test_256_classes(convert, tmp_path, rng):
  write_folder(tmp_path / 'in' / 'train', rng, **_classes(256))
  write_folder(tmp_path / 'in' / 'test', rng, c255=1)
  convert()
  assert read_split(tmp_path, 'test')[0][0] == 'c255'
  names = [name for name, _ in read_split(tmp_path, 'train')]
  assert sorted(names) == sorted(_classes(256))


def _no_folder(folder, rng):
  pass


def _a_file(folder, rng):
  folder.write_text('x')


def _empty(folder, rng):
  folder.mkdir()


def _no_classes(folder, rng):
  _empty(folder, rng)
  Image.new('RGB', (8, 8)).save(folder / 'x.png')


def _one_class(folder, rng):
  write_folder(folder, rng, a=3)


def _257_classes(folder, rng):
  write_folder(folder, rng, **_classes(257))


def _an_empty_class(folder, rng):
  write_folder(folder, rng, a=3, b=0)


def _only_broken(folder, rng):
  write_folder(folder, rng, a=3, b=0)
  for i in range(3):
    (folder / 'b' / str(i)).write_text('x')


def _only_test(folder, rng):
  write_folder(folder / 'test', rng, a=3, b=3)


def _a_class_only_tested(folder, rng):
  write_folder(folder / 'train', rng, a=3, b=3)
  write_folder(folder / 'test', rng, a=3, z=3)


def _a_third_split(folder, rng):
  write_folder(folder / 'train', rng, a=3, b=3)
  write_folder(folder / 'val', rng, a=3, b=3)


def _no_tests(folder, rng):
  write_folder(folder / 'train', rng, a=1, b=1)


def _a_name_of_two_lines(folder, rng):
  write_folder(folder, rng, **{'a\nb': 3, 'c': 3})


@pytest.mark.parametrize(
  'make, status, said',
  [
    (_no_folder, 2, 'no such folder'),
    (_a_file, 2, 'no such folder'),
    (_empty, 1, 'holds folders for 0 classes'),
    (_no_classes, 1, 'holds folders for 0 classes'),
    (_one_class, 1, 'holds folders for 1 classes'),
    (_257_classes, 1, 'holds folders for 257 classes'),
    (_an_empty_class, 1, 'in/b holds no file'),
    (_only_broken, 1, 'no picture of the class b can be read'),
    (_only_test, 1, 'no train/'),
    (_a_class_only_tested, 1, 'test/z: a class without pictures in train/'),
    (_a_third_split, 1, 'holds val/ beside train/'),
    (_no_tests, 1, 'there is no picture to evaluate on'),
    (_a_name_of_two_lines, 1, "'a\\nb' cannot be a class name"),
  ],
)
def test_what_makes_no_data_set(make, status, said, convert, tmp_path, rng):
  make(tmp_path / 'in', rng)
  with pytest.raises((DataError, UsageError)) as raised:
    convert()
  assert said in str(raised.value)
  assert '\n' not in str(raised.value)
  assert raised.value.exit_status == status
  assert not (tmp_path / 'data').exists() or not os.listdir(tmp_path / 'data')


def test_a_test_folder_and_a_fraction_exclude_each_other(
  convert, tmp_path, rng
):
  write_folder(tmp_path / 'in' / 'train', rng, a=3, b=3)
  write_folder(tmp_path / 'in' / 'test', rng, a=3, b=3)
  with pytest.raises(UsageError, match='--test_fraction=0.1'):
    convert(test_fraction=0.1)


def test_what_is_broken_counts_for_no_split(convert, tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=10, b=2)
  for i in range(10):
    (tmp_path / 'in' / 'b' / ('broken%d' % i)).write_text('x')
  for seed in range(3):
    convert(seed=seed, test_fraction=0.5)
    for split in ('train', 'test'):
      names = [name for name, _ in read_split(tmp_path, split)]
      assert collections.Counter(names) == {'a': 5, 'b': 1}
    shutil.rmtree(tmp_path / 'data')


def test_the_data_set_may_go_into_the_folder_of_pictures(tmp_path, rng):
  written = write_folder(tmp_path / 'data', rng, a=3, b=3)
  folders.from_folder(str(tmp_path / 'data'), 'pets', str(tmp_path / 'data'))
  found = read_split(tmp_path, 'train') + read_split(tmp_path, 'test')
  assert sorted(found) == as_pairs(written)


def test_files_beside_train_are_named(convert, tmp_path, rng, caplog):
  write_folder(tmp_path / 'in' / 'train', rng, a=3, b=3)
  Image.new('RGB', (8, 8)).save(tmp_path / 'in' / 'stray.png')
  convert()
  assert 'in/stray.png: in no class folder: skipped' in caplog.text


def test_a_class_folder_that_cannot_be_read(
  convert, tmp_path, rng, monkeypatch
):
  write_folder(tmp_path / 'in', rng, a=3, b=3)
  scandir = os.scandir

  def closed(path):
    if str(path).endswith('in/b'):
      raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return scandir(path)

  monkeypatch.setattr(os, 'scandir', closed)
  with pytest.raises(DataError, match='in/b cannot be read: Permission denied'):
    convert()


@pytest.mark.parametrize(
  'name', ['cifar10', 'cifar100', 'sample', 'cifar-10', '../x', '']
)
def test_a_name_that_cannot_be_had(name, tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=3, b=3)
  with pytest.raises(UsageError, match='--dataset=%s: ' % name):
    folders.from_folder(str(tmp_path / 'in'), name, str(tmp_path / 'data'))


def test_a_name_that_is_taken(convert, tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=3, b=3)
  folder = convert()
  before = {p: p.read_bytes() for p in folder.iterdir()}
  with pytest.raises(UsageError, match='pets-batches-bin is there already'):
    convert(seed=1)
  assert {p: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
  'error', [KeyboardInterrupt, OSError(errno.ENOSPC, '')]
)
def test_what_fails_leaves_nothing(error, convert, tmp_path, rng, monkeypatch):
  write_folder(tmp_path / 'in', rng, a=3, b=3)
  shown = []

  class Line:
    def __init__(self, what, total):
      pass

    def __enter__(self):
      return self.show

    def __exit__(self, *_):
      pass

    def show(self, done):
      shown.append(done)
      if done == 4:
        raise error

  monkeypatch.setattr(progress, 'line', Line)
  with pytest.raises(
    KeyboardInterrupt if error is KeyboardInterrupt else DataError
  ):
    convert()
  assert shown == [1, 2, 3, 4]
  assert os.listdir(tmp_path / 'data') == []


def test_there_and_back_again(tmp_path, rng):
  folder = tmp_path / 'data' / PETS
  folder.mkdir(parents=True)
  names = ['cat', 'red fox', 'übergroß']
  (folder / 'batches.meta.txt').write_text('\n'.join(names), encoding='utf-8')
  for name, n in (('data_batch_1.bin', 23), ('test_batch.bin', 6)):
    images = rng.integers(0, 256, [n, 32, 32, 3], np.uint8)
    write_records(folder / name, np.arange(n) % 3, images)
  out = tmp_path / 'out'
  folders.to_folder(str(out), 'pets', str(tmp_path / 'data'))
  assert sorted(os.listdir(out)) == ['test', 'train']
  assert sorted(os.listdir(out / 'train')) == names
  assert sorted(os.listdir(out / 'test' / 'cat')) == ['00000.png', '00003.png']
  folders.from_folder(str(out), 'again', str(tmp_path / 'data'))
  for split in ('train', 'test'):
    assert sorted(read_split(tmp_path, split, 'again')) == sorted(
      read_split(tmp_path, split)
    )


def test_a_folder_that_is_there_is_not_written_to(small_data, tmp_path):
  out = tmp_path / 'out'
  out.mkdir()
  (out / 'mine').write_text('x')
  with pytest.raises(UsageError, match='is there already'):
    folders.to_folder(str(out), 'small', str(small_data))
  (out / 'mine').unlink()
  folders.to_folder(str(out), 'small', str(small_data))
  assert sorted(os.listdir(out)) == ['test', 'train']


@pytest.mark.parametrize('name', ['a/b', '..', '.hidden', 'c', 'x' * 256])
def test_class_names_that_no_folder_can_have(name, small_data, tmp_path):
  names = small_data / 'small-batches-bin' / 'batches.meta.txt'
  names.write_text('\n'.join([name, *'bcdefghij']))
  with pytest.raises(DataError, match='class name'):
    folders.to_folder(str(tmp_path / 'out'), 'small', str(small_data))
  assert not (tmp_path / 'out').exists()


@pytest.mark.data
def test_real_pictures_there_and_back_again(real_data, tmp_path):
  source = tmp_path / 'data' / PETS
  source.mkdir(parents=True)
  for name in ('data_batch_1.bin', 'test_batch.bin', 'batches.meta.txt'):
    os.symlink(
      os.path.join(real_data, 'cifar-10-batches-bin', name), source / name
    )
  folders.to_folder(str(tmp_path / 'out'), 'pets', str(tmp_path / 'data'))
  folders.from_folder(str(tmp_path / 'out'), 'again', str(tmp_path / 'data'))
  for split in ('train', 'test'):
    found = read_split(tmp_path, split, 'again')
    assert len(found) == 10000
    assert sorted(found) == sorted(read_split(tmp_path, split))


def test_single_records_of_several_files(tmp_path, rng):
  folder = tmp_path / 'pets-batches-bin'
  folder.mkdir()
  images = rng.integers(0, 256, [12, 32, 32, 3], np.uint8)
  write_records(folder / 'data_batch_1.bin', [0] * 5, images[:5])
  write_records(folder / 'data_batch_2.bin', [1] * 1, images[5:6])
  write_records(folder / 'data_batch_3.bin', [0] * 6, images[6:])
  (folder / 'batches.meta.txt').write_text('a\nb\n')
  split = datasets.load('pets', str(tmp_path), 'train')
  order = [11, 0, 4, 5, 6, 5]
  assert np.array_equal(records.pick(split, order), images[order])
  assert records.pick(split, []).shape == (0, 32, 32, 3)
