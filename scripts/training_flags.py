"""The flags of every script that trains, and what is done with them."""

import os
import shlex
import sys

import command_line
from absl import flags

from cifar10 import cluster, datasets

# Which flags describe a cluster, the arguments of `cluster.resolve`.
_CLUSTER_FLAGS = (
  'job_name',
  'task_index',
  'ps_hosts',
  'worker_hosts',
  'chief_host',
)

# A cluster ends within 15 seconds of its last step, the evaluator included.
_EVALUATOR_INTERVAL_SECS = 5


def define(values, max_steps, is_task=True):
  """Defines what every script has that trains.

  Args:
    values: the script's flags.
    max_steps: the default of that flag.
    is_task: whether to define which task of a cluster the process is.
  """
  with command_line.group(values, 'Training'):
    _define_run_flags(values, max_steps)
  command_line.define_data_flags(values)
  command_line.define_network_flags(values)
  with command_line.group(values, 'Input'):
    _define_input_flags(values)
  with command_line.group(values, 'What is printed and saved'):
    _define_output_flags(values)
  with command_line.group(values, 'Cluster'):
    if is_task:
      _define_task_flags(values)
    _define_cluster_flags(values)


def _define_run_flags(values, max_steps):
  """Defines where and how far a run goes."""
  command_line.define_folder(
    values,
    'train_dir',
    '/tmp/cifar10_train',
    'the folder of checkpoints and summaries; a run in it is continued',
    is_run=True,
  )
  command_line.define_positive(
    values, 'max_steps', max_steps, 'the step at which training is done'
  )
  command_line.define_bool(
    values, 'overwrite', 'start afresh: remove the run in train_dir first'
  )
  command_line.define_float(
    values,
    'learning_rate',
    0.1,
    'the learning rate of the first 350 epochs',
    maximum=1e30,
  )
  command_line.define_folder(
    values,
    'finetune_from',
    None,
    'the folder of another run: a new one begins with its layers, all but the '
    'last',
    is_run=True,
  )
  flags.DEFINE_integer(
    'seed',
    None,
    'repeats a run on CPUs',
    0,
    command_line.MAX_INT,
    flag_values=values,
  )


def _define_input_flags(values):
  """Defines how pictures are shuffled and distorted."""
  command_line.define_float(
    values,
    'min_queue_fraction',
    0.4,
    'the part of all examples that the shuffle queue keeps',
    maximum=1,
  )
  command_line.define_positive(
    values,
    'num_preprocess_threads',
    1,
    'how many batches of input are made at the same time',
    maximum=1024,
  )


def _define_output_flags(values):
  """Defines what a run that trains prints, and when it writes to its folder."""
  command_line.define_positive(
    values, 'log_frequency', 10, 'steps between lines on standard output'
  )
  command_line.define_bool(
    values, 'log_device_placement', 'log which device each operation is on'
  )
  command_line.define_positive(
    values, 'save_checkpoint_secs', 600, 'seconds between checkpoints'
  )
  command_line.define_positive(
    values,
    'save_checkpoint_steps',
    None,
    'steps between checkpoints, instead of seconds',
  )
  command_line.exclude(values, 'save_checkpoint_secs', 'save_checkpoint_steps')
  command_line.define_positive(
    values, 'save_summaries_steps', 100, 'steps between summaries'
  )
  command_line.define_positive(
    values, 'max_to_keep', 5, 'how many checkpoints to keep'
  )


def _define_task_flags(values):
  """Defines which task of which cluster a process is."""
  flags.DEFINE_enum(
    'job_name',
    None,
    cluster.JOBS,
    'this task of a cluster; none: train alone',
    flag_values=values,
  )
  flags.DEFINE_integer(
    'task_index',
    None,
    'its number, from 0',
    0,
    command_line.MAX_INT,
    flag_values=values,
  )
  for name, text in (
    ('ps_hosts', 'host:port of each parameter server, with commas between'),
    ('worker_hosts', 'host:port of each worker, with commas between'),
    ('chief_host', 'host:port of the chief; none: worker 0 is the chief'),
  ):
    flags.DEFINE_string(name, None, text, flag_values=values)


def _define_cluster_flags(values):
  """Defines how the tasks of a cluster train together."""
  command_line.define_bool(
    values, 'sync_replicas', 'the mean gradient of all replicas is one update'
  )
  command_line.define_positive(
    values,
    'replicas_to_aggregate',
    None,
    'how many of them are enough for an update; none: all',
  )
  command_line.define_positive(
    values,
    'start_timeout_secs',
    600,
    'seconds that a task waits for others that are not there',
  )


def _arguments(values):
  """Returns the flags as arguments of `training.train`, cluster included."""
  given = command_line.arguments(values)
  described = {name: given.pop(name) for name in _CLUSTER_FLAGS}
  given['cluster'] = resolved = cluster.resolve(os.environ, **described)
  # Where a worker is, the chief's folder need not be.
  is_worker = resolved and resolved.task and not resolved.is_chief
  if is_worker and not values['train_dir'].present:
    given['train_dir'] = None
  return given


def _evaluate(given):
  """Runs eval.py's loop, for a task of a cluster that has the chief's folder.

  Args:
    given: what `_arguments` returned.
  """
  evaluation = command_line.import_quietly('cifar10.evaluation')
  evaluation.evaluate(
    data_dir=given['data_dir'],
    dataset=given['dataset'],
    label=given['label'],
    image_size=given['image_size'],
    checkpoint_dir=given['train_dir'],
    eval_dir=os.path.join(given['train_dir'], 'eval'),
    batch_size=given['batch_size'],
    eval_interval_secs=_EVALUATOR_INTERVAL_SECS,
    last_step=given['max_steps'],
  )


def train(values):
  """Trains as the flags say; as a cluster's evaluator, it evaluates."""
  given = _arguments(values)
  if given['cluster'] and given['cluster'].task is None:
    _evaluate(given)
    return
  training = command_line.import_quietly('cifar10.training')
  if training.train(**given):
    print('Evaluate it:', _eval_command(given), file=sys.stderr)


def _eval_command(given):
  """Returns the command line that evaluates the run."""
  script = os.path.join(os.path.dirname(sys.argv[0]), 'eval.py')
  train_dir = given['train_dir']
  words = [
    'python',
    script,
    '--checkpoint_dir=' + train_dir,
    '--eval_dir=' + os.path.join(train_dir, 'eval'),
  ]
  if given['data_dir'] != datasets.DATA_DIR:
    words.append('--data_dir=' + given['data_dir'])
  return shlex.join([*words, '--run_once'])
