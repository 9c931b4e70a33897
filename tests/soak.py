"""Trains for half an hour, is killed again and again, and loses nothing.

  python tests/soak.py --minutes=30 --kills=10

A trainer on the sample set is killed with SIGKILL at random moments and started
again, beside an evaluator that looks every second. The last run goes on to a
number of steps that is set when the time is over. Then all of this must hold:
the final step is that number, exactly; TensorBoard reads the charts, without a
step twice or left out; no step was evaluated twice; and precision is within
0.02 of that of a run that nobody disturbs, for the same number of steps.
"""

import argparse
import contextlib
import logging
import random
import re
import subprocess
import sys
import tempfile
import time

from processes import ALARMING, command, precision, run
from tensorboard.backend.event_processing import event_accumulator

SUMMARY_STEPS = 10


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--minutes', type=float, default=30)
  parser.add_argument('--kills', type=int, default=10)
  parser.add_argument('--seed', type=int, default=0)
  args = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    data = {'data_dir': folder + '/data', 'dataset': 'sample'}
    run('prepare_data', action='sample', data_dir=data['data_dir'])
    train_dir = folder + '/disturbed'
    with open(folder + '/eval.out', 'w+') as out:
      evaluator = subprocess.Popen(
        eval_command(train_dir, folder + '/eval', data, eval_interval_secs=1),
        stdout=out,
        stderr=subprocess.STDOUT,
        text=True,
      )
      try:
        disturb(train_dir, data, args)
        max_steps = finish(train_dir, data)
        wait_for_evaluation(evaluator, out, max_steps)
      finally:
        evaluator.kill()
        evaluator.wait()
      check_evaluations(out)
    check_charts(train_dir, max_steps)
    disturbed = evaluate(train_dir, folder + '/again', data)
    run('train', max_steps=max_steps, **train_flags(folder + '/quiet', data))
    quiet = evaluate(folder + '/quiet', folder + '/again', data)
    print('precision: disturbed %.3f, undisturbed %.3f' % (disturbed, quiet))
    assert abs(disturbed - quiet) <= 0.02
    print('passed')


def train_flags(train_dir, data):
  return {
    'train_dir': train_dir,
    'learning_rate': 0.02,
    'batch_size': 32,
    'save_checkpoint_steps': 50,
    'save_summaries_steps': SUMMARY_STEPS,
    'max_to_keep': 2,
    **data,
  }


def disturb(train_dir, data, args):
  """Trains, and kills the trainer at random moments of the time it has."""
  rng = random.Random(args.seed)
  total = args.minutes * 60
  moments = sorted(rng.uniform(0, total) for _ in range(args.kills))
  start = time.monotonic()
  step = 0
  for i, moment in enumerate([*moments, total]):
    with subprocess.Popen(
      command('train', max_steps=10**9, **train_flags(train_dir, data)),
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    ) as trainer:
      with contextlib.suppress(subprocess.TimeoutExpired):
        trainer.communicate(timeout=max(0.1, start + moment - time.monotonic()))
      trainer.terminate() if i == args.kills else trainer.kill()
      said, _ = trainer.communicate()
    assert not ALARMING.search(said), said
    assert trainer.returncode == (143 if i == args.kills else -9), said
    resumed = re.search(r'Resuming from .* at step (\d+)', said)
    # What was printed may be 50 steps further than what was saved.
    assert not resumed or step - 60 <= int(resumed[1]) <= step + 60, said
    steps = re.findall(r': step (\d+),', said)
    step = int(steps[-1]) if steps else step
    print('%4d s: ended at step %d' % (time.monotonic() - start, step))
    sys.stdout.flush()


def finish(train_dir, data):
  """Trains 200 steps more, to the end; returns the number of all steps."""
  with open(train_dir + '/checkpoint') as f:
    step = int(re.search(r'model\.ckpt-(\d+)', f.read())[1])
  run('train', max_steps=step + 200, **train_flags(train_dir, data))
  return step + 200


def eval_command(train_dir, eval_dir, data, **flags):
  return command(
    'eval',
    checkpoint_dir=train_dir,
    eval_dir=eval_dir,
    data_dir=data['data_dir'],
    **flags,
  )


def wait_for_evaluation(evaluator, out, step):
  """Waits until the last step was evaluated."""
  deadline = time.monotonic() + 60
  while True:
    assert evaluator.poll() is None and time.monotonic() < deadline
    out.seek(0)
    if 'correct, step %d\n' % step in out.read():
      return
    time.sleep(0.5)


def check_evaluations(out):
  out.seek(0)
  said = out.read()
  assert not ALARMING.search(said), said
  steps = list(map(int, re.findall(r'correct, step (\d+)', said)))
  assert len(steps) == len(set(steps)), steps
  print('%d evaluations, no step twice' % len(steps))


def check_charts(train_dir, max_steps):
  logging.getLogger('tensorboard').setLevel(logging.ERROR)
  events = event_accumulator.EventAccumulator(
    train_dir, {event_accumulator.SCALARS: 0}
  )
  events.Reload()
  steps = [event.step for event in events.Scalars('total_loss_raw')]
  gaps = [b - a for a, b in zip(steps, steps[1:])]
  assert min(gaps) > 0 and max(gaps) <= SUMMARY_STEPS, gaps
  assert max_steps - steps[-1] < SUMMARY_STEPS
  print('%d steps, charted %d times without gap' % (max_steps, len(steps)))


def evaluate(train_dir, eval_dir, data):
  words = eval_command(train_dir, eval_dir, data, run_once=True)
  out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
  return precision(out.splitlines())[0]


if __name__ == '__main__':
  main()
