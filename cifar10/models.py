"""Trained networks: a checkpoint, and what is to be known to use it."""

import dataclasses
import logging

import tensorflow.compat.v1 as tf

from cifar10 import checkpoints, cifar10, datasets
from cifar10.checkpoints import CheckpointError, Run

# What the run of a folder without `run.json` is taken to be: the tutorial's.
_TUTORIAL = Run(
  dataset='cifar10',
  class_names=(),
  image_size=cifar10.IMAGE_SIZE,
  float_type='float32',
)

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Model:
  """A checkpoint, and the `Run` that it is of.

  Attributes:
    path: path prefix of the checkpoint.
    run: the `Run`, its `class_names` included.
  """

  path: str
  run: Run

  @property
  def use_fp16(self):
    return self.run.float_type == 'float16'


def described(
  directory, dataset=None, label=None, image_size=None, use_fp16=None
):
  """Returns the `Run` of a folder; what is given goes before what it says.

  Args:
    directory: the folder of the checkpoints.
    dataset: name of the data set.
    label: 'fine' or 'coarse'.
    image_size: height and width of the pictures that the network sees.
    use_fp16: whether layers compute in float16.

  Returns:
    The `Run`; its `class_names` are those that the folder knows, () if none.

  Raises:
    CheckpointError: the network was trained on pictures of another size.
  """
  run = checkpoints.read_run(directory)
  if run is None:
    run = _TUTORIAL
  elif image_size not in (None, run.image_size):
    # A size near it would fit the weights, and give other results.
    raise CheckpointError(
      '--image_size=%d: the run in %s was trained with %d: leave the flag out'
      % (image_size, directory, run.image_size)
    )
  if dataset not in (None, run.dataset):
    run = dataclasses.replace(run, dataset=dataset, label='fine')
  given = {'label': label, 'image_size': image_size}
  if use_fp16 is not None:
    given['float_type'] = 'float16' if use_fp16 else 'float32'
  given = {key: value for key, value in given.items() if value is not None}
  return dataclasses.replace(run, **given)


def check_class_names(run, class_names):
  """Raises `CheckpointError` where a run was trained on other classes."""
  if run.class_names and run.class_names != class_names:
    raise CheckpointError(
      'the run was trained on the classes %s, %s has %s: another --dataset or '
      '--label?' % (_listed(run.class_names), run.dataset, _listed(class_names))
    )


def _listed(names):
  return ' '.join(names[:10]) + (' …' if len(names) > 10 else '')


def newest(
  checkpoint_dir,
  data_dir=datasets.DATA_DIR,
  dataset=None,
  label=None,
  image_size=None,
  use_fp16=None,
):
  """Returns the `Model` of the newest checkpoint of a folder.

  Args:
    checkpoint_dir: the folder.
    data_dir: the folder of data sets, for class names that nothing else knows.
    dataset, label, image_size, use_fp16: what goes before what the run says,
      see `described`.

  Raises:
    CheckpointError: there is no checkpoint, or it is of another kind.
    cifar10.Error: nobody knows the names of the classes.
  """
  checkpoints.check_folder(checkpoint_dir)
  path = checkpoints.require_newest(checkpoint_dir)
  said = described(checkpoint_dir)
  run = described(checkpoint_dir, dataset, label, image_size, use_fp16)
  if not run.class_names or (run.dataset, run.label) != (
    said.dataset,
    said.label,
  ):
    class_names = datasets.class_names(run.dataset, data_dir, run.label)
    check_class_names(run, class_names)
    run = dataclasses.replace(run, class_names=class_names)
  return Model(path, run)


def restore(session, path, use_raw_weights=False):
  """Sets the trainable variables to a checkpoint's moving averages.

  Args:
    session: session whose variables to set.
    path: path prefix of the checkpoint.
    use_raw_weights: whether to take the weights themselves instead.

  Raises:
    CheckpointError: there are none, or they do not fit.
  """
  suffix = '' if use_raw_weights else '/ExponentialMovingAverage'
  with session.graph.as_default():
    variables = {v.op.name + suffix: v for v in tf.trainable_variables()}
  keys = checkpoints.keys(path)
  if use_raw_weights:
    log.info('Using the weights themselves, not their moving averages')
  elif 'conv1/weights' in keys and not any(
    key.endswith(suffix) for key in keys
  ):
    raise CheckpointError(
      '%s holds no moving averages: --use_raw_weights uses the weights '
      'themselves' % path
    )
  checkpoints.restore(session, path, variables)
