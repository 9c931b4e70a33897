"""Tests of downloads and unpacking, against a real server on this machine."""

import gzip
import hashlib
import io
import os
import random
import socket
import stat
import sys
import tarfile
import threading

import pytest

from cifar10 import archives

FOLDER = 'things'
FILES = {'data_batch_1.bin': b'one' * 5000, 'batches.meta.txt': b'a\nb\n'}
DEADLINE_SECS = 10


@pytest.fixture
def mask():
  """Sets a file mode mask that is not the usual one."""
  before = os.umask(0o027)
  yield
  os.umask(before)


_TYPES_WITHOUT_DATA = (
  tarfile.DIRTYPE,
  tarfile.SYMTYPE,
  tarfile.LNKTYPE,
  tarfile.CHRTYPE,
  tarfile.BLKTYPE,
  tarfile.FIFOTYPE,
)


def pack(*members):
  """Returns the bytes of a .tar.gz of (name, bytes or tar type) pairs."""
  buffer = io.BytesIO()
  with tarfile.open(fileobj=buffer, mode='w') as tar:
    for name, content in members:
      info = tarfile.TarInfo(name)
      # Whatever the archive says of modes, it is not to be followed.
      info.mode = 0o4777
      if content in _TYPES_WITHOUT_DATA:
        info.type = content
        info.linkname = '/etc/passwd'
      else:
        info.size = len(content)
      tar.addfile(info, io.BytesIO(content))
  return gzip.compress(buffer.getvalue(), mtime=0)


GOOD = pack(
  (FOLDER, tarfile.DIRTYPE),
  *((FOLDER + '/' + name, content) for name, content in FILES.items()),
)


def sends(data, status=200):
  def reply(handler):
    handler.head(status, len(data))
    handler.wfile.write(data)

  return reply


def hangs_up(handler):
  handler.connection.shutdown(socket.SHUT_RDWR)


def speaks_no_http(handler):
  handler.wfile.write(b'220 ready\r\n')


def sends_half(handler):
  handler.head(length=len(GOOD))
  handler.wfile.write(GOOD[: len(GOOD) // 2])


def archive_of(data, url='http://127.0.0.1:1/things.tar.gz'):
  return archives.Archive(url, len(data), hashlib.sha256(data).hexdigest())


def place(data, data_dir):
  """Puts an archive in place by hand; returns its `Archive`."""
  (data_dir / 'things.tar.gz').write_bytes(data)
  return archive_of(data)


def refusal(archive, data_dir):
  """Returns the one line with which an installation ends."""
  with pytest.raises(archives.DataError) as raised:
    archives.install(archive, str(data_dir), FOLDER)
  message = str(raised.value)
  assert '\n' not in message
  return message


def tree(path):
  """Returns the paths of all that is in a folder, sorted."""
  return sorted(str(p.relative_to(path)) for p in path.rglob('*'))


INSTALLED = sorted(
  ['things', 'things.tar.gz'] + [FOLDER + '/' + name for name in FILES]
)


def assert_installed(data_dir):
  assert tree(data_dir) == INSTALLED
  for name, content in FILES.items():
    assert (data_dir / FOLDER / name).read_bytes() == content


def test_filename_is_the_last_part_of_the_url():
  archive = archives.Archive('https://a.b/c/d.tar.gz?e=/f', 1, '')
  assert archive.filename == 'd.tar.gz'


def test_downloads_and_unpacks(serve, tmp_path, capsys):
  server = serve(sends(GOOD))
  data_dir = tmp_path / 'new' / 'folder'
  archives.install(archive_of(GOOD, server.url), str(data_dir), FOLDER)
  assert_installed(data_dir)
  assert (data_dir / 'things.tar.gz').read_bytes() == GOOD
  assert server.num_requests == 1
  assert capsys.readouterr() == ('', '')


def test_modes_are_those_of_the_process(serve, tmp_path, mask):
  server = serve(sends(GOOD))
  archives.install(archive_of(GOOD, server.url), str(tmp_path), FOLDER)
  modes = {
    stat.filemode((tmp_path / name).stat().st_mode) for name in INSTALLED
  }
  assert modes == {'-rw-r-----', 'drwxr-x---'}


def test_progress_is_one_line_on_a_terminal(serve, tmp_path, monkeypatch):
  class Terminal(io.StringIO):
    isatty = lambda self: True

  monkeypatch.setattr(sys, 'stderr', Terminal())
  server = serve(sends(GOOD))
  archives.install(archive_of(GOOD, server.url), str(tmp_path), FOLDER)
  assert sys.stderr.getvalue().startswith('\rDownloading ')
  assert sys.stderr.getvalue().endswith(' 100.0%\n')
  assert sys.stderr.getvalue().count('\n') == 1


def test_archive_placed_by_hand_is_used(serve, tmp_path):
  server = serve(sends(GOOD))
  (tmp_path / 'things.tar.gz').write_bytes(GOOD)
  archives.install(archive_of(GOOD, server.url), str(tmp_path), FOLDER)
  assert_installed(tmp_path)
  assert server.num_requests == 0


def test_the_archive_itself_in_place_of_its_folder(tmp_path):
  archive = archive_of(GOOD)
  path = tmp_path / 'of another name'
  path.write_bytes(GOOD)
  archives.install(archive, str(path), FOLDER)
  assert (tmp_path / FOLDER / 'data_batch_1.bin').exists()
  assert path.read_bytes() == GOOD


def test_what_killed_processes_left_is_removed(tmp_path, caplog):
  caplog.set_level('INFO')
  left = ['things.tar.gz.ab_c1234.part', 'things.00000000.part']
  others = [
    'things.old',
    'things.part',
    'things.tar.gz.part',
    'x.00000000.part',
  ]
  for name in left + others:
    (tmp_path / name).mkdir()
    (tmp_path / name / 'x').write_text('')
  archives.remove_leftovers(str(tmp_path), 'things', 'things.tar.gz')
  assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
  assert len(caplog.messages) == 2


@pytest.mark.parametrize(
  'change, reason',
  [
    (lambda data: data[:-1], r'it has \d+ bytes, not'),
    (lambda data: data + b'x', r'it has \d+ bytes, not'),
    (lambda data: data[:-1] + b'x', 'its sha256 is [0-9a-f]{64}, not'),
  ],
)
def test_wrong_archive_placed_by_hand_is_refused(tmp_path, change, reason):
  archive = archive_of(GOOD)
  place(change(GOOD), tmp_path)
  with pytest.raises(archives.DataError, match=reason) as raised:
    archives.install(archive, str(tmp_path), FOLDER)
  assert str(raised.value).startswith(str(tmp_path / 'things.tar.gz'))
  assert 'remove it and try again' in str(raised.value)
  # It may be another's file: it is not ours to remove.
  assert tree(tmp_path) == ['things.tar.gz']


@pytest.mark.parametrize(
  'reply, reason',
  [
    (sends(b''), 'it has 0 bytes, not %d'),
    (sends(GOOD[:-1]), 'bytes, not %d'),
    (sends(GOOD + b'x'), 'bytes, not %d'),
    (sends(GOOD[:-1] + b'x'), 'its sha256 is '),
    (sends(b'<html>log in</html>'), 'it has 19 bytes, not %d'),
    (sends(b'<html>no</html>', 404), 'HTTP Error 404'),
    (sends(b'<html>down</html>', 500), 'HTTP Error 500'),
    (hangs_up, 'closed connection without response'),
    (speaks_no_http, '220 ready'),
    (sends_half, ''),
  ],
)
def test_failed_download_leaves_nothing(serve, tmp_path, reply, reason):
  server = serve(reply)
  archive = archive_of(GOOD, server.url)
  message = refusal(archive, tmp_path)
  if '%d' in reason:
    reason %= len(GOOD)
  assert reason in message
  assert message.startswith('cannot download %s: ' % server.url)
  assert tree(tmp_path) == []
  server.reply = sends(GOOD)
  archives.install(archive, str(tmp_path), FOLDER)
  assert_installed(tmp_path)


def test_no_network_says_what_to_do(serve, tmp_path):
  server = serve(sends(GOOD))
  server.shutdown()
  server.server_close()
  message = refusal(archive_of(GOOD, server.url), tmp_path)
  assert 'Connection refused' in message
  assert server.url in message
  assert 'put the archive at %s' % (tmp_path / 'things.tar.gz') in message
  assert '--dataset=sample' in message
  assert tree(tmp_path) == []


def test_silent_server_is_given_up(serve, tmp_path, monkeypatch):
  monkeypatch.setattr(archives, '_TIMEOUT_SECS', 0.2)
  server = serve(lambda handler: handler.server.done.wait(DEADLINE_SECS))
  message = refusal(archive_of(GOOD, server.url), tmp_path)
  assert 'timed out' in message
  assert tree(tmp_path) == []


def test_endless_server_is_cut_off_at_the_first_byte_too_much(
  serve, tmp_path, monkeypatch
):
  def stalls(handler):
    handler.head(length=1 << 40)
    handler.wfile.write(GOOD + b'x')
    handler.server.done.wait(DEADLINE_SECS)

  # Whoever waits for more times out, and says that instead.
  monkeypatch.setattr(archives, '_TIMEOUT_SECS', DEADLINE_SECS / 2)
  server = serve(stalls)
  message = refusal(archive_of(GOOD, server.url), tmp_path)
  assert 'it has %d bytes' % (len(GOOD) + 1) in message
  assert tree(tmp_path) == []


@pytest.mark.parametrize(
  'name, content',
  [
    ('../x', b'x'),
    ('/tmp/x', b'x'),
    ('/things/x', b'x'),
    ('../things/x', b'x'),
    ('things/../x', b'x'),
    ('things/../../things/x', b'x'),
    ('other/x', b'x'),
    ('things/deeper/x', b'x'),
    ('x', b'x'),
    ('things', b'x'),
    ('things/..', b'x'),
    ('other', tarfile.DIRTYPE),
    ('things/deeper', tarfile.DIRTYPE),
    ('things/x', tarfile.SYMTYPE),
    ('things', tarfile.SYMTYPE),
    ('things/x', tarfile.LNKTYPE),
    ('things/x', tarfile.CHRTYPE),
    ('things/x', tarfile.BLKTYPE),
    ('things/x', tarfile.FIFOTYPE),
  ],
)
def test_unexpected_members_are_refused(tmp_path, name, content):
  data_dir = tmp_path / 'data'
  data_dir.mkdir()
  archive = place(pack(('things/good.bin', b'good'), (name, content)), data_dir)
  message = refusal(archive, data_dir)
  assert message.startswith(str(data_dir / 'things.tar.gz'))
  assert 'member %r is no file in things/' % name in message
  assert tree(tmp_path) == ['data', 'data/things.tar.gz']


@pytest.mark.parametrize(
  'members',
  [
    [('./things/', tarfile.DIRTYPE), ('./things/x', b'x')],
    [('things', tarfile.DIRTYPE), ('things/x', b'x')],
    [('things/x', b'x')],
    [('things//x/.', b'x')],
  ],
)
def test_spelling_of_members_does_not_matter(tmp_path, members):
  archive = place(pack(*members), tmp_path)
  archives.install(archive, str(tmp_path), FOLDER)
  assert tree(tmp_path) == ['things', 'things.tar.gz', 'things/x']
  assert (tmp_path / 'things' / 'x').read_bytes() == b'x'


def test_files_go_into_a_folder_that_is_there(tmp_path):
  folder = tmp_path / FOLDER
  folder.mkdir()
  (folder / 'notes.txt').write_text('mine')
  archives.install(place(GOOD, tmp_path), str(tmp_path), FOLDER)
  assert tree(tmp_path) == sorted(INSTALLED + ['things/notes.txt'])
  assert (folder / 'notes.txt').read_text() == 'mine'


def test_file_in_the_way_of_the_folder_stays(tmp_path):
  (tmp_path / FOLDER).write_text('mine')
  message = refusal(place(GOOD, tmp_path), tmp_path)
  assert message.startswith(str(tmp_path / 'things.tar.gz'))
  assert tree(tmp_path) == ['things', 'things.tar.gz']
  assert (tmp_path / FOLDER).read_text() == 'mine'


def test_two_installations_at_once(serve, tmp_path, mask):
  """Nothing breaks without a lock, as some file systems have none."""
  both = threading.Barrier(2)

  def reply(handler):
    both.wait(DEADLINE_SECS)
    sends(GOOD)(handler)

  archive = archive_of(GOOD, serve(reply).url)
  errors = []

  def install():
    try:
      archives.install(archive, str(tmp_path), FOLDER)
    except Exception as e:
      errors.append(e)

  threads = [threading.Thread(target=install) for _ in range(2)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert errors == []
  assert_installed(tmp_path)
  # Setting the mask to read it is not safe with two threads.
  assert os.umask(0o027) == 0o027


@pytest.mark.parametrize(
  'data',
  [
    b'',
    b'no archive at all',
    GOOD[:5],
    GOOD[: len(GOOD) // 2],
    # After the header of ten bytes, a block type that deflate does not have.
    GOOD[:10] + b'\xff' + GOOD[11:],
    # Incompressible content: the fault shows while it is copied.
    pack(('things/x', random.Random(0).randbytes(1 << 18)))[: 1 << 17],
  ],
  ids='empty text head half changed long'.split(),
)
def test_what_cannot_be_unpacked_is_named(tmp_path, data):
  message = refusal(place(data, tmp_path), tmp_path)
  path = tmp_path / 'things.tar.gz'
  assert message.startswith('%s cannot be unpacked: ' % path)
  assert tree(tmp_path) == ['things.tar.gz']


def test_staging_folder_leaves_nothing_after_a_failure(tmp_path):
  with (
    pytest.raises(KeyboardInterrupt),
    archives.staging_folder(str(tmp_path), FOLDER) as folder,
  ):
    with open(os.path.join(folder, 'x'), 'w') as f:
      f.write('half of')
    assert not (tmp_path / FOLDER).exists()
    raise KeyboardInterrupt
  assert tree(tmp_path) == []
