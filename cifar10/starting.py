"""What the variables of a session begin with, and what saves them."""

import logging
import os

import tensorflow.compat.v1 as tf

from cifar10 import UsageError, checkpoints

# The layer that is as wide as there are classes: it is another data set's.
_LAST_LAYER = 'softmax_linear/'

log = logging.getLogger(__name__)


def scaffold(train_dir, max_to_keep, finetune_from=None):
  """Returns what sets the variables of a new session, and saves them.

  The newest checkpoint is looked up when a session is made, not now: a session
  that is made again after a fault goes on from what was saved since.

  Args:
    train_dir: the folder of the run.
    max_to_keep: how many checkpoints to keep.
    finetune_from: the folder of another run, with whose layers a new run
      begins, all but the last; None: with random ones.

  Returns:
    A `tf.train.Scaffold`.
  """
  saver = tf.train.Saver(max_to_keep=max_to_keep, save_relative_paths=True)
  variables = {v.op.name: v for v in tf.global_variables()}
  # The original's multi-GPU program kept no averages of losses.
  optional = [key for key in variables if key.endswith('/avg')]

  def restore(_, session):
    path = checkpoints.newest(train_dir)
    if path is None:
      if finetune_from is not None:
        _begin_with(session, finetune_from)
      log.info('Starting a new run in %s', train_dir)
      return
    checkpoints.restore(session, path, variables, optional)
    # Those that the index names count for max_to_keep, which may be lower than
    # it was. All others are nobody's to remove, nor are newer ones, not whole.
    paths = checkpoints.listed(train_dir)
    paths = paths[: paths.index(path)] if path in paths else paths
    paths.append(path)
    for old in paths[:-max_to_keep]:
      tf.train.remove_checkpoint(old)
    saver.recover_last_checkpoints(paths[-max_to_keep:])
    log.info(
      'Resuming from %s at step %d', path, checkpoints.read_global_step(path)
    )

  return tf.train.Scaffold(saver=saver, init_fn=restore)


def check(finetune_from, train_dir):
  """Raises `cifar10.Error` where a run cannot begin with another's layers."""
  checkpoints.require_newest(finetune_from, '--finetune_from')
  if os.path.realpath(finetune_from) == os.path.realpath(train_dir):
    raise UsageError(
      '--finetune_from=%s is the run itself: name another --train_dir'
      % finetune_from
    )


def _begin_with(session, directory):
  """Sets all layers but the last to the newest checkpoint's moving averages.

  Those of the new run begin elsewhere, but follow at once: their decay is 0.1
  in the first step, and grows with the steps.
  """
  path = checkpoints.require_newest(directory, '--finetune_from')
  suffix = '/ExponentialMovingAverage'
  if not any(key.endswith(suffix) for key in checkpoints.keys(path)):
    suffix = ''
  with session.graph.as_default():
    variables = {
      v.op.name + suffix: v
      for v in tf.trainable_variables()
      if not v.op.name.startswith(_LAST_LAYER)
    }
  checkpoints.restore(session, path, variables)
  log.info('All layers but the last begin as in %s', path)
