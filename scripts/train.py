"""Trains the CIFAR-10 network on one device, from queues.

  python scripts/train.py --train_dir=/tmp/cifar10_train

A run that is already in train_dir is continued.
"""

import command_line
import training_flags

FLAGS = command_line.new_flags()
training_flags.define(FLAGS, max_steps=100000)


def main():
  training_flags.train(FLAGS)


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
