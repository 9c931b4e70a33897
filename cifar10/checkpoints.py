"""What a run leaves on disk beside summaries: checkpoints and `run.json`.

The keys of a checkpoint are the names of the variables (see `cifar10`). The
moving average of a variable has its name and `/ExponentialMovingAverage`.
"""

import dataclasses
import functools
import glob
import json
import logging
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

import cifar10
from cifar10 import specs

_RUN_FILE = 'run.json'
# What TensorFlow's reader raises for files that are broken, cut or gone; memory
# runs out where a broken file says that a tensor is huge.
_READ_ERRORS = (
  tf.errors.OpError,
  ValueError,
  RuntimeError,
  LookupError,
  MemoryError,
)

# The keys of every checkpoint of this network, the original program's included.
_WEIGHTS = {
  '%s/%s' % (layer, kind)
  for layer in ('conv1', 'conv2', 'local3', 'local4', 'softmax_linear')
  for kind in ('weights', 'biases')
}

log = logging.getLogger(__name__)


class CheckpointError(cifar10.Error):
  """A checkpoint is missing, or does not fit."""


@dataclasses.dataclass(frozen=True)
class Run:
  """What a checkpoint does not say of itself, kept beside it in `run.json`.

  Attributes:
    dataset: name of the data set.
    class_names: tuple of str, in label order.
    image_size: height and width of the pictures that the network sees.
    float_type: 'float32' or 'float16', what layers compute in.
    label: 'fine' or 'coarse', which label of the data set.
    version: that of this package.
  """

  dataset: str
  class_names: tuple
  image_size: int
  float_type: str
  label: str = 'fine'
  version: str = cifar10.__version__


def write_run(directory, run):
  """Writes `run` to `directory`, whole or not at all."""
  path = os.path.join(directory, _RUN_FILE)
  part = '%s.%d.part' % (path, os.getpid())
  with open(part, 'w', encoding='utf-8') as f:
    json.dump(dataclasses.asdict(run), f, indent=2)
    f.write('\n')
  os.replace(part, path)


def read_run(directory):
  """Returns the `Run` of a folder; None where it keeps none.

  Raises:
    CheckpointError: `run.json` is there and cannot be understood.
  """
  path = os.path.join(directory, _RUN_FILE)
  try:
    if os.path.exists(path) and not os.path.isfile(path):
      raise TypeError('it is no file')
    with open(path, encoding='utf-8') as f:
      fields = json.load(f)
    # A later version may have more to say.
    known = {field.name for field in dataclasses.fields(Run)}
    run = Run(**{key: fields[key] for key in fields if key in known})
    if not isinstance(run.class_names, list):
      raise TypeError('class_names is no list')
    run = dataclasses.replace(run, class_names=tuple(run.class_names))
    for value in (run.dataset, run.float_type, run.label, *run.class_names):
      if not isinstance(value, str):
        raise TypeError('%r is no name' % value)
    if run.image_size not in range(1, specs.HEIGHT + 1):
      raise ValueError('%r is no size of a picture' % run.image_size)
    return run
  except (FileNotFoundError, NotADirectoryError):
    return None
  except (OSError, ValueError, TypeError, RecursionError) as e:
    raise CheckpointError(
      '%s cannot be understood (%s): remove it, and say by flags what it said'
      % (path, e)
    ) from e


def check_same_run(directory, **fields):
  """Raises `CheckpointError` where a folder holds another kind of run.

  Args:
    directory: the folder; one without a `run.json` is taken to fit.
    **fields: what the attributes of its `Run` must be.
  """
  run = read_run(directory)
  for field, new in fields.items():
    if run is not None and getattr(run, field) != new:
      raise CheckpointError(
        '%s holds a run with %s %s, not %s: give the flags of that run, name '
        'another folder, or --overwrite'
        % (directory, field, _shown(getattr(run, field)), _shown(new))
      )


def _shown(value):
  return ' '.join(value) if isinstance(value, tuple) else value


def is_run(directory):
  """Returns whether a folder holds a run of this program or of the original.

  Raises:
    CheckpointError: it holds checkpoints of something else, which a run in it
      would spoil.
  """
  if os.path.exists(os.path.join(directory, _RUN_FILE)):
    return True
  path = newest(directory)
  if path is None:
    index = os.path.join(directory, 'checkpoint')
    path = index if os.path.lexists(index) else None
  elif _WEIGHTS.issubset(keys(path)):
    return True
  if path is not None:
    raise CheckpointError(
      '%s is not of a run of this network: nothing was changed, name another '
      'folder than %s' % (path, directory)
    )
  return False


def make_folder(flag, directory):
  """Makes the folder that a flag names, unless it is there.

  Raises:
    cifar10.Error: it cannot be made, or not be written to.
  """
  try:
    os.makedirs(directory, exist_ok=True)
    reason = None if os.access(directory, os.W_OK) else 'not writable'
  except OSError as e:
    reason = e.strerror
  if reason:
    raise cifar10.Error(
      '--%s=%s: %s: name a folder that can be written to'
      % (flag, directory, reason)
    )


def listed(directory):
  """Returns the path prefixes that a folder's index names and that are there.

  Oldest first, up to the one that it calls the newest. The index is the file
  `checkpoint`, which a saver writes.
  """
  if not os.path.isfile(os.path.join(directory, 'checkpoint')):
    return []  # nor is a pipe of that name read
  try:
    state = tf.train.get_checkpoint_state(directory)
  except _READ_ERRORS:  # empty or cut
    state = None
  if state is None:
    return []
  paths = list(state.all_model_checkpoint_paths)
  last = state.model_checkpoint_path  # who sets it to an older one wants that
  paths = paths[: paths.index(last) + 1] if last in paths else [*paths, last]
  # By name only: absolute paths are those of a folder that was moved, or of
  # another run, of which this is a copy.
  paths = [os.path.join(directory, os.path.basename(path)) for path in paths]
  return [path for path in paths if _exists(path)]


def newest(directory):
  """Returns the path prefix of the newest whole checkpoint; None if none.

  Of newer ones that are not whole it says, once, that they are left out.

  Raises:
    CheckpointError: there are some, and none of them is whole.
  """
  while True:
    faults = []
    for path in reversed(_candidates(directory)):
      fault = _fault(path)
      if fault is None:
        for line in faults:
          _say_once('%s: left out, %s is the newest that is whole', line, path)
        return path
      if not _exists(path):
        break  # a trainer has just removed it, for a newer one
      faults.append(fault)
    else:
      if faults:
        raise CheckpointError(
          '%s: no checkpoint in %s is whole: put one back, or remove them to '
          'start afresh' % (faults[0], directory)
        )
      return None


@functools.lru_cache(maxsize=1000)
def _say_once(line, *args):
  log.info(line, *args)


def require_newest(directory, flag='--checkpoint_dir'):
  """Returns the path prefix of the newest whole checkpoint.

  Args:
    directory: the folder of the checkpoints.
    flag: the flag that names it.

  Raises:
    CheckpointError: there is none.
  """
  path = newest(directory)
  if path is not None:
    return path
  what = 'holds no checkpoint'
  if not os.path.lexists(directory):
    what = 'is not there'
    if _exists(directory):
      what = 'is a checkpoint, its folder is wanted'
  raise CheckpointError(
    '%s %s: train first, or name another %s' % (directory, what, flag)
  )


def check_folder(directory):
  """Raises `CheckpointError` where a file is named instead of a folder."""
  if os.path.exists(directory) and not os.path.isdir(directory):
    raise CheckpointError('--checkpoint_dir=%s: not a folder' % directory)


def _fault(path):
  """Returns why not all of a checkpoint can be read, or None.

  Raises:
    CheckpointError: this user may not read it, which does not make it broken.
  """
  for part in glob.glob(glob.escape(path) + '.*'):
    if not os.access(part, os.R_OK):
      raise CheckpointError(
        '%s: permission denied: make it readable, or remove it' % part
      )
  try:
    reader = _open(path)
    for key in reader.get_variable_to_shape_map():
      _read(reader, path, key)
  except CheckpointError as e:
    return str(e)
  return None


def _candidates(directory):
  """Returns the path prefixes of all that may be the newest, oldest first.

  The index is written last, so its saver may have been killed before: after
  those that it names come those of later steps that are newer than the index.
  Where it is broken, or all that it names is gone, all that are there count.
  """
  paths = listed(directory)
  pattern = os.path.join(glob.escape(directory), 'model.ckpt-*.index')
  saved = [path.removesuffix('.index') for path in glob.glob(pattern)]
  saved = {_step_of(path): path for path in saved if _exists(path)}
  saved.pop(None, None)  # of another name
  if paths:
    last = _step_of(paths[-1])
    index = os.path.join(directory, 'checkpoint')
    saved = {
      step: path
      for step, path in saved.items()
      if last is not None and step > last and _is_newer(path + '.index', index)
    }
  return paths + [saved[step] for step in sorted(saved)]


def _step_of(path):
  match = re.fullmatch(r'model\.ckpt-(\d+)', os.path.basename(path))
  return int(match.group(1)) if match else None


def _is_newer(path, other):
  try:
    return os.stat(path).st_mtime_ns > os.stat(other).st_mtime_ns
  except FileNotFoundError:  # removed a moment ago
    return False


def _exists(path):
  # The original program's first versions wrote one file, without an index.
  return os.path.isfile(path + '.index') or os.path.isfile(path)


def read_global_step(path):
  """Returns the step at which a checkpoint was saved.

  Raises:
    CheckpointError: `path` is no checkpoint, or counts no steps.
  """
  value = _read(_open(path), path, tf.GraphKeys.GLOBAL_STEP)
  try:
    return int(value)  # the original multi-GPU program kept it as a float
  except (TypeError, ValueError, OverflowError) as e:
    raise CheckpointError(
      '%s: global_step counts no steps: it is not a checkpoint of this network'
      % path
    ) from e


def keys(path):
  """Returns the keys of a checkpoint.

  Raises:
    CheckpointError: `path` is no checkpoint.
  """
  return list(_open(path).get_variable_to_shape_map())


def restore(session, path, variables, optional=()):
  """Sets variables to what a checkpoint holds.

  By value and not by `tf.train.Saver`, which cannot cast: the original's
  checkpoints may hold `global_step` as float32, and lack loss averages.

  Args:
    session: session whose variables to set.
    path: path prefix of the checkpoint.
    variables: dict from key to variable.
    optional: keys that may be missing; those variables stay as they are.

  Raises:
    CheckpointError: a key is missing, its shape differs, or it is not finite.
  """
  reader = _open(path)
  initializers, values = [], {}
  for key, variable in variables.items():
    if key in optional and not reader.has_tensor(key):
      continue
    value = _read(reader, path, key)
    if not np.isfinite(value).all():
      raise CheckpointError(
        '%s: %s is not finite, that run has diverged: remove this checkpoint, '
        'an older one may do' % (path, key)
      )
    if value.shape != variable.shape:
      raise CheckpointError(
        '%s: %s has shape %s, this network %s: another kind of run'
        % (path, key, list(value.shape), variable.shape.as_list())
      )
    initializers.append(variable.initializer)
    values[variable.initializer.inputs[1]] = value
  session.run(initializers, values)


def _open(path):
  try:
    return tf.train.load_checkpoint(path)
  except _READ_ERRORS as e:
    raise CheckpointError(
      '%s is no checkpoint that can be read: %s' % (path, first_line(e))
    ) from e


def _read(reader, path, key):
  if not reader.has_tensor(key):
    raise CheckpointError(
      '%s has no %s: it is not a checkpoint of this network' % (path, key)
    )
  try:
    return reader.get_tensor(key)
  except _READ_ERRORS as e:
    raise CheckpointError(
      '%s: %s cannot be read: %s' % (path, key, first_line(e))
    ) from e


def first_line(error):
  """Returns the line of a TensorFlow error that says what is wrong."""
  frame = ('Graph execution error', 'Detected at node', 'Node:', ' ', '\t')
  lines = str(getattr(error, 'message', error)).splitlines()
  # Where several devices fail, each has a line like "  (0) INTERNAL: reason".
  lines = [re.sub(r'^ +\(\d+\) [A-Z_]+: ', '', line) for line in lines]
  lines = [line for line in lines if not line.endswith(' root error(s) found.')]
  said = [line for line in lines if line and not line.startswith(frame)]
  return said[0] if said else type(error).__name__
