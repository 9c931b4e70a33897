"""Evaluation: how many examples the newest checkpoint's averages get right.

`evaluate` is what the script calls; `Settings` are its flags.
"""

import dataclasses
import datetime
import logging
import os
import platform
import time

import numpy as np
import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  charts,
  checkpoints,
  cifar10,
  cifar10_input,
  datasets,
  models,
  plots,
  progress,
  records,
  signals,
)
from cifar10.results import Results, check_csv

EVAL_DIR = '/tmp/cifar10_eval'

# The event file of this process in each folder: its path, its writer.
_event_files = {}

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """What `evaluate` is told.

  Attributes:
    data_dir: the folder that holds the data set's folder.
    dataset: name of the data set; None: the one that the run trained on.
    label: 'fine' or 'coarse'; None: the label that the run trained on.
    image_size: height and width of the pictures that the network sees; None:
      as the run did.
    eval_data: 'test', or 'train_eval' for the training files, undistorted.
    checkpoint_dir: the folder of the checkpoints.
    eval_dir: the folder of the summaries.
    batch_size: examples a batch; the result does not depend on it.
    use_fp16: whether layers compute in float16; None: as the run did.
    num_examples: evaluate the first of them, or all that there are.
    eval_interval_secs: seconds between looks at the folder.
    run_once: whether to stop after the first evaluation.
    idle_timeout_secs: end after so many seconds without a new checkpoint; 0:
      never.
    use_raw_weights: whether to evaluate the weights themselves.
    last_step: end after a checkpoint of this global step or a later one.
    per_class: whether to print a table of the classes.
    predictions: path of a CSV file to write, a line for each example; None:
      none.
  """

  data_dir: str = datasets.DATA_DIR
  dataset: str | None = None
  label: str | None = None
  image_size: int | None = None
  eval_data: str = 'test'
  checkpoint_dir: str = '/tmp/cifar10_train'
  eval_dir: str = EVAL_DIR
  batch_size: int = cifar10.BATCH_SIZE
  use_fp16: bool | None = None
  num_examples: int = cifar10.NUM_EXAMPLES_PER_EPOCH_FOR_EVAL
  eval_interval_secs: int = 300
  run_once: bool = False
  idle_timeout_secs: int = 0
  use_raw_weights: bool = False
  last_step: int | None = None
  per_class: bool = False
  predictions: str | None = None


def evaluate(**settings):
  """Evaluates the newest checkpoint, once or each time that there is one.

  Args:
    **settings: the attributes of `Settings`.

  Raises:
    cifar10.Error: data or checkpoint cannot be used, in one line.
  """
  settings = Settings(**settings)
  checkpoint_dir, last_step = settings.checkpoint_dir, settings.last_step
  if settings.dataset is not None:
    datasets.check_known(
      settings.dataset, settings.data_dir, settings.label or 'fine'
    )
  if settings.predictions is not None:
    check_csv(settings.predictions)
  checkpoints.check_folder(checkpoint_dir)
  evaluated, waiting = None, False
  last_time = time.monotonic()
  while True:
    find = (
      checkpoints.require_newest if settings.run_once else checkpoints.newest
    )
    path = find(checkpoint_dir)
    if path is None and not waiting:
      log.info('Waiting for a checkpoint in %s', checkpoint_dir)
    waiting = path is None
    try:
      step = checkpoints.read_global_step(path) if path else None
      if step not in (None, evaluated):
        _evaluate_checkpoint(path, step, settings)
        last_time = time.monotonic()
      # Where the run was removed, a new one may come to the same step.
      evaluated = step
    except checkpoints.CheckpointError:
      # A trainer may have removed it meanwhile, for a newer one.
      if checkpoints.newest(checkpoint_dir) == path:
        raise
      continue
    if settings.run_once or (
      None not in (step, last_step) and step >= last_step
    ):
      return
    pause = settings.eval_interval_secs
    if settings.idle_timeout_secs:
      left = last_time + settings.idle_timeout_secs - time.monotonic()
      if left <= 0:
        log.info(
          'No new checkpoint in %d seconds: ended', settings.idle_timeout_secs
        )
        return
      pause = min(pause, left)
    time.sleep(pause)


def _evaluate_checkpoint(path, step, settings):
  """Evaluates one checkpoint, prints what came out, and writes summaries."""
  run = models.described(
    os.path.dirname(path),
    dataset=settings.dataset,
    label=settings.label,
    image_size=settings.image_size,
    use_fp16=settings.use_fp16,
  )
  split = _load_split(run, settings)
  checkpoints.make_folder('eval_dir', settings.eval_dir)
  log.info('Evaluating %s', path)
  try:
    results, summary = evaluate_once(
      path,
      split,
      settings.batch_size,
      settings.num_examples,
      image_size=run.image_size,
      use_fp16=run.float_type == 'float16',
      use_raw_weights=settings.use_raw_weights,
    )
  except tf.errors.OpError as e:
    raise Error(
      'evaluating %s failed: %s' % (path, checkpoints.first_line(e))
    ) from e
  _print_precision(results, step)
  if settings.per_class:
    print('\n'.join(results.table()), flush=True)
  if settings.predictions is not None:
    results.write_csv(settings.predictions)
  _add_charts(summary, results, split, step)
  _write_summary(settings.eval_dir, charts.describe(summary), step)


def _load_split(run, settings):
  """Returns the examples to evaluate; the run must know their classes."""
  split = datasets.load(
    run.dataset,
    settings.data_dir,
    'test' if settings.eval_data == 'test' else 'train',
    label=run.label,
  )
  models.check_class_names(run, split.class_names)
  return split


def evaluate_once(
  path,
  split,
  batch_size,
  num_examples,
  image_size=cifar10.IMAGE_SIZE,
  use_fp16=False,
  use_raw_weights=False,
):
  """Finds what the moving averages take each example for.

  Args:
    path: path prefix of the checkpoint.
    split: the `datasets.Split` to evaluate.
    batch_size: examples a batch.
    num_examples: evaluate the first of them, or all that there are.
    image_size: height and width of the pictures that the network sees.
    use_fp16: whether layers compute in float16.
    use_raw_weights: whether to evaluate the weights themselves.

  Returns:
    The `Results`, and a `tf.Summary` of the first batch.

  Raises:
    CheckpointError: the checkpoint does not fit.
    datasets.DataError: the files hold fewer examples than they did.
  """
  num_examples = min(num_examples, split.num_examples)
  with tf.Graph().as_default():
    with signals.deferred():
      images, labels = cifar10_input.eval_batches(split, batch_size, image_size)
      logits = cifar10.inference(images, split.num_classes, use_fp16)
      results_op = [labels, *_choices(logits, labels)]
      summary_op = tf.summary.merge_all()
      session = _open_session(path, use_raw_weights)
    batches, total = [], 0
    summary = tf.Summary()
    with session, progress.line('Evaluating', num_examples) as show:
      # The whole first batch is shown, whatever part of it is counted.
      batch, serialized = session.run([results_op, summary_op])
      summary.ParseFromString(serialized)
      while True:
        batches.append(batch)
        total += len(batch[0])
        show(min(total, num_examples))
        if total >= num_examples:
          break
        batch = session.run(results_op)
  if total < num_examples:
    raise datasets.DataError(
      '%s ended after %d of %d examples: were the files changed?'
      % (split.files[-1], total, num_examples)
    )
  columns = [np.concatenate(parts)[:num_examples] for parts in zip(*batches)]
  return Results(split.class_names, *columns), summary


def _choices(logits, labels):
  """Returns the class that each example is taken for, and how likely that is.

  An example counts as right where no class is likelier than its label.
  """
  logits = tf.debugging.check_numerics(logits, 'logits')
  hits = tf.nn.in_top_k(predictions=logits, targets=labels, k=1)
  choices = tf.where_v2(
    hits, labels, tf.argmax(logits, 1, output_type=tf.int32)
  )
  return choices, tf.gather(tf.nn.softmax(logits), choices, batch_dims=1)


def _open_session(path, use_raw_weights):
  """Opens a session in which the checkpoint is restored."""
  scaffold = tf.train.Scaffold(
    init_fn=lambda _, session: models.restore(session, path, use_raw_weights)
  )
  # Leaving this session takes the end of the input for an end, not an error.
  return tf.train.MonitoredSession(
    tf.train.ChiefSessionCreator(scaffold, config=cifar10.session_config())
  )


def _print_precision(results, step):
  """Prints the tutorial's line, and the count behind it."""
  now = datetime.datetime.now().isoformat(' ', 'microseconds')
  correct, total = results.correct, results.total
  print('%s: precision @ 1 = %.3f' % (now, correct / total))
  print('%d of %d correct, step %d' % (correct, total, step), flush=True)


def _add_charts(summary, results, split, step):
  """Adds precisions and, where they can be drawn, pictures to a summary."""
  correct, total = results.correct, results.total
  summary.value.add(tag='Precision @ 1', simple_value=correct / total)
  for name, precision in zip(results.class_names, results.precisions()):
    if not np.isnan(precision):
      summary.value.add(
        tag='precision_by_class/' + name, simple_value=precision
      )
  if not plots.available():
    return
  title = 'step %d: %d of %d correct' % (step, correct, total)
  summary.value.add(
    tag='confusion_matrix',
    image=plots.confusion_matrix(
      results.confusion_matrix(), results.class_names, title
    ),
  )
  rows, columns = plots.MISTAKES_GRID
  shown = results.mistakes(rows * columns)
  if not len(shown):
    return
  names, captions = results.class_names, []
  for i in shown:
    label, prediction = results.labels[i], results.predictions[i]
    captions.append(
      plots.caption(names[label], names[prediction], results.probabilities[i])
    )
  summary.value.add(
    tag='mistakes',
    image=plots.mistakes(
      records.pick(split, shown),
      captions,
      'step %d: the most confident of %d mistakes' % (step, total - correct),
    ),
  )


def _write_summary(eval_dir, summary, step):
  """Writes to the one event file that this process has in a folder."""
  try:
    writer = _event_writer(eval_dir)
    writer.write(_event(step=step, summary=summary))
    writer.flush()
  except tf.errors.OpError as e:
    _event_files.pop(eval_dir, None)  # nothing is read behind a cut record
    raise Error(
      '--eval_dir=%s: summaries cannot be written: %s: free some space, or '
      'name another folder' % (eval_dir, checkpoints.first_line(e))
    ) from e


def _event_writer(eval_dir):
  """Returns the writer of an event file; opens another if that is gone.

  It is not `tf.summary.FileWriter`, which is silent about a full disk.
  """
  path, writer = _event_files.get(eval_dir, ('', None))
  if not os.path.exists(path):
    now = datetime.datetime.now().timestamp()
    name = 'events.out.tfevents.%d.%s.%d' % (now, platform.node(), os.getpid())
    path = os.path.join(eval_dir, name)
    writer = tf.io.TFRecordWriter(path)
    _event_files[eval_dir] = path, writer
    writer.write(_event(file_version='brain.Event:2'))
  return writer


def _event(**fields):
  now = datetime.datetime.now().timestamp()
  return tf.Event(wall_time=now, **fields).SerializeToString()
