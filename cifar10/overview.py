"""What a run is and what it did: on standard error, and in TensorBoard."""

import logging
import os
import platform
import shlex
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import cifar10
from cifar10 import charts, checkpoints

log = logging.getLogger(__name__)


class OverviewHook(tf.train.SessionRunHook):
  """Says what a run is going to do, and what it did; writes a page of that.

  Hooks that save come before it: it names the checkpoint.
  """

  def __init__(self, settings, split, examples_a_step):
    """Makes the hook.

    Args:
      settings: the `training.Settings`.
      split: the `datasets.Split` to train on.
      examples_a_step: examples a step, those of all towers and replicas.
    """
    self._settings = settings
    self._split = split
    self._examples_a_step = examples_a_step
    self._first_step = self._start_time = None

  def begin(self):
    self._global_step = tf.train.get_global_step()

  def after_create_session(self, session, coord):
    # A session that is made again after a fault goes on with the same run.
    if self._first_step is None:
      self._first_step = step = int(session.run(self._global_step))
      for line in self._plan(step):
        log.info('%s', line)
      self._write_page(session.graph, step)

  def before_run(self, run_context):
    if self._start_time is None:
      self._start_time = time.monotonic()

  def end(self, session):
    last_step = int(session.run(self._global_step))
    steps = last_step - self._first_step
    if self._start_time is None or steps <= 0:
      return
    secs = max(time.monotonic() - self._start_time, 1e-6)
    log.info(
      'Trained: steps %d to %d in %s, %.0f examples a second; saved as %s',
      self._first_step,
      last_step,
      _duration(secs),
      steps * self._examples_a_step / secs,
      checkpoints.newest(self._settings.train_dir),
    )

  def _plan(self, step):
    """Returns the lines that say what the run is going to do."""
    settings, split = self._settings, self._split
    examples = (settings.max_steps - step) * self._examples_a_step
    often = (
      '%d steps' % settings.save_checkpoint_steps
      if settings.save_checkpoint_steps
      else '%d seconds' % settings.save_checkpoint_secs
    )
    return [
      'Data: %s, %d examples of %d classes, in %s'
      % (
        _data_set(split),
        split.num_examples,
        split.num_classes,
        os.path.dirname(split.files[0]),
      ),
      'Training: from step %d to step %d, %d examples each: %.4g epochs, on %s'
      % (
        step,
        settings.max_steps,
        self._examples_a_step,
        examples / split.num_examples,
        _devices(settings),
      ),
      'Checkpoints: every %s, in %s; look at it with: tensorboard --logdir %s'
      % (often, settings.train_dir, shlex.quote(settings.train_dir)),
    ]

  def _write_page(self, graph, step):
    settings, split = self._settings, self._split
    variables = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    facts = {
      'command': shlex.join(['python', *sys.argv]),
      'from step': step,
      'data set': '%s: %d examples in %d files of %s'
      % (
        _data_set(split),
        split.num_examples,
        len(split.files),
        os.path.dirname(split.files[0]),
      ),
      'classes': '%d: %s' % (split.num_classes, ', '.join(split.class_names)),
      'examples a step': self._examples_a_step,
      'devices': _devices(settings),
      'parameters': '%d in %d variables'
      % (sum(v.shape.num_elements() for v in variables), len(variables)),
      'graph': '%d operations' % len(graph.get_operations()),
      'versions': 'cifar10 %s, TensorFlow %s, NumPy %s, Python %s, %s'
      % (
        cifar10.__version__,
        tf.version.VERSION,
        np.__version__,
        platform.python_version(),
        platform.platform(),
      ),
    }
    flags = vars(settings)
    page = '\n\n'.join([_table('run', facts), _table('flag', flags)])
    charts.Writer(settings.train_dir).add_summary(
      charts.text('run', page), step
    )


def _data_set(split):
  return split.spec.name + (
    '' if split.spec.label == 'fine' else ' (%s labels)' % split.spec.label
  )


def _devices(settings):
  """Returns words for what computes."""
  num_gpus = len(tf.config.list_physical_devices('GPU'))
  device = '%d GPUs' % num_gpus if num_gpus > 1 else 'a GPU'
  if not num_gpus:
    device = 'a CPU of %d cores' % os.cpu_count()
  if settings.num_gpus is not None:
    device = '%d towers on %s' % (settings.num_gpus, device)
  if settings.cluster is not None:
    device += ', of each of %d replicas' % len(settings.cluster.replicas)
  return device


def _duration(secs):
  """Returns a time as people say it."""
  if secs < 120:
    return '%.1f seconds' % secs
  minutes, secs = divmod(round(secs), 60)
  hours, minutes = divmod(minutes, 60)
  return '%d:%02d:%02d' % (hours, minutes, secs)


def _table(title, facts):
  """Returns a table in Markdown."""
  lines = ['| %s | |' % title, '|---|---|']
  for name, value in facts.items():
    shown = ' '.join(str(value).split()).replace('|', '\\|')
    lines.append('| %s | %s |' % (name, shown.replace('`', "'")))
  return '\n'.join(lines)
