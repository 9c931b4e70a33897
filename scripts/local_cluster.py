"""Trains on a cluster of processes on this machine, to try what a cluster does.

  python scripts/local_cluster.py --num_workers=2 --sync_replicas

All other flags are those of train.py, and are passed on. Each process's lines
begin with its name. Kill one, and it is started again.
"""

import os
import sys

import command_line
import training_flags
from absl import flags

from cifar10 import local_cluster

FLAGS = command_line.new_flags()
OWN = ('num_workers', 'num_ps', 'evaluator', 'max_restarts')
with command_line.group(FLAGS, 'Processes'):
  flags.DEFINE_integer(
    'num_workers', 1, 'workers beside the chief', 0, 64, flag_values=FLAGS
  )
  command_line.define_positive(FLAGS, 'num_ps', 1, 'parameter servers', 64)
  command_line.define_bool(FLAGS, 'evaluator', 'evaluate beside, too')
  flags.DEFINE_integer(
    'max_restarts',
    3,
    'how often a task that a signal ended is started again',
    0,
    command_line.MAX_INT,
    flag_values=FLAGS,
  )
training_flags.define(FLAGS, max_steps=100000, is_task=False)


def main():
  script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'train.py')
  local_cluster.run(
    [sys.executable, script, *command_line.given_words(FLAGS, leave_out=OWN)],
    num_workers=FLAGS.num_workers,
    num_ps=FLAGS.num_ps,
    with_evaluator=FLAGS.evaluator,
    max_restarts=FLAGS.max_restarts,
  )


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
