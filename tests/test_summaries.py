"""Tests of summaries: tags are exact, and values come through."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import summaries


def _values(summary_op):
  """Runs a summary operation; returns its values by tag."""
  with tf.Session() as session:
    summary = tf.Summary.FromString(session.run(summary_op))
  return {value.tag: value for value in summary.value}


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as graph:
    yield graph


@pytest.mark.parametrize('scope', [None, 'tower_0'])
@pytest.mark.parametrize('tag', ['total_loss', 'conv1/weights', 'a (raw) b'])
def test_tags_are_exact(tag, scope):
  if tag != 'a (raw) b':
    tf.constant(1.0, name=tag)
  with tf.name_scope(scope):
    tf.constant(1.0, name='total_loss')
    made = [
      summaries.scalar(tag, tf.constant(2.0)),
      summaries.histogram(tag, tf.constant([1.0, 2.0])),
      summaries.image(tag, tf.zeros([1, 4, 4, 3]), max_images=1),
    ]
  tags = [list(_values(summary)) for summary in made]
  assert tags == [[tag], [tag], [tag + '/image']]
  assert tf.get_collection(tf.GraphKeys.SUMMARIES) == made


def test_merging_all_of_them():
  summaries.scalar('a', 1.5)
  with tf.name_scope('scope'):
    summaries.scalar('b', -2.5)
    summaries.histogram('c', [1.0])
  values = _values(tf.summary.merge_all())
  assert {*values} == {'a', 'b', 'c'}
  assert values['a'].simple_value == 1.5
  assert values['b'].simple_value == -2.5


@pytest.mark.parametrize('dtype', [np.float32, np.float16, np.int64])
def test_histogram_values(dtype):
  numbers = np.array([[-3, 0, 1], [2, 2, 7]], dtype)
  summaries.histogram('numbers', tf.constant(numbers))
  found = _values(tf.summary.merge_all())['numbers'].histo
  assert (found.min, found.max, found.num) == (-3, 7, 6)
  assert (found.sum, found.sum_squares) == (9, 67)
  assert sum(found.bucket) == 6


@pytest.mark.parametrize('depth', [3, 10, 64, 192, 384])
def test_a_large_histogram_counts_every_channel_alike(depth):
  numbers = np.tile(np.arange(depth, dtype=np.float32), 900000 // depth)
  summaries.histogram('numbers', tf.constant(numbers.reshape(-1, depth)))
  found = _values(tf.summary.merge_all())['numbers'].histo
  assert (found.min, found.max) == (0, depth - 1)
  assert 50000 < found.num < 131072
  assert found.sum / found.num == pytest.approx((depth - 1) / 2, rel=0.01)
  expected = (depth**2 - 1) / 12
  variance = found.sum_squares / found.num - (found.sum / found.num) ** 2
  assert variance == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
  'size,count', [(0, 0), (1, 1), (131071, 131071), (131072, 18725)]
)
def test_how_many_values_a_histogram_counts(size, count):
  # Also where the graph does not know how many there are, as in evaluation.
  numbers = tf.placeholder(tf.float32, [None, 1])
  op = summaries.histogram('numbers', numbers)
  with tf.Session() as session:
    serialized = session.run(op, {numbers: np.ones([size, 1])})
  (value,) = tf.Summary.FromString(serialized).value
  assert value.histo.num == count


@pytest.mark.parametrize('max_images,count', [(2, 2), (3, 3), (9, 5)])
def test_image_sizes(max_images, count):
  pictures = np.zeros([5, 6, 4, 3], np.uint8)
  summaries.image('pictures', tf.constant(pictures), max_images)
  values = _values(tf.summary.merge_all())
  assert {*values} == {'pictures/image/%d' % i for i in range(count)}
  for value in values.values():
    image = value.image
    assert (image.height, image.width, image.colorspace) == (6, 4, 3)


def test_image_pixels():
  pictures = np.arange(2 * 6 * 4 * 3, dtype=np.uint8).reshape(2, 6, 4, 3)
  op = summaries.image('pictures', tf.constant(pictures))
  values = _values(op)
  with tf.Session() as session:
    for i in range(2):
      png = values['pictures/image/%d' % i].image.encoded_image_string
      decoded = session.run(tf.image.decode_png(png))
      np.testing.assert_array_equal(decoded, pictures[i])


@pytest.mark.parametrize('n', [1, 6, 64])
def test_kernels_in_a_grid(n):
  rng = np.random.default_rng(n)
  kernels = rng.normal(size=[5, 4, 3, n]).astype(np.float32)
  kernels[2, 3, 1, n // 2] = 10  # the largest, which is white in its colour
  kernels[0, 0, 0, 0] = 0
  summaries.filters('conv1/filters', tf.constant(kernels))
  values = _values(tf.summary.merge_all())
  png = values['conv1/filters/image'].image.encoded_image_string
  with tf.Session() as session:
    pixels = session.run(tf.image.decode_png(png))
  columns = int(np.ceil(n**0.5))
  for i in range(n):
    row, column = divmod(i, columns)
    y, x = 8 * (1 + 6 * row), 8 * (1 + 5 * column)
    found = pixels[y : y + 40 : 8, x : x + 32 : 8]
    np.testing.assert_allclose(
      found, 127.5 + 12.75 * kernels[..., i], atol=0.51
    )
    assert (pixels[y - 8, x : x + 32] == 255).all()  # the line above it
  assert pixels.shape[1] == 8 * 5 * columns
