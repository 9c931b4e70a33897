"""Draws `sample`, the generated data set: ten shapes and textures.

It lets the whole program run, and learn something, where no data set can be
downloaded. Classes differ in shape or texture alone: place, size, colours,
clutter and noise are drawn from the same distributions for each of them. All
classes are closed under mirroring, and objects lie near the centre, so that
any 24x24 crop, flipped or not, still shows which class it is.

Only random doubles, +, -, *, /, floor and sqrt are used. IEEE 754 defines their
results to the last bit, so a seed gives the same bytes on every machine.

Within, all arrays are float32 [picture, channel, row, column], and an axis of
one broadcasts: parameters are [n, 1, 1, 1], colours [n, 3, 1, 1]. Masks,
[n, 1, 32, 32], hold the share of each pixel that is covered, 0 to 1. Lengths
are in pixels, colours and levels run from 0 to 255.
"""

import numpy as np

_SIDE = 32
_NUM_CLUTTER_BARS = 5


def _edge(depth):
  """Returns the mask of a shape, given each pixel's depth inside it."""
  return np.clip(depth + np.float32(0.5), 0, 1)


def _wrap(u, period):
  """Returns the signed distance of u from the nearest multiple of period."""
  return u - period * np.floor(u / period + np.float32(0.5))


def _stripes(u, period):
  """Returns the mask of stripes along the lines of equal u."""
  return _edge(period / 4 - np.abs(_wrap(u, period)))


# A class is a function of the coordinates x (right) and y (down),
# [n, 1, 32, 32] with the object's centre at 0, and of size, [n, 1, 1, 1]. The
# factors give all shapes about the same extent to the eye.


def _disk(x, y, size):
  return _edge(size - np.sqrt(x * x + y * y))


def _ring(x, y, size):
  distance = np.sqrt(x * x + y * y)
  return _edge(0.2 * size - np.abs(distance - size))


def _square(x, y, size):
  return _edge(0.9 * size - np.maximum(np.abs(x), np.abs(y)))


def _triangle(x, y, size):
  """Equilateral, with the apex up and the incircle's radius 0.6 size."""
  sides = 0.8660254 * np.abs(x) - 0.5 * y
  return _edge(0.6 * size - np.maximum(y, sides))


def _cross(x, y, size):
  length, width = 1.15 * size, 0.3 * size
  x, y = np.abs(x), np.abs(y)
  along_x = np.minimum(length - x, width - y)
  along_y = np.minimum(width - x, length - y)
  return _edge(np.maximum(along_x, along_y))


def _horizontal_stripes(x, y, size):
  return _stripes(y, size)


def _vertical_stripes(x, y, size):
  return _stripes(x, size)


def _diagonal_stripes(x, y, size):
  # Half of the pictures are mirrored, which gives the other direction.
  return _stripes(0.70710678 * (x + y), size)


def _checkerboard(x, y, size):
  columns = _stripes(x, 1.4 * size)
  rows = _stripes(y, 1.4 * size)
  return columns + rows - 2 * columns * rows


def _dots(x, y, size):
  u, v = _wrap(x, size), _wrap(y, size)
  return _edge(0.3 * size - np.sqrt(u * u + v * v))


_CLASSES = {
  'disk': _disk,
  'ring': _ring,
  'square': _square,
  'triangle': _triangle,
  'cross': _cross,
  'horizontal stripes': _horizontal_stripes,
  'vertical stripes': _vertical_stripes,
  'diagonal stripes': _diagonal_stripes,
  'checkerboard': _checkerboard,
  'dots': _dots,
}
CLASS_NAMES = tuple(_CLASSES)


def _uniform(rng, low, high, n, channels=1, side=1):
  """Returns uniform values in [low, high], [n, channels, side, side]."""
  # Doubles, because numpy has changed how it draws float32 before.
  share = rng.random((n, channels, side, side))
  return (low + (high - low) * share).astype(np.float32)


def _sign(rng, n):
  """Returns -1 or 1 for each picture, [n, 1, 1, 1]."""
  return np.where(_uniform(rng, -1, 1, n) < 0, -1, 1).astype(np.float32)


def _coordinates(rng, n, reach, max_slope):
  """Returns x and y, [n, 1, 32, 32], of a moved, turned, mirrored frame.

  Args:
    rng: `numpy.random.Generator`.
    n: number of pictures.
    reach: farthest that the frame's centre lies from the picture's, per axis.
    max_slope: tangent of half the largest rotation; 1 stands for 90 degrees.
  """
  pixels = np.arange(_SIDE, dtype=np.float32) - (_SIDE - 1) / 2
  x = pixels - _uniform(rng, -reach, reach, n)
  y = pixels[:, np.newaxis] - _uniform(rng, -reach, reach, n)
  # The tangent of the half angle gives cosine and sine by division alone.
  slope = _uniform(rng, -max_slope, max_slope, n)
  cosine = (1 - slope * slope) / (1 + slope * slope)
  sine = 2 * slope / (1 + slope * slope)
  # Mirroring every class at random closes each of them under mirroring.
  mirror = _sign(rng, n)
  return mirror * (cosine * x + sine * y), cosine * y - sine * x


def _colours(rng, n):
  """Returns foreground and background colours, both [n, 3, 1, 1].

  Either may be the lighter. Their mean levels differ by 56 at least, so that
  the object stands out from noise and clutter.
  """
  middle = _uniform(rng, 90, 165, n)
  half_distance = _uniform(rng, 28, 45, n) * _sign(rng, n)
  tints = _uniform(rng, -30, 30, 2 * n, channels=3)
  # Without their grey part the tints leave the difference in level alone.
  tints -= (tints[:, :1] + tints[:, 1:2] + tints[:, 2:]) / 3
  return middle + half_distance + tints[:n], middle - half_distance + tints[n:]


def _add_clutter(rng, canvas):
  """Strews short bars over canvas, [n, 3, 32, 32], in place."""
  n = len(canvas)
  for _ in range(_NUM_CLUTTER_BARS):
    x, y = _coordinates(rng, n, reach=_SIDE / 2, max_slope=1)
    length, width = _uniform(rng, 1, 6, n), _uniform(rng, 0.5, 1.5, n)
    bar = _edge(np.minimum(length - np.abs(x), width - np.abs(y)))
    colour = _uniform(rng, 0, 255, n, channels=3)
    canvas += _uniform(rng, 0.3, 1, n) * bar * (colour - canvas)


def _paint(rng, mask_of_class, n):
  """Returns n pictures of one class, uint8 [n, 32, 32, 3]."""
  # Farther or larger, an object would lose its outline in the outermost crops;
  # turned farther, slanted stripes would pass for diagonal ones.
  x, y = _coordinates(rng, n, reach=3, max_slope=0.15)
  mask = mask_of_class(x, y, _uniform(rng, 6, 9, n))
  foreground, background = _colours(rng, n)
  canvas = background + mask * (foreground - background)
  _add_clutter(rng, canvas)
  # Light falls off along a direction of its own, over object and background.
  u, _ = _coordinates(rng, n, reach=0, max_slope=1)
  shading = _uniform(rng, 0, 2, n) * u
  # Noise steadies training: with less of it and more contrast, the loss at
  # the tutorial's learning rate of 0.1 still jumped after 500 steps.
  noise = _uniform(rng, -1, 1, n, channels=3, side=_SIDE)
  canvas += shading + _uniform(rng, 40, 65, n) * noise
  levels = np.clip(canvas + np.float32(0.5), 0, 255).astype(np.uint8)
  return levels.transpose(0, 2, 3, 1)


def draw(num_examples, seed):
  """Draws labelled pictures; equal arguments give equal bytes.

  Args:
    num_examples: how many, at least 0.
    seed: non-negative int.

  Returns:
    labels: uint8 [num_examples], indices into `CLASS_NAMES`, shuffled; the
      classes' counts differ by one at most.
    images: uint8 [num_examples, 32, 32, 3], in the order red, green, blue.

  Raises:
    ValueError: num_examples is negative.
  """
  if num_examples < 0:
    raise ValueError(f'num_examples must be at least 0, not {num_examples}')
  rng = np.random.Generator(np.random.PCG64(seed))
  order = np.argsort(rng.random(num_examples), kind='stable')
  labels = (order % len(CLASS_NAMES)).astype(np.uint8)
  images = np.empty((num_examples, _SIDE, _SIDE, 3), np.uint8)
  for label, mask_of_class in enumerate(_CLASSES.values()):
    members = np.flatnonzero(labels == label)
    images[members] = _paint(rng, mask_of_class, len(members))
  return labels, images


def records(num_examples, seed):
  """Draws as `draw` does, in the layout of the CIFAR-10 binary files.

  Returns:
    bytes, 3,073 for each example: the label, then the red, the green and the
    blue plane, each 32x32 row by row.
  """
  labels, images = draw(num_examples, seed)
  planes = images.transpose(0, 3, 1, 2).reshape(num_examples, -1)
  return np.hstack([labels[:, np.newaxis], planes]).tobytes()
