"""The same work as the package's, built from stock TensorFlow ops.

These are the other sides of `bench.py`: the tutorial's input, one example at a
time through `tf.train.shuffle_batch`; the same distortions in `tf.data`; its
network, in which ReLU comes before pooling and `tf.nn.lrn` normalizes; and its
summaries, which count every value. Loss and training are the package's own.
And, for a step, the same network as a Keras 3 model.
"""

import contextlib
import unittest.mock

import tensorflow.compat.v1 as tf

from cifar10 import cifar10, cifar10_input, lrn, specs, summaries

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


def inference(
  images, num_classes, use_fp16=False, summarize=True, normalize=None
):
  """Builds the network of `cifar10.inference` as the tutorial does."""
  assert summarize and not use_fp16 and normalize is None
  layers = {}
  with tf.variable_scope('conv1'):
    conv1, biases, _ = cifar10._convolution(images, channels=64, bias=0.0)
    layers['conv1'] = conv1 = cifar10._biased_relu(conv1, biases)
  norm1 = tf.nn.lrn(cifar10._max_pool(conv1, 'pool1'), **cifar10.LRN)
  with tf.variable_scope('conv2'):
    conv2, biases, _ = cifar10._convolution(norm1, channels=64, bias=0.1)
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
    summaries.histogram(name + '/activations', activations)
    summaries.scalar(name + '/sparsity', tf.nn.zero_fraction(activations))
  return logits


def shuffle_batch(
  split,
  batch_size,
  min_queue_fraction=0.4,
  num_batches=1,
  num_preprocess_threads=_THREADS,
  image_size=cifar10_input.IMAGE_SIZE,
):
  """Builds training input as the tutorial does: example by example.

  Of the arguments of `cifar10_input.distorted_batches`, for which it stands in,
  it leaves the number of threads aside: the tutorial always has 16.
  """
  with tf.device('/cpu:0'), tf.name_scope('input'):
    image, label = _read(split, tf.train.string_input_producer(split.files))
    num_examples = cifar10_input.min_queue_examples(split, min_queue_fraction)
    images, labels = tf.train.shuffle_batch(
      [_distort(image, image_size), label],
      batch_size=batch_size,
      num_threads=_THREADS,
      capacity=num_examples + 3 * batch_size,
      min_after_dequeue=num_examples,
    )
    tf.summary.image('images', images)
    return [(images, labels)] * num_batches


def _read(split, filename_queue):
  """Reads one example: the picture as floats, and its label."""
  reader = tf.FixedLengthRecordReader(split.spec.record_bytes)
  return _parse(split.spec, reader.read(filename_queue).value)


def _parse(spec, record):
  """Returns the picture, float32 [32, 32, 3], and the label, int32 []."""
  values = tf.decode_raw(record, tf.uint8)
  planes = tf.reshape(
    values[spec.label_bytes : spec.record_bytes],
    [specs.DEPTH, specs.HEIGHT, specs.WIDTH],
  )
  image = tf.cast(tf.transpose(planes, [1, 2, 0]), tf.float32)
  return image, tf.cast(values[spec.label_index], tf.int32)


def _distort(image, size=cifar10_input.IMAGE_SIZE):
  """The tutorial's distortions of one picture, with the ops that it uses."""
  image = tf.random_crop(image, [size, size, 3])
  image = tf.image.random_flip_left_right(image)
  image = tf.image.random_brightness(image, max_delta=63)
  image = tf.image.random_contrast(image, lower=0.2, upper=1.8)
  image = tf.image.per_image_standardization(image)
  image.set_shape([size, size, 3])
  return image


def batch(split, batch_size, image_size=cifar10_input.IMAGE_SIZE):
  """Builds evaluation input as the tutorial does: example by example."""
  size = image_size
  with tf.device('/cpu:0'), tf.name_scope('input'):
    names = tf.train.string_input_producer(split.files, shuffle=False)
    image, label = _read(split, names)
    image = tf.image.per_image_standardization(
      tf.image.resize_with_crop_or_pad(image, size, size)
    )
    num_examples = cifar10_input.min_queue_examples(split)
    images, labels = tf.train.batch(
      [image, label],
      batch_size=batch_size,
      num_threads=_THREADS,
      capacity=num_examples + 3 * batch_size,
    )
    tf.summary.image('images', images)
    return images, labels


def tf_data(split, batch_size):
  """Returns training input in `tf.data`, with the same ops for each picture."""

  def parse(record):
    image, label = _parse(split.spec, record)
    return _distort(image), label

  return (
    tf.data.FixedLengthRecordDataset(split.files, split.spec.record_bytes)
    .shuffle(cifar10_input.min_queue_examples(split))
    .repeat()
    .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(batch_size, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
  )


def keras_model(num_classes):
  """Returns the same network as a Keras model, ready to fit.

  It does the work of a step of `cifar10.train`, but for details that cost no
  time: the learning rate and the decay of the moving averages are constant.
  Averages of the losses are Keras' own.
  """
  import keras

  model = keras.Sequential(_keras_layers(keras, num_classes))
  model.compile(
    keras.optimizers.SGD(
      cifar10.INITIAL_LEARNING_RATE,
      use_ema=True,
      ema_momentum=cifar10.MOVING_AVERAGE_DECAY,
    ),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  return model


def _keras_layers(keras, num_classes):
  layers, initializers = keras.layers, keras.initializers
  size = cifar10.IMAGE_SIZE

  def convolution(bias):
    return layers.Conv2D(
      64,
      5,
      padding='same',
      activation='relu',
      kernel_initializer=initializers.TruncatedNormal(stddev=0.05),
      bias_initializer=initializers.Constant(bias),
    )

  def connected(units):
    return layers.Dense(
      units,
      activation='relu',
      kernel_initializer=initializers.TruncatedNormal(stddev=0.04),
      bias_initializer=initializers.Constant(0.1),
      kernel_regularizer=keras.regularizers.L2(0.004 / 2),
    )

  def normalize(x):
    return tf.nn.lrn(x, **cifar10.LRN)

  return [
    keras.Input([size, size, 3]),
    convolution(0.0),
    layers.MaxPooling2D(3, 2, padding='same'),
    layers.Lambda(normalize),
    convolution(0.1),
    layers.Lambda(normalize),
    layers.MaxPooling2D(3, 2, padding='same'),
    layers.Flatten(),
    connected(384),
    connected(192),
    layers.Dense(
      num_classes,
      kernel_initializer=initializers.TruncatedNormal(stddev=1 / 192.0),
    ),
  ]


def train_op(split, batch_size):
  """Builds a step of training; stock or not is up to `in_use`."""
  images, labels = cifar10_input.distorted_batches(split, batch_size)[0]
  loss = cifar10.loss(cifar10.inference(images, split.num_classes), labels)
  return loss, cifar10.train(loss, tf.train.get_or_create_global_step())
