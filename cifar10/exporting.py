"""Exporting: a trained network as a SavedModel, and as a TensorFlow Lite file.

`export` is what the script calls; its arguments are its flags.
"""

import functools
import logging
import os
import warnings

import numpy as np
import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  archives,
  checkpoints,
  cifar10,
  datasets,
  distortions,
  models,
  pictures,
  signals,
  specs,
)

_SHAPE = [specs.HEIGHT, specs.WIDTH, specs.DEPTH]
_TFLITE_FILE = 'model.tflite'
# How far the probabilities of the two files may be apart.
_TOLERANCE = 1e-4

log = logging.getLogger(__name__)


def export(
  *,
  checkpoint_dir,
  export_dir,
  data_dir=datasets.DATA_DIR,
  tflite=False,
  use_raw_weights=False,
  dataset=None,
  label=None,
  image_size=None,
  use_fp16=None,
):
  """Writes the newest checkpoint as the next version of a served model.

  The SavedModel has the signatures `serving_default` (`images`, uint8 [n, 32,
  32, 3]) and `image_bytes` (`image_bytes`, string [n], each an encoded PNG,
  JPEG, GIF or BMP of any size; TensorFlow decodes these: no orientation that a
  camera notes, no palettes in BMPs). Both return `class_index` (int64 [n]),
  `class_name` (string [n]) and `probabilities` (float32 [n, classes]).

  Args:
    checkpoint_dir: the folder of the checkpoints.
    export_dir: the folder of versions: 1, or one more than the highest.
    data_dir: the folder of data sets, for class names that nothing else knows.
    tflite: whether to write `model.tflite` beside the SavedModel: the signature
      `serving_default`.
    use_raw_weights: whether to use the weights, not their moving averages.
    dataset, label, image_size, use_fp16: what goes before what the run says,
      see `models.described`.

  Returns:
    The folder of the new version.

  Raises:
    cifar10.Error: there is no checkpoint, or the folder cannot be written to.
  """
  model = models.newest(
    checkpoint_dir, data_dir, dataset, label, image_size, use_fp16
  )
  if tflite and model.use_fp16:
    raise Error(
      '--tflite: TensorFlow Lite has no convolution in float16, which this run '
      'computes in: --nouse_fp16 exports it in float32'
    )
  log.info('Exporting %s', model.path)
  export_dir = os.path.abspath(export_dir)
  try:
    with (
      archives.exclusive(export_dir, 'export'),
      archives.temporary_folder(os.path.join(export_dir, 'export')) as parent,
    ):
      staging = os.path.join(parent, 'version')
      _write_saved_model(model, staging, use_raw_weights)
      if tflite:
        _write_tflite(staging)
      version = _put_in_place(staging, export_dir)
  except (OSError, tf.errors.OpError) as e:
    # TensorFlow's reason comes after the name of a file that is gone by now.
    reason = (
      getattr(e, 'strerror', None)
      or (checkpoints.first_line(e).split('; ')[-1])
    )
    raise Error(
      '--export_dir=%s: cannot be written: %s: name a folder that has space '
      'and can be written to' % (export_dir, reason)
    ) from e
  print(version)
  return version


def _put_in_place(staging, export_dir):
  """Moves a version to the next free number; returns where that is."""
  while True:
    taken = [int(name) for name in os.listdir(export_dir) if name.isdecimal()]
    version = os.path.join(export_dir, str(1 + max(taken, default=0)))
    try:
      # Of two that export at once one finds a folder that is not empty.
      os.rename(staging, version)
      return version
    except OSError:
      if not os.path.exists(version):
        raise


def _write_saved_model(model, folder, use_raw_weights):
  """Writes the SavedModel, of stock operations alone."""
  with tf.Graph().as_default(), signals.deferred():
    images = tf.placeholder(tf.uint8, [None, *_SHAPE], name='images')
    encoded = tf.placeholder(tf.string, [None], name='image_bytes')
    build = functools.partial(_build_outputs, model)
    with tf.variable_scope('', reuse=tf.AUTO_REUSE):
      signatures = {
        'serving_default': tf.saved_model.predict_signature_def(
          {'images': images}, build(images)
        ),
        'image_bytes': tf.saved_model.predict_signature_def(
          {'image_bytes': encoded}, build(_decode(encoded))
        ),
      }
    builder = tf.saved_model.Builder(folder)
    with tf.Session(config=cifar10.session_config()) as session:
      models.restore(session, model.path, use_raw_weights)
      builder.add_meta_graph_and_variables(
        session,
        [tf.saved_model.tag_constants.SERVING],
        signature_def_map=signatures,
        clear_devices=True,
        strip_default_attrs=True,
      )
    builder.save()


def _build_outputs(model, images):
  """Returns what is known of pictures, uint8 [n, 32, 32, 3]."""
  logits = cifar10.inference(
    distortions.central_crops(images, model.run.image_size),
    len(model.run.class_names),
    model.use_fp16,
    summarize=False,
    normalize=functools.partial(tf.nn.lrn, **cifar10.LRN),
  )
  index = tf.argmax(logits, axis=1)
  return {
    'class_index': index,
    'class_name': tf.gather(tf.constant(model.run.class_names), index),
    'probabilities': tf.nn.softmax(logits),
  }


def _decode(encoded):
  """Decodes pictures of any size, string [n], to uint8 [n, 32, 32, 3]."""

  def decode(contents):
    pixels = tf.cond(
      tf.io.is_jpeg(contents),
      lambda: tf.io.decode_jpeg(
        contents, channels=3, dct_method='INTEGER_ACCURATE'
      ),
      lambda: tf.io.decode_image(contents, channels=3, expand_animations=False),
    )
    return pictures.shrink(tf.ensure_shape(pixels, [None, None, 3]))

  return tf.map_fn(decode, encoded, fn_output_signature=tf.uint8)


def _write_tflite(folder):
  """Writes a TensorFlow Lite file into the folder of a SavedModel.

  Raises:
    cifar10.Error: it gives other probabilities than the SavedModel.
  """
  converter = tf.compat.v2.lite.TFLiteConverter.from_saved_model(
    folder, signature_keys=['serving_default']
  )
  try:
    converted = converter.convert()
  except Exception as e:  # the converter's own class of it is not public
    raise Error(
      '--tflite: TensorFlow Lite cannot convert this network: %s'
      % checkpoints.first_line(e)
    ) from e
  path = os.path.join(folder, _TFLITE_FILE)
  with open(path, 'wb') as f:
    f.write(converted)
  _check_tflite(path, folder)
  log.info('%s is there as well, and agrees with it', _TFLITE_FILE)


def _check_tflite(path, folder):
  """Raises `cifar10.Error` where the files do not agree on random pictures."""
  images = np.random.default_rng(0).integers(0, 256, [10, *_SHAPE], np.uint8)
  served = tf.saved_model.load_v2(folder).signatures['serving_default']
  wanted = served(images=tf.constant(images))['probabilities'].numpy()
  with warnings.catch_warnings():
    # It has no other name in TensorFlow 2.21.
    warnings.filterwarnings('ignore', '.*tf.lite.Interpreter is deprecated')
    interpreter = tf.lite.Interpreter(
      path,
      # Without those that announce themselves on standard error.
      experimental_op_resolver_type=(
        tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
      ),
    )
  given = interpreter.get_signature_runner()(images=images)['probabilities']
  apart = np.abs(given - wanted).max()
  if not apart <= _TOLERANCE:
    raise Error(
      'the TensorFlow Lite file gives other probabilities than the SavedModel, '
      'by %g: nothing was exported' % apart
    )
