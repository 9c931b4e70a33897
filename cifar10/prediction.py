"""Prediction: what a trained network takes pictures for.

`predict` is what the script calls; its arguments are its flags.
"""

import json
import logging

import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  checkpoints,
  cifar10,
  datasets,
  distortions,
  models,
  pictures,
  signals,
  specs,
)
from cifar10.pictures import PictureError

TOP_K = 3

log = logging.getLogger(__name__)


def predict(
  images,
  *,
  checkpoint_dir,
  data_dir=datasets.DATA_DIR,
  top_k=TOP_K,
  batch_size=cifar10.BATCH_SIZE,
  as_json=False,
  use_raw_weights=False,
  dataset=None,
  label=None,
  image_size=None,
  use_fp16=None,
):
  """Prints the likeliest classes of pictures, a line each.

  Args:
    images: list of paths of files, and of folders of files.
    checkpoint_dir: the folder of the checkpoints.
    data_dir: the folder of data sets, for class names that nothing else knows.
    top_k: how many classes a picture, at most.
    batch_size: pictures a batch; the result does not depend on it.
    as_json: whether a line is a JSON object.
    use_raw_weights: whether to use the weights, not their moving averages.
    dataset, label, image_size, use_fp16: what goes before what the run says,
      see `models.described`.

  Raises:
    cifar10.Error: there is no checkpoint; or, after all others are done, some
      of the pictures could not be read.
  """
  model = models.newest(
    checkpoint_dir, data_dir, dataset, label, image_size, use_fp16
  )
  format_line = _format_json if as_json else _format_text
  total = failed = 0
  with Predictor(model, use_raw_weights) as predictor:
    for path, result in predict_files(predictor, images, batch_size):
      total += 1
      if isinstance(result, PictureError):
        log.error('%s', result)
        failed += 1
      else:
        choices = best(result, model.run.class_names, top_k)
        print(format_line(path, choices), flush=True)
  if failed:
    raise Error('%d of %d could not be read: see above' % (failed, total))


def predict_files(predictor, names, batch_size=cifar10.BATCH_SIZE):
  """Classifies files, and all files of folders, in order.

  Args:
    predictor: the `Predictor`.
    names: iterable of paths of files and of folders.
    batch_size: pictures a batch.

  Yields:
    path and probabilities (float32 [classes]) of each file, or in the place of
    these the `PictureError` that says why there are none.
  """
  waiting, images = [], []
  for path, image in pictures.read_all(pictures.find(names)):
    waiting.append((path, image))
    if not isinstance(image, PictureError):
      images.append(image)
    if len(images) == batch_size:  # not fewer: a network is compiled per size
      yield from _results(predictor, waiting, images)
      waiting, images = [], []
  yield from _results(predictor, waiting, images)


def _results(predictor, waiting, images):
  results = iter(predictor(images) if images else [])
  for path, image in waiting:
    yield path, image if isinstance(image, PictureError) else next(results)


def best(probabilities, class_names, top_k=TOP_K):
  """Returns (class name, probability) of the likeliest classes, best first."""
  order = (-probabilities).argsort(kind='stable')[:top_k]
  return [(class_names[i], float(probabilities[i])) for i in order]


class Predictor:
  """A trained network in a session, to be called with pictures."""

  def __init__(self, model, use_raw_weights=False):
    """Builds the network and restores it.

    Args:
      model: the `models.Model`.
      use_raw_weights: whether to use the weights, not their moving averages.

    Raises:
      CheckpointError: the checkpoint does not fit.
    """
    with tf.Graph().as_default(), signals.deferred():
      self._images = tf.placeholder(
        tf.uint8, [None, specs.HEIGHT, specs.WIDTH, specs.DEPTH]
      )
      logits = cifar10.inference(
        distortions.central_crops(self._images, model.run.image_size),
        len(model.run.class_names),
        model.use_fp16,
        summarize=False,
      )
      self._probabilities = tf.nn.softmax(logits)
      self._session = tf.Session(config=cifar10.session_config())
      models.restore(self._session, model.path, use_raw_weights)

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._session.close()

  def __call__(self, images):
    """Returns probabilities, float32 [n, classes], of uint8 [n, 32, 32, 3]."""
    try:
      return self._session.run(self._probabilities, {self._images: images})
    except tf.errors.OpError as e:
      raise Error(
        'the network failed on %d pictures: %s: give a smaller --batch_size'
        % (len(images), checkpoints.first_line(e))
      ) from e


def _format_text(path, predictions):
  pairs = ['%s %.4f' % pair for pair in predictions]
  return '  '.join([pictures.shown(path), *pairs])


def _format_json(path, predictions):
  return json.dumps(
    {
      'path': path,
      'predictions': [
        {'class': name, 'probability': probability}
        for name, probability in predictions
      ],
    }
  )
