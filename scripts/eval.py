"""Evaluates the newest checkpoint of a run, and the next ones as they come.

  python scripts/eval.py --checkpoint_dir=/tmp/cifar10_train

Data set, label, size and float type are those of the run, unless flags say
otherwise.
"""

import command_line
from absl import flags

FLAGS = command_line.new_flags()
with command_line.group(FLAGS, 'Evaluation'):
  command_line.define_checkpoint_flags(FLAGS)
  command_line.define_folder(
    FLAGS, 'eval_dir', '/tmp/cifar10_eval', 'the folder of summaries'
  )
  flags.DEFINE_enum(
    'eval_data',
    'test',
    ['test', 'train_eval'],
    'which examples: test, or train_eval for the training files, undistorted',
    flag_values=FLAGS,
  )
  command_line.define_positive(
    FLAGS, 'num_examples', 10000, 'evaluate the first of them, at most'
  )
with command_line.group(FLAGS, 'When'):
  command_line.define_bool(FLAGS, 'run_once', 'evaluate once, then end')
  command_line.define_positive(
    FLAGS, 'eval_interval_secs', 300, 'seconds between looks for a checkpoint'
  )
  flags.DEFINE_integer(
    'idle_timeout_secs',
    0,
    'end after so many seconds without a new checkpoint; 0: never',
    0,
    command_line.MAX_INT,
    flag_values=FLAGS,
  )
  command_line.exclude(FLAGS, 'run_once', 'idle_timeout_secs')
with command_line.group(FLAGS, 'What is shown'):
  command_line.define_bool(FLAGS, 'per_class', 'print a table of the classes')
  command_line.define_file(
    FLAGS,
    'predictions',
    'a CSV file to write: index, label, prediction and probability of each '
    'example of the newest evaluation',
  )
command_line.define_data_flags(FLAGS)
command_line.define_network_flags(FLAGS)


def main():
  evaluation = command_line.import_quietly('cifar10.evaluation')
  evaluation.evaluate(**command_line.arguments(FLAGS, *command_line.RUN_FLAGS))


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__, command_line.RUN_FLAGS)
