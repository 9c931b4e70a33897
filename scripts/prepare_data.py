"""Puts a data set in place, or makes one of your own pictures.

  python scripts/prepare_data.py --action=download --dataset=cifar100
  python scripts/prepare_data.py --action=sample
  python scripts/prepare_data.py --action=from_folder --image_dir=pets \\
    --dataset=pets

train.py and eval.py download and draw by themselves where there is no data.
"""

import command_line
from absl import flags

from cifar10 import UsageError, datasets

FLAGS = command_line.new_flags()
command_line.define_data_flags(FLAGS)
flags.DEFINE_enum(
  'action',
  'download',
  ['download', 'sample', 'from_folder', 'to_folder', 'svhn'],
  'download: a published archive; sample: the data set that is drawn; '
  'from_folder: pictures, a folder for each class, become a data set; '
  'to_folder: a data set becomes PNG files; svhn: the .mat files of SVHN '
  'become a data set',
  flag_values=FLAGS,
)
command_line.define_folder(
  FLAGS,
  'image_dir',
  None,
  'the folder of pictures, read or made; of svhn, that of the .mat files',
)
command_line.define_float(
  FLAGS,
  'test_fraction',
  None,
  'the part of each class that from_folder sets aside for evaluation, where '
  'there is no folder test; none: 0.2',
  maximum=0.99,
)
flags.DEFINE_integer(
  'seed',
  0,
  'of the shuffle',
  0,
  command_line.MAX_INT,
  flag_values=FLAGS,
)

# Which flags each action takes beside --data_dir.
_TAKES = {
  'download': ('dataset', 'label'),
  'sample': ('dataset',),
  'from_folder': ('dataset', 'image_dir', 'test_fraction', 'seed'),
  'to_folder': ('dataset', 'label', 'image_dir'),
  'svhn': ('dataset', 'image_dir', 'seed'),
}
# Those that it cannot do without.
_NEEDS = {
  'from_folder': ('dataset', 'image_dir'),
  'to_folder': ('image_dir',),
  'svhn': ('image_dir',),
}


def main():
  _check_flags()
  name = _dataset()
  if FLAGS.action == 'from_folder':
    folders = command_line.import_quietly('cifar10.folders')
    folders.from_folder(
      FLAGS.image_dir, name, FLAGS.data_dir, FLAGS.test_fraction, FLAGS.seed
    )
  elif FLAGS.action == 'to_folder':
    folders = command_line.import_quietly('cifar10.folders')
    folders.to_folder(FLAGS.image_dir, name, FLAGS.data_dir, FLAGS.label)
  elif FLAGS.action == 'svhn':
    svhn = command_line.import_quietly('cifar10.svhn')
    svhn.from_mat(FLAGS.image_dir, FLAGS.data_dir, name, FLAGS.seed)
  for split in ('train', 'test'):
    loaded = datasets.load(name, FLAGS.data_dir, split, label=FLAGS.label)
    files = ', '.join(map(str, loaded.files))
    print('%d %s examples in %s' % (loaded.num_examples, split, files))


def _check_flags():
  """Refuses flags that the action has no use for, or lacks."""
  action = FLAGS.action
  for name in ('dataset', 'label', 'image_dir', 'test_fraction', 'seed'):
    if FLAGS[name].present and name not in _TAKES[action]:
      raise UsageError('--%s: --action=%s does not take it' % (name, action))
  for name in _NEEDS.get(action, ()):
    if not FLAGS[name].present:
      raise UsageError('--action=%s needs --%s' % (action, name))


def _dataset():
  """Returns what to prepare; --action=sample and svhn need no --dataset."""
  action = FLAGS.action
  if action in ('sample', 'svhn') and not FLAGS['dataset'].present:
    return action
  spec = datasets.find_spec(FLAGS.dataset, FLAGS.label)
  if (action == 'sample') != spec.drawn and action in ('sample', 'download'):
    hint = ': --action=sample draws it' if spec.drawn else ''
    raise UsageError(
      '--action=%s does not go with --dataset=%s%s' % (action, spec.name, hint)
    )
  if action == 'download' and not spec.archive:
    raise UsageError(
      '--action=download does not go with --dataset=%s: --action=from_folder '
      'makes a data set of your pictures' % spec.name
    )
  return spec.name


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
