"""The data sets that are known: a record of facts for each."""

import dataclasses
import re

from cifar10 import UsageError, sample
from cifar10.archives import Archive

HEIGHT = WIDTH = 32
DEPTH = 3
IMAGE_BYTES = HEIGHT * WIDTH * DEPTH
# The publisher's page of both archives; sizes and checksums are those of the
# files that it served when this was written.
_BASE_URL = 'https://www.cs.toronto.edu/~kriz/'


@dataclasses.dataclass(frozen=True)
class Spec:
  """What is known of a data set before any file is looked at.

  Attributes:
    name: what `--dataset` calls it.
    folder: the folder of its files, below DATA_DIR.
    class_names: names in label order, or () where only the names file knows.
    label_bytes: label bytes at the start of each record.
    label_index: which of them is the label (0 is the first).
    train_files: pattern of the training files.
    required_files: training files that must be there.
    eval_file: the file of the evaluation split.
    names_file: the text file of class names, one a line.
    archive: the published `Archive`, or None.
    drawn: whether `sample` draws it.
    label: which of its labels that is; only `cifar100` has two.
  """

  name: str
  folder: str
  class_names: tuple = ()
  label_bytes: int = 1
  label_index: int = 0
  train_files: str = 'data_batch_*.bin'
  required_files: tuple = ()
  eval_file: str = 'test_batch.bin'
  names_file: str = 'batches.meta.txt'
  archive: Archive | None = None
  drawn: bool = False
  label: str = 'fine'

  @property
  def record_bytes(self):
    return self.label_bytes + IMAGE_BYTES


_FIVE_BATCHES = tuple('data_batch_%d.bin' % i for i in range(1, 6))

_CIFAR10_NAMES = tuple(
  'airplane automobile bird cat deer dog frog horse ship truck'.split()
)

_CIFAR100_NAMES = tuple(
  """
  apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy
  bridge bus butterfly camel can castle caterpillar cattle chair chimpanzee
  clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
  flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
  leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
  oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
  poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
  shrew skunk skyscraper snail snake spider squirrel streetcar sunflower
  sweet_pepper table tank telephone television tiger tractor train trout tulip
  turtle wardrobe whale willow_tree wolf woman worm
  """.split()
)

_CIFAR100_COARSE_NAMES = tuple(
  """
  aquatic_mammals fish flowers food_containers fruit_and_vegetables
  household_electrical_devices household_furniture insects large_carnivores
  large_man-made_outdoor_things large_natural_outdoor_scenes
  large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people
  reptiles small_mammals trees vehicles_1 vehicles_2
  """.split()
)

SPECS = {
  spec.name: spec
  for spec in (
    Spec(
      name='cifar10',
      folder='cifar-10-batches-bin',
      class_names=_CIFAR10_NAMES,
      required_files=_FIVE_BATCHES,
      archive=Archive(
        _BASE_URL + 'cifar-10-binary.tar.gz',
        170052171,
        'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd',
      ),
    ),
    Spec(
      name='cifar100',
      folder='cifar-100-binary',
      class_names=_CIFAR100_NAMES,
      label_bytes=2,
      label_index=1,
      train_files='train.bin',
      required_files=('train.bin',),
      eval_file='test.bin',
      names_file='fine_label_names.txt',
      archive=Archive(
        _BASE_URL + 'cifar-100-binary.tar.gz',
        168513733,
        '58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec',
      ),
    ),
    Spec(
      name='sample',
      folder='sample-batches-bin',
      class_names=sample.CLASS_NAMES,
      required_files=_FIVE_BATCHES,
      drawn=True,
    ),
  )
}

_COARSE = {
  'cifar100': dataclasses.replace(
    SPECS['cifar100'],
    class_names=_CIFAR100_COARSE_NAMES,
    label_index=0,
    names_file='coarse_label_names.txt',
    label='coarse',
  )
}


def find_spec(name, label='fine'):
  """Returns the `Spec` called `name`.

  A name that is not in `SPECS` is a data set of one's own: the CIFAR-10 layout
  in `DATA_DIR/NAME-batches-bin/`, with a `batches.meta.txt`.

  Args:
    name: what `--dataset` calls it.
    label: 'fine', or 'coarse' for the other label that `cifar100` has.

  Raises:
    cifar10.UsageError: `name` cannot be part of a folder's name, or it has no
      such label.
  """
  if label != 'fine':
    if name not in _COARSE:
      raise UsageError(
        '--label=%s: --dataset=%s has one label only; coarse labels are of %s'
        % (label, name, ', '.join(_COARSE))
      )
    return _COARSE[name]
  if name in SPECS:
    return SPECS[name]
  if not re.fullmatch(r'\w[\w.-]*', name):
    raise UsageError(
      '--dataset=%s: a name holds letters, digits, "_", "." and "-", the last '
      'two not at its start' % name
    )
  spec = Spec(name=name, folder=name + '-batches-bin')
  for known in SPECS.values():
    if spec.folder == known.folder:
      raise UsageError(
        '--dataset=%s: %s is the folder of the data set %s: say --dataset=%s, '
        'or give yours another name'
        % (name, spec.folder, known.name, known.name)
      )
  return spec
