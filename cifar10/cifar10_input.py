"""Input queues: from record files to batches of pictures.

  file names -> reader -> queue of records -> whole batches: parse, distort or
  crop, standardize -> queue of finished batches

Work is done on whole batches from the start, yet every picture draws its own
crop, flip, brightness and contrast. One thread does all of it unless more are
asked for, so a graph-level seed (`tf.set_random_seed`) repeats the very same
batches: a shuffle queue draws by its length at that moment, and a single thread
that fills it to a fixed length before each draw is the one way to make that
length certain.

Everything is pinned to the CPU, whatever device scope is around it.
"""

import contextlib

import tensorflow.compat.v1 as tf

from cifar10 import datasets, distortions, specs, summaries

IMAGE_SIZE = distortions.IMAGE_SIZE
NUM_CLASSES = 10
NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN = 50000
NUM_EXAMPLES_PER_EPOCH_FOR_EVAL = 10000
BATCH_SIZE = 128
MIN_QUEUE_FRACTION = 0.4
NUM_PREPROCESS_THREADS = 1

# Finished batches that wait for the step, at most.
_BATCH_QUEUE_CAPACITY = 4

# Pictures in a summary.
_NUM_SHOWN = 3


class CIFAR10Record:
  """One example, as `read_cifar10` yields it."""


def read_cifar10(filename_queue, label_bytes=1, label_index=0):
  """Reads one example from the files that a queue names.

  Args:
    filename_queue: queue of file names, as `tf.train.string_input_producer`
      makes it.
    label_bytes: label bytes at the start of a record: 1, for CIFAR-100 2.
    label_index: which of them is the label.

  Returns:
    An object with the fields
      height, width, depth: 32, 32 and 3.
      key: string, shape []: file name and record number.
      label: int32 [1].
      uint8image: uint8 [32, 32, 3].

  Raises:
    RuntimeError: outside a graph.
  """
  result = CIFAR10Record()
  result.height = specs.HEIGHT
  result.width = specs.WIDTH
  result.depth = specs.DEPTH
  with _input_scope():
    reader = tf.FixedLengthRecordReader(label_bytes + specs.IMAGE_BYTES)
    result.key, value = reader.read(filename_queue)
    planes, result.label = _parse_records(value[None], label_bytes, label_index)
    result.uint8image = distortions.planes_to_pixels(planes)[0]
  return result


def distorted_inputs(
  data_dir=datasets.DATA_DIR,
  batch_size=BATCH_SIZE,
  *,
  dataset='cifar10',
  label='fine',
  image_size=IMAGE_SIZE,
  min_queue_fraction=MIN_QUEUE_FRACTION,
  num_preprocess_threads=NUM_PREPROCESS_THREADS,
):
  """Builds training input: distorted, shuffled batches without end.

  Args:
    data_dir: the folder of the .bin files, or the one that holds it.
    batch_size: examples a batch.
    dataset: name of the data set, see `datasets.SPECS`.
    label: 'fine', or 'coarse' for the other label that CIFAR-100 has.
    image_size: height and width of the pictures, at most 32.
    min_queue_fraction: the part of all examples that the shuffle queue keeps.
    num_preprocess_threads: how many batches are made at the same time; with
      more than one, a seed does not repeat them.

  Returns:
    images: float32 [batch_size, image_size, image_size, 3], standardized.
    labels: int32 [batch_size].

  Raises:
    cifar10.Error: the data cannot be used, in one line that says why.
    RuntimeError: outside a graph.
  """
  check_graph()
  split = datasets.load(dataset, data_dir, 'train', fetch=False, label=label)
  return distorted_batches(
    split,
    batch_size,
    min_queue_fraction,
    image_size=image_size,
    num_preprocess_threads=num_preprocess_threads,
  )[0]


def inputs(
  eval_data,
  data_dir=datasets.DATA_DIR,
  batch_size=BATCH_SIZE,
  *,
  dataset='cifar10',
  label='fine',
  image_size=IMAGE_SIZE,
):
  """Builds evaluation input: each example once, in file order.

  After the last example `tf.errors.OutOfRangeError` ends the pass. Needs
  `tf.local_variables_initializer()` and started queue runners.

  Args:
    eval_data: whether to read the test files; else the training files.
    batch_size: examples a batch; the last batch holds what is left.
    data_dir, dataset, label, image_size: see `distorted_inputs`.

  Returns:
    images: float32 [?, image_size, image_size, 3], standardized.
    labels: int32 [?].

  Raises:
    cifar10.Error: the data cannot be used, in one line that says why.
    RuntimeError: outside a graph.
  """
  check_graph()
  name = 'test' if eval_data else 'train'
  split = datasets.load(dataset, data_dir, name, fetch=False, label=label)
  return eval_batches(split, batch_size, image_size)


def min_queue_examples(split, min_queue_fraction=MIN_QUEUE_FRACTION):
  """Returns how many examples the shuffle queue keeps, at least."""
  return int(split.num_examples * min_queue_fraction)


def distorted_batches(
  split,
  batch_size,
  min_queue_fraction=MIN_QUEUE_FRACTION,
  num_batches=1,
  num_preprocess_threads=NUM_PREPROCESS_THREADS,
  image_size=IMAGE_SIZE,
):
  """Builds the training input of one or more towers on one queue.

  Args:
    split: the `datasets.Split` to read.
    num_batches: how many batches a step takes, all of them distinct.
    batch_size, min_queue_fraction, num_preprocess_threads, image_size: see
      `distorted_inputs`.

  Returns:
    A list of `num_batches` pairs of images (float32 [batch_size, image_size,
    image_size, 3]) and labels (int32 [batch_size]).
  """
  with _input_scope():
    queue = _generate_image_and_label_batch(
      split,
      min_queue_examples(split, min_queue_fraction),
      batch_size,
      image_size,
      shuffle=True,
      capacity=max(_BATCH_QUEUE_CAPACITY, 2 * num_batches),
      num_threads=num_preprocess_threads,
    )
    summaries.scalar('input/batches_in_queue', tf.to_float(queue.size()))
    batches = []
    for _ in range(num_batches):
      # One after the other: which tower gets which batch is repeatable.
      with tf.control_dependencies([batches[-1][1]] if batches else []):
        batches.append(queue.dequeue())
    _show(*batches[0])
    return [(images, labels) for images, labels, _ in batches]


def eval_batches(split, batch_size, image_size=IMAGE_SIZE):
  """Builds evaluation input, see `inputs`, from a `datasets.Split`."""
  with _input_scope():
    queue = _generate_image_and_label_batch(
      split,
      0,
      batch_size,
      image_size,
      shuffle=False,
      capacity=_BATCH_QUEUE_CAPACITY,
    )
    images, labels, levels = queue.dequeue()
    # The last batch is smaller.
    images.set_shape([None, image_size, image_size, specs.DEPTH])
    labels.set_shape([None])
    levels.set_shape([None, 2])
    _show(images, labels, levels)
    return images, labels


def _show(images, labels, levels):
  """Adds a summary of the first pictures, as people would see them."""
  del labels
  n = slice(_NUM_SHOWN)
  summaries.image('images', distortions.undo(images[n], levels[n]), _NUM_SHOWN)


def check_graph():
  """Raises RuntimeError outside a graph, before any data is fetched."""
  if tf.executing_eagerly():
    raise RuntimeError(
      'Input queues live in graphs: build them within '
      '"with tf.Graph().as_default():".'
    )


def _input_scope():
  """Returns a scope on the CPU, under the name `input`; checks for a graph."""
  check_graph()
  stack = contextlib.ExitStack()
  stack.enter_context(tf.device('/cpu:0'))
  stack.enter_context(tf.name_scope('input'))
  return stack


def _generate_image_and_label_batch(
  split,
  min_queue_examples,
  batch_size,
  image_size,
  shuffle,
  capacity,
  num_threads=1,
):
  """Assembles batches of pictures and labels: all input goes through here.

  Args:
    split: the `datasets.Split` to read.
    min_queue_examples: records that stay in the shuffle queue.
    batch_size: examples a batch.
    image_size: height and width of the pictures.
    shuffle: for training: without end, shuffled and distorted. Else for
      evaluation: each example once, in order, cropped at the centre.
    capacity: how many finished batches may wait.
    num_threads: how many batches are made at the same time.

  Returns:
    The queue of finished batches: images float32 [batch, image_size,
    image_size, 3], labels int32 [batch], and what undoes the standardization,
    float32 [batch, 2].
  """
  collected = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
  num_collected = len(collected)
  filename_queue = tf.train.string_input_producer(
    list(split.files), num_epochs=None if shuffle else 1, shuffle=shuffle
  )
  # The producer charts how full its queue of file names is: nobody's question.
  del collected[num_collected:]
  reader = tf.FixedLengthRecordReader(split.spec.record_bytes)

  def read():
    return reader.read_up_to(filename_queue, batch_size).values

  if shuffle:
    records = _shuffled_records(
      read, min_queue_examples, batch_size, num_threads
    )
  else:
    records = _ordered_records(read, batch_size)
  planes, labels = _parse_records(
    records, split.spec.label_bytes, split.spec.label_index
  )
  if shuffle:
    draws = distortions.draw(batch_size, image_size)
    images, levels = distortions.apply(planes, draws, image_size)
  else:
    images, levels = distortions.standardize(
      distortions.central_windows(
        distortions.planes_to_pixels(planes), image_size
      )
    )
  batch = [images, labels, levels]
  queue = tf.FIFOQueue(
    capacity,
    [values.dtype for values in batch],
    [values.shape for values in batch] if shuffle else None,
    name='batch_queue',
  )
  tf.train.add_queue_runner(
    tf.train.QueueRunner(queue, [queue.enqueue(batch)] * num_threads)
  )
  return queue


def _shuffled_records(read, min_queue_examples, batch_size, num_threads):
  """Returns `batch_size` records, drawn from a queue of the next ones.

  Args:
    read: function that makes the operation that reads some records.
    min_queue_examples: records left in the queue: how well it shuffles.
    batch_size: how many to draw.
    num_threads: how many threads draw from the queue. Each fills it before it
      draws; it must then hold a batch for each of them, lest all of them wait.
  """
  full = min_queue_examples + num_threads * batch_size
  queue = tf.RandomShuffleQueue(
    # Each thread may add a batch after it saw the queue not yet full. One more
    # is slack: with one thread this is the tutorial's capacity.
    capacity=full + (num_threads + 1) * batch_size,
    min_after_dequeue=min_queue_examples,
    dtypes=[tf.string],
    shapes=[[]],
    name='shuffle_queue',
  )
  summaries.scalar('input/examples_in_queue', tf.to_float(queue.size()))

  def fill(_):
    with tf.control_dependencies([queue.enqueue_many([read()])]):
      return queue.size()

  size = tf.while_loop(
    lambda size: size < full,
    fill,
    [queue.size()],
    name='fill',
  )
  with tf.control_dependencies([size]):
    return queue.dequeue_many(batch_size)


def _ordered_records(read, batch_size):
  """Returns the next `batch_size` records, fewer at the end of all files."""
  queue = tf.FIFOQueue(3 * batch_size, [tf.string], [[]], name='record_queue')
  tf.train.add_queue_runner(
    tf.train.QueueRunner(queue, [queue.enqueue_many([read()])])
  )
  return queue.dequeue_up_to(batch_size)


def _parse_records(records, label_bytes, label_index):
  """Parses records into the planes of pictures and labels.

  Args:
    records: string [n], each label bytes and then the planes of a picture.
    label_bytes: label bytes at the start of a record.
    label_index: which of them is the label.

  Returns:
    planes uint8 [n, 3, 32, 32], labels int32 [n].
  """
  values = tf.decode_raw(records, tf.uint8)
  labels = tf.cast(values[:, label_index], tf.int32)
  planes = tf.reshape(
    values[:, label_bytes : label_bytes + specs.IMAGE_BYTES],
    [-1, specs.DEPTH, specs.HEIGHT, specs.WIDTH],
  )
  planes.set_shape(records.shape.concatenate(planes.shape[1:]))
  return planes, labels
