"""eval.py as people run it, beside a trainer and on a disk without space."""

import re
import signal
import subprocess
import time

import pytest
from processes import ALARMING, command, precision, run

pytestmark = pytest.mark.process


def test_evaluation_beside_a_trainer_that_keeps_one_checkpoint(
  sample_run, sample, tmp_path
):
  train_dir = sample_run['train_dir']
  with subprocess.Popen(
    command(
      'eval',
      eval_interval_secs=1,
      num_examples=10,
      data_dir=sample['data_dir'],
      checkpoint_dir=train_dir,
      eval_dir=tmp_path / 'eval',
    ),
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  ) as evaluator:
    assert evaluator.stderr.readline() == (
      'Waiting for a checkpoint in %s\n' % train_dir
    )
    flags = {'save_checkpoint_steps': 5, 'max_to_keep': 1, 'max_steps': 100}
    run('train', **flags, **sample_run)
    out = []
    for line in evaluator.stdout:
      out.append(line)
      if line.endswith('step 100\n'):
        break
    time.sleep(3)  # for more looks at it
    evaluator.terminate()
    out += evaluator.stdout.readlines()
    err = evaluator.stderr.read()
  assert evaluator.returncode == 128 + signal.SIGTERM
  assert not ALARMING.search(err)
  assert 'Waiting' not in err
  assert err.splitlines()[-1] == 'eval.py: interrupted by SIGTERM'
  steps = re.findall(r'correct, step (\d+)', ''.join(out))
  assert len(steps) == len(set(steps)) and steps[-1] == '100'
  assert all(int(step) % 5 == 0 for step in steps)
  names = sorted(path.name for path in train_dir.glob('model*'))
  kept = ['data-00000-of-00001', 'index', 'meta']
  assert names == ['model.ckpt-100.' + suffix for suffix in kept]


def test_evaluation_that_cannot_write(sample_run, sample, tmp_path):
  run('train', max_steps=1, **sample_run)
  words = command(
    'eval',
    run_once=True,
    data_dir=sample['data_dir'],
    checkpoint_dir=sample_run['train_dir'],
    eval_dir=tmp_path / 'eval',
  )
  # No file may have more than two blocks of 512 or 1024 bytes.
  process = subprocess.run(
    ['sh', '-c', 'ulimit -f 2; exec "$@"', 'sh', *words],
    capture_output=True,
    text=True,
  )
  assert process.returncode == 1
  assert precision(process.stdout.splitlines())[2:] == (2000, 1)
  assert not ALARMING.search(process.stderr)
  assert process.stderr.splitlines()[-1].startswith(
    'eval.py: --eval_dir=%s: summaries cannot be written: '
    % (tmp_path / 'eval')
  )
