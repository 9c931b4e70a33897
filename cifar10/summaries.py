"""Summaries under exact tags.

`tf.summary.scalar` and its kin name the summary after the operation that they
make, so a tag that is also an operation's name gets a `_1`, and a tag within a
name scope gets the scope. TensorBoard groups charts by tag, so tags are a
format: these functions write the very tag that they are given. What they make
is added to the collection `tf.GraphKeys.SUMMARIES`.
"""

import math

import tensorflow.compat.v1 as tf

# What the stride aims at; a histogram counts from 18,725 to 131,071 values.
_NUM_COUNTED = 65536

# Pixels of a picture for each weight of a kernel.
_FILTER_SCALE = 8

# What to add to a stride, by its remainder of 30, to have no factor in common
# with 30. Axes of the network's sizes have the factors 2, 3 and 5: a stride
# that shared one would pass over some channels.
_TO_COPRIME = [
  next(extra for extra in range(30) if math.gcd(remainder + extra, 30) == 1)
  for remainder in range(30)
]


def scalar(tag, value):
  """Adds a scalar summary of `value` (float32, shape [])."""
  return _add(tf.raw_ops.ScalarSummary(tags=tag, values=value))


def histogram(tag, values):
  """Adds a histogram summary of `values` (real, any shape).

  Of more than 131,071 values, evenly spaced ones are counted: an op that looks
  at each of seven million costs as much as five steps of training. Such a share
  of a distribution's mass is within a percentage point of the true one.
  """
  values = tf.reshape(values, [-1])
  size = tf.size(values, out_type=tf.int64)
  stride = tf.maximum(size // _NUM_COUNTED, 1)
  stride += tf.gather(tf.constant(_TO_COPRIME, tf.int64), stride % 30)
  return _add(tf.raw_ops.HistogramSummary(tag=tag, values=values[::stride]))


def image(tag, images, max_images=3):
  """Adds a summary of the first pictures of `images`.

  Args:
    tag: the tag; TensorBoard shows `tag/image/0` and so on.
    images: float32 or uint8 [batch, height, width, 1, 3 or 4]. Floats are
      scaled, picture by picture, to the range that can be shown.
    max_images: how many, at least 2 for tags that end in a number.
  """
  return _add(
    tf.raw_ops.ImageSummary(tag=tag, tensor=images, max_images=max_images)
  )


def filters(tag, kernels):
  """Adds a picture of a convolution's kernels, all of them in one grid.

  They share one scale: grey is zero, the largest weight of all is black or
  white, in each of the three colours.

  Args:
    tag: the tag; TensorBoard shows `tag/image`.
    kernels: float32 [height, width, 3, n]; static.
  """
  height, width, depth, n = kernels.shape.as_list()
  columns = math.ceil(n**0.5)
  rows = math.ceil(n / columns)
  limit = tf.maximum(tf.reduce_max(tf.abs(kernels)), 1e-12)
  levels = tf.round(127.5 + 127.5 * kernels / limit)
  # A line between them, above and to the left of each.
  levels = tf.pad(
    tf.transpose(levels, [3, 0, 1, 2]),
    [[0, rows * columns - n], [1, 0], [1, 0], [0, 0]],
    constant_values=255,
  )
  grid = tf.reshape(levels, [rows, columns, height + 1, width + 1, depth])
  grid = tf.reshape(
    tf.transpose(grid, [0, 2, 1, 3, 4]),
    [1, rows * (height + 1), columns * (width + 1), depth],
  )
  size = [_FILTER_SCALE * side for side in grid.shape.as_list()[1:3]]
  grid = tf.image.resize_nearest_neighbor(grid, size)
  return image(tag, tf.cast(grid, tf.uint8), max_images=1)


def _add(summary):
  tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
  return summary
