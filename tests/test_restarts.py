import logging
import os
import subprocess
import sys

import pytest
from processes import ROOT

from cifar10 import Error, restarts

AGAIN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from cifar10 import restarts
print(os.getpid(), restarts.was_restarted(), sys.argv[2], flush=True)
restarts.restart('lost')
"""


@pytest.fixture
def clock(monkeypatch):
  monkeypatch.setattr(os, 'environ', os.environ.copy())

  class Clock:
    now = 100.0

    def monotonic(self):
      return self.now

  clock = Clock()
  monkeypatch.setattr(restarts, 'time', clock)
  return clock


def test_it_says_every_half_minute_what_it_waits_for(clock, caplog):
  caplog.set_level(logging.INFO)
  patience = restarts.Patience(100)
  for clock.now in range(100, 200, 10):
    patience.wait_for('ps 0')
  assert [r.getMessage() for r in caplog.records] == ['Waiting for ps 0'] * 3
  clock.now = 201
  with pytest.raises(Error, match='ps 0: not there after 100 seconds'):
    patience.wait_for('ps 0')


def test_patience_lasts_across_a_restart(clock):
  restarts.Patience(100).wait_for('ps 0')
  clock.now = 190
  restarts.Patience(100).wait_for('ps 0')
  clock.now = 201
  with pytest.raises(Error):
    restarts.Patience(100).wait_for('ps 0')


def test_a_step_ends_all_waiting(clock):
  patience = restarts.Patience(100)
  patience.wait_for('ps 0')
  patience.reset()
  clock.now = 250
  patience.wait_for('ps 0')


def test_it_is_the_same_process_with_the_same_words():
  words = [sys.executable, '-c', AGAIN, str(ROOT), 'a word']
  with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
    out, _ = process.communicate(timeout=30)
  first, *others = out.splitlines()
  assert first == '%d False a word' % process.pid
  # And not for ever.
  assert others == ['%d True a word' % process.pid] * restarts._MAX_RESTARTS
  assert process.returncode == 1
