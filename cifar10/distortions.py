"""What is done to pictures: distortions for training, crops for evaluation.

Work is done on whole batches, yet every picture draws its own crop, flip,
brightness and contrast.
"""

import collections

import tensorflow.compat.v1 as tf

from cifar10 import specs

IMAGE_SIZE = 24

# The tutorial's distortions, in units of grey levels (0-255) and as a factor.
MAX_BRIGHTNESS_DELTA = 63.0
CONTRAST_RANGE = (0.2, 1.8)

Distortions = collections.namedtuple(
  'Distortions', 'offset_y offset_x flip brightness contrast'
)


def planes_to_pixels(planes):
  """Turns [n, depth, height, width] into [n, height, width, depth]."""
  return tf.transpose(planes, [0, 2, 3, 1])


def draw(n, image_size=IMAGE_SIZE):
  """Draws what happens to each of `n` pictures, independently of the others."""
  num_offsets = specs.HEIGHT - image_size + 1
  return Distortions(
    offset_y=tf.random_uniform([n], 0, num_offsets, tf.int32),
    offset_x=tf.random_uniform([n], 0, num_offsets, tf.int32),
    flip=tf.random_uniform([n]) < 0.5,
    brightness=tf.random_uniform(
      [n], -MAX_BRIGHTNESS_DELTA, MAX_BRIGHTNESS_DELTA
    ),
    contrast=tf.random_uniform([n], *CONTRAST_RANGE),
  )


def apply(planes, draws, image_size=IMAGE_SIZE):
  """Crops, flips, brightens, changes contrast, and standardizes.

  Rows are cropped by a gather; the rest is one function that XLA compiles: one
  pass over the pictures instead of ten.

  Args:
    planes: uint8 [n, 3, height, width].
    draws: `Distortions`: the crop's first row and column (int32 [n]), whether
      to flip (bool [n]), the grey levels to add and the factor of contrast
      (float32 [n]).
    image_size: height and width of the crop.

  Returns:
    images: float32 [n, image_size, image_size, 3], standardized.
    levels: what `undo` needs, float32 [n, 2].
  """
  steps = tf.range(image_size)
  rows = draws.offset_y[:, None] + steps
  columns = draws.offset_x[:, None] + tf.where_v2(
    draws.flip[:, None], steps[::-1], steps
  )
  finish = tf.function(_apply_to_rows, jit_compile=True, autograph=False)
  return finish(
    tf.gather(planes, rows, axis=2, batch_dims=1),
    columns,
    draws.brightness,
    draws.contrast,
  )


def _apply_to_rows(rows, columns, brightness, contrast):
  """Does what is left of `apply` once the rows are cropped.

  Args:
    rows: uint8 [n, 3, image_size, width].
    columns: int32 [n, image_size], the columns to take, in this order.
    brightness: float32 [n], grey levels to add.
    contrast: float32 [n], factor of contrast.
  """
  n, depth, height, width = rows.shape.as_list()
  # Columns are taken by a product with ones and zeros, which is exact, and
  # faster than moving pixels one by one (benchmarks/README.md).
  taken = tf.equal(tf.range(width)[:, None], columns[:, None, :])
  planes = tf.matmul(
    tf.reshape(tf.to_float(rows), [n, depth * height, width]),
    tf.to_float(taken),
  )
  planes = tf.reshape(planes, [n, depth, height, columns.shape[1]])
  # The tutorial's step, which the standardization below takes out again.
  planes += brightness[:, None, None, None]
  # Contrast is about the mean of each channel of each picture.
  mean = tf.reduce_mean(planes, [2, 3], keepdims=True)
  planes = (planes - mean) * contrast[:, None, None, None] + mean
  return standardize(planes_to_pixels(planes))


def standardize(images):
  """Standardizes each picture, and says how to undo that.

  Args:
    images: float32 [n, height, width, 3], grey levels.

  Returns:
    images: float32 [n, height, width, 3], of mean 0 and variance 1.
    levels: float32 [n, 2], the mean and the divisor of each picture.
  """
  mean, variance = tf.nn.moments(images, [1, 2, 3])
  # The divisor of per_image_standardization: it divides by no zero.
  size = images.shape[1:].num_elements()
  divisor = tf.maximum(tf.sqrt(variance), size**-0.5)
  standardized = tf.image.per_image_standardization(images)
  return standardized, tf.stack([mean, divisor], axis=1)


def undo(images, levels):
  """Returns standardized pictures as people would see them: uint8.

  Args:
    images, levels: what `standardize` returned.
  """
  mean, divisor = (levels[:, i, None, None, None] for i in range(2))
  shown = tf.round(images * divisor + mean)
  return tf.cast(tf.clip_by_value(shown, 0.0, 255.0), tf.uint8)


def central_windows(images, image_size=IMAGE_SIZE):
  """Returns the middle of pictures, float32, of uint8 [n, 32, 32, 3]."""
  top = (specs.HEIGHT - image_size) // 2
  window = images[:, top : top + image_size, top : top + image_size]
  return tf.to_float(window)


def central_crops(images, image_size=IMAGE_SIZE):
  """Returns what evaluation shows the network of each picture.

  Args:
    images: uint8 [n, 32, 32, 3].
    image_size: height and width of the crop, at most 32.

  Returns:
    float32 [n, image_size, image_size, 3], standardized.
  """
  windows = central_windows(images, image_size)
  return tf.image.per_image_standardization(windows)
