"""Pictures in memory and on disk, and a session to read them in."""

import contextlib

import numpy as np
import tensorflow.compat.v1 as tf
from PIL import Image


def random_images(n, seed=0):
  generator = np.random.default_rng(seed)
  return generator.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def write_records(path, labels, images):
  """Writes a file in the layout of CIFAR-10 or CIFAR-100.

  Args:
    path: where to.
    labels: integers [n], or [n, 2] for two label bytes.
    images: uint8 [n, 32, 32, 3].
  """
  labels = np.asarray(labels, np.uint8).reshape(len(images), -1)
  planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
  path.write_bytes(np.hstack([labels, planes]).tobytes())


def gradient(height, width):
  """Returns pixels that differ in each row, column and channel."""
  y, x = np.mgrid[0:height, 0:width]
  return np.dstack([3 * y + x, 5 * x, 7 * y + 100]).astype(np.uint8)


def write_gif(path, *colours):
  """Writes an animated GIF, a colour for each frame."""
  first, *others = [Image.new('RGB', (8, 8), colour) for colour in colours]
  first.save(path, save_all=True, append_images=others)


def write_folder(folder, rng, **counts):
  """Writes a folder of PNG files for each class, of random pixels.

  Args:
    folder: where to.
    rng: the random generator.
    **counts: how many pictures of each class.

  Returns:
    dict from class name to the list of their pixels.
  """
  written = {}
  for name, count in counts.items():
    (folder / name).mkdir(parents=True)
    written[name] = list(rng.integers(0, 256, [count, 32, 32, 3], np.uint8))
    for i, pixels in enumerate(written[name]):
      Image.fromarray(pixels).save(folder / name / ('%03d.png' % i))
  return written


def standardized(images):
  """The definition: minus the mean, by a stddev of at least 1 / sqrt(n)."""
  flat = images.astype(np.float64).reshape(len(images), -1)
  flat -= flat.mean(axis=1, keepdims=True)
  stddev = np.maximum(flat.std(axis=1, keepdims=True), flat.shape[1] ** -0.5)
  return (flat / stddev).reshape(images.shape)


@contextlib.contextmanager
def open_session():
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
