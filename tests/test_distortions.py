"""Distortions, against stock operations and their definition; and draws."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import random_images, standardized

from cifar10 import distortions

# One of each end of every range, and the middle: 72 sets of draws.
EXTREMES = list(
  itertools.product(
    [0, 8], [0, 8], [False, True], [-63.0, 0.5, 63.0], [0.2, 1.0, 1.8]
  )
)


def _distorted(images, draws):
  """Runs `apply` on arrays; `draws` are tuples in `Distortions`' order."""
  y, x, flip, brightness, contrast = zip(*draws)
  with tf.Graph().as_default(), tf.Session() as session:
    result, _ = distortions.apply(
      tf.constant(images.transpose(0, 3, 1, 2)),
      distortions.Distortions(
        tf.constant(y),
        tf.constant(x),
        tf.constant(flip),
        tf.constant(brightness),
        tf.constant(contrast),
      ),
    )
    return session.run(result)


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
    draws = distortions.draw(20000)
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


def test_a_person_sees_the_distorted_picture():
  images = random_images(len(EXTREMES), seed=2)
  images[3] = 77  # one that is blank
  y, x, flip, brightness, contrast = map(np.array, zip(*EXTREMES))
  with tf.Graph().as_default(), tf.Session() as session:
    draws = distortions.Distortions(
      y, x, flip, brightness.astype('f'), contrast.astype('f')
    )
    planes = tf.constant(images.transpose(0, 3, 1, 2))
    seen = session.run(distortions.undo(*distortions.apply(planes, draws)))
  assert seen.dtype == np.uint8
  for i in range(len(EXTREMES)):
    window = images[i, y[i] : y[i] + 24, x[i] : x[i] + 24].astype(np.float64)
    window = (window[:, ::-1] if flip[i] else window) + brightness[i]
    mean = window.mean(axis=(0, 1))
    expected = ((window - mean) * contrast[i] + mean).clip(0, 255)
    # A half may be rounded either way.
    np.testing.assert_allclose(seen[i], expected, atol=0.51)


@pytest.mark.parametrize('image_size', [1, 24, 31, 32])
def test_a_person_sees_the_middle_of_a_picture(image_size):
  images = random_images(3)
  top = (32 - image_size) // 2
  with tf.Graph().as_default(), tf.Session() as session:
    windows = distortions.central_windows(tf.constant(images), image_size)
    standard, levels = distortions.standardize(windows)
    crops = distortions.central_crops(tf.constant(images), image_size)
    seen, standard, crops = session.run(
      [distortions.undo(standard, levels), standard, crops]
    )
  expected = images[:, top : top + image_size, top : top + image_size]
  np.testing.assert_array_equal(seen, expected)
  np.testing.assert_array_equal(standard, crops)
  np.testing.assert_allclose(standard, standardized(expected), atol=1e-4)
