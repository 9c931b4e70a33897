"""Normalization and its gradient, beside stock TensorFlow and float64 numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import cifar10, lrn

PARAMETERS = [
  cifar10.LRN,
  {'depth_radius': 5, 'bias': 1.0, 'alpha': 1.0, 'beta': 0.5},
  {'depth_radius': 1, 'bias': 2.0, 'alpha': 0.3, 'beta': 0.75},
  {'depth_radius': 2, 'bias': 0.5, 'alpha': 1e-4, 'beta': 1.25},
  {'depth_radius': 0, 'bias': 1.0, 'alpha': 0.1, 'beta': 0.75},
  {'depth_radius': 100, 'bias': 1.0, 'alpha': 0.01, 'beta': 0.75},
]


def window_sum(values, radius):
  """Sums over windows along the last axis, one channel at a time."""
  channels = values.shape[-1]
  return np.stack(
    [
      values[..., max(0, i - radius) : i + radius + 1].sum(-1)
      for i in range(channels)
    ],
    axis=-1,
  )


def numpy_lrn(x, g, depth_radius, bias, alpha, beta):
  """Returns y, and the gradient of sum(g y) with respect to x, in float64."""
  x, g = x.astype(np.float64), g.astype(np.float64)
  s = bias + alpha * window_sum(x**2, depth_radius)
  y = x * s**-beta
  sums = window_sum(g * y / s, depth_radius)
  return y, g * s**-beta - 2 * alpha * beta * x * sums


def run(normalize, x, g):
  """Returns y and its gradient; not of constants, which would be folded."""
  with tf.Graph().as_default(), tf.Session() as session:
    inputs = tf.placeholder(x.dtype, x.shape)
    y = normalize(inputs)
    (dx,) = tf.gradients(y, inputs, tf.constant(g))
    return session.run([y, dx], {inputs: x})


def assert_close(actual, expected, tolerance=1e-5):
  for a, e in zip(actual, expected):
    assert np.isfinite(a).all()
    limit = tolerance * np.abs(e).max()
    np.testing.assert_allclose(a.astype(np.float64), e, rtol=0, atol=limit)


@pytest.mark.parametrize('parameters', PARAMETERS)
@pytest.mark.parametrize('depth', [1, 7, 64])
def test_forward_and_gradient(parameters, depth, rng):
  shape = [2, 3, 4, depth]
  x = rng.normal(size=shape, scale=5).astype(np.float32)
  g = rng.normal(size=shape).astype(np.float32)
  ours = run(lrn.compiled(**parameters), x, g)
  assert_close(ours, numpy_lrn(x, g, **parameters))
  assert_close(ours, run(lambda x: tf.nn.lrn(x, **parameters), x, g))


@pytest.mark.parametrize('slope', [1, 1e-5, 1e5])
@pytest.mark.parametrize('scale', [0, 1e-30, 1e-5, 1e4, 1e8, 1e15, 1e18])
def test_extreme_inputs(scale, slope, rng):
  shape = [2, 2, 2, 64]
  x = (scale * rng.normal(size=shape)).astype(np.float32)
  x[0, 0, 0, ::2] = 0
  g = (slope * rng.normal(size=shape)).astype(np.float32)
  ours = run(lrn.compiled(**cifar10.LRN), x, g)
  assert_close(ours, run(lambda x: tf.nn.lrn(x, **cifar10.LRN), x, g))
  assert_close(ours, numpy_lrn(x, g, **cifar10.LRN))


def test_float16_is_as_exact_as_its_type(rng):
  x = rng.normal(size=[2, 3, 3, 64], scale=3).astype(np.float16)
  g = rng.normal(size=x.shape).astype(np.float16)
  ours = run(lrn.compiled(**cifar10.LRN), x, g)
  assert ours[0].dtype == ours[1].dtype == np.float16
  assert_close(ours, numpy_lrn(x, g, **cifar10.LRN), tolerance=1e-3)


def test_the_size_that_trains_with_a_batch_not_known_beforehand(rng):
  x = rng.normal(size=[128, 12, 12, 64]).astype(np.float32)
  g = rng.normal(size=x.shape).astype(np.float32)
  with tf.Graph().as_default(), tf.Session() as session:
    inputs = tf.placeholder(tf.float32, [None, 12, 12, 64])
    y = lrn.compiled(**cifar10.LRN)(inputs)
    assert y.shape.as_list() == [None, 12, 12, 64]
    (dx,) = tf.gradients(y, [inputs], tf.constant(g[:3]))
    for batch in (3, 3):
      actual = session.run([y, dx], {inputs: x[:batch]})
      assert_close(actual, numpy_lrn(x[:3], g[:3], **cifar10.LRN))
    (actual,) = session.run([y], {inputs: x})
    assert_close([actual], numpy_lrn(x, g, **cifar10.LRN)[:1])


def test_two_layers_share_a_function_and_chain_gradients(rng):
  x = rng.normal(size=[2, 3, 3, 16], scale=4).astype(np.float32)
  g = rng.normal(size=x.shape).astype(np.float32)
  normalize = lrn.compiled(**cifar10.LRN)

  def twice(normalize):
    return lambda x: normalize(2 * normalize(x))

  assert_close(
    run(twice(normalize), x, g),
    run(twice(lambda x: tf.nn.lrn(x, **cifar10.LRN)), x, g),
  )
  with tf.Graph().as_default() as graph:
    inputs = tf.constant(x)
    tf.gradients(twice(lrn.compiled(**cifar10.LRN))(inputs), inputs)
    calls = [
      op.get_attr('f').name
      for op in graph.get_operations()
      if op.type.endswith('PartitionedCall')
    ]
  assert len(calls) == 4
  assert len(set(calls)) == 2


def test_devices():
  with tf.Graph().as_default() as graph:
    x = tf.zeros([1, 2, 2, 8])
    for device in ('/gpu:0', '/job:worker/device:GPU:1'):
      with tf.device(device):
        y = lrn.compiled(**cifar10.LRN)(x, name='norm')
        assert y.op.type == 'LRN'
        assert 'GPU' in y.op.device
    with tf.device('/cpu:0'):
      lrn.compiled(**cifar10.LRN)(x, name='norm')
    # A machine without GPUs runs what no scope places on its CPU.
    lrn.compiled(**cifar10.LRN)(x, name='norm')
    types = [op.type for op in graph.get_operations()]
    assert types.count('LRN') == 2
    assert sum(type.endswith('PartitionedCall') for type in types) == 2
