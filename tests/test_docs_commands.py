"""Every command and program of README and docs that needs no network runs.

As they stand, but for fewer steps, smaller batches, and a folder of the test's
own in the place of /tmp. The command of a cluster is run by
test_local_cluster.py, tensorboard by test_browser.py, make by .ci/run.
"""

import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
from pictures import random_images, write_records
from PIL import Image
from processes import ALARMING, ROOT
from test_docs import PAGES, blocks, commands

pytestmark = pytest.mark.process

TRAINERS = ('train', 'multi_gpu_train')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
  """A folder with what the pages speak of: clone, pictures and data sets."""
  folder = tmp_path_factory.mktemp('world')
  for name in ('scripts', 'cifar10'):
    (folder / name).symlink_to(ROOT / name)
  for i, image in enumerate(random_images(21)):
    path = folder / 'kitten.jpg'
    if i:
      path = folder / 'pets' / ('cat', 'dog')[i % 2] / ('%d.jpg' % i)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).resize([50, 40]).save(path)
  cifar10 = folder / 'data' / 'cifar-10-batches-bin'
  cifar10.mkdir(parents=True)
  for name in ['data_batch_%d' % i for i in range(1, 6)] + ['test_batch']:
    write_records(cifar10 / (name + '.bin'), range(10), random_images(10))
  cifar100 = folder / 'data' / 'cifar-100-binary'
  cifar100.mkdir()
  for name in ('train', 'test'):
    labels = [[i % 20, i] for i in range(20)]
    write_records(cifar100 / (name + '.bin'), labels, random_images(20))
  numbers = folder / 'FOLDER_OF_BOTH'
  numbers.mkdir()
  for name in ('train', 'test'):
    scipy.io.savemat(
      numbers / (name + '_32x32.mat'),
      {
        'X': random_images(20).transpose(1, 2, 3, 0),
        'y': np.arange(1, 21).reshape(-1, 1) % 10 + 1,
      },
    )
  return folder


def _within_reach(words):
  """Returns a command that fits the world; None where it needs others."""
  script = pathlib.Path(words[1]).stem
  line = ' '.join(words)
  if script == 'local_cluster' or '_hosts' in line:
    return None
  words = [word.replace('=/tmp/', '=tmp/') for word in words[1:]]
  given = dict(
    w.split('=', 1) for w in words if w.startswith('--') and '=' in w
  )
  if '--data_dir' not in given:
    words.append('--data_dir=data')
  if script in TRAINERS:
    steps = math.ceil(int(given.get('--max_steps', 2000)) / 1000)
    words += ['--max_steps=%d' % max(2, steps), '--batch_size=4']
    if '--train_dir' not in given:
      words.append('--train_dir=runs/default')
  if script == 'eval' and '--run_once' not in words:
    words.append('--run_once')
  return [sys.executable, *words]


def test_the_commands_of_all_pages(world):
  ran = 0
  for page in PAGES:
    for words in commands(page):
      command = _within_reach(words)
      if command is None:
        continue
      process = subprocess.run(
        command, cwd=world, capture_output=True, text=True
      )
      said = '%s: %s\n%s' % (page.name, ' '.join(command), process.stderr)
      assert process.returncode == 0, said
      assert not ALARMING.search(process.stderr), said
      ran += 1
  assert ran > 20
  # The programs that the pages show, one after the other.
  environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  for page in PAGES:
    program = ''.join(blocks(page, 'python'))
    (world / 'program.py').write_text(
      program.replace("dataset='sample'", "data_dir='data', dataset='sample'")
    )
    process = subprocess.run(
      [sys.executable, 'program.py'],
      cwd=world,
      env=environment,
      capture_output=True,
      text=True,
    )
    assert process.returncode == 0, '%s: %s' % (page.name, process.stderr)
    if page.name == 'moving_on.md':
      lines = process.stdout.splitlines()
      assert lines[0].endswith(' of 2000 correct')
      assert float(lines[1]) < 1e-4
