"""What is left of a run that is killed, finds no space, or loses its folder."""

import contextlib
import logging
import os
import random
import re
import resource
import subprocess

import pytest
from processes import (
  ALARMING,
  command,
  losses,
  past_step_3,
  run,
  saved_step,
)
from tensorboard.backend.event_processing import event_accumulator

from cifar10 import checkpoints

pytestmark = pytest.mark.process


def charted_steps(train_dir, tag='total_loss_raw'):
  """Returns the steps of a curve as TensorBoard draws it."""
  logging.getLogger('tensorboard').setLevel(logging.ERROR)
  events = event_accumulator.EventAccumulator(str(train_dir))
  events.Reload()
  return [event.step for event in events.Scalars(tag)]


def last_printed_step(lines):
  return int(re.findall(r'step (\d+),', lines)[-1])


def test_kill_9_at_any_moment(small_run):
  """Each is killed in a step or in a save, as both go on all the time."""
  train_dir = small_run['train_dir']
  rng = random.Random(1)
  printed = -1
  for _ in range(5):
    with subprocess.Popen(
      command(
        'train',
        max_steps=100000,
        log_frequency=1,
        save_checkpoint_steps=1,
        save_summaries_steps=1,
        **small_run,
      ),
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    ) as process:
      first = process.stdout.readline(), process.stdout.readline()
      with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, 1.5))
      process.kill()
      out, err = process.communicate()
    # Nothing that was saved is lost, and no step is left out.
    assert last_printed_step(first[1]) <= printed + 2
    assert printed < 0 or 'Resuming from' in err
    printed = last_printed_step(first[1] + out)
    assert saved_step(train_dir) > printed
  saved = saved_step(train_dir)
  out, _ = run(
    'train',
    max_steps=saved + 3,
    log_frequency=1,
    save_summaries_steps=1,
    **small_run,
  )
  assert list(losses(out)) == [saved, saved + 1, saved + 2]
  assert charted_steps(train_dir) == list(range(1, saved + 4))
  left = {path.name.split('.')[0] for path in train_dir.iterdir()}
  assert left == {'checkpoint', 'events', 'graph', 'model', 'run'}
  assert not list(train_dir.glob('*temp*')) + list(train_dir.glob('*part*'))


@contextlib.contextmanager
def full_disk(folder, pid):
  """Leaves the disk of a folder no space."""
  with (
    contextlib.suppress(OSError),
    open(folder / 'fill', 'wb', buffering=0) as f,
  ):
    while True:
      f.write(bytes(1 << 16))
  yield
  (folder / 'fill').unlink()


@contextlib.contextmanager
def limited_files(folder, pid):
  """Lets a process write no file of more than a megabyte."""
  resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
  yield


@pytest.fixture
def small_disk(tmp_path):
  """A folder on a disk of 100 MB; skips where only others may mount one."""
  folder = tmp_path / 'disk'
  folder.mkdir()
  mount = ['mount', '-t', 'tmpfs', '-o', 'size=100m', 'tmpfs', str(folder)]
  if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
    pytest.skip('mounting takes root and its capabilities')
  yield folder
  subprocess.run(['umount', str(folder)], check=True)


def check_no_space(small_run, folder, no_space, said):
  """Trains until a save fails; then goes on from the last one that did not."""
  flags = {**small_run, 'train_dir': folder / 'run', 'max_to_keep': 2}
  with (
    past_step_3(save_checkpoint_steps=3, **flags) as process,
    no_space(folder, process.pid),
  ):
    out, err = process.communicate(timeout=60)
  assert process.returncode == 1
  assert not ALARMING.search(err)
  line = err.splitlines()[-1]
  step = saved_step(flags['train_dir'])
  assert said in line
  assert line.endswith(
    'mend that, and it goes on from %s/run/model.ckpt-%d' % (folder, step)
  )
  assert step % 3 == 0
  # No more than the steps since the last save is lost.
  assert last_printed_step('step 3,' + out) - step < 3
  out, _ = run('train', max_steps=step + 2, log_frequency=1, **flags)
  assert list(losses(out)) == [step, step + 1]
  assert not list(flags['train_dir'].glob('*temp*'))


def test_disk_full_while_saving(small_run, small_disk):
  check_no_space(small_run, small_disk, full_disk, 'No space left on device')


def test_files_that_cannot_grow(small_run, tmp_path):
  check_no_space(small_run, tmp_path, limited_files, 'File too large')


def test_a_folder_that_is_moved_away_is_made_anew(small_run, tmp_path):
  train_dir = small_run['train_dir']
  with past_step_3(**small_run) as process:
    train_dir.rename(tmp_path / 'moved')
    out, err = process.communicate(timeout=60)
  assert process.returncode == 1
  assert err.splitlines()[-1] == (
    'train.py: %s was moved, removed or replaced during training: the run is '
    'saved in %s: mend that and go on' % (train_dir, train_dir)
  )
  step = last_printed_step('step 3,' + out) + 1
  assert saved_step(train_dir) == step
  assert saved_step(tmp_path / 'moved') == 0
  assert checkpoints.read_run(str(train_dir)).dataset == 'small'
  out, _ = run('train', max_steps=step + 1, **small_run)
  assert list(losses(out)) == [step]


def test_a_folder_in_the_place_of_ours_is_not_written_to(small_run, tmp_path):
  train_dir = small_run['train_dir']
  run('train', max_steps=2, **{**small_run, 'train_dir': tmp_path / 'other'})
  names = sorted(path.name for path in (tmp_path / 'other').iterdir())
  with past_step_3(max_to_keep=1, **small_run) as process:
    train_dir.rename(tmp_path / 'moved')
    (tmp_path / 'other').rename(train_dir)
    _, err = process.communicate(timeout=60)
  assert process.returncode == 1
  assert err.splitlines()[-1].startswith(
    'train.py: %s is another folder now: nothing was written' % train_dir
  )
  assert sorted(path.name for path in train_dir.iterdir()) == names
  assert saved_step(train_dir) == 2
  assert saved_step(tmp_path / 'moved') == 0


def test_an_older_checkpoint_at_a_lower_rate(small_run):
  train_dir = small_run['train_dir']
  process = subprocess.run(
    command(
      'train',
      max_steps=99,
      learning_rate=1e4,
      save_checkpoint_steps=1,
      seed=1,
      **small_run,
    ),
    capture_output=True,
    text=True,
  )
  assert process.returncode == 1
  line = process.stderr.splitlines()[-1]
  match = re.match(
    r'train\.py: step (\d+): .* is not finite, at the learning rate 10000: ',
    line,
  )
  kept = re.findall(r'model\.ckpt-(\d+)', line)
  assert kept[:2] == ['0', '1']
  assert int(match[1]) == int(kept[-1]) == saved_step(train_dir)
  for path in train_dir.glob('model.ckpt-[1-9]*'):
    path.unlink()
  out, _ = run(
    'train',
    max_steps=5,
    learning_rate=0.01,
    log_frequency=1,
    **small_run,
  )
  assert list(losses(out)) == [0, 1, 2, 3, 4]
