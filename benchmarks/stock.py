"""The same work as the package's, built from stock TensorFlow ops.

These are the other sides of `bench.py`: the tutorial's input, one example at a
time through `tf.train.shuffle_batch`; the same distortions in `tf.data`; its
network, in which ReLU comes before pooling and `tf.nn.lrn` normalizes; and its
histograms, which count every value. Loss and training are the package's own.
And, for a step, the same network as a Keras 3 model.
"""

import contextlib
import unittest.mock

import tensorflow.compat.v1 as tf

from cifar10 import cifar10, cifar10_input, lrn, summaries

_THREADS = 16


@contextlib.contextmanager
def in_use():
  """Makes the package use stock ops within."""
  patch = unittest.mock.patch.object
  with (
    patch(cifar10_input, 'distorted_batches', shuffle_batch),
    patch(cifar10_input, 'eval_batches', batch),
    patch(lrn, 'compiled', uncompiled_lrn),
    patch(cifar10, 'inference', inference),
    patch(summaries, 'histogram', histogram),
  ):
    yield


def uncompiled_lrn(**parameters):
  """Returns `tf.nn.lrn` with these parameters."""
  return lambda x, name=None: tf.nn.lrn(x, **parameters, name=name)


def histogram(tag, values):
  """Adds a histogram of all values."""
  tf.add_to_collection(
    tf.GraphKeys.SUMMARIES,
    tf.raw_ops.HistogramSummary(tag=tag, values=values),
  )


def inference(images, num_classes, use_fp16=False, summarize=True):
  """Builds the network of `cifar10.inference` as the tutorial does."""
  assert summarize and not use_fp16
  layers = {}
  with tf.variable_scope('conv1'):
    conv1, biases = cifar10._convolution(images, channels=64, bias=0.0)
    layers['conv1'] = conv1 = cifar10._biased_relu(conv1, biases)
  norm1 = tf.nn.lrn(cifar10._max_pool(conv1, 'pool1'), **cifar10.LRN)
  with tf.variable_scope('conv2'):
    conv2, biases = cifar10._convolution(norm1, channels=64, bias=0.1)
    layers['conv2'] = conv2 = cifar10._biased_relu(conv2, biases)
  pool2 = cifar10._max_pool(tf.nn.lrn(conv2, **cifar10.LRN), 'pool2')
  features = tf.reshape(pool2, [-1, pool2.shape[1:].num_elements()])
  with tf.variable_scope('local3'):
    layers['local3'] = local3 = cifar10._fully_connected(features, 384)
  with tf.variable_scope('local4'):
    layers['local4'] = local4 = cifar10._fully_connected(local3, 192)
  with tf.variable_scope('softmax_linear'):
    weights = cifar10._variable_with_weight_decay(
      'weights', [192, num_classes], stddev=1 / 192.0, wd=None
    )
    biases = cifar10._variable_on_cpu(
      'biases', [num_classes], tf.constant_initializer(0.0)
    )
    layers['softmax_linear'] = logits = tf.matmul(local4, weights) + biases
  for name, activations in layers.items():
    cifar10._activation_summary(activations, name)
  return logits


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
  """Returns the same training input in `tf.data`, as its guide recommends."""

  def parse(record):
    values = tf.decode_raw(record, tf.uint8)
    image = tf.transpose(tf.reshape(values[1:], [3, 32, 32]), [1, 2, 0])
    return _distort(tf.cast(image, tf.float32)), tf.cast(values[0], tf.int32)

  return (
    tf.data.FixedLengthRecordDataset(list(split.files), split.spec.record_bytes)
    .shuffle(cifar10_input.min_queue_examples(split))
    .repeat()
    .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(batch_size, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
  )


def keras_model(num_classes):
  """Returns the same network as a Keras model, ready to fit.

  The loss, the decay of weights, the rate and the moving averages are those of
  `cifar10.train`, but for averages of losses, which Keras reports as means.
  """
  import keras

  layers = keras.layers

  def normal(stddev):
    return keras.initializers.TruncatedNormal(stddev=stddev)

  def convolution(bias):
    return layers.Conv2D(
      64,
      5,
      padding='same',
      activation='relu',
      kernel_initializer=normal(0.05),
      bias_initializer=keras.initializers.Constant(bias),
    )

  def pool():
    return layers.MaxPooling2D(3, 2, padding='same')

  def normalize():
    return layers.Lambda(lambda x: tf.nn.lrn(x, **cifar10.LRN))

  def connected(units):
    return layers.Dense(
      units,
      activation='relu',
      kernel_initializer=normal(0.04),
      bias_initializer=keras.initializers.Constant(0.1),
      kernel_regularizer=keras.regularizers.L2(0.004 / 2),
    )

  size = cifar10.IMAGE_SIZE
  model = keras.Sequential(
    [
      keras.Input([size, size, 3]),
      *(convolution(0.0), pool(), normalize()),
      *(convolution(0.1), normalize(), pool()),
      layers.Flatten(),
      *(connected(384), connected(192)),
      layers.Dense(num_classes, kernel_initializer=normal(1 / 192.0)),
    ]
  )
  model.compile(
    keras.optimizers.SGD(
      cifar10.INITIAL_LEARNING_RATE,
      use_ema=True,
      ema_momentum=cifar10.MOVING_AVERAGE_DECAY,
    ),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  return model


def train_op(split, batch_size):
  """Builds a step of training; stock or not is up to `in_use`."""
  images, labels = cifar10_input.distorted_batches(split, batch_size)[0]
  loss = cifar10.loss(cifar10.inference(images, split.num_classes), labels)
  return loss, cifar10.train(loss, tf.train.get_or_create_global_step())
