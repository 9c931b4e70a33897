"""`read_cifar10`: single records, byte for byte."""

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import open_session, random_images, write_records

from cifar10 import cifar10_input


def _read_all(files, **kwargs):
  """Returns keys, labels and pictures that `read_cifar10` yields."""
  with tf.Graph().as_default():
    queue = tf.train.string_input_producer(
      [str(path) for path in files], num_epochs=1, shuffle=False
    )
    record = cifar10_input.read_cifar10(queue, **kwargs)
    assert (record.height, record.width, record.depth) == (32, 32, 3)
    assert record.label.shape == [1] and record.label.dtype == tf.int32
    assert record.uint8image.shape == [32, 32, 3]
    assert record.key.shape == [] and record.uint8image.dtype == tf.uint8
    examples = []
    fetches = [record.key, record.label, record.uint8image]
    with (
      open_session() as session,
      contextlib.suppress(tf.errors.OutOfRangeError),
    ):
      while True:
        examples.append(session.run(fetches))
  keys, labels, images = zip(*examples)
  return [key.decode() for key in keys], np.stack(labels), np.stack(images)


def test_read_cifar10_byte_for_byte(tmp_path):
  # Two records tell every position apart: its low byte and its high byte.
  positions = np.arange(3072)
  low, high = (bytes(list(part)) for part in divmod(positions, 256)[::-1])
  path = tmp_path / 'two.bin'
  path.write_bytes(b'\x07' + low + b'\xff' + high)
  keys, labels, images = _read_all([path])
  assert keys == ['%s:0' % path, '%s:1' % path]
  assert labels.tolist() == [[7], [255]]
  y, x, depth = np.mgrid[:32, :32, :3]
  found = images[0] + 256 * images[1].astype(int)
  np.testing.assert_array_equal(found, 1024 * depth + 32 * y + x)


@pytest.mark.parametrize('label_bytes,label_index', [(1, 0), (2, 0), (2, 1)])
def test_read_cifar10_several_files(tmp_path, label_bytes, label_index):
  images = random_images(5)
  labels = np.arange(10, dtype=np.uint8).reshape(5, 2)[:, :label_bytes]
  files = [tmp_path / 'b.bin', tmp_path / 'a.bin']
  write_records(files[0], labels[:2], images[:2])
  write_records(files[1], labels[2:], images[2:])
  found = _read_all(files, label_bytes=label_bytes, label_index=label_index)
  numbers = ['b.bin:0', 'b.bin:1', 'a.bin:0', 'a.bin:1', 'a.bin:2']
  assert found[0] == ['%s/%s' % (tmp_path, number) for number in numbers]
  np.testing.assert_array_equal(found[1][:, 0], labels[:, label_index])
  np.testing.assert_array_equal(found[2], images)
