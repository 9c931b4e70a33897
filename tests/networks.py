"""Checkpoints written with plain stock ops: none of the package's code."""

import numpy as np
import tensorflow.compat.v1 as tf

SHAPES = {
  'conv1': ([5, 5, 3, 64], [64]),
  'conv2': ([5, 5, 64, 64], [64]),
  'local3': ([2304, 384], [384]),
  'local4': ([384, 192], [192]),
  'softmax_linear': ([192, 10], [10]),
}


def shapes(num_classes=10, image_size=24):
  """Returns the shapes of weights and biases of each layer, by name."""
  pooled = (image_size + 3) // 4  # twice half of it, rounded up
  return {
    **SHAPES,
    'local3': ([64 * pooled**2, 384], [384]),
    'softmax_linear': ([192, num_classes], [num_classes]),
  }


def _save(directory, step, values, averages):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.Variable(np.int64(step), name='global_step')
    for name, (value, average) in values.items():
      tf.Variable(value, name=name)
      if averages:
        tf.Variable(average, name=name + '/ExponentialMovingAverage')
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, str(directory / 'model.ckpt'), step)


def save_constant_network(directory, answer, step, averages=True):
  """Saves weights whose moving averages always answer one class.

  The weights themselves answer another class, so who restores those is found
  out.
  """
  values = {}
  for layer, kinds in SHAPES.items():
    for kind, shape in zip(('weights', 'biases'), kinds):
      value = np.zeros(shape, np.float32)
      if layer == 'softmax_linear' and kind == 'biases':
        value[(answer + 1) % 10] = 1
      values['%s/%s' % (layer, kind)] = value, np.roll(value, -1)
  return _save(directory, step, values, averages)


def save_random_network(directory, step=7, num_classes=10, image_size=24):
  """Saves moving averages that tell pictures apart; the weights are zeros."""
  rng = np.random.default_rng(step)
  values = {}
  for layer, kinds in shapes(num_classes, image_size).items():
    for kind, shape in zip(('weights', 'biases'), kinds):
      deviation = (2 / np.prod(shape[:-1])) ** 0.5 if kind == 'weights' else 0.1
      if layer == 'softmax_linear':
        deviation /= 4  # logits of a few units, which float32 has to 1e-6
      average = rng.normal(0, deviation, shape).astype(np.float32)
      values['%s/%s' % (layer, kind)] = np.zeros_like(average), average
  return _save(directory, step, values, averages=True)
