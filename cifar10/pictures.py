"""Pictures in files, of any size and kind, as 32x32 pixels in RGB.

Pillow decodes: it knows palettes, CMYK, the orientation that a camera notes,
and the first frame of a GIF. Of a JPEG its pixels are those of TensorFlow's
`decode_jpeg(dct_method='INTEGER_ACCURATE')`. TensorFlow shrinks: the graph of
an exported model does it by the same function.
"""

import collections
import concurrent.futures
import os

import numpy as np
import tensorflow.compat.v1 as tf
from PIL import Image, ImageOps

from cifar10 import Error, specs

FORMATS = ('PNG', 'JPEG', 'BMP', 'GIF', 'WEBP')

_SHAPE = (specs.HEIGHT, specs.WIDTH, specs.DEPTH)
_THREADS = os.cpu_count() or 1
# Files that are read ahead of the one that is wanted, for each thread.
_AHEAD = 16


class PictureError(Error):
  """A file is no picture that can be read; the message names it."""


def find(names):
  """Yields the files of some names: those of a folder are all below it, sorted.

  Files and folders in a folder whose names begin with a dot are left out. What
  is no file is yielded too, for `read` to say so: a name that is not there, a
  folder that is empty, or that cannot be looked into.

  Args:
    names: iterable of paths.
  """
  for name in names:
    found = False
    for path in _walk(name):
      found = True
      yield path
    if not found:
      yield name


def _walk(folder):
  closed = []
  for parent, folders, files in os.walk(folder, onerror=closed.append):
    folders[:] = sorted(name for name in folders if not name.startswith('.'))
    for name in sorted(files):
      if not name.startswith('.'):
        yield os.path.join(parent, name)
  yield from (e.filename for e in closed if os.path.isdir(e.filename))


def read(path):
  """Reads a picture of any size.

  Transparency is dropped, of 16 bits the upper 8 are kept, a picture that lies
  on its side is turned upright; of several frames the first is taken.

  Returns:
    uint8 [height, width, 3].

  Raises:
    PictureError: the file cannot be read as a picture.
  """
  try:
    if os.path.isdir(path):
      os.listdir(path)
      raise OSError('a folder without files')
    if os.path.exists(path) and not os.path.isfile(path):
      raise OSError('no file')  # a pipe would be waited for
    with open(path, 'rb') as f, Image.open(f, formats=FORMATS) as image:
      return _to_rgb(image)
  except Image.UnidentifiedImageError as e:
    raise PictureError(
      '%s: no picture of a kind that is known (%s)' % (path, ', '.join(FORMATS))
    ) from e
  except Exception as e:  # what decoders raise for broken files is anything
    reason = getattr(e, 'strerror', None) or e or type(e).__name__
    raise PictureError('%s: cannot be read: %s' % (path, reason)) from e


def _to_rgb(image):
  """Returns the pixels of a Pillow image, uint8 [height, width, 3]."""
  ImageOps.exif_transpose(image, in_place=True)
  if image.mode.startswith('I'):  # 16 bits of grey, which Pillow would clip
    image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
  return np.asarray(image.convert('RGB'))


def shrink(pixels):
  """Returns the central square of a picture, in the size of the data sets.

  Each pixel is the mean of the area that it stands for; of a picture that is
  smaller, the nearest one.

  Args:
    pixels: uint8 [height, width, 3].

  Returns:
    uint8 [32, 32, 3].
  """
  height, width = tf.unstack(tf.shape(pixels)[:2])
  side = tf.minimum(height, width)
  top, left = (height - side) // 2, (width - side) // 2
  square = pixels[top : top + side, left : left + side]
  area = tf.image.resize(
    square[None], _SHAPE[:2], method=tf.image.ResizeMethod.AREA
  )
  return tf.ensure_shape(tf.cast(tf.round(area[0]), tf.uint8), _SHAPE)


def read_all(paths):
  """Reads pictures on all cores, a bounded number of them ahead.

  Args:
    paths: iterable of paths.

  Yields:
    path and uint8 [32, 32, 3] of each, in order; or the `PictureError` in the
    place of the pixels.
  """
  with _Shrinker() as shrinker, _Pool(_THREADS) as pool:
    waiting = collections.deque()
    for path in paths:
      waiting.append((path, pool.submit(_read_small, path, shrinker)))
      if len(waiting) > _AHEAD * _THREADS:
        path, future = waiting.popleft()
        yield path, future.result()
    for path, future in waiting:
      yield path, future.result()


class _Pool(concurrent.futures.ThreadPoolExecutor):
  """Threads that do not finish what nobody waits for any more."""

  def __exit__(self, kind, value, traceback):
    self.shutdown(cancel_futures=True)


def _read_small(path, shrinker):
  try:
    return shrinker(read(path))
  except PictureError as e:
    return e


class _Shrinker:
  """Runs `shrink` on arrays, from any thread."""

  def __init__(self):
    with tf.Graph().as_default() as graph, tf.device('/cpu:0'):
      self._pixels = tf.placeholder(tf.uint8, [None, None, _SHAPE[2]])
      self._small = shrink(self._pixels)
    self._session = tf.Session(graph=graph)

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._session.close()

  def __call__(self, pixels):
    if pixels.shape == _SHAPE:
      return pixels
    return self._session.run(self._small, {self._pixels: pixels})
