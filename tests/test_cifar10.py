"""The network, its loss, and one step of training."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import cifar10

# The checkpoint format. Whoever has to change this table breaks every
# checkpoint that there is.
VARIABLES = {
  'conv1/weights': [5, 5, 3, 64],
  'conv1/biases': [64],
  'conv2/weights': [5, 5, 64, 64],
  'conv2/biases': [64],
  'local3/weights': [2304, 384],
  'local3/biases': [384],
  'local4/weights': [384, 192],
  'local4/biases': [192],
  'softmax_linear/weights': [192, 10],
  'softmax_linear/biases': [10],
}
BIASES = {'conv1': 0.0, 'conv2': 0.1, 'local3': 0.1, 'local4': 0.1}
BIASES['softmax_linear'] = 0.0
STDDEVS = {'conv1': 0.05, 'conv2': 0.05, 'local3': 0.04, 'local4': 0.04}
STDDEVS['softmax_linear'] = 1 / 192


def network(batch_size=4, **kwargs):
  images = tf.placeholder(tf.float32, [batch_size, 24, 24, 3])
  return images, cifar10.inference(images, **kwargs)


@pytest.mark.parametrize('size, features', [(1, 64), (21, 2304), (25, 3136)])
def test_local3_follows_the_size_of_pictures(size, features):
  with tf.Graph().as_default():
    cifar10.inference(tf.placeholder(tf.float32, [4, size, size, 3]))
    found = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
  assert found == {**VARIABLES, 'local3/weights': [features, 384]}


def initialized_session():
  session = tf.Session()
  session.run(tf.global_variables_initializer())
  return session


def test_variables_are_the_tutorials():
  with tf.Graph().as_default():
    network()
    variables = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
    assert variables == VARIABLES
    assert sum(math.prod(shape) for shape in variables.values()) == 1068298
    assert all(v.dtype.base_dtype == tf.float32 for v in tf.global_variables())
    assert tf.trainable_variables() == tf.global_variables()


def test_variables_are_on_the_cpu_whatever_is_around():
  with tf.Graph().as_default(), tf.device('/gpu:1'):
    network()
    assert {v.device for v in tf.global_variables()} == {'/device:CPU:0'}


def test_initial_values():
  with tf.Graph().as_default():
    tf.set_random_seed(1)
    network()
    with initialized_session() as session:
      for v in tf.global_variables():
        layer, kind = v.op.name.split('/')
        value = session.run(v)
        if kind == 'biases':
          assert (value == np.float32(BIASES[layer])).all()
        else:
          # Truncation at two deviations leaves 0.88 of the deviation.
          assert value.std() == pytest.approx(0.88 * STDDEVS[layer], rel=0.06)
          assert np.abs(value).max() <= 2 * STDDEVS[layer] * 1.0001


def test_a_hundred_classes():
  with tf.Graph().as_default():
    _, logits = network(num_classes=100)
    assert logits.shape.as_list() == [4, 100]


def numpy_conv(x, weights, biases):
  n, height, width, _ = x.shape
  padded = np.pad(x, [(0, 0), (2, 2), (2, 2), (0, 0)])
  out = np.zeros([n, height, width, weights.shape[-1]]) + biases
  for i in range(5):
    for j in range(5):
      out += padded[:, i : i + height, j : j + width] @ weights[i, j]
  return np.maximum(out, 0)


def numpy_pool(x):
  # SAME: of an even size, windows of 3 at stride 2 stick out at the far end.
  padded = np.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
  return np.max(
    [
      padded[:, i : i + x.shape[1] : 2, j : j + x.shape[2] : 2]
      for i in range(3)
      for j in range(3)
    ],
    axis=0,
  )


def numpy_lrn(x):
  padded = np.pad(x**2, [(0, 0), (0, 0), (0, 0), (4, 4)])
  sums = sum(padded[..., i : i + x.shape[-1]] for i in range(9))
  return x / (1.0 + 0.001 / 9.0 * sums) ** 0.75


def numpy_inference(x, v):
  x = numpy_conv(x, v['conv1/weights'], v['conv1/biases'])
  x = numpy_lrn(numpy_pool(x))
  x = numpy_conv(x, v['conv2/weights'], v['conv2/biases'])
  x = numpy_pool(numpy_lrn(x)).reshape(len(x), -1)
  for layer in ('local3', 'local4'):
    x = np.maximum(x @ v[layer + '/weights'] + v[layer + '/biases'], 0)
  return x @ v['softmax_linear/weights'] + v['softmax_linear/biases']


def test_logits_equal_an_independent_forward_pass(rng):
  with tf.Graph().as_default():
    tf.set_random_seed(1)
    images, logits = network()
    x = rng.normal(size=images.shape.as_list()) * 2
    with initialized_session() as session:
      # Weights of a trained size, or LRN and biases would hardly matter.
      for v in tf.global_variables():
        value = session.run(v) * 3 + rng.normal(size=v.shape.as_list()) * 0.01
        v.load(value, session)
      values = {v.op.name: session.run(v) for v in tf.global_variables()}
      actual = session.run(logits, {images: x})
  values = {name: value.astype(np.float64) for name, value in values.items()}
  expected = numpy_inference(x, values)
  scale = np.abs(expected).max()
  np.testing.assert_allclose(actual / scale, expected / scale, atol=1e-4)


def test_initial_loss_is_that_of_guessing_plus_weight_decay(rng):
  with tf.Graph().as_default():
    tf.set_random_seed(1)
    images, logits = network(128)
    labels = rng.integers(0, 10, 128)
    loss = cifar10.loss(logits, tf.constant(labels, tf.int32))
    terms = {cifar10.loss_name(t): t for t in tf.get_collection('losses')}
    assert list(terms) == [
      'local3/weight_loss',
      'local4/weight_loss',
      'cross_entropy',
    ]
    with initialized_session() as session:
      x = rng.normal(size=images.shape.as_list())
      values = session.run(terms, {images: x})
      total, weights3 = session.run(
        [loss, 'local3/weights/Read/ReadVariableOp:0'], {images: x}
      )
  assert values['cross_entropy'] == pytest.approx(math.log(10), abs=0.1)
  expected = 0.004 * (weights3.astype(float) ** 2).sum() / 2
  assert values['local3/weight_loss'] == pytest.approx(expected, rel=1e-5)
  assert total == pytest.approx(sum(values.values()), rel=1e-6)


def test_fp16_computes_layers_in_float16_and_keeps_the_rest_in_float32(rng):
  with tf.Graph().as_default() as graph:
    tf.set_random_seed(1)
    images, logits = network(use_fp16=True)
    loss = cifar10.loss(logits, tf.constant([1, 2, 3, 4]))
    assert {v.dtype.base_dtype for v in tf.global_variables()} == {tf.float32}
    assert logits.dtype == loss.dtype == tf.float32
    types = {
      op.outputs[0].dtype
      for op in graph.get_operations()
      if op.type in ('Conv2D', 'LRN', 'MaxPool', 'Relu')
    }
    assert types == {tf.float16}
    x = rng.normal(size=images.shape.as_list())
    with initialized_session() as session:
      half = session.run(logits, {images: x})
      v = {v.op.name: session.run(v) for v in tf.global_variables()}
  np.testing.assert_allclose(half, numpy_inference(x, v), atol=5e-3)


def toy_training(learning_rate, batch_size, num_examples):
  """Builds training of w and v where the gradients are x and 2 v."""
  w = tf.get_variable(
    'w', initializer=tf.constant([1.0, 2.0]), use_resource=True
  )
  v = tf.get_variable('v', initializer=tf.constant(3.0), use_resource=True)
  x = tf.placeholder(tf.float32, [2])
  with tf.name_scope('loss'):
    first = tf.reduce_sum(w * x, name='first')
    second = tf.square(v, name='second')
    tf.add_to_collection('losses', first)
    tf.add_to_collection('losses', second)
    total = tf.add(first, second, name='total_loss')
  train_op = cifar10.train(
    total,
    tf.train.get_or_create_global_step(),
    batch_size=batch_size,
    num_examples=num_examples,
    learning_rate=learning_rate,
  )
  return x, train_op


def test_a_sequence_of_steps_computed_by_hand():
  # 350 epochs of 4 examples in batches of 700: the rate drops each 2 steps.
  inputs = np.array([[1, -1], [2, 0.5], [-1, 3], [4, 1], [0.5, 0.5]])
  w, v = np.array([1.0, 2.0]), 3.0
  w_average, v_average = w, v
  averages = {'first': 0.0, 'second': 0.0, 'total_loss': 0.0}
  with tf.Graph().as_default():
    x, train_op = toy_training(0.1, 700, 4)
    with initialized_session() as session:
      for step, value in enumerate(inputs):
        session.run(train_op, {x: value})

        losses = {'first': (w * value).sum(), 'second': v**2}
        losses['total_loss'] = losses['first'] + losses['second']
        for name, loss in losses.items():
          averages[name] = 0.9 * averages[name] + 0.1 * loss
        rate = 0.1 * 0.1 ** (step // 2)
        w = w - rate * value
        v = v - rate * 2 * v
        # The average comes after the update, and counts that step.
        decay = min(0.9999, (1 + step + 1) / (10 + step + 1))
        w_average = decay * w_average + (1 - decay) * w
        v_average = decay * v_average + (1 - decay) * v

        expected = {name + '/avg': a for name, a in averages.items()}
        expected.update(w=w, v=v, global_step=step + 1)
        expected['w/ExponentialMovingAverage'] = w_average
        expected['v/ExponentialMovingAverage'] = v_average
        actual = {v.op.name: session.run(v) for v in tf.global_variables()}
        assert actual.keys() == expected.keys()
        for name in expected:
          np.testing.assert_allclose(
            actual[name], expected[name], rtol=2e-6, err_msg=name
          )


@pytest.mark.parametrize(
  'batch_size, num_examples, drop',
  [(128, 50000, 136718), (256, 50000, 68359), (10**6, 1, 1)],
)
def test_learning_rate_drops_after_350_epochs(batch_size, num_examples, drop):
  with tf.Graph().as_default():
    step = tf.placeholder(tf.int64, [])
    rate = cifar10._decayed_learning_rate(0.1, step, batch_size, num_examples)
    with tf.Session() as session:
      rates = [session.run(rate, {step: s}) for s in (0, drop - 1, drop)]
  assert rates == pytest.approx([0.1, 0.1, 0.01])


def test_functions_have_the_tutorials_defaults_and_work_without_flags(
  small_data,
):
  folder = small_data / 'small-batches-bin'
  with tf.Graph().as_default():
    images, labels = cifar10.inputs(True, str(folder), 7, dataset='small')
    logits = cifar10.inference(images)
    loss = cifar10.loss(logits, labels)
    assert logits.shape.as_list() == [None, 10]
    assert loss.shape.as_list() == []
  with tf.Graph().as_default():
    images, labels = cifar10.distorted_inputs(
      str(small_data), 7, use_fp16=True, dataset='small'
    )
    assert (images.dtype, images.shape.as_list()) == (
      tf.float16,
      [7, 24, 24, 3],
    )
    assert (labels.dtype, labels.shape.as_list()) == (tf.int32, [7])
  assert tf.executing_eagerly()


def test_constants():
  assert cifar10.IMAGE_SIZE == 24
  assert cifar10.NUM_CLASSES == 10
  assert cifar10.NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN == 50000
  assert cifar10.NUM_EXAMPLES_PER_EPOCH_FOR_EVAL == 10000
  assert cifar10.MOVING_AVERAGE_DECAY == 0.9999
  assert cifar10.NUM_EPOCHS_PER_DECAY == 350.0
  assert cifar10.LEARNING_RATE_DECAY_FACTOR == 0.1
  assert cifar10.INITIAL_LEARNING_RATE == 0.1
  assert cifar10.TOWER_NAME == 'tower'
