"""Small data sets on disk, and how loading them is refused."""

import pytest

from cifar10 import UsageError, datasets

TRAIN_FILES = ['data_batch_%d.bin' % i for i in range(1, 6)]


def write_records(path, *labels):
  """Writes a record for each label: an int, or one int for each label byte."""
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(
    b''.join(
      bytes([label] if isinstance(label, int) else label) + bytes(3072)
      for label in labels
    )
  )


def write_cifar10(folder):
  """Writes training files of two records and a test file of three."""
  for name in TRAIN_FILES:
    write_records(folder / name, 0, 9)
  write_records(folder / 'test_batch.bin', 1, 2, 3)


def write_cifar100(folder):
  """Writes a training file of two records and a test file of one."""
  write_records(folder / 'train.bin', (19, 0), (0, 99))
  write_records(folder / 'test.bin', (11, 42))


def refusal(name, data_dir, split='train', kind=datasets.DataError):
  """Returns the one line with which loading ends."""
  with pytest.raises(kind) as raised:
    datasets.load(name, str(data_dir), split)
  assert raised.value.exit_status == (2 if kind is UsageError else 1)
  message = str(raised.value)
  assert '\n' not in message
  return message
