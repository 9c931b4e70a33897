"""The locks of folders."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from cifar10 import Error, locks

HOLD = (
  'import sys, time\n'
  'from cifar10 import locks\n'
  'with locks.exclusive(sys.argv[1]):\n'
  "  print('held', flush=True)\n"
  '  time.sleep(60)\n'
)


@contextlib.contextmanager
def held(directory):
  """Has another process hold the lock."""
  words = [sys.executable, '-c', HOLD, str(directory)]
  with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout.readline() == 'held\n'
    try:
      yield process
    finally:
      process.kill()


def test_the_second_is_refused_and_the_first_is_named(tmp_path):
  with held(tmp_path) as process:
    with (
      pytest.raises(Error, match='process %d trains' % process.pid) as error,
      locks.exclusive(str(tmp_path)),
    ):
      pass
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize('signum', [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_whose_holder_was_killed_does_not_block(signum, tmp_path):
  with held(tmp_path) as process:
    process.send_signal(signum)
    process.wait()
  assert (tmp_path / locks.LOCK_FILE).exists()
  with locks.exclusive(str(tmp_path)):
    written = (tmp_path / locks.LOCK_FILE).read_text()
    assert written == '%d\n' % os.getpid()
  assert not list(tmp_path.iterdir())


def test_nothing_is_left_when_what_it_protects_fails(tmp_path):
  with pytest.raises(ZeroDivisionError), locks.exclusive(str(tmp_path)):
    1 / 0  # noqa: B018
  assert not list(tmp_path.iterdir())


def test_waiting_for_another_process(tmp_path, caplog):
  caplog.set_level('INFO')
  with held(tmp_path) as process:
    threading.Timer(0.5, process.kill).start()
    with locks.exclusive(str(tmp_path), wait=True) as is_held:
      assert is_held
      assert process.wait() == -signal.SIGKILL
  path = tmp_path / locks.LOCK_FILE
  assert caplog.messages == ['Waiting for process %d: %s' % (process.pid, path)]
  assert not path.exists()


def test_the_lock_of_a_folder_in_the_place_of_ours_stays(tmp_path):
  folder = tmp_path / 'run'
  folder.mkdir()
  with locks.exclusive(str(folder)):
    folder.rename(tmp_path / 'moved')
    folder.mkdir()
    (folder / locks.LOCK_FILE).write_text('123')
  assert (folder / locks.LOCK_FILE).read_text() == '123'


@pytest.mark.parametrize('kind', ['link', 'pipe', 'folder', 'notes'])
def test_what_is_somebody_elses_stays(kind, tmp_path):
  path = tmp_path / locks.LOCK_FILE
  (tmp_path / 'notes').write_text('mine')
  if kind == 'link':
    path.symlink_to('notes')
  elif kind == 'pipe':
    os.mkfifo(path)
  elif kind == 'folder':
    path.mkdir()
  else:
    path.write_text('mine')
  with (
    pytest.raises(Error, match='is no lock of this program: move it away'),
    locks.exclusive(str(tmp_path)),
  ):
    pass
  assert (tmp_path / 'notes').read_text() == 'mine'
  assert path.is_symlink() == (kind == 'link')


def test_many_in_turn_never_two_at_once(tmp_path):
  code = (
    'import sys\n'
    'from cifar10 import Error, locks\n'
    'done = 0\n'
    'while done < 50:\n'
    '  try:\n'
    '    with locks.exclusive(sys.argv[1]):\n'
    "      with open(sys.argv[1] + '/count', 'r+') as f:\n"
    '        number = int(f.read())\n'
    '        f.seek(0)\n'
    '        f.write(str(number + 1))\n'
    '    done += 1\n'
    '  except Error:\n'
    '    pass\n'
  )
  (tmp_path / 'count').write_text('0')
  words = [sys.executable, '-c', code, str(tmp_path)]
  processes = [subprocess.Popen(words) for _ in range(4)]
  assert [process.wait() for process in processes] == [0] * 4
  assert (tmp_path / 'count').read_text() == '200'
