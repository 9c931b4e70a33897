"""Towers: a copy of the network on each device, and the mean of all of them."""

import logging

import tensorflow.compat.v1 as tf

from cifar10 import cifar10

log = logging.getLogger(__name__)


def devices(num_gpus):
  """Returns a device for each tower, and logs what runs where.

  Args:
    num_gpus: how many towers; None: no towers.

  Returns:
    A list of device strings; towers without a GPU are on the CPU. [None] for
    the plain network, which goes where TensorFlow puts it.
  """
  if num_gpus is None:
    return [None]
  found = len(tf.config.list_physical_devices('GPU'))
  names = ['/gpu:%d' % i if i < found else '/cpu:0' for i in range(num_gpus)]
  log.info('%d towers on %s (%d GPUs found)', num_gpus, ', '.join(names), found)
  return names


def build(batches, devices, **network):
  """Builds a tower on each device, and averages what they compute.

  Returns:
    The mean total loss, the means of its terms, the mean gradients.
  """
  tower_losses, tower_grads = [], []
  with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
    for i, (device, (images, labels)) in enumerate(zip(devices, batches)):
      name = '%s_%d' % (cifar10.TOWER_NAME, i)
      with tf.device(device), tf.name_scope(name) as scope:
        loss = tower_loss(scope, images, labels, summarize=i == 0, **network)
        variables = tf.trainable_variables()
        tower_losses.append([*tf.get_collection('losses', scope), loss])
        tower_grads.append(list(zip(tf.gradients(loss, variables), variables)))
  with tf.device('/cpu:0'), tf.name_scope('loss'):
    *losses, loss = [
      tf.reduce_mean(tf.stack(values), name=cifar10.loss_name(values[0]))
      for values in zip(*tower_losses)
    ]
  with tf.device('/cpu:0'), tf.name_scope('average_gradients'):
    return loss, losses, average_gradients(tower_grads)


def tower_loss(scope, images, labels, **network):
  """Returns the total loss of one tower.

  Args:
    scope: the tower's name scope, which tells its losses from the others'.
    images: float [batch, height, width, 3].
    labels: int32 [batch].
    **network: arguments of `cifar10.inference`.
  """
  logits = cifar10.inference(images, **network)
  return cifar10.loss(logits, labels, scope)


def average_gradients(tower_grads):
  """Averages each variable's gradient over the towers, which waits for all.

  Args:
    tower_grads: a list for each tower of (gradient, variable), all in the same
      order.

  Returns:
    A list of (mean gradient, variable).
  """
  return [
    (tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1])
    for pairs in zip(*tower_grads)
  ]
