"""Tests of the input queues: pixels, distortions, shuffling, repeatability."""

import contextlib
import importlib
import itertools
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import cifar10_input, datasets

# One of each end of every range, and the middle: 72 sets of draws.
EXTREMES = list(
  itertools.product(
    [0, 8], [0, 8], [False, True], [-63.0, 0.5, 63.0], [0.2, 1.0, 1.8]
  )
)


def _random_images(n, seed=0):
  generator = np.random.default_rng(seed)
  return generator.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


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


def _write(path, images, labels):
  """Writes records; `labels` are uint8 [n, label bytes]."""
  planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
  path.write_bytes(np.concatenate([labels, planes], axis=1).tobytes())


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
        _write(path, images[start:end], labels[start:end])
    (folder / 'batches.meta.txt').write_text('\n'.join('abcdefghij'))
    return datasets.load('mine', str(tmp_path))

  return make


@contextlib.contextmanager
def _session():
  """Opens a session with the queues running, and stops and joins them."""
  # What would wait for ever raises DeadlineExceededError.
  config = tf.ConfigProto(operation_timeout_in_ms=60000)
  with tf.Session(config=config) as session:
    session.run(tf.local_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
      yield session
    finally:
      coordinator.request_stop()
      coordinator.join(threads)


def _take(split, count, seed=None, **kwargs):
  """Returns `count` steps' batches of a new graph's training input."""
  with tf.Graph().as_default():
    tf.set_random_seed(seed)
    batches = cifar10_input.distorted_batches(split, **kwargs)
    with _session() as session:
      return [session.run(batches) for _ in range(count)]


def _take_all(images, labels):
  """Returns the batches' sizes, all pictures and all labels of one pass."""
  pictures, numbers = [], []
  with _session() as session:
    with contextlib.suppress(tf.errors.OutOfRangeError):
      while True:
        batch = session.run([images, labels])
        pictures.append(batch[0])
        numbers.append(batch[1])
    with pytest.raises(tf.errors.OutOfRangeError):
      session.run(images)
  sizes = [len(n) for n in numbers]
  return sizes, np.concatenate(pictures), np.concatenate(numbers)


def _standardized(images):
  """The definition: minus the mean, by a stddev of at least 1 / sqrt(n)."""
  flat = images.astype(np.float64).reshape(len(images), -1)
  flat -= flat.mean(axis=1, keepdims=True)
  stddev = np.maximum(flat.std(axis=1, keepdims=True), flat.shape[1] ** -0.5)
  return (flat / stddev).reshape(images.shape)


def _distorted(images, draws):
  """Runs `_distort` on arrays; `draws` are tuples in `_Distortions`' order."""
  y, x, flip, brightness, contrast = zip(*draws)
  with tf.Graph().as_default(), tf.Session() as session:
    result = cifar10_input._distort(
      tf.constant(images.transpose(0, 3, 1, 2)),
      cifar10_input._Distortions(
        tf.constant(y),
        tf.constant(x),
        tf.constant(flip),
        tf.constant(brightness),
        tf.constant(contrast),
      ),
    )
    return session.run(result)


def _read_all(files, **kwargs):
  """Returns keys, labels and pictures that `read_cifar10` yields."""
  with tf.Graph().as_default():
    queue = tf.train.string_input_producer(
      [str(path) for path in files], num_epochs=1, shuffle=False
    )
    record = cifar10_input.read_cifar10(queue, **kwargs)
    assert (record.height, record.width, record.depth) == (32, 32, 3)
    assert record.label.shape == [1] and record.label.dtype == tf.int32
    assert record.uint8image.shape == [32, 32, 3]
    assert record.key.shape == [] and record.uint8image.dtype == tf.uint8
    examples = []
    fetches = [record.key, record.label, record.uint8image]
    with _session() as session, contextlib.suppress(tf.errors.OutOfRangeError):
      while True:
        examples.append(session.run(fetches))
  keys, labels, images = zip(*examples)
  return [key.decode() for key in keys], np.stack(labels), np.stack(images)


def test_read_cifar10_byte_for_byte(tmp_path):
  # Two records tell every position apart: its low byte and its high byte.
  positions = np.arange(3072)
  low, high = (bytes(list(part)) for part in divmod(positions, 256)[::-1])
  path = tmp_path / 'two.bin'
  path.write_bytes(b'\x07' + low + b'\xff' + high)
  keys, labels, images = _read_all([path])
  assert keys == ['%s:0' % path, '%s:1' % path]
  assert labels.tolist() == [[7], [255]]
  y, x, depth = np.mgrid[:32, :32, :3]
  found = images[0] + 256 * images[1].astype(int)
  np.testing.assert_array_equal(found, 1024 * depth + 32 * y + x)


@pytest.mark.parametrize('label_bytes,label_index', [(1, 0), (2, 0), (2, 1)])
def test_read_cifar10_several_files(tmp_path, label_bytes, label_index):
  images = _random_images(5)
  labels = np.arange(10, dtype=np.uint8).reshape(5, 2)[:, :label_bytes]
  files = [tmp_path / 'b.bin', tmp_path / 'a.bin']
  _write(files[0], images[:2], labels[:2])
  _write(files[1], images[2:], labels[2:])
  found = _read_all(files, label_bytes=label_bytes, label_index=label_index)
  numbers = ['b.bin:0', 'b.bin:1', 'a.bin:0', 'a.bin:1', 'a.bin:2']
  assert found[0] == ['%s/%s' % (tmp_path, number) for number in numbers]
  np.testing.assert_array_equal(found[1][:, 0], labels[:, label_index])
  np.testing.assert_array_equal(found[2], images)


def test_distortions_equal_the_stock_operations():
  images = _random_images(len(EXTREMES))
  found = _distorted(images, EXTREMES)
  assert found.dtype == np.float32
  with tf.Graph().as_default(), tf.Session() as session:
    image = tf.placeholder(tf.uint8, [32, 32, 3])
    types = [tf.int32, tf.int32, tf.bool, tf.float32, tf.float32]
    draws = [tf.placeholder(dtype, []) for dtype in types]
    y, x, flip, brightness, contrast = draws
    cropped = tf.image.crop_to_bounding_box(
      tf.cast(image, tf.float32), y, x, 24, 24
    )
    flipped = tf.cond(
      flip, lambda: tf.image.flip_left_right(cropped), lambda: cropped
    )
    brightened = tf.image.adjust_brightness(flipped, brightness)
    result = tf.image.per_image_standardization(
      tf.image.adjust_contrast(brightened, contrast)
    )
    for i, values in enumerate(EXTREMES):
      feed = {image: images[i], **dict(zip(draws, values))}
      expected = session.run(result, feed)
      np.testing.assert_allclose(found[i], expected, atol=1e-4)


def test_distortions_equal_the_formula():
  images = _random_images(len(EXTREMES), seed=1)
  found = _distorted(images, EXTREMES)
  for i, (y, x, flip, brightness, contrast) in enumerate(EXTREMES):
    window = images[i, y : y + 24, x : x + 24].astype(np.float64)
    window = (window[:, ::-1] if flip else window) + brightness
    mean = window.mean(axis=(0, 1))
    expected = _standardized(((window - mean) * contrast + mean)[None])[0]
    np.testing.assert_allclose(found[i], expected, atol=1e-4)


@pytest.mark.parametrize('level', [0, 101, 255])
def test_a_blank_picture_becomes_zero(level):
  images = np.full([len(EXTREMES), 32, 32, 3], level, np.uint8)
  found = _distorted(images, EXTREMES)
  assert np.isfinite(found).all()
  # What is left is the rounding of the mean, times sqrt(1728).
  assert np.abs(found).max() < 5e-3


def test_a_picture_does_not_change_its_neighbours():
  images = _random_images(len(EXTREMES))
  before = _distorted(images, EXTREMES)
  images[5] = 255 - images[5] // 2
  after = _distorted(images, EXTREMES)
  assert np.abs(after[5] - before[5]).max() > 0.1
  np.testing.assert_array_equal(
    np.delete(after, 5, axis=0), np.delete(before, 5, axis=0)
  )


@pytest.fixture(scope='module')
def many_draws():
  """Two runs of 20,000 draws each."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(0)
    draws = cifar10_input._draw_distortions(20000)
    return [session.run(draws) for _ in range(2)]


def test_distributions_of_the_draws(many_draws):
  draws = many_draws[0]
  offsets = 9 * draws.offset_y + draws.offset_x
  counts = np.bincount(offsets, minlength=81)
  assert len(counts) == 81 and {*draws.offset_y} == {*range(9)}
  # Within 5 standard deviations (16) of 20000 / 81.
  assert counts.min() > 167 and counts.max() < 327
  assert draws.flip.dtype == bool and abs(draws.flip.mean() - 0.5) < 0.02
  for values, low, high in (
    (draws.brightness, -63, 63),
    (draws.contrast, 0.2, 1.8),
  ):
    width = high - low
    assert low <= values.min() < low + 0.01 * width
    assert high - 0.01 * width < values.max() < high
    assert abs(values.mean() - (low + high) / 2) < 0.01 * width
    assert abs(values.std() - width / 12**0.5) < 0.01 * width


def test_draws_are_independent(many_draws):
  first, second = (np.array(draws, np.float64) for draws in many_draws)
  # The five of a picture, those of its neighbour and those of the next batch.
  rows = np.concatenate([first[:, :-1], first[:, 1:], second[:, :-1]])
  correlations = np.corrcoef(rows) - np.eye(15)
  assert np.abs(correlations).max() < 0.03


def test_training_shapes_and_types(make_split, tmp_path):
  make_split(_random_images(20))
  with tf.Graph().as_default():
    images, labels = cifar10_input.distorted_inputs(
      str(tmp_path), 6, dataset='mine', min_queue_fraction=1.0
    )
    assert images.dtype == tf.float32 and images.shape == [6, 24, 24, 3]
    assert labels.dtype == tf.int32 and labels.shape == [6]
    with _session() as session:
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
  split = make_split(_random_images(1))
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
  split = make_split(_random_images(10))
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
    with _session() as session:
      for _ in range(8):
        summary = tf.Summary.FromString(session.run(summary_op))
        values = {v.tag: v.simple_value for v in summary.value}
      assert least <= values['input/examples_in_queue'] <= least + 3 * 16
      assert 0 <= values['input/batches_in_queue'] <= 4


def test_same_seed_same_batches_under_load(make_split):
  split = make_split(_random_images(300))
  stop = threading.Event()

  def load():
    matrix = np.ones([200, 200])
    while not stop.is_set():
      matrix @ matrix

  with tf.Graph().as_default():
    tf.set_random_seed(1)
    batches = cifar10_input.distorted_batches(split, 32)
    with _session() as session:
      first = [session.run(batches) for _ in range(8)]
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
      thread.start()
    try:
      with _session() as session:
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
  split = make_split(_random_images(60))
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
  images = _random_images(30)
  make_split(images)
  if eval_data:
    images = _random_images(22, seed=1)
    labels = np.arange(22, dtype=np.uint8)[:, None] % 10
    _write(tmp_path / 'mine-batches-bin' / 'test_batch.bin', images, labels)
  expected = _standardized(images[:, 4:28, 4:28])
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


def test_cifar100_takes_the_fine_label(tmp_path):
  images = _plain_images(100)
  coarse_and_fine = np.arange(100, dtype=np.uint8)[:, None] // [5, 1]
  _write(tmp_path / 'train.bin', images, coarse_and_fine.astype(np.uint8))
  with tf.Graph().as_default():
    sizes, _, labels = _take_all(
      *cifar10_input.inputs(False, str(tmp_path), dataset='cifar100')
    )
    assert sizes == [100] and labels.tolist() == [*range(100)]
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
  split = make_split(_random_images(10))
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
  split = make_split(_random_images(10))
  with tf.Graph().as_default():
    tf.summary.scalar('mine', 1.0)
    getattr(cifar10_input, method)(split, 4)
    summary_op = tf.summary.merge_all()
    with _session() as session:
      summary = tf.Summary.FromString(session.run(summary_op))
  images = ['images/image/%d' % i for i in range(3)]
  found = sorted(value.tag for value in summary.value)
  assert found == images + expected.split() + ['mine']


@pytest.mark.parametrize('method', ['distorted_batches', 'eval_batches'])
def test_a_file_that_is_gone_ends_the_session(make_split, tmp_path, method):
  split = make_split(_random_images(10))
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
