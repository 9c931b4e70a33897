"""What goes wrong while it trains: signals, two at once, data that changes."""

import os
import re
import shlex
import signal
import subprocess

import pytest
from data_sets import TRAIN_FILES
from processes import ALARMING, command, past_step_3, run

from cifar10 import checkpoints

pytestmark = pytest.mark.process


@pytest.fixture
def small_run(small_data, tmp_path):
  """Flags of a training run that takes little time."""
  return {
    'data_dir': small_data,
    'dataset': 'small',
    'train_dir': tmp_path / 'run',
    'batch_size': 4,
  }


def saved_step(train_dir):
  return checkpoints.read_global_step(checkpoints.newest(str(train_dir)))


def test_the_second_trainer_is_refused_and_the_first_goes_on(small_run):
  train_dir = small_run['train_dir']
  with past_step_3(**small_run) as process:
    for flags in ({}, {'overwrite': True}):
      out, err = run('train', 1, max_steps=100000, **small_run, **flags)
      assert out == []
      assert err == [
        'train.py: %s: process %d trains in this folder: end it, or name '
        'another --train_dir' % (train_dir, process.pid)
      ]
    process.terminate()
    out, _ = process.communicate(timeout=30)
  assert process.returncode == 143
  last = int(re.findall(r'step (\d+),', out)[-1])
  assert saved_step(train_dir) == last + 1
  assert not (train_dir / 'train.lock').exists()


def test_a_killed_trainer_blocks_nobody(small_run):
  with past_step_3(**small_run) as process:
    process.kill()
  assert (small_run['train_dir'] / 'train.lock').exists()
  run('train', max_steps=2, **small_run)
  assert saved_step(small_run['train_dir']) == 2


@pytest.mark.parametrize('kind', ['cut', 'emptied', 'removed'])
def test_data_that_changes_while_it_trains(kind, small_run, small_data):
  with past_step_3(**small_run) as process:
    for name in TRAIN_FILES:
      path = small_data / 'small-batches-bin' / name
      if kind == 'removed':
        path.unlink()
      else:
        os.truncate(path, 5000 if kind == 'cut' else 0)
    _, err = process.communicate(timeout=60)
  assert process.returncode == 1
  assert not ALARMING.search(err)
  line = err.splitlines()[-1]
  assert 'small-batches-bin/data_batch_' in line
  assert 'Queue' not in err
  step = saved_step(small_run['train_dir'])
  assert step > 3
  # Either the look at the files or TensorFlow's reader found it first.
  train_dir = small_run['train_dir']
  ends = ('the run is saved in %s' % train_dir, 'model.ckpt-%d' % step)
  assert any(end in line for end in ends)


def test_interrupt_in_a_background_job(small_run):
  # A shell without job control has its background jobs ignore SIGINT.
  words = command('train', max_steps=100000, log_frequency=1, **small_run)
  line = 'trap "" INT; exec ' + shlex.join(words)
  with subprocess.Popen(
    ['sh', '-c', line], stdout=subprocess.PIPE, stderr=subprocess.PIPE
  ) as process:
    while b' step 3,' not in process.stdout.readline():
      pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
  assert process.returncode == 130
  assert saved_step(small_run['train_dir']) > 3
