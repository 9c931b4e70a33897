"""The same work as the package's, built from stock TensorFlow ops.

These are the other sides of `bench.py`: the tutorial's input, one example at a
time through `tf.train.shuffle_batch`; the same distortions in `tf.data`; and
`tf.nn.lrn`. The network around them is the package's own.
"""

import contextlib
import unittest.mock

import tensorflow.compat.v1 as tf

from cifar10 import cifar10, cifar10_input, lrn

_THREADS = 16


@contextlib.contextmanager
def in_use():
  """Makes the package use stock ops within."""
  patch = unittest.mock.patch.object
  with (
    patch(cifar10_input, 'distorted_batches', shuffle_batch),
    patch(cifar10_input, 'eval_batches', batch),
    patch(lrn, 'compiled', uncompiled_lrn),
  ):
    yield


def uncompiled_lrn(**parameters):
  """Returns `tf.nn.lrn` with these parameters."""
  return lambda x, name=None: tf.nn.lrn(x, **parameters, name=name)


def shuffle_batch(split, batch_size, min_queue_fraction=0.4, num_batches=1):
  """Builds training input as the tutorial does: example by example."""
  with tf.device('/cpu:0'), tf.name_scope('input'):
    names = tf.train.string_input_producer(list(split.files))
    example = cifar10_input.read_cifar10(names)
    image = _distort(tf.cast(example.uint8image, tf.float32))
    num_examples = cifar10_input.min_queue_examples(split, min_queue_fraction)
    images, labels = tf.train.shuffle_batch(
      [image, tf.reshape(example.label, [])],
      batch_size=batch_size,
      num_threads=_THREADS,
      capacity=num_examples + 3 * batch_size,
      min_after_dequeue=num_examples,
    )
    tf.summary.image('images', images)
    return [(images, labels)] * num_batches


def _distort(image):
  """The tutorial's distortions of one picture, with the ops that it uses."""
  size = cifar10_input.IMAGE_SIZE
  image = tf.random_crop(image, [size, size, 3])
  image = tf.image.random_flip_left_right(image)
  image = tf.image.random_brightness(image, max_delta=63)
  image = tf.image.random_contrast(image, lower=0.2, upper=1.8)
  image = tf.image.per_image_standardization(image)
  image.set_shape([size, size, 3])
  return image


def batch(split, batch_size):
  """Builds evaluation input as the tutorial does: example by example."""
  size = cifar10_input.IMAGE_SIZE
  with tf.device('/cpu:0'), tf.name_scope('input'):
    names = tf.train.string_input_producer(list(split.files), shuffle=False)
    example = cifar10_input.read_cifar10(names)
    image = tf.image.resize_with_crop_or_pad(
      tf.cast(example.uint8image, tf.float32), size, size
    )
    image = tf.image.per_image_standardization(image)
    images, labels = tf.train.batch(
      [image, tf.reshape(example.label, [])],
      batch_size=batch_size,
      num_threads=_THREADS,
      capacity=20000,
    )
    tf.summary.image('images', images)
    return images, labels


def tf_data(split, batch_size):
  """Builds the same training input in `tf.data`, as its guide recommends."""

  def parse(record):
    values = tf.decode_raw(record, tf.uint8)
    image = tf.transpose(tf.reshape(values[1:], [3, 32, 32]), [1, 2, 0])
    return _distort(tf.cast(image, tf.float32)), tf.cast(values[0], tf.int32)

  with tf.device('/cpu:0'):
    dataset = (
      tf.data.FixedLengthRecordDataset(
        list(split.files), split.spec.record_bytes
      )
      .shuffle(cifar10_input.min_queue_examples(split))
      .repeat()
      .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
      .batch(batch_size, drop_remainder=True)
      .prefetch(tf.data.AUTOTUNE)
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()


def train_op(split, batch_size):
  """Builds a step of training; stock or not is up to `in_use`."""
  images, labels = cifar10_input.distorted_batches(split, batch_size)[0]
  loss = cifar10.loss(cifar10.inference(images, split.num_classes), labels)
  return loss, cifar10.train(loss, tf.train.get_or_create_global_step())
