"""Pictures in files, of any size and kind, as 32x32 pixels in RGB.

Pillow decodes: it knows palettes, CMYK, the orientation that a camera notes,
and the first frame of a GIF. Of a JPEG its pixels are those of TensorFlow's
`decode_jpeg(dct_method='INTEGER_ACCURATE')`. TensorFlow shrinks: the graph of
an exported model does it by the same function.
"""

import collections
import concurrent.futures
import os
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from PIL import ExifTags, Image

from cifar10 import Error, specs

FORMATS = ('PNG', 'JPEG', 'BMP', 'GIF', 'WEBP')

# Of every picture, as data sets have it.
SHAPE = (specs.HEIGHT, specs.WIDTH, specs.DEPTH)
_THREADS = min(8, os.cpu_count() or 1)
# Files that are read ahead of the one that is wanted, for each thread.
_AHEAD = 16
# A picture of more pixels takes half a gigabyte: those are read one by one.
_MANY_PIXELS = 32_000_000
_one_by_one = threading.Lock()

# How to turn upright what a camera's orientation says of a picture (Exif 2.3,
# tag 0x0112); 1 is upright.
_UPRIGHT = {
  2: Image.Transpose.FLIP_LEFT_RIGHT,
  3: Image.Transpose.ROTATE_180,
  4: Image.Transpose.FLIP_TOP_BOTTOM,
  5: Image.Transpose.TRANSPOSE,
  6: Image.Transpose.ROTATE_270,
  7: Image.Transpose.TRANSVERSE,
  8: Image.Transpose.ROTATE_90,
}


class PictureError(Error):
  """A file is no picture that can be read; the message names it."""


def shown(name):
  """Returns a file's name on one line, whatever is in it."""
  return ''.join(
    c if c.isprintable() else ascii(c)[1:-1]  # as \\n, \\udcff
    for c in name
  )


def find(names):
  """Yields the files of some names: those of a folder are all below it, sorted.

  Files and folders in a folder whose names begin with a dot are left out; links
  are followed. What is no file is yielded too, for `read` to say so: a name
  that is not there, a folder that is empty, or that cannot be looked into.

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
  closed, seen = [], set()
  for parent, folders, files in os.walk(
    folder, onerror=closed.append, followlinks=True
  ):
    status = os.stat(parent)
    if (status.st_dev, status.st_ino) in seen:  # a link leads back to it
      folders.clear()
      continue
    seen.add((status.st_dev, status.st_ino))
    folders[:] = sorted(name for name in folders if not name.startswith('.'))
    for name in sorted(files):
      if not name.startswith('.'):
        yield os.path.join(parent, name)
  yield from (e.filename for e in closed if os.path.isdir(e.filename))


def read(path):
  """Reads the central square of a picture of any size.

  Transparency is dropped, of 16 bits the upper 8 are kept, a picture that lies
  on its side is turned upright; of several frames the first is taken.

  Returns:
    uint8 [side, side, 3].

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
      if image.width * image.height <= _MANY_PIXELS:
        return _to_rgb(image)
      with _one_by_one:
        return _to_rgb(image)
  except Image.UnidentifiedImageError as e:
    raise PictureError(
      '%s: no picture of a kind that is known (%s)'
      % (shown(path), ', '.join(FORMATS))
    ) from e
  except Exception as e:  # what decoders raise for broken files is anything
    reason = getattr(e, 'strerror', None) or str(e) or type(e).__name__
    raise PictureError(
      '%s: cannot be read: %s' % (shown(path), ' '.join(reason.split()))
    ) from e


def _to_rgb(image):
  """Returns the central square of a Pillow image, uint8 [side, side, 3]."""
  upright = _UPRIGHT.get(_orientation(image))
  if upright is not None:
    image = image.transpose(upright)
  side = min(image.size)
  left, top = (image.width - side) // 2, (image.height - side) // 2
  if image.width != image.height:
    image = image.crop((left, top, left + side, top + side))
  if image.mode.startswith('I'):  # 16 bits of grey, which Pillow would clip
    image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
  return np.asarray(image.convert('RGB'))


def _orientation(image):
  """Returns what a camera noted; None where that cannot be understood."""
  try:
    return image.getexif().get(ExifTags.Base.Orientation)
  except Exception:  # broken notes are no broken picture
    return None


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
    square[None], SHAPE[:2], method=tf.image.ResizeMethod.AREA
  )
  return tf.ensure_shape(tf.cast(tf.round(area[0]), tf.uint8), SHAPE)


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
  except tf.errors.OpError as e:
    return PictureError('%s: cannot be shrunk: %s' % (shown(path), e.message))


class _Shrinker:
  """Runs `shrink` on arrays, from any thread."""

  def __init__(self):
    with tf.Graph().as_default() as graph:
      self._pixels = tf.placeholder(tf.uint8, [None, None, SHAPE[2]])
      self._small = shrink(self._pixels)
    # It takes no GPU: a training beside it may need all of its memory.
    config = tf.ConfigProto(device_count={'GPU': 0})
    self._session = tf.Session(graph=graph, config=config)

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._session.close()

  def __call__(self, pixels):
    if pixels.shape == SHAPE:
      return pixels
    return self._session.run(self._small, {self._pixels: pixels})
