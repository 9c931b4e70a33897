"""Tests of the input queues: shuffling, repeatability, evaluation, faults."""

import contextlib
import importlib
import itertools
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import open_session, random_images, standardized, write_records

from cifar10 import cifar10_input, datasets


def _colours(n):
  """Returns `n` colours on a circle of equal brightness, uint8 [n, 3].

  A picture of one colour is known again after all distortions: contrast is
  about each channel's mean, and neither brightness nor standardization changes
  the direction from grey.
  """
  angles = 2 * np.pi * (np.arange(n)[:, None] / n + np.arange(3) / 3)
  return np.rint(128 + 120 * np.cos(angles)).astype(np.uint8)


def _plain_images(n):
  return np.tile(_colours(n)[:, None, None, :], [1, 32, 32, 1])


def _which_colour(images, n):
  """Returns which of `n` plain pictures each of `images` is, int [batch]."""
  colours = _colours(n).astype(np.float64)
  colours -= colours.mean(axis=1, keepdims=True)
  colours /= colours.std(axis=1, keepdims=True)
  pixels = images.mean(axis=(1, 2))
  distances = np.abs(pixels[:, None] - colours).max(axis=2)
  assert distances.min(axis=1).max() < 1e-3
  return distances.argmin(axis=1)


@pytest.fixture
def make_split(tmp_path):
  """Returns a function that writes three files of pictures to train on.

  Example i has the label i % 10. The files differ in length where they can.
  """

  def make(images):
    folder = tmp_path / 'mine-batches-bin'
    folder.mkdir()
    labels = np.arange(len(images), dtype=np.uint8)[:, None] % 10
    cuts = [0, len(images) // 5, len(images) // 2, len(images)]
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
      if start < end:
        path = folder / ('data_batch_%d.bin' % (i + 1))
        write_records(path, labels[start:end], images[start:end])
    (folder / 'batches.meta.txt').write_text('\n'.join('abcdefghij'))
    return datasets.load('mine', str(tmp_path))

  return make


def _take(split, count, seed=None, **kwargs):
  """Returns `count` steps' batches of a new graph's training input."""
  with tf.Graph().as_default():
    tf.set_random_seed(seed)
    batches = cifar10_input.distorted_batches(split, **kwargs)
    with open_session() as session:
      return [session.run(batches) for _ in range(count)]


def _take_all(images, labels):
  """Returns the batches' sizes, all pictures and all labels of one pass."""
  pictures, numbers = [], []
  with open_session() as session:
    with contextlib.suppress(tf.errors.OutOfRangeError):
      while True:
        batch = session.run([images, labels])
        pictures.append(batch[0])
        numbers.append(batch[1])
    with pytest.raises(tf.errors.OutOfRangeError):
      session.run(images)
  sizes = [len(n) for n in numbers]
  return sizes, np.concatenate(pictures), np.concatenate(numbers)


def test_training_shapes_and_types(make_split, tmp_path):
  make_split(random_images(20))
  with tf.Graph().as_default():
    images, labels = cifar10_input.distorted_inputs(
      str(tmp_path), 6, dataset='mine', min_queue_fraction=1.0
    )
    assert images.dtype == tf.float32 and images.shape == [6, 24, 24, 3]
    assert labels.dtype == tf.int32 and labels.shape == [6]
    with open_session() as session:
      assert session.run(images).shape == (6, 24, 24, 3)


@pytest.mark.parametrize('num_threads', [1, 3])
def test_labels_go_with_their_pictures_and_all_are_seen(
  make_split, num_threads
):
  split = make_split(_plain_images(200))
  batches = _take(
    split, 40, seed=0, batch_size=20, num_preprocess_threads=num_threads
  )
  examples = []
  for [(images, labels)] in batches:
    examples.append(_which_colour(images, 200))
    np.testing.assert_array_equal(labels, examples[-1] % 10)
  counts = np.bincount(np.concatenate(examples), minlength=200)
  # Four epochs, less or more what waits in the queue.
  assert counts.min() >= 1 and counts.max() <= 6
  # The order is neither the files', nor that of the epoch before.
  steps = np.diff(np.concatenate(examples))
  assert np.mean(steps == 1) < 0.05
  assert np.mean(steps < 0) > 0.3


def test_one_picture_is_distorted_in_many_ways(make_split):
  split = make_split(random_images(1))
  [[(images, labels)]] = _take(split, 1, batch_size=128)
  assert images.shape == (128, 24, 24, 3) and not labels.any()
  assert len(np.unique(images, axis=0)) == 128


def test_a_batch_larger_than_the_data(make_split):
  split = make_split(_plain_images(50))
  batches = _take(split, 3, batch_size=128)
  for [(images, labels)] in batches:
    examples = _which_colour(images, 50)
    np.testing.assert_array_equal(labels, examples % 10)
    assert len(set(examples)) > 30


@pytest.mark.parametrize('num_threads', [1, 8])
@pytest.mark.parametrize('fraction', [0.01, 1.0])
def test_threads_do_not_wait_for_each_other(make_split, fraction, num_threads):
  split = make_split(random_images(10))
  batches = _take(
    split,
    100,
    batch_size=7,
    min_queue_fraction=fraction,
    num_preprocess_threads=num_threads,
  )
  assert len(batches) == 100
  with tf.Graph().as_default():
    cifar10_input.distorted_batches(
      split, 7, num_preprocess_threads=num_threads
    )
    runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    builders = [r for r in runners if r.queue.name.endswith('batch_queue')]
    assert [len(runner.enqueue_ops) for runner in builders] == [num_threads]


@pytest.mark.parametrize('fraction,least', [(0.001, 0), (0.4, 80), (1.0, 200)])
def test_the_shuffle_queue_stays_full(make_split, fraction, least):
  split = make_split(_plain_images(200))
  assert cifar10_input.min_queue_examples(split, fraction) == least
  with tf.Graph().as_default():
    cifar10_input.distorted_batches(split, 16, fraction)
    summary_op = tf.summary.merge_all()
    with open_session() as session:
      for _ in range(8):
        summary = tf.Summary.FromString(session.run(summary_op))
        values = {v.tag: v.simple_value for v in summary.value}
      assert least <= values['input/examples_in_queue'] <= least + 3 * 16
      assert 0 <= values['input/batches_in_queue'] <= 4


def test_same_seed_same_batches_under_load(make_split):
  split = make_split(random_images(300))
  stop = threading.Event()

  def load():
    matrix = np.ones([200, 200])
    while not stop.is_set():
      matrix @ matrix

  with tf.Graph().as_default():
    tf.set_random_seed(1)
    batches = cifar10_input.distorted_batches(split, 32)
    with open_session() as session:
      first = [session.run(batches) for _ in range(8)]
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
      thread.start()
    try:
      with open_session() as session:
        again = [session.run(batches) for _ in range(8)]
      other_graph = _take(split, 8, seed=1, batch_size=32)
    finally:
      stop.set()
      for thread in threads:
        thread.join()
  for found in (again, other_graph):
    for [expected_batch], [batch] in zip(first, found):
      for expected, value in zip(expected_batch, batch):
        np.testing.assert_array_equal(value, expected)


def test_other_seed_other_batches(make_split):
  split = make_split(_plain_images(200))
  orders = [
    _which_colour(_take(split, 1, seed, batch_size=32)[0][0][0], 200)
    for seed in (1, 2, None)
  ]
  for one, other in itertools.combinations(orders, 2):
    assert (one != other).any()


def test_towers_take_the_batches_in_turn(make_split):
  split = make_split(random_images(60))
  alone = _take(split, 6, seed=3, batch_size=8)
  pairs = _take(split, 3, seed=3, batch_size=8, num_batches=2)
  assert [len(pair) for pair in pairs] == [2, 2, 2]
  for [expected], (images, labels) in zip(alone, itertools.chain(*pairs)):
    np.testing.assert_array_equal(images, expected[0])
    np.testing.assert_array_equal(labels, expected[1])


@pytest.mark.parametrize('eval_data', [False, True])
@pytest.mark.parametrize('batch_size', [1, 7, 128])
def test_evaluation_reads_each_once_in_order(
  make_split, tmp_path, batch_size, eval_data
):
  images = random_images(30)
  make_split(images)
  if eval_data:
    images = random_images(22, seed=1)
    labels = np.arange(22, dtype=np.uint8)[:, None] % 10
    write_records(
      tmp_path / 'mine-batches-bin' / 'test_batch.bin', labels, images
    )
  expected = standardized(images[:, 4:28, 4:28])
  with tf.Graph().as_default():
    batch = cifar10_input.inputs(
      eval_data, str(tmp_path), batch_size, dataset='mine'
    )
    assert batch[0].dtype == tf.float32 and batch[1].dtype == tf.int32
    assert batch[0].shape.as_list() == [None, 24, 24, 3]
    # The second session of a graph reads all of it again.
    for _ in range(2):
      sizes, pictures, labels = _take_all(*batch)
      full, rest = divmod(len(images), batch_size)
      assert sizes == [batch_size] * full + [rest] * bool(rest)
      np.testing.assert_allclose(pictures, expected, atol=1e-5)
      np.testing.assert_array_equal(labels, np.arange(len(images)) % 10)


@pytest.mark.parametrize('size', [1, 8, 31, 32])
def test_pictures_of_another_size(make_split, tmp_path, size):
  images = random_images(6)
  split = make_split(images)
  top = (32 - size) // 2
  expected = standardized(images[:, top : top + size, top : top + size])
  with tf.Graph().as_default():
    batch = cifar10_input.inputs(
      False, str(tmp_path), 6, dataset='mine', image_size=size
    )
    assert batch[0].shape.as_list() == [None, size, size, 3]
    _, pictures, _ = _take_all(*batch)
  np.testing.assert_allclose(pictures, expected, atol=1e-5)
  [[(pictures, labels)]] = _take(split, 1, batch_size=5, image_size=size)
  assert pictures.shape == (5, size, size, 3)
  if size == 32:
    # Whole, but for the flip; standardization takes out what else was done.
    for picture, label in zip(pictures, labels):
      flipped = expected[label], expected[label][:, ::-1]
      corners = [
        picture[0, 0] - picture[31, 31],
        *[f[0, 0] - f[31, 31] for f in flipped],
      ]
      signs = [np.sign(corner).tolist() for corner in corners]
      assert signs[0] in signs[1:]


def test_cifar100_takes_the_label_that_is_asked_for(tmp_path):
  images = _plain_images(100)
  coarse_and_fine = np.arange(100, dtype=np.uint8)[:, None] // [5, 1]
  write_records(
    tmp_path / 'train.bin', coarse_and_fine.astype(np.uint8), images
  )
  with tf.Graph().as_default():
    sizes, _, labels = _take_all(
      *cifar10_input.inputs(False, str(tmp_path), dataset='cifar100')
    )
    assert sizes == [100] and labels.tolist() == [*range(100)]
    _, _, labels = _take_all(
      *cifar10_input.inputs(
        False, str(tmp_path), dataset='cifar100', label='coarse'
      )
    )
    assert labels.tolist() == [i // 5 for i in range(100)]
  split = datasets.load('cifar100', str(tmp_path))
  [[(pictures, labels)]] = _take(split, 1, batch_size=50)
  np.testing.assert_array_equal(labels, _which_colour(pictures, 100))


@pytest.mark.parametrize(
  'build',
  [
    lambda split: cifar10_input.distorted_batches(split, 4, num_batches=2),
    lambda split: cifar10_input.eval_batches(split, 4),
  ],
)
def test_all_is_on_the_cpu(make_split, build):
  split = make_split(random_images(10))
  with tf.Graph().as_default() as graph:
    with tf.device('/gpu:0'):
      build(split)
      # A second pipeline in one graph, beside the first.
      build(split)
    definition = graph.as_graph_def()
    assert {node.device for node in definition.node} == {'/device:CPU:0'}
    for function in definition.library.function:
      # Without a device: where the function is called.
      devices = {node.device for node in function.node_def}
      assert devices <= {'/device:CPU:0', ''}


@pytest.mark.parametrize(
  'method,expected',
  [
    ('distorted_batches', 'input/batches_in_queue input/examples_in_queue'),
    ('eval_batches', ''),
  ],
)
def test_summaries_of_the_input(make_split, method, expected):
  split = make_split(random_images(10))
  with tf.Graph().as_default():
    tf.summary.scalar('mine', 1.0)
    getattr(cifar10_input, method)(split, 4)
    summary_op = tf.summary.merge_all()
    with open_session() as session:
      summary = tf.Summary.FromString(session.run(summary_op))
  images = ['images/image/%d' % i for i in range(3)]
  found = sorted(value.tag for value in summary.value)
  assert found == images + expected.split() + ['mine']


@pytest.mark.parametrize('method', ['distorted_batches', 'eval_batches'])
def test_a_file_that_is_gone_ends_the_session(make_split, tmp_path, method):
  split = make_split(random_images(10))
  (tmp_path / 'mine-batches-bin' / 'data_batch_2.bin').unlink()
  with tf.Graph().as_default():
    batch = getattr(cifar10_input, method)(split, 4)
    with (
      pytest.raises(tf.errors.NotFoundError, match='data_batch_2.bin'),
      tf.train.MonitoredSession() as session,
    ):
      while True:
        session.run(batch)


def test_works_without_v2_behaviour(make_split):
  split = make_split(_plain_images(20))
  switches = ['v2_tensorshape', 'control_flow_v2', 'resource_variables']
  for switch in switches:
    getattr(tf, 'disable_' + switch)()
  try:
    [[(images, labels)]] = _take(split, 1, batch_size=8)
    np.testing.assert_array_equal(labels, _which_colour(images, 20) % 10)
    with tf.Graph().as_default():
      sizes, _, _ = _take_all(*cifar10_input.eval_batches(split, 8))
    assert sizes == [8, 8, 4]
  finally:
    for switch in switches:
      getattr(tf, 'enable_' + switch)()


@pytest.mark.parametrize(
  'call',
  [
    lambda folder: cifar10_input.distorted_inputs(folder, dataset='sample'),
    lambda folder: cifar10_input.inputs(True, folder, dataset='sample'),
    lambda folder: cifar10_input.distorted_batches(None, 1),
    lambda folder: cifar10_input.eval_batches(None, 1),
    lambda folder: cifar10_input.read_cifar10(None),
  ],
)
def test_outside_a_graph_one_line_says_so(tmp_path, call):
  with pytest.raises(RuntimeError, match=r'tf\.Graph\(\)\.as_d') as error:
    call(str(tmp_path / 'data'))
  assert '\n' not in str(error.value)
  # Said before any data is drawn or fetched.
  assert not (tmp_path / 'data').exists()


def test_importing_again_leaves_all_as_it_was():
  flags = set(tf.flags.FLAGS)
  importlib.reload(cifar10_input)
  assert set(tf.flags.FLAGS) == flags
  assert tf.executing_eagerly()
