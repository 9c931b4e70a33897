"""The benchmark's other sides do the same work: numbers beside ours."""

import inspect

import numpy as np
import pytest
import stock
import tensorflow.compat.v1 as tf

from cifar10 import cifar10, cifar10_input, datasets, lrn, summaries


@pytest.fixture
def batch(rng):
  images = rng.normal(size=[8, 24, 24, 3]).astype(np.float32)
  return images, rng.integers(0, 10, 8)


def outcome(inference, images, labels):
  """Returns logits, and gradients of the loss by variable."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(1)
    logits = inference(tf.placeholder_with_default(images, images.shape), 10)
    loss = cifar10.loss(logits, tf.constant(labels))
    variables = tf.trainable_variables()
    session.run(tf.global_variables_initializer())
    # The same weights on every side, whatever order they were made in.
    for i, variable in enumerate(sorted(variables, key=lambda v: v.op.name)):
      values = np.random.default_rng(i).normal(size=variable.shape)
      variable.load(0.05 * values.astype(np.float32), session)
    gradients = tf.gradients(loss, variables)
    names = [variable.op.name for variable in variables]
    found = session.run([logits, dict(zip(names, gradients))])
    return found


def test_the_stock_network_is_ours_forward_and_backward(batch):
  ours = outcome(cifar10.inference, *batch)
  theirs = outcome(stock.inference, *batch)
  np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
  assert len(ours[1]) == 10 and ours[1].keys() == theirs[1].keys()
  for name, expected in theirs[1].items():
    limit = 1e-4 * np.abs(expected).max()
    assert limit > 0
    np.testing.assert_allclose(ours[1][name], expected, rtol=0, atol=limit)


def test_the_keras_network_is_ours(batch):
  images, labels = batch
  logits, _ = outcome(cifar10.inference, images, labels)
  model = stock.keras_model(10)
  assert model.count_params() == 1068298
  with tf.Graph().as_default():
    cifar10.inference(tf.zeros([1, 24, 24, 3]))
    names = [v.op.name for v in tf.trainable_variables()]
  values = []
  for name, weight in zip(names, model.weights):
    generator = np.random.default_rng(sorted(names).index(name))
    values.append(0.05 * generator.normal(size=weight.shape))
  model.set_weights(values)
  found = model.predict(images, verbose=0)
  np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
  'module,name,replacement',
  [
    (cifar10, 'inference', stock.inference),
    (cifar10_input, 'distorted_batches', stock.shuffle_batch),
    (cifar10_input, 'eval_batches', stock.batch),
    (summaries, 'histogram', stock.histogram),
  ],
)
def test_what_is_replaced_takes_the_same_arguments(module, name, replacement):
  ours, theirs = (
    [*inspect.signature(function).parameters]
    for function in (getattr(module, name), replacement)
  )
  assert ours == theirs
  with stock.in_use():
    assert getattr(module, name) is replacement
    assert lrn.compiled is stock.uncompiled_lrn
  assert getattr(module, name) is not replacement


@pytest.mark.parametrize('dataset', ['mine', 'cifar100'])
def test_input_goes_through_all_sides(dataset, tmp_path, rng):
  label_bytes = 2 if dataset == 'cifar100' else 1
  name = 'train.bin' if dataset == 'cifar100' else 'data_batch_1.bin'
  records = rng.integers(0, 10, [40, label_bytes + 3072], dtype=np.uint8)
  folder = tmp_path / datasets.find_spec(dataset).folder
  folder.mkdir()
  (folder / name).write_bytes(records.tobytes())
  (folder / 'batches.meta.txt').write_text('\n'.join('abcdefghij'))
  split = datasets.load(dataset, str(tmp_path))
  with tf.Graph().as_default():
    sides = [
      stock.shuffle_batch(split, 20)[0],
      stock.batch(split, 20),
      tf.data.make_one_shot_iterator(stock.tf_data(split, 20)).get_next(),
    ]
    with tf.train.MonitoredSession() as session:
      for images, labels in session.run(sides):
        assert images.shape == (20, 24, 24, 3)
        np.testing.assert_allclose(images.mean((1, 2, 3)), 0, atol=1e-4)
        assert {*labels} <= {*records[:, label_bytes - 1].tolist()}
