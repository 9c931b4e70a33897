"""What goes wrong while it trains: signals, two at once, data that changes."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from data_sets import TRAIN_FILES
from processes import (
  ALARMING,
  ROOT,
  command,
  losses,
  past_step_3,
  run,
  saved_step,
)

pytestmark = pytest.mark.process


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


@pytest.mark.parametrize('delay', [0, 1, 2, 3, 4])
def test_a_signal_during_start_up(delay, small_run):
  words = command('train', max_steps=100000, **small_run)
  with subprocess.Popen(
    words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    wait_until_handled(process)
    time.sleep(delay)
    process.terminate()
    _, err = process.communicate(timeout=10)
  assert process.returncode == 143
  assert not ALARMING.search(err)
  last = err.splitlines()[-1]
  train_dir = small_run['train_dir']
  if last != 'train.py: interrupted by SIGTERM':
    assert last == 'train.py: SIGTERM: the run is saved in %s' % train_dir
    assert saved_step(train_dir) > 0


def wait_until_handled(process):
  """Waits until a process has a handler of its own for SIGTERM."""
  bit = 1 << (signal.SIGTERM - 1)
  while True:
    status = pathlib.Path('/proc/%d/status' % process.pid).read_text()
    if int(re.search(r'SigCgt:\s*(\w+)', status)[1], 16) & bit:
      return
    assert process.poll() is None
    time.sleep(0.01)


def test_a_second_signal_while_tensorflow_is_imported(small_run):
  words = command('train', max_steps=100000, **small_run)
  with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
    wait_until_handled(process)
    # Two that come while Python is held up count as one.
    while process.poll() is None:
      time.sleep(0.3)
      process.terminate()
    err = process.stderr.read()
  assert process.returncode == 143
  assert err == 'second signal: ended at once\n'


def test_a_second_signal_ends_it_at_once():
  """The step waits for input that does not come, the grace is an hour."""
  code = (
    'import sys; sys.path[:0] = sys.argv[1:]\n'
    'import test_watchdog\n'
    'from cifar10 import watchdog\n'
    'watchdog._GRACE_SECS = 3600\n'
    'said = lambda step: print(step, flush=True)\n'
    'test_watchdog.run(watchdog.Watchdog(), before_step=said, tokens=3)\n'
  )
  words = [sys.executable, '-c', code, str(ROOT), str(ROOT / 'tests')]
  with subprocess.Popen(
    words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    while process.stdout.readline() != '4\n':
      pass
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # the same one, passed on by a wrapper
    time.sleep(2)
    assert process.poll() is None
    process.terminate()
    _, err = process.communicate(timeout=10)
  assert process.returncode == 143
  assert err.endswith('second signal: ended at once\n')


def test_a_signal_that_a_wrapper_passes_on_is_one(small_run):
  with past_step_3(**small_run) as process:
    for _ in range(3):
      process.send_signal(signal.SIGINT)
      time.sleep(0.01)
    _, err = process.communicate(timeout=30)
  assert process.returncode == 130
  assert 'the run is saved in' in err.splitlines()[-1]
  assert saved_step(small_run['train_dir']) > 3


def test_a_signal_while_saving(small_run):
  """Saving takes as long as a step here, so one of the five meets a save."""
  printed = -1
  for _ in range(5):
    words = command(
      'train',
      max_steps=100000,
      save_checkpoint_steps=1,
      log_frequency=1,
      **small_run,
    )
    with subprocess.Popen(
      words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
      lines = [process.stdout.readline() for _ in range(3)]
      process.terminate()
      out, err = process.communicate(timeout=10)
    assert process.returncode == 143
    assert not ALARMING.search(err)
    steps = list(losses((''.join(lines) + out).splitlines()))
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert steps[0] == printed + 1
    printed = steps[-1]


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
