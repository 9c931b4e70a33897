"""Pictures of an evaluation, drawn by matplotlib, which need not be there."""

import functools
import io
import logging
import struct
import warnings

import tensorflow.compat.v1 as tf

# Pixels an inch, of all pictures.
_DPI = 100

# Mistakes that are shown: rows and columns of them.
MISTAKES_GRID = (5, 5)

# Classes of a matrix whose cells have room for a count.
_MAX_COUNTED = 120

# What fits beside a matrix, and above a picture of 1.5 inches.
_MAX_NAME = 20

log = logging.getLogger(__name__)


@functools.cache
def available():
  """Returns whether pictures can be drawn; where not, says so, once."""
  # It says where it keeps its settings, and its list of fonts.
  logging.getLogger('matplotlib').setLevel(logging.ERROR)
  try:
    import matplotlib.figure  # noqa: F401
  except ImportError:
    log.info(
      'Without matplotlib there are no pictures of the confusion matrix and of '
      "mistakes: pip install 'matplotlib>=3.8'"
    )
    return False
  return True


def confusion_matrix(matrix, class_names, title):
  """Draws a matrix of counts, shaded by each one's part of its row.

  Args:
    matrix: int [classes, classes], true classes by predicted ones.
    class_names: tuple of str.
    title: str.

  Returns:
    A `tf.Summary.Image`.
  """
  n = len(class_names)
  # Inches a cell: four digits find room, or three where there are many. Beyond
  # that there is room for the shades alone.
  cell = 0.55 if n <= 20 else 0.3 if n <= _MAX_COUNTED else 0.15
  figure = _figure(cell * n, cell * n)
  axes = figure.add_axes((0, 0, 1, 1))
  shares = matrix / matrix.sum(axis=1, keepdims=True).clip(1)
  # Shaded by the square root, so that what is rare is seen as well.
  axes.imshow(shares**0.5, cmap='Blues', vmin=0, vmax=1)
  names = [_short(name) for name in class_names]
  size = 9 if n <= 20 else 7
  plain = {'parse_math': False, 'fontsize': size}
  axes.set_xticks(range(n), names, rotation=90, **plain)
  axes.set_yticks(range(n), names, **plain)
  borders = [i - 0.5 for i in range(n + 1)]
  axes.set_xticks(borders, minor=True)
  axes.set_yticks(borders, minor=True)
  axes.tick_params(which='both', length=0)
  axes.grid(which='minor', color='0.9', linewidth=0.5)
  axes.set_xlabel('predicted class')
  axes.set_ylabel('true class')
  axes.set_title(title, parse_math=False, fontsize=10)
  cells = zip(*matrix.nonzero()) if n <= _MAX_COUNTED else []
  for row, column in cells:
    text = axes.text(
      column,
      row,
      str(matrix[row, column]),
      color='white' if shares[row, column] > 0.4 else 'black',
      ha='center',
      va='center',
      fontsize=size - 1,
    )
    text.set_in_layout(False)  # thousands of them, all within the axes
  return _image(figure)


def mistakes(images, captions, title):
  """Draws pictures in a grid, each with a caption.

  Args:
    images: uint8 [n, height, width, 3], as many as `MISTAKES_GRID` at most.
    captions: list of str, each of two lines.
    title: str.

  Returns:
    A `tf.Summary.Image`.
  """
  rows, columns = MISTAKES_GRID
  rows = -(-len(images) // columns)
  height = 2.0 * rows
  figure = _figure(1.7 * columns, height)
  figure.subplots_adjust(top=0.9)
  for i, (image, text) in enumerate(zip(images, captions)):
    axes = figure.add_subplot(rows, columns, i + 1)
    axes.imshow(image, interpolation='nearest')
    axes.set_axis_off()
    axes.set_title(text, parse_math=False, fontsize=8)
  # Above the first row's captions, which have two lines.
  figure.suptitle(title, y=0.9 + 0.55 / height, parse_math=False, fontsize=10)
  return _image(figure)


def caption(label, prediction, probability):
  """Returns the caption of a mistake, in two lines."""
  return '%s, taken for\n%s %.3f' % (
    _short(label),
    _short(prediction),
    probability,
  )


def _short(name):
  return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + '…'


def _figure(width, height):
  import matplotlib.figure

  # Not pyplot's, which would look for a screen and keep them all.
  return matplotlib.figure.Figure(figsize=(width, height), dpi=_DPI)


def _image(figure):
  png = io.BytesIO()
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # of letters that the font does not have
    figure.savefig(png, format='png', bbox_inches='tight', pad_inches=0.1)
  # The first chunk of a PNG file begins with them (RFC 2083).
  width, height = struct.unpack('>II', png.getvalue()[16:24])
  return tf.Summary.Image(
    width=width,
    height=height,
    colorspace=4,  # RGBA
    encoded_image_string=png.getvalue(),
  )
