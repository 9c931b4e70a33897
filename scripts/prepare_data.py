"""Puts a data set in place: downloads a published one, or draws the sample.

  python scripts/prepare_data.py --action=download --dataset=cifar100
  python scripts/prepare_data.py --action=sample

train.py and eval.py do the same by themselves where there is no data.
"""

import command_line
from absl import flags

from cifar10 import UsageError, datasets

FLAGS = command_line.new_flags()
command_line.define_data_flags(FLAGS)
flags.DEFINE_enum(
  'action',
  'download',
  ['download', 'sample'],
  'download: a published archive; sample: the data set that is drawn',
  flag_values=FLAGS,
)


def main():
  spec = _spec()
  for name in ('train', 'test'):
    split = datasets.load(spec.name, FLAGS.data_dir, name)
    files = ', '.join(map(str, split.files))
    print('%d %s examples in %s' % (split.num_examples, name, files))


def _spec():
  """Returns what to prepare; --action=sample needs no --dataset."""
  sampling = FLAGS.action == 'sample'
  named = not sampling or FLAGS['dataset'].present
  spec = datasets.find_spec(FLAGS.dataset if named else 'sample')
  if spec.drawn != sampling or not (spec.drawn or spec.archive):
    raise UsageError(
      '--action=%s does not go with --dataset=%s' % (FLAGS.action, spec.name)
    )
  return spec


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
