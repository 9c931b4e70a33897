"""What a run leaves on disk, and setting variables to it."""

import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from cifar10 import Error, checkpoints

RUN = checkpoints.Run('small', ('a', 'b'), 24, 'float32')


def save(directory, values, step=0):
  """Saves a checkpoint of a dict from key to numpy value."""
  with tf.Graph().as_default(), tf.Session() as session:
    variables = {
      key: tf.Variable(value, name='v') for key, value in values.items()
    }
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver(variables, save_relative_paths=True)
    return saver.save(session, str(directory / 'model.ckpt'), step)


def restored(path, variables, optional=()):
  """Returns what variables, made of initial values, are set to."""
  with tf.Graph().as_default(), tf.Session() as session:
    variables = {
      key: tf.Variable(value, use_resource=True)
      for key, value in variables.items()
    }
    session.run(tf.global_variables_initializer())
    checkpoints.restore(session, path, variables, optional)
    return session.run(variables)


def test_run_round_trip(tmp_path):
  assert checkpoints.read_run(str(tmp_path)) is None
  checkpoints.write_run(str(tmp_path), RUN)
  assert checkpoints.read_run(str(tmp_path)) == RUN
  assert [path.name for path in tmp_path.iterdir()] == ['run.json']


@pytest.mark.parametrize(
  'text',
  [
    '',
    '{',
    '[]',
    '{"dataset": "small"}',
    '{"nonsense": 1}',
    'null',
    '[' * 100000,
    '{"dataset": 5, "class_names": [], "image_size": 1, "float_type": "b"}',
    '{"dataset": "a", "class_names": [5], "image_size": 1, "float_type": "b"}',
    '{"dataset": "a", "class_names": 5, "image_size": 24, "float_type": "b"}',
    '{"dataset": "a", "class_names": "xy", "image_size": 4, "float_type": "b"}',
    '{"dataset": "a", "class_names": [], "image_size": 33, "float_type": "b"}',
    '{"dataset": "a", "class_names": [], "image_size": "9", "float_type": "b"}',
  ],
)
def test_a_broken_run_json_is_named(tmp_path, text):
  (tmp_path / 'run.json').write_text(text)
  with pytest.raises(checkpoints.CheckpointError, match='run.json cannot be'):
    checkpoints.read_run(str(tmp_path))


@pytest.mark.parametrize(
  'change, said',
  [
    ({'dataset': 'other'}, 'dataset small, not other'),
    ({'class_names': ('a', 'c')}, 'class_names a b, not a c'),
    ({'image_size': 32}, 'image_size 24, not 32'),
    ({'float_type': 'float16'}, 'float_type float32, not float16'),
    ({'label': 'coarse'}, 'label fine, not coarse'),
  ],
)
def test_the_first_difference_of_runs_is_named(tmp_path, change, said):
  checkpoints.check_same_run(str(tmp_path), **change)
  checkpoints.write_run(str(tmp_path), RUN)
  checkpoints.check_same_run(str(tmp_path), **vars(RUN))
  with pytest.raises(checkpoints.CheckpointError, match=said):
    checkpoints.check_same_run(str(tmp_path), **{**vars(RUN), **change})


def test_what_a_later_version_adds_is_left_alone(tmp_path):
  checkpoints.write_run(str(tmp_path), RUN)
  path = tmp_path / 'run.json'
  path.write_text(path.read_text().replace('{', '{"later": 1,', 1))
  assert checkpoints.read_run(str(tmp_path)) == RUN


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
  checkpoints.make_folder('train_dir', str(tmp_path / 'a' / 'b'))
  checkpoints.make_folder('train_dir', str(tmp_path / 'a' / 'b'))
  assert (tmp_path / 'a' / 'b').is_dir()
  (tmp_path / 'file').write_text('mine')
  for path in ('file', 'file/below'):
    with pytest.raises(Error, match='--train_dir=.*file.*: name a folder'):
      checkpoints.make_folder('train_dir', str(tmp_path / path))


def test_newest_and_its_step(tmp_path):
  assert checkpoints.newest(str(tmp_path)) is None
  assert checkpoints.newest(str(tmp_path / 'nowhere')) is None
  save(tmp_path, {'global_step': np.int64(3)}, 3)
  path = save(tmp_path, {'global_step': np.int64(12)}, 12)
  assert checkpoints.newest(str(tmp_path)) == path
  assert checkpoints.read_global_step(path) == 12


@pytest.mark.parametrize('index', ['', 'nonsense', None])
def test_the_files_say_where_the_index_does_not(tmp_path, index):
  for step in (3, 12, 5):
    save(tmp_path, {'global_step': np.int64(step)}, step)
  if index is None:
    (tmp_path / 'checkpoint').unlink()
  else:
    (tmp_path / 'checkpoint').write_text(index)
  assert checkpoints.listed(str(tmp_path)) == []
  assert checkpoints.newest(str(tmp_path)) == str(tmp_path / 'model.ckpt-12')


def save_steps(directory, *steps):
  """Saves a checkpoint for each step, all in one index; returns their paths."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.Variable(np.int64(0), name='global_step')
    tf.Variable(np.zeros(1000, np.float32), name='weights')
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver(save_relative_paths=True)
    prefix = str(directory / 'model.ckpt')
    return [saver.save(session, prefix, step) for step in steps]


def test_the_newest_that_is_left(tmp_path):
  paths = save_steps(tmp_path, 1, 2, 3)
  assert checkpoints.listed(str(tmp_path)) == paths
  for path in tmp_path.glob('model.ckpt-3*'):
    path.unlink()
  assert checkpoints.newest(str(tmp_path)) == paths[1]
  moved = tmp_path.rename(tmp_path.with_name('moved'))
  assert checkpoints.newest(str(moved)) == str(moved / 'model.ckpt-2')


def test_pipes_are_not_waited_for(tmp_path):
  for name in ('checkpoint', 'run.json'):
    os.mkfifo(tmp_path / name)
  assert checkpoints.newest(str(tmp_path)) is None
  with pytest.raises(checkpoints.CheckpointError, match='run.json cannot be'):
    checkpoints.read_run(str(tmp_path))


@pytest.mark.parametrize('kind', ['first line', 'one line'])
def test_an_index_that_goes_back(kind, tmp_path):
  paths = save_steps(tmp_path, 1, 2, 3)
  index = tmp_path / 'checkpoint'
  lines = index.read_text().splitlines()
  lines[0] = 'model_checkpoint_path: "model.ckpt-2"'
  index.write_text('\n'.join(lines if kind == 'first line' else lines[:1]))
  assert checkpoints.newest(str(tmp_path)) == paths[1]
  assert tf.train.latest_checkpoint(str(tmp_path)) == paths[1]


def test_an_index_of_absolute_paths_is_of_this_folder(tmp_path):
  first = tmp_path / 'first'
  first.mkdir()
  save_steps(first, 1, 2)
  text = (first / 'checkpoint').read_text()
  (first / 'checkpoint').write_text(text.replace('"model', '"%s/model' % first))
  copy = tmp_path / 'copy'
  shutil.copytree(first, copy)
  # The first folder is there as well: a run in the copy must not prune it.
  paths = [str(copy / 'model.ckpt-1'), str(copy / 'model.ckpt-2')]
  assert checkpoints.listed(str(copy)) == paths


def test_saved_after_the_index_was_written(tmp_path):
  save_steps(tmp_path, 1, 2)
  index = (tmp_path / 'checkpoint').read_text()
  newer = save_steps(tmp_path, 3)[0]
  (tmp_path / 'checkpoint').write_text(index)
  # Whoever writes an index of older ones wants those.
  assert checkpoints.newest(str(tmp_path)) == str(tmp_path / 'model.ckpt-2')
  os.utime(tmp_path / 'checkpoint', (1, 1))
  # Its saver was killed before it could write the index.
  assert checkpoints.newest(str(tmp_path)) == newer


@pytest.mark.parametrize(
  'kind', ['data cut', 'data gone', 'data changed', 'index cut', 'index empty']
)
def test_what_is_not_whole_is_left_out_and_named(kind, tmp_path, caplog):
  caplog.set_level('INFO')
  older, path = save_steps(tmp_path, 1, 2)
  what, change = kind.split()
  suffix = {'data': '.data-00000-of-00001', 'index': '.index'}[what]
  file = pathlib.Path(path + suffix)
  content = file.read_bytes()
  if change == 'gone':
    file.unlink()
  elif change == 'changed':
    file.write_bytes(content[:100] + b'x' + content[101:])
  else:
    file.write_bytes(content[:30] if change == 'cut' else b'')
  for _ in range(3):
    assert checkpoints.newest(str(tmp_path)) == older
  (line,) = caplog.messages
  assert line.startswith(path)
  assert line.endswith('left out, %s is the newest that is whole' % older)


def test_none_is_whole(tmp_path):
  (path,) = save_steps(tmp_path, 2)
  pathlib.Path(path + '.data-00000-of-00001').unlink()
  with pytest.raises(
    checkpoints.CheckpointError, match='no checkpoint in .* is'
  ):
    checkpoints.newest(str(tmp_path))


@pytest.mark.parametrize(
  'kind', ['empty', 'ours', 'original', 'other', 'index']
)
def test_whose_run_it_is(kind, tmp_path):
  if kind == 'ours':
    checkpoints.write_run(str(tmp_path), RUN)
  elif kind == 'original':
    save(tmp_path, dict.fromkeys(checkpoints._WEIGHTS, np.float32(0)))
  elif kind == 'other':
    save(tmp_path, {'conv1/weights': np.float32(0)})
  elif kind == 'index':
    (tmp_path / 'checkpoint').write_text('mine')
  if kind in ('other', 'index'):
    with pytest.raises(
      checkpoints.CheckpointError, match='not of a run of thi'
    ):
      checkpoints.is_run(str(tmp_path))
  else:
    assert checkpoints.is_run(str(tmp_path)) == (kind != 'empty')


@pytest.mark.parametrize('step', [[1, 2], np.nan, 'x'])
def test_what_counts_no_steps_is_named(step, tmp_path):
  path = save(tmp_path, {'global_step': np.array(step)})
  with pytest.raises(checkpoints.CheckpointError, match='ckpt-0: global_step'):
    checkpoints.read_global_step(path)


def test_what_is_not_finite_is_not_restored(tmp_path):
  path = save(tmp_path, {'a': np.float32([1, np.nan])})
  with pytest.raises(checkpoints.CheckpointError, match='a is not finite'):
    restored(path, {'a': np.float32([0, 0])})


def test_the_line_of_an_error_that_says_what_is_wrong():
  with tf.Graph().as_default(), tf.Session() as session:
    check = tf.check_numerics(tf.constant(np.nan), 'my reason')
    with pytest.raises(tf.errors.OpError) as e:
      session.run(check)
  line = checkpoints.first_line(e.value)
  assert line.startswith('my reason')
  assert '\n' not in line


def test_the_line_of_an_error_of_two_devices():
  with (
    tf.Graph().as_default(),
    tf.Session(config=tf.ConfigProto(device_count={'CPU': 2})) as session,
  ):
    checks = []
    for device in ('/cpu:0', '/cpu:1'):
      with tf.device(device):
        value = tf.placeholder(tf.float32, [2])
        checks.append((value, tf.debugging.check_numerics(value, 'my reason')))
    feed = {value: [np.nan, 1] for value, _ in checks}
    with pytest.raises(tf.errors.OpError) as e:
      session.run([check for _, check in checks], feed)
  assert checkpoints.first_line(e.value).startswith('my reason')


def test_restore_sets_and_casts(tmp_path):
  path = save(tmp_path, {'a': np.float32([1, 2]), 'global_step': np.float32(7)})
  assert checkpoints.read_global_step(path) == 7
  values = restored(path, {'a': np.float32([0, 0]), 'global_step': np.int64(0)})
  assert values['a'].tolist() == [1, 2]
  assert values['global_step'] == 7
  assert values['global_step'].dtype == np.int64


def test_what_is_optional_may_be_missing(tmp_path):
  path = save(tmp_path, {'a': np.float32(1)})
  values = restored(
    path, {'a': np.float32(0), 'l/avg': np.float32(5)}, optional=['l/avg']
  )
  assert values == {'a': 1, 'l/avg': 5}


def test_what_does_not_fit_is_named(tmp_path):
  path = save(tmp_path, {'a': np.zeros([2, 3], np.float32)})
  with pytest.raises(checkpoints.CheckpointError, match='has no b: it is not'):
    restored(path, {'b': np.float32(0)})
  with pytest.raises(
    checkpoints.CheckpointError, match=r'a has shape \[2, 3\], .* \[3, 2\]'
  ):
    restored(path, {'a': np.zeros([3, 2], np.float32)})
  with pytest.raises(checkpoints.CheckpointError, match='has no global_step'):
    checkpoints.read_global_step(path)


def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
  path = str(tmp_path / 'model.ckpt-1')
  (tmp_path / 'model.ckpt-1.index').write_bytes(b'nonsense')
  with pytest.raises(checkpoints.CheckpointError, match='ckpt-1 is no checkp'):
    checkpoints.read_global_step(path)


def test_truncated_data_is_named(tmp_path):
  path = save(tmp_path, {'a': np.zeros(1000, np.float32)})
  data = tmp_path / 'model.ckpt-0.data-00000-of-00001'
  data.write_bytes(data.read_bytes()[:100])
  with pytest.raises(checkpoints.CheckpointError, match='ckpt-0: a cannot be'):
    restored(path, {'a': np.zeros(1000, np.float32)})
