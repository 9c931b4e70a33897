"""Trains the CIFAR-10 network on several GPUs, one tower on each.

  python scripts/multi_gpu_train.py --num_gpus=2

A run that is already in train_dir is continued, also one of train.py. Towers
for which there is no GPU run on the CPU.
"""

import command_line
import training_flags

FLAGS = command_line.new_flags()
with command_line.group(FLAGS, 'Towers'):
  command_line.define_positive(
    FLAGS,
    'num_gpus',
    1,
    'towers, each with batches of batch_size of its own',
    maximum=256,
  )
training_flags.define(FLAGS, max_steps=1000000)


def main():
  training_flags.train(FLAGS)


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
