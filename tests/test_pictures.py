"""Picture files of every kind, and what is broken or no picture."""

import io
import os
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import gradient, write_gif
from PIL import Image

from cifar10 import pictures
from cifar10.pictures import PictureError


def saved(image, path, **options):
  """Saves a Pillow image; returns what `read` makes of the file."""
  image.save(path, **options)
  return pictures.read(str(path))


def central(pixels):
  """Returns the central square; of a pixel too many the last is cut off."""
  height, width = pixels.shape[:2]
  side = min(height, width)
  top, left = (height - side) // 2, (width - side) // 2
  return pixels[top : top + side, left : left + side]


def decoded_by_tensorflow(path):
  contents = pathlib.Path(path).read_bytes()
  with tf.Graph().as_default(), tf.Session() as session:
    return session.run(
      tf.image.decode_jpeg(contents, channels=3, dct_method='INTEGER_ACCURATE')
    )


@pytest.mark.parametrize('name', ['a.png', 'a.bmp', 'a', 'a.jpg'])
def test_pixels_of_a_lossless_file_are_kept_whatever_its_name(name, tmp_path):
  pixels = gradient(19, 27)
  kind = 'BMP' if name == 'a.bmp' else 'PNG'
  found = saved(Image.fromarray(pixels), tmp_path / name, format=kind)
  assert found.dtype == np.uint8
  np.testing.assert_array_equal(found, central(pixels))


@pytest.mark.parametrize(
  'mode, options',
  [
    ('RGB', {'subsampling': 0}),
    ('RGB', {'subsampling': 1}),
    ('RGB', {'subsampling': 2, 'quality': 40}),
    ('RGB', {'progressive': True}),
    ('L', {}),
    ('CMYK', {}),
  ],
)
def test_a_jpeg_is_decoded_as_tensorflow_does(mode, options, tmp_path):
  path = tmp_path / 'a.jpg'
  image = Image.fromarray(gradient(123, 67)).convert(mode)
  found = saved(image, path, **options)
  np.testing.assert_array_equal(found, central(decoded_by_tensorflow(path)))


@pytest.mark.data
def test_real_jpegs_are_decoded_as_tensorflow_does(real_data, tmp_path):
  with open(real_data + '/cifar-10-batches-bin/test_batch.bin', 'rb') as f:
    records = np.frombuffer(f.read(3073 * 200), np.uint8).reshape(200, 3073)
  for i, record in enumerate(records):
    path = tmp_path / ('%d.jpg' % i)
    pixels = record[1:].reshape(3, 32, 32).transpose(1, 2, 0)
    found = saved(Image.fromarray(np.ascontiguousarray(pixels)), path)
    np.testing.assert_array_equal(found, decoded_by_tensorflow(path))


def test_a_palette(tmp_path):
  image = Image.new('P', (4, 2), 1)
  image.putpalette([0, 0, 0, 200, 100, 50])
  for name in ('a.png', 'a.bmp', 'a.gif'):
    found = saved(image, tmp_path / name)
    assert found.shape == (2, 2, 3)
    assert (found == [200, 100, 50]).all()


def test_grey_and_one_bit(tmp_path):
  grey = np.arange(9, dtype=np.uint8).reshape(3, 3) * 25
  found = saved(Image.fromarray(grey), tmp_path / 'grey.png')
  np.testing.assert_array_equal(found, np.stack([grey] * 3, axis=2))
  bits = Image.fromarray(grey > 100).convert('1')
  for name in ('bits.bmp', 'bits.png'):
    found = saved(bits, tmp_path / name)
    np.testing.assert_array_equal(found[..., 1], (grey > 100) * 255)


def test_transparency_is_dropped(tmp_path):
  pixels = np.dstack([gradient(6, 6), np.full([6, 6], 7, np.uint8)])
  found = saved(Image.fromarray(pixels), tmp_path / 'a.png')
  np.testing.assert_array_equal(found, pixels[..., :3])
  image = Image.merge('LA', [Image.new('L', (2, 2), v) for v in (90, 0)])
  assert (saved(image, tmp_path / 'b.png') == 90).all()


def test_of_16_bits_the_upper_8_are_kept(tmp_path):
  grey = (np.arange(4, dtype=np.uint16).reshape(2, 2) * 9999).astype('<u2')
  path = tmp_path / 'a.png'
  found = saved(Image.fromarray(grey), path)
  np.testing.assert_array_equal(found[..., 2], grey >> 8)
  # TensorFlow writes colours of 16 bits, which Pillow does not.
  colours = np.stack([grey, grey // 2, grey // 3], axis=2)
  with tf.Graph().as_default(), tf.Session() as session:
    path.write_bytes(session.run(tf.image.encode_png(colours)))
  np.testing.assert_array_equal(pictures.read(str(path)), colours >> 8)


def test_the_first_frame(tmp_path):
  write_gif(tmp_path / 'a.gif', (255, 0, 0), (0, 0, 255))
  assert (pictures.read(str(tmp_path / 'a.gif')) == [255, 0, 0]).all()


@pytest.mark.parametrize(
  'orientation, turn',
  [
    (1, lambda x: x),
    (2, lambda x: x[:, ::-1]),
    (3, lambda x: x[::-1, ::-1]),
    (4, lambda x: x[::-1]),
    (5, lambda x: x.transpose(1, 0, 2)),
    (6, lambda x: np.rot90(x, -1)),
    (7, lambda x: np.rot90(x, 2).transpose(1, 0, 2)),
    (8, lambda x: np.rot90(x)),
    (9, lambda x: x),
  ],
)
def test_a_picture_on_its_side_is_turned_upright(orientation, turn, tmp_path):
  exif = Image.Exif()
  exif[0x0112] = orientation
  path = tmp_path / 'a.jpg'
  found = saved(Image.fromarray(gradient(16, 39)), path, exif=exif)
  np.testing.assert_array_equal(
    found, central(turn(decoded_by_tensorflow(path)))
  )


def test_broken_notes_of_a_camera_are_no_broken_picture(tmp_path):
  path = tmp_path / 'a.jpg'
  found = saved(Image.fromarray(gradient(8, 8)), path, exif=b'Exif\0\0junk')
  np.testing.assert_array_equal(found, decoded_by_tensorflow(path))
  # A resolution that is text, as some cameras have it: the rest is used.
  exif = b'Exif\0\0MM\0*\0\0\0\x08\0\x02' + b''.join(
    [
      b'\x01\x12\0\x03\0\0\0\x01\0\x03\0\0',
      b'\x01\x28\0\x02\0\0\0\x04abc\0',
      b'\0\0\0\0',
    ]
  )
  found = saved(Image.fromarray(gradient(8, 8)), path, exif=exif)
  np.testing.assert_array_equal(found, decoded_by_tensorflow(path)[::-1, ::-1])


def _cut(path):
  image = Image.fromarray(gradient(200, 200))
  image.save(path, format='PNG' if path.suffix == '.png' else 'JPEG')
  path.write_bytes(path.read_bytes()[:-400])


def _bomb(path):
  # A header that claims 60,000 x 60,000 pixels.
  buffer = io.BytesIO()
  Image.new('L', (1, 1)).save(buffer, 'BMP')
  contents = bytearray(buffer.getvalue())
  contents[18:26] = np.array([60000, 60000], '<u4').tobytes()
  path.write_bytes(contents)


@pytest.mark.parametrize(
  'name, make, said',
  [
    ('a.jpg', lambda path: path.write_bytes(b''), 'no picture of a kind'),
    ('a.png', lambda path: path.write_text('Hello'), 'no picture of a kind'),
    ('a.svg', lambda path: path.write_text('<svg/>'), 'no picture of a kind'),
    ('cut.png', _cut, 'cannot be read: '),
    ('cut.jpg', _cut, 'cannot be read: '),
    ('a.bmp', _bomb, 'pixels'),
    ('a', lambda path: path.mkdir(), 'a folder without files'),
    ('a', lambda path: os.mkfifo(path), 'no file'),
    ('a', lambda path: None, 'No such file'),
    ('a', lambda path: path.symlink_to('nowhere'), 'No such file'),
  ],
)
def test_what_is_no_picture_is_named(name, make, said, tmp_path):
  path = tmp_path / name
  make(path)
  with pytest.raises(PictureError) as raised:
    pictures.read(str(path))
  message = str(raised.value)
  assert message.startswith('%s: ' % path)
  assert said in message
  assert '\n' not in message


def _shrink(pixels):
  with tf.Graph().as_default(), tf.Session() as session:
    return session.run(pictures.shrink(tf.constant(pixels)))


def _area_means(pixels):
  """The mean of each of 32x32 areas of a square, parts of pixels included."""
  side = len(pixels)
  edges = np.arange(33) * side / 32
  overlap = np.minimum(edges[1:, None], np.arange(1, side + 1))
  overlap = overlap - np.maximum(edges[:-1, None], np.arange(side))
  weights = np.maximum(overlap, 0) * 32 / side
  return np.einsum('ai,ijc,bj->abc', weights, pixels.astype(float), weights)


@pytest.mark.parametrize('side', [32, 64, 96, 33, 50, 301])
def test_shrinking_is_the_mean_of_areas(side, rng):
  pixels = rng.integers(0, 256, [side, side, 3], np.uint8)
  found = _shrink(pixels)
  assert found.dtype == np.uint8
  # Rounded to the nearest, but for float32's last digits.
  np.testing.assert_allclose(found, _area_means(pixels), atol=0.501)


def test_the_central_square_is_kept(rng):
  wide = rng.integers(0, 256, [40, 73, 3], np.uint8)
  np.testing.assert_array_equal(_shrink(wide), _shrink(wide[:, 16:56]))
  high = wide.transpose(1, 0, 2)
  np.testing.assert_array_equal(_shrink(high), _shrink(high[16:56]))


@pytest.mark.parametrize('side', [1, 2, 16])
def test_small_pictures_are_magnified(side, rng):
  pixels = rng.integers(0, 256, [side, side, 3], np.uint8)
  factor = 32 // side
  expected = pixels.repeat(factor, axis=0).repeat(factor, axis=1)
  np.testing.assert_array_equal(_shrink(pixels), expected)


def test_a_picture_of_one_pixel_height(tmp_path):
  (tmp_path / 'a').mkdir()
  Image.fromarray(gradient(1, 5000)).save(tmp_path / 'a' / 'line.png')
  [(_, pixels)] = pictures.read_all([str(tmp_path / 'a' / 'line.png')])
  assert (pixels == gradient(1, 5000)[0, 2499]).all()


def test_files_of_folders_are_found_in_order(tmp_path):
  for name in ('b/2.png', 'b/1.png', 'b/c/3', 'b/.DS_Store', 'b/.git/x', 'a'):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
  (tmp_path / 'empty' / '.hidden').mkdir(parents=True)
  names = [str(tmp_path / name) for name in ('b', 'a', 'empty', 'gone')]
  assert [os.path.relpath(p, tmp_path) for p in pictures.find(names)] == [
    'b/1.png',
    'b/2.png',
    'b/c/3',
    'a',
    'empty',
    'gone',
  ]


def test_links_are_followed_and_not_for_ever(tmp_path):
  for name in ('a/1', 'elsewhere/2'):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).touch()
  (tmp_path / 'a' / 'link').symlink_to(tmp_path / 'elsewhere')
  (tmp_path / 'a' / 'loop').symlink_to(tmp_path / 'a')
  found = list(pictures.find([str(tmp_path / 'a')]))
  assert found == [str(tmp_path / 'a' / name) for name in ('1', 'link/2')]


def test_a_name_is_shown_on_one_line():
  name = os.fsdecode('ä b\n\t'.encode() + b'\xff')
  assert pictures.shown(name) == 'ä b\\n\\t\\udcff'
  with pytest.raises(PictureError) as raised:
    pictures.read(name)
  assert str(raised.value).startswith('ä b\\n\\t\\udcff: ')


def test_pictures_of_many_pixels(tmp_path, monkeypatch):
  monkeypatch.setattr(pictures, '_MANY_PIXELS', 99)
  names = [str(tmp_path / ('%d.png' % i)) for i in range(20)]
  for i, name in enumerate(names):
    Image.new('RGB', (10, 10), (i, 0, 0)).save(name)
  for i, (_, pixels) in enumerate(pictures.read_all(names)):
    assert (pixels == [i, 0, 0]).all()


def test_what_tensorflow_cannot_do_is_said(tmp_path, monkeypatch):
  Image.new('RGB', (10, 10)).save(tmp_path / 'a.png')

  def fail(self, pixels):
    raise tf.errors.ResourceExhaustedError(None, None, 'no memory')

  monkeypatch.setattr(pictures._Shrinker, '__call__', fail)
  [(_, error)] = pictures.read_all([str(tmp_path / 'a.png')])
  assert str(error).endswith('a.png: cannot be shrunk: no memory')


def test_all_are_read_in_order_and_not_far_ahead(tmp_path, monkeypatch):
  monkeypatch.setattr(pictures, '_THREADS', 2)
  for i in range(100):
    Image.new('RGB', (10 + i, 20), (i, 0, 0)).save(tmp_path / ('%d.png' % i))
  (tmp_path / '7.png').write_text('none')
  asked = []

  def paths():
    for i in range(100):
      asked.append(i)
      yield str(tmp_path / ('%d.png' % i))

  for i, (path, pixels) in enumerate(pictures.read_all(paths())):
    assert path == str(tmp_path / ('%d.png' % i))
    if i == 7:
      assert isinstance(pixels, PictureError)
    else:
      assert pixels.shape == (32, 32, 3)
      assert (pixels == [i, 0, 0]).all()
    assert len(asked) <= i + 2 + 2 * 16
