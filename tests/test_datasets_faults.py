"""Data that cannot be used: refused in one line that says what and where."""

import os
import subprocess
import sys

import pytest
from data_sets import (
  TRAIN_FILES,
  refusal,
  write_cifar100,
  write_records,
)

from cifar10 import UsageError, datasets


@pytest.mark.parametrize('name', TRAIN_FILES)
def test_missing_training_file_is_named(folder, tmp_path, name):
  (folder / name).unlink()
  message = refusal('cifar10', tmp_path, 'train')
  assert message.startswith('%s is missing' % (folder / name))
  assert 'to have all files made anew' in message


@pytest.mark.parametrize('name', ['train.bin', 'test.bin'])
def test_missing_cifar100_file_is_named(tmp_path, name):
  folder = tmp_path / 'cifar-100-binary'
  write_cifar100(folder)
  (folder / name).unlink()
  message = refusal('cifar100', tmp_path, os.path.splitext(name)[0])
  assert message.startswith('%s is missing' % (folder / name))


@pytest.mark.parametrize(
  'content, reason',
  [
    (None, 'is missing: write the class names there, one a line'),
    (b'', 'names no class'),
    (b'\n \n', 'names no class'),
    ('K\u00e4fer\n'.encode('latin-1'), 'cannot be read as UTF-8 text'),
  ],
)
def test_unusable_names_file(own, tmp_path, content, reason):
  path = own / 'batches.meta.txt'
  path.unlink()
  if content is not None:
    path.write_bytes(content)
  assert refusal('pets', tmp_path).startswith('%s %s' % (path, reason))


@pytest.mark.parametrize('make', [os.mkdir, os.mkfifo])
def test_names_file_that_is_no_file(make, own, tmp_path):
  path = own / 'batches.meta.txt'
  path.unlink()
  make(path)
  assert refusal('pets', tmp_path).startswith('%s cannot be read' % path)


def test_own_data_set_without_training_files(own, tmp_path):
  (own / 'data_batch_1.bin').unlink()
  message = refusal('pets', tmp_path)
  assert message == '%s holds no data_batch_*.bin to train on' % own


def test_own_data_set_cannot_be_made_anew(own, tmp_path):
  (own / 'test_batch.bin').unlink()
  message = refusal('pets', tmp_path, 'test')
  assert message.startswith('%s is missing' % (own / 'test_batch.bin'))
  assert message.endswith('put it back')


@pytest.mark.parametrize('split', ['train', 'test'])
def test_unknown_data_set(tmp_path, split):
  data_dir = tmp_path / 'data'
  message = refusal('pets', data_dir, split, UsageError)
  assert '--dataset=pets' in message
  assert str(data_dir / 'pets-batches-bin') in message
  assert 'or make it first (prepare_data.py --action=from_folder)' in message
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('num_bytes', [0, 1, 3072, 3074, 2 * 3073 - 1])
@pytest.mark.parametrize('name', ['data_batch_4.bin', 'data_batch_6.bin'])
def test_cut_file_is_named(folder, tmp_path, name, num_bytes):
  (folder / name).write_bytes(bytes(num_bytes))
  message = refusal('cifar10', tmp_path)
  assert message.startswith('%s has %d bytes' % (folder / name, num_bytes))
  assert '3073 bytes each: the binary version is wanted, https' in message
  # The files that this split does not read are not looked at.
  assert datasets.load('cifar10', str(tmp_path), 'test').num_examples == 3


def test_layouts_are_not_mixed_up(folder, tmp_path):
  write_records(folder / 'test_batch.bin', (0, 1), (2, 3))
  message = refusal('cifar10', tmp_path, 'test')
  assert '%s has 6148 bytes' % (folder / 'test_batch.bin') in message
  assert 'cifar10 records of 3073 bytes' in message
  write_records(folder / 'test.bin', 0, 1)
  message = refusal('cifar100', folder, 'test', kind=UsageError)
  assert message.endswith(
    'is the folder of the data set cifar10: say --dataset=cifar10'
  )
  message = refusal('cifar100', folder.rename(tmp_path / 'any'), 'test')
  assert '%s has 6146 bytes' % (tmp_path / 'any' / 'test.bin') in message
  assert 'cifar100 records of 3074 bytes' in message


def test_a_data_sets_own_folder_is_not_filled_from_within(tmp_path):
  folder = tmp_path / 'sample-batches-bin'
  assert 'holds no .bin file' in refusal('sample', folder)
  with pytest.raises(datasets.DataError, match='holds no .bin file'):
    datasets.load('sample', str(tmp_path), fetch=False)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', ['data_batch_1.bin', 'data_batch_7.bin'])
def test_folder_in_place_of_a_file(folder, tmp_path, name):
  (folder / name).unlink(missing_ok=True)
  (folder / name).mkdir()
  message = refusal('cifar10', tmp_path)
  assert message.startswith('%s is not a file' % (folder / name))


def test_link_to_nowhere_in_place_of_a_file(folder, tmp_path):
  (folder / 'data_batch_7.bin').symlink_to(tmp_path / 'gone')
  message = refusal('cifar10', tmp_path)
  assert message.startswith('%s is not a file' % (folder / 'data_batch_7.bin'))


@pytest.mark.parametrize('what', ['file', 'folder'])
def test_unreadable(folder, tmp_path, what):
  if os.geteuid():
    pytest.skip('another user can be taken by root alone')
  path = folder / 'data_batch_3.bin' if what == 'file' else folder
  for parent in (tmp_path, *tmp_path.parents[:2]):
    parent.chmod(0o755)
  path.chmod(0)
  os.seteuid(65534)
  try:
    message = refusal('cifar10', tmp_path)
  finally:
    os.seteuid(0)
  if what == 'file':
    assert message == (
      '%s of 6146 bytes cannot be read: Permission denied: make it readable'
      % path
    )
  else:
    assert message.startswith('%s cannot be read: Permission denied: ' % path)


@pytest.mark.parametrize(
  'suffix, version', [('', 'Python'), ('.mat', 'MATLAB')]
)
@pytest.mark.parametrize('where', ['cifar-10-batches-bin', ''])
def test_other_versions_of_the_data_set(tmp_path, suffix, version, where):
  path = tmp_path / where / ('data_batch_1' + suffix)
  path.parent.mkdir(exist_ok=True)
  for name in [*TRAIN_FILES, 'test_batch.bin']:
    (path.parent / name).with_suffix(suffix).write_bytes(b'x')
  message = refusal('cifar10', tmp_path)
  assert message.startswith('%s is of the %s version' % (path, version))
  assert message.endswith('kriz/cifar-10-binary.tar.gz')


def test_data_dir_is_another_file(published, tmp_path):
  path = tmp_path / 'x'
  path.write_text('')
  message = refusal('cifar10', path, kind=UsageError)
  assert message.startswith('--data_dir=%s: not a folder, nor the ' % path)
  message = refusal('sample', path, kind=UsageError)
  assert message == '--data_dir=%s: not a folder' % path


def test_data_dir_that_cannot_be_written_to(tmp_path):
  message = refusal('sample', '/proc/1/x')
  assert 'cannot be put into /proc/1/x/sample-batches-bin: ' in message
  path = tmp_path / ('x' * 300)
  assert refusal('sample', path).endswith('or name another --data_dir')


def test_disk_full_while_the_sample_is_drawn(tmp_path):
  code = (
    'import resource, signal, sys\n'
    'from cifar10 import Error, datasets\n'
    'resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n'
    'try:\n'
    '  datasets.load("sample", sys.argv[1])\n'
    'except Error as e:\n'
    '  print(e)\n'
  )
  words = [sys.executable, '-c', code, str(tmp_path)]
  out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
  assert out.endswith(
    'name a --data_dir that has space and can be written to\n'
  )
  assert str(tmp_path) in out
  assert not list(tmp_path.iterdir())


def test_labels_that_begin_at_1(folder, tmp_path):
  write_records(folder / 'data_batch_2.bin', *range(1, 11))
  assert refusal('cifar10', tmp_path).endswith(
    'record 9 has label 10, labels go '
    'from 0 to 9: here they seem to begin at 1, subtract that'
  )


@pytest.mark.parametrize('label', [10, 255])
def test_label_out_of_range(folder, tmp_path, label):
  write_records(folder / 'data_batch_5.bin', 9, 0, label, 0, 77)
  assert refusal('cifar10', tmp_path) == (
    '%s: record 2 has label %d, labels go from 0 to 9'
    % (folder / 'data_batch_5.bin', label)
  )


def test_fine_label_is_the_second_byte(tmp_path):
  path = tmp_path / 'cifar-100-binary' / 'train.bin'
  write_records(path, (0, 99), (1, 100))
  assert refusal('cifar100', tmp_path) == (
    '%s: record 1 has label 100, labels go from 0 to 99' % path
  )


def test_label_without_a_name(own, tmp_path):
  write_records(own / 'test_batch.bin', 3)
  assert refusal('pets', tmp_path, 'test') == (
    '%s: record 0 has label 3, labels go from 0 to 2' % (own / 'test_batch.bin')
  )


def test_incomplete_sample_is_not_drawn_over(tmp_path):
  folder = tmp_path / 'sample-batches-bin'
  write_records(folder / 'data_batch_1.bin', 0)
  message = refusal('sample', tmp_path)
  assert message.startswith('%s is missing' % (folder / 'data_batch_2.bin'))
  assert [path.name for path in folder.iterdir()] == ['data_batch_1.bin']


@pytest.mark.parametrize('name', ['cifar10', 'cifar100'])
def test_wrong_archive_placed_by_hand(tmp_path, name):
  archive = datasets.SPECS[name].archive
  path = tmp_path / archive.filename
  path.write_bytes(b'not it')
  message = refusal(name, tmp_path)
  assert message.startswith('%s is not the published archive' % path)
  assert 'it has 6 bytes, not %d' % archive.num_bytes in message
  assert list(tmp_path.iterdir()) == [path]
