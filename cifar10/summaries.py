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


def _add(summary):
  tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
  return summary
