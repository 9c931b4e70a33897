"""Tests of what the input makes of pixels: reading, distortions, draws."""

import contextlib
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import open_session, random_images, standardized, write_records

from cifar10 import cifar10_input

# One of each end of every range, and the middle: 72 sets of draws.
EXTREMES = list(
  itertools.product(
    [0, 8], [0, 8], [False, True], [-63.0, 0.5, 63.0], [0.2, 1.0, 1.8]
  )
)


def _distorted(images, draws):
  """Runs `_distort` on arrays; `draws` are tuples in `_Distortions`' order."""
  y, x, flip, brightness, contrast = zip(*draws)
  with tf.Graph().as_default(), tf.Session() as session:
    result = cifar10_input._distort(
      tf.constant(images.transpose(0, 3, 1, 2)),
      cifar10_input._Distortions(
        tf.constant(y),
        tf.constant(x),
        tf.constant(flip),
        tf.constant(brightness),
        tf.constant(contrast),
      ),
    )
    return session.run(result)


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


def test_distortions_equal_the_stock_operations():
  images = random_images(len(EXTREMES))
  found = _distorted(images, EXTREMES)
  assert found.dtype == np.float32
  with tf.Graph().as_default(), tf.Session() as session:
    image = tf.placeholder(tf.uint8, [32, 32, 3])
    types = [tf.int32, tf.int32, tf.bool, tf.float32, tf.float32]
    draws = [tf.placeholder(dtype, []) for dtype in types]
    y, x, flip, brightness, contrast = draws
    cropped = tf.image.crop_to_bounding_box(
      tf.cast(image, tf.float32), y, x, 24, 24
    )
    flipped = tf.cond(
      flip, lambda: tf.image.flip_left_right(cropped), lambda: cropped
    )
    brightened = tf.image.adjust_brightness(flipped, brightness)
    result = tf.image.per_image_standardization(
      tf.image.adjust_contrast(brightened, contrast)
    )
    for i, values in enumerate(EXTREMES):
      feed = {image: images[i], **dict(zip(draws, values))}
      expected = session.run(result, feed)
      np.testing.assert_allclose(found[i], expected, atol=1e-4)


def test_distortions_equal_the_formula():
  images = random_images(len(EXTREMES), seed=1)
  found = _distorted(images, EXTREMES)
  for i, (y, x, flip, brightness, contrast) in enumerate(EXTREMES):
    window = images[i, y : y + 24, x : x + 24].astype(np.float64)
    window = (window[:, ::-1] if flip else window) + brightness
    mean = window.mean(axis=(0, 1))
    expected = standardized(((window - mean) * contrast + mean)[None])[0]
    np.testing.assert_allclose(found[i], expected, atol=1e-4)


@pytest.mark.parametrize('level', [0, 101, 255])
def test_a_blank_picture_becomes_zero(level):
  images = np.full([len(EXTREMES), 32, 32, 3], level, np.uint8)
  found = _distorted(images, EXTREMES)
  assert np.isfinite(found).all()
  # What is left is the rounding of the mean, times sqrt(1728).
  assert np.abs(found).max() < 5e-3


def test_a_picture_does_not_change_its_neighbours():
  images = random_images(len(EXTREMES))
  before = _distorted(images, EXTREMES)
  images[5] = 255 - images[5] // 2
  after = _distorted(images, EXTREMES)
  assert np.abs(after[5] - before[5]).max() > 0.1
  np.testing.assert_array_equal(
    np.delete(after, 5, axis=0), np.delete(before, 5, axis=0)
  )


@pytest.fixture(scope='module')
def many_draws():
  """Two runs of 20,000 draws each."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(0)
    draws = cifar10_input._draw_distortions(20000)
    return [session.run(draws) for _ in range(2)]


def test_distributions_of_the_draws(many_draws):
  draws = many_draws[0]
  offsets = 9 * draws.offset_y + draws.offset_x
  counts = np.bincount(offsets, minlength=81)
  assert len(counts) == 81 and {*draws.offset_y} == {*range(9)}
  # Within 5 standard deviations (16) of 20000 / 81.
  assert counts.min() > 167 and counts.max() < 327
  assert draws.flip.dtype == bool and abs(draws.flip.mean() - 0.5) < 0.02
  for values, low, high in (
    (draws.brightness, -63, 63),
    (draws.contrast, 0.2, 1.8),
  ):
    width = high - low
    assert low <= values.min() < low + 0.01 * width
    assert high - 0.01 * width < values.max() < high
    assert abs(values.mean() - (low + high) / 2) < 0.01 * width
    assert abs(values.std() - width / 12**0.5) < 0.01 * width


def test_draws_are_independent(many_draws):
  first, second = (np.array(draws, np.float64) for draws in many_draws)
  # The five of a picture, those of its neighbour and those of the next batch.
  rows = np.concatenate([first[:, :-1], first[:, 1:], second[:, :-1]])
  correlations = np.corrcoef(rows) - np.eye(15)
  assert np.abs(correlations).max() < 0.03
