"""A cluster of processes that local_cluster.py starts and ends."""

import contextlib
import os
import re
import signal
import subprocess
import threading

import pytest
from processes import ALARMING, command, precision, run, saved_step

pytestmark = pytest.mark.process


class LocalCluster:
  """The script as a process, and the lines of both of its streams so far."""

  def __init__(self, **flags):
    self._process = subprocess.Popen(
      command('local_cluster', **flags),
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    self.lines = []
    self._news = threading.Condition()
    threading.Thread(target=self._read, daemon=True).start()

  def _read(self):
    for line in self._process.stdout:
      with self._news:
        self.lines.append(line.rstrip('\n'))
        self._news.notify()

  def found(self, pattern):
    """Returns the matches of a pattern, one for each line that has it."""
    matches = [re.search(pattern, line) for line in self.lines]
    return [match for match in matches if match]

  def wait_for(self, pattern, count=1):
    with self._news:
      assert self._news.wait_for(
        lambda: len(self.found(pattern)) >= count, timeout=90
      ), self.lines
    return self.found(pattern)[count - 1]

  def __enter__(self):
    return self

  def __exit__(self, *_):
    """Leaves nothing of it behind, where a test failed."""
    for match in self.found(r' is process (\d+)'):
      with contextlib.suppress(ProcessLookupError):
        os.kill(int(match.group(1)), signal.SIGKILL)
    self._process.kill()
    self._process.wait()

  def send(self, signum):
    self._process.send_signal(signum)

  def wait(self, secs):
    status = self._process.wait(secs)
    assert not any(map(ALARMING.search, self.lines)), self.lines
    for match in self.found(r' is process (\d+)'):
      with pytest.raises(ProcessLookupError):
        os.kill(int(match.group(1)), 0)
    return status


@pytest.fixture
def flags(sample, tmp_path):
  return {
    **sample,
    'train_dir': tmp_path / 'run',
    'batch_size': 8,
    'learning_rate': 0.01,
    'log_frequency': 1,
  }


def test_two_workers_and_a_chief_learn_the_sample(sample, tmp_path):
  train_dir = tmp_path / 'run'
  flags = {**sample, 'train_dir': train_dir, 'learning_rate': 0.05}
  with LocalCluster(
    **flags,
    num_workers=2,
    sync_replicas=True,
    batch_size=43,
    max_steps=600,
    seed=1,
  ) as started:
    assert started.wait(400) == 0
    assert saved_step(train_dir) == 600
    steps = [
      int(match.group(1))
      for match in started.found(r'^\[chief 0\] .*: step (\d+), loss = ')
    ]
    assert steps == list(range(0, 600, 10))
    for rank, name in ((1, 'worker 0'), (2, 'worker 1')):
      device = '/job:worker/task:%d' % (rank - 1)
      assert started.found(
        r'^\[%s\] replica %d of 3 on %s: step 600' % (name, rank, device)
      )
    out, _ = run(
      'eval',
      run_once=True,
      data_dir=sample['data_dir'],
      checkpoint_dir=train_dir,
      eval_dir=tmp_path / 'eval',
    )
    assert precision(out)[0] >= 0.90
    # One machine goes on with the checkpoint of a cluster.
    _, err = run('train', **flags, max_steps=602)
    assert err[0].endswith('model.ckpt-600 at step 600')


def test_one_that_is_killed_is_started_again(flags):
  with LocalCluster(**flags, max_steps=100000) as started:
    started.wait_for(r'^\[worker 0\] replica 1 of 2')
    worker = int(started.wait_for(r'^worker 0 is process (\d+)').group(1))
    os.kill(worker, signal.SIGKILL)
    started.wait_for(r'^worker 0 ended \(signal 9\): started again')
    started.wait_for(r'^worker 0 is process', count=2)
    said = len(started.found(r'^\[worker 0\] replica 1 of 2'))
    started.wait_for(r'^\[worker 0\] replica 1 of 2', count=said + 1)
    started.send(signal.SIGINT)
    assert started.wait(30) == 130
    assert started.found(r'^\[chief 0\] train.py: SIGINT: the run is saved')
    assert saved_step(flags['train_dir']) > 0


def test_one_that_fails_for_good_ends_all(flags, small_data):
  flags.update(data_dir=small_data, dataset='nothing')
  with LocalCluster(**flags, max_steps=100000) as started:
    assert started.wait(60) == 1
    assert re.match(
      r'local_cluster.py: \w+ 0 failed \(exit status 2\)', started.lines[-1]
    )


def test_the_chief_of_a_run_of_one_machine_has_an_evaluator(flags, tmp_path):
  """A run that one machine began, without workers and with an evaluator."""
  run('train', **flags, max_steps=5)
  flags.update(max_steps=9, num_workers=0, evaluator=True)
  with LocalCluster(**flags) as started:
    assert started.wait(90) == 0
    assert started.found(r'model.ckpt-5 at step 5')
    assert started.found(r'^\[evaluator 0\] \d+ of 2000 correct, step 9')
    assert (tmp_path / 'run' / 'eval').is_dir()
