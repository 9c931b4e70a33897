"""Puts a data set in place, or makes one of your own pictures.

  python scripts/prepare_data.py --action=download --dataset=cifar100
  python scripts/prepare_data.py --action=sample
  python scripts/prepare_data.py --action=from_folder --image_dir=pets \\
    --dataset=pets
  python scripts/prepare_data.py --action=to_folder --image_dir=new \\
    --dataset=pets
  python scripts/prepare_data.py --action=svhn --image_dir=folder_of_mat_files

train.py and eval.py download and draw by themselves where there is no data.
"""

import collections

import command_line
from absl import flags

from cifar10 import UsageError, datasets

Action = collections.namedtuple('Action', 'function takes needs')


def _from_folder():
  folders = command_line.import_quietly('cifar10.folders')
  folders.from_folder(
    FLAGS.image_dir,
    FLAGS.dataset,
    FLAGS.data_dir,
    FLAGS.test_fraction,
    FLAGS.seed,
  )


def _to_folder():
  folders = command_line.import_quietly('cifar10.folders')
  folders.to_folder(FLAGS.image_dir, FLAGS.dataset, FLAGS.data_dir, FLAGS.label)


def _svhn():
  svhn = command_line.import_quietly('cifar10.svhn')
  svhn.from_mat(FLAGS.image_dir, FLAGS.dataset, FLAGS.data_dir, FLAGS.seed)


# What each action calls, which flags it takes, and which it cannot do without.
# Loading alone fetches or draws what is not there.
ACTIONS = {
  'download': Action(lambda: None, ('dataset', 'label'), ()),
  'sample': Action(lambda: None, ('dataset',), ()),
  'from_folder': Action(
    _from_folder,
    ('dataset', 'image_dir', 'test_fraction', 'seed'),
    ('dataset', 'image_dir'),
  ),
  'to_folder': Action(
    _to_folder, ('dataset', 'label', 'image_dir'), ('image_dir',)
  ),
  'svhn': Action(_svhn, ('dataset', 'image_dir', 'seed'), ('image_dir',)),
}

FLAGS = command_line.new_flags()
with command_line.group(FLAGS, 'What is done'):
  flags.DEFINE_enum(
    'action',
    'download',
    list(ACTIONS),
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
command_line.define_data_flags(FLAGS)


def main():
  action = ACTIONS[FLAGS.action]
  if not FLAGS['dataset'].present and FLAGS.action in ('sample', 'svhn'):
    FLAGS.dataset = FLAGS.action
  _check_flags(action)
  _check_dataset()
  action.function()
  if FLAGS.action == 'to_folder':
    print('%s holds train/ and test/' % FLAGS.image_dir)
    return
  for name in ('train', 'test'):
    split = datasets.load(
      FLAGS.dataset, FLAGS.data_dir, name, label=FLAGS.label
    )
    files = ', '.join(map(str, split.files))
    print('%d %s examples in %s' % (split.num_examples, name, files))


def _check_flags(action):
  """Refuses flags that the action has no use for, or lacks."""
  for name in ('dataset', 'label', 'image_dir', 'test_fraction', 'seed'):
    if FLAGS[name].present and name not in action.takes:
      takers = [key for key in ACTIONS if name in ACTIONS[key].takes]
      raise UsageError(
        '--%s goes with --action=%s, not with --action=%s'
        % (name, ' or '.join(takers), FLAGS.action)
      )
  for name in action.needs:
    if not FLAGS[name].present:
      raise UsageError('--action=%s needs --%s' % (FLAGS.action, name))


def _check_dataset():
  """Refuses to download what is not published, or to draw what is not drawn."""
  spec = datasets.find_spec(FLAGS.dataset, FLAGS.label)
  fits = {'download': spec.archive, 'sample': spec.drawn}
  if fits.get(FLAGS.action, True):
    return
  better = 'svhn' if spec.name == 'svhn' else 'from_folder'
  if spec.archive or spec.drawn:
    better = 'download' if spec.archive else 'sample'
  raise UsageError(
    '--action=%s does not go with --dataset=%s: --action=%s does'
    % (FLAGS.action, spec.name, better)
  )


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__)
