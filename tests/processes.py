"""The scripts as processes, and what their lines say; for tests of them."""

import contextlib
import pathlib
import re
import subprocess
import sys

from cifar10 import checkpoints

ROOT = pathlib.Path(__file__).parent.parent
FILLING = r'Filling queue with \d+ CIFAR images before starting to train\.'
TIME = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}'
STEP = TIME + (
  r': step (\d+), loss = (\d+\.\d\d) '
  r'\(\d+\.\d examples/sec; \d+\.\d{3} sec/batch\)'
)
PRECISION = TIME + r': precision @ 1 = (\d\.\d{3})'
COUNT = r'(\d+) of (\d+) correct, step (\d+)'
# What a normal run has no reason to say.
ALARMING = re.compile('deprecat|traceback|cancel|warning', re.IGNORECASE)


def command(script, **flags):
  words = ['--%s=%s' % item for item in flags.items()]
  return [sys.executable, str(ROOT / 'scripts' / (script + '.py')), *words]


def run(script, status=0, cwd=None, **flags):
  """Runs a script to its end; returns its lines of output and of error."""
  process = subprocess.run(
    command(script, **flags), capture_output=True, text=True, cwd=cwd
  )
  assert process.returncode == status, process.stderr
  assert not ALARMING.search(process.stderr), process.stderr
  return process.stdout.splitlines(), process.stderr.splitlines()


def losses(lines):
  """Returns a dict from step to loss; checks every line of a training run."""
  assert re.fullmatch(FILLING, lines[0])
  matches = [re.fullmatch(STEP, line) for line in lines[1:]]
  assert all(matches), lines
  return {int(m.group(1)): float(m.group(2)) for m in matches}


def precision(lines):
  """Returns precision, correct, of, step; checks all that was printed."""
  assert len(lines) == 2
  counts = re.fullmatch(COUNT, lines[1]).groups()
  return (
    float(re.fullmatch(PRECISION, lines[0]).group(1)),
    *map(int, counts),
  )


def saved_step(train_dir):
  return checkpoints.read_global_step(checkpoints.newest(str(train_dir)))


@contextlib.contextmanager
def past_step_3(**flags):
  """Starts training without end, and yields the process after step 3."""
  flags = {**flags, 'max_steps': 100000, 'log_frequency': 1}
  with subprocess.Popen(
    command('train', **flags),
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  ) as process:
    while ' step 3,' not in process.stdout.readline():
      pass
    yield process
