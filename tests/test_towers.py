"""Towers: their mean, and where they are."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import towers


def towers_on(inputs, num_towers):
  """Returns loss and gradients of towers, from the same initial weights."""
  with tf.Graph().as_default():
    tf.set_random_seed(3)
    batches = [
      (tf.constant(images, tf.float32), tf.constant(labels))
      for images, labels in inputs
    ]
    loss, losses, gradients = towers.build(
      batches, ['/cpu:0'] * num_towers, num_classes=10, use_fp16=False
    )
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      return session.run([loss, losses, [g for g, _ in gradients]])


@pytest.fixture
def batch(rng):
  images = rng.normal(size=[8, 24, 24, 3]).astype(np.float32)
  return images, rng.integers(0, 10, 8).astype(np.int32)


def test_towers_on_the_same_batch_equal_one(batch):
  one = towers_on([batch], 1)
  three = towers_on([batch] * 3, 3)
  np.testing.assert_allclose(one[0], three[0], rtol=1e-6)
  for a, b in zip(one[2], three[2]):
    np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(a).max())


def test_gradients_of_two_towers_equal_those_of_one_larger_batch(batch):
  images, labels = batch
  whole = towers_on([batch], 1)
  halves = towers_on([(images[:4], labels[:4]), (images[4:], labels[4:])], 2)
  np.testing.assert_allclose(whole[0], halves[0], rtol=1e-5)
  np.testing.assert_allclose(whole[1], halves[1], rtol=1e-5)
  for a, b in zip(whole[2], halves[2]):
    np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(a).max())


def test_average_gradients():
  with tf.Graph().as_default(), tf.Session() as session:
    v = tf.get_variable('v', [2])
    w = tf.get_variable('w', [])
    averaged = towers.average_gradients(
      [
        [(tf.constant([1.0, 2.0]), v), (tf.constant(3.0), w)],
        [(tf.constant([3.0, -2.0]), v), (tf.constant(6.0), w)],
      ]
    )
    assert [variable for _, variable in averaged] == [v, w]
    first, second = session.run([gradient for gradient, _ in averaged])
  assert first.tolist() == [2.0, 0.0]
  assert second == 4.5


def test_tower_devices_without_gpus(caplog):
  caplog.set_level('INFO')
  assert towers.devices(None) == [None]
  assert not caplog.messages
  assert towers.devices(2) == ['/cpu:0', '/cpu:0']
  assert caplog.messages == ['2 towers on /cpu:0, /cpu:0 (0 GPUs found)']
