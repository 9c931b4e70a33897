"""Pictures of an evaluation: what they show is where it should be."""

import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import random_images

from cifar10 import plots


def _pixels(image):
  """Decodes a `tf.Summary.Image`; its size must be what it says."""
  pixels = tf.io.decode_png(image.encoded_image_string).numpy()
  assert pixels.shape == (image.height, image.width, image.colorspace)
  return pixels


@pytest.mark.parametrize('n', [2, 10, 100, 256])
def test_a_confusion_matrix_has_room_for_its_counts(n):
  matrix = np.diag(np.full(n, 900))
  matrix[0, 1] = matrix[1, 0] = 90
  names = ['class number %d' % i for i in range(n)]
  pixels = _pixels(plots.confusion_matrix(matrix, names, 'title'))
  # Cells on the diagonal are dark, and they alone: as many rows as classes.
  dark = (pixels[..., 2] > 80) & (pixels[..., 0] < 40)
  rows = dark.sum(axis=1) > 8
  height = rows.sum() / n
  assert height >= (25 if n <= 100 else 12)
  assert pixels.shape[0] < 40 * n + 900


def test_names_that_are_no_formulas_and_of_any_script():
  names = ['$x_1', '\u732b', 'a' * 200]
  pixels = _pixels(plots.confusion_matrix(np.eye(3, dtype=int), names, '$'))
  assert pixels.shape[1] < 700


@pytest.mark.parametrize('n', [1, 5, 6, 25])
def test_mistakes_are_shown_as_they_are(n):
  images = random_images(n) // 8 * 8
  captions = [plots.caption('cat', '$dog', 0.5)] * n
  pixels = _pixels(plots.mistakes(images, captions, 'title'))[..., :3]
  shown = {tuple(colour) for colour in pixels.reshape(-1, 3)}
  for image in images:
    colours = {tuple(colour) for colour in image.reshape(-1, 3)}
    assert len(colours & shown) > 0.95 * len(colours)


def test_without_matplotlib_one_line_says_so(monkeypatch, caplog):
  caplog.set_level('INFO')
  monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
  plots.available.cache_clear()
  assert not plots.available()
  assert not plots.available()
  plots.available.cache_clear()
  (message,) = caplog.messages
  assert 'pip install' in message
