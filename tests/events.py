"""What event files hold, for tests of what is written."""

import os

import tensorflow.compat.v1 as tf


def read(folder):
  """Returns the values of all event files of a folder, with their steps."""
  return [
    (event.step, value)
    for name in sorted(os.listdir(folder))
    if 'tfevents' in name
    for event in tf.train.summary_iterator(os.path.join(folder, name))
    for value in event.summary.value
  ]
