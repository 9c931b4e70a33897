"""Trains the CIFAR-10 network on one device, from queues.

  python scripts/train.py --train_dir=/tmp/cifar10_train

A run that is already in train_dir is continued.
"""

import command_line

FLAGS = command_line.new_flags()
command_line.define_training_flags(FLAGS, max_steps=100000)


def main():
  command_line.train(FLAGS)


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
