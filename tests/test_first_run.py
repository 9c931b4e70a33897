"""The first run fetches the data: what a killed one leaves, and two at once."""

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import data_sets
import pytest
from processes import ALARMING, ROOT

pytestmark = pytest.mark.process

# prepare_data.py, for an archive that stands for the published one.
PREPARE = """
import dataclasses, sys
sys.path.insert(0, sys.argv[1] + '/scripts')
import command_line, prepare_data
from cifar10 import archives, datasets
spec = datasets.SPECS['cifar10']
archive = archives.Archive(sys.argv[2], int(sys.argv[3]), sys.argv[4])
spec = dataclasses.replace(spec, archive=archive)
datasets.SPECS['cifar10'] = spec
sys.argv = ['prepare_data.py', '--data_dir=' + sys.argv[5]]
command_line.run(prepare_data.main, prepare_data.FLAGS, '')
"""


@pytest.fixture
def published(tmp_path):
  """The bytes of an archive."""
  folder = tmp_path / 'published' / 'cifar-10-batches-bin'
  data_sets.write_cifar10(folder)
  # What cannot be compressed makes it longer than what a socket holds.
  (folder / 'readme.html').write_bytes(os.urandom(1 << 22))
  path = tmp_path / 'published' / 'archive.tar.gz'
  with tarfile.open(path, 'w:gz') as tar:
    tar.add(folder, folder.name)
  return path.read_bytes()


def start(url, archive, data_dir):
  digest = hashlib.sha256(archive).hexdigest()
  words = [str(ROOT), url, str(len(archive)), digest, str(data_dir)]
  return subprocess.Popen(
    [sys.executable, '-c', PREPARE, *words],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def assert_prepared(process, data_dir):
  """Checks what a process printed, and all that is in its folder."""
  out, err = process.communicate(timeout=60)
  assert process.returncode == 0, err
  assert not ALARMING.search(err)
  assert out.startswith('10 train examples in %s' % data_dir)
  assert sorted(path.name for path in data_dir.iterdir()) == [
    'cifar-10-batches-bin',
    'cifar-10-binary.tar.gz',
  ]
  return err


def wait_for(condition):
  deadline = time.monotonic() + 30
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.01)


@pytest.mark.parametrize('signum', [signal.SIGKILL, signal.SIGTERM])
def test_ended_within_the_download(signum, serve, published, tmp_path):
  def half(handler):
    handler.head(length=len(published))
    handler.wfile.write(published[: len(published) // 2])
    handler.server.done.wait(30)

  data_dir = tmp_path / 'data'
  server = serve(half)
  url = server.url.replace('things', 'cifar-10-binary')
  process = start(url, published, data_dir)
  wait_for(lambda: any(p.stat().st_size > 1 << 20 for p in data_dir.rglob('*')))
  process.send_signal(signum)
  _, err = process.communicate(timeout=10)
  left = [path.name for path in data_dir.iterdir()]
  if signum == signal.SIGTERM:
    assert process.returncode == 143
    assert err.endswith('prepare_data.py: interrupted by SIGTERM\n')
    assert left == []
  else:
    assert 'cifar-10-binary.tar.gz' not in left
    assert len(left) == 2  # of the archive, and the lock, which holds nobody

  def whole(handler):
    handler.head(length=len(published))
    handler.wfile.write(published)

  server.reply = whole
  assert_prepared(start(url, published, data_dir), data_dir)


def test_killed_while_unpacking(serve, published, tmp_path):
  """Wherever it is killed, all files are there under their names, or none."""
  data_dir = tmp_path / 'data'
  data_dir.mkdir()
  (data_dir / 'cifar-10-binary.tar.gz').write_bytes(published)
  url = 'http://127.0.0.1:1/cifar-10-binary.tar.gz'
  for i in range(5):
    left = set(data_dir.glob('*.part'))
    process = start(url, published, data_dir)
    while process.poll() is None:
      # A folder that was not there before is this process's.
      if set(data_dir.glob('*.part')) - left:
        time.sleep(0.005 * i)
        process.kill()
        break
    _, err = process.communicate()
    assert 'Unpacking' in err
    names = {path.name for path in data_dir.glob('cifar-10-batches-bin/*.bin')}
    assert len(names) in (0, 6)
    shutil.rmtree(data_dir / 'cifar-10-batches-bin', ignore_errors=True)
  assert_prepared(start(url, published, data_dir), data_dir)


def test_two_first_runs_at_once(serve, published, tmp_path):
  asked, waiting = threading.Event(), threading.Event()

  def slow(handler):
    asked.set()
    handler.head(length=len(published))
    handler.wfile.write(published[:-1])
    waiting.wait(30)
    handler.wfile.write(published[-1:])

  data_dir = tmp_path / 'data'
  server = serve(slow)
  url = server.url.replace('things', 'cifar-10-binary')
  first = start(url, published, data_dir)
  assert asked.wait(30)
  second = start(url, published, data_dir)
  line = second.stderr.readline()
  waiting.set()
  assert line.startswith('Waiting for process %d: ' % first.pid)
  assert_prepared(second, data_dir)
  assert_prepared(first, data_dir)
  assert server.num_requests == 1


@pytest.mark.parametrize('what', ['download', 'unpack'])
def test_no_space(what, serve, published, tmp_path):
  data_dir = tmp_path / 'data'
  data_dir.mkdir()
  if what == 'unpack':
    (data_dir / 'cifar-10-binary.tar.gz').write_bytes(published)

  def whole(handler):
    handler.head(length=len(published))
    handler.wfile.write(published)

  url = serve(whole).url.replace('things', 'cifar-10-binary')
  process = start(url, published, data_dir)
  # No file of more than a megabyte.
  limit = (1 << 20, 1 << 20)
  resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limit)
  _, err = process.communicate(timeout=30)
  assert process.returncode == 1
  assert err.splitlines()[-1] == (
    'prepare_data.py: the data set cifar10 is not there, and cannot be put '
    'into %s/cifar-10-batches-bin: File too large: name a --data_dir that has '
    'space and can be written to' % data_dir
  )
  left = ['cifar-10-binary.tar.gz'] if what == 'unpack' else []
  assert [path.name for path in data_dir.iterdir()] == left
