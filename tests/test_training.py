"""Towers, resuming, and the loop."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pictures import write_records

from cifar10 import Error, UsageError, checkpoints, datasets, training

SCALARS = {
  'cross_entropy',
  'cross_entropy_raw',
  'input/batches_in_queue',
  'input/examples_in_queue',
  'learning_rate',
  'local3/weight_loss',
  'local3/weight_loss_raw',
  'local4/weight_loss',
  'local4/weight_loss_raw',
  'total_loss',
  'total_loss_raw',
}
LAYERS = ['conv1', 'conv2', 'local3', 'local4', 'softmax_linear']
TAGS = (
  SCALARS
  | {'images/image/%d' % i for i in range(3)}
  | {'conv1/filters/image'}
  | {'%s/sparsity' % layer for layer in LAYERS}
  | {'%s/activations' % layer for layer in LAYERS}
  | {'%s/%s' % (layer, v) for layer in LAYERS for v in ('weights', 'biases')}
  | {
    '%s/%s/gradients' % (layer, v)
    for layer in LAYERS
    for v in ('weights', 'biases')
  }
)
KEYS = (
  {'%s/%s' % (layer, v) for layer in LAYERS for v in ('weights', 'biases')}
  | {
    '%s/%s/ExponentialMovingAverage' % (layer, v)
    for layer in LAYERS
    for v in ('weights', 'biases')
  }
  | {
    'global_step',
    'total_loss/avg',
    'cross_entropy/avg',
    'local3/weight_loss/avg',
    'local4/weight_loss/avg',
  }
)


@pytest.fixture
def split(small_data):
  return datasets.load('small', str(small_data), 'train')


def train(data_dir, train_dir, max_steps, **kwargs):
  settings = {
    'batch_size': 4,
    'log_frequency': 1,
    'save_summaries_steps': 2,
    'seed': 1,
  }
  training.train(
    data_dir=str(data_dir),
    dataset='small',
    train_dir=str(train_dir),
    max_steps=max_steps,
    **{**settings, **kwargs},
  )


def written_steps(directory, tag):
  """Returns the steps at which a folder's event files hold a tag."""
  return [
    event.step
    for path in sorted(directory.glob('events.out.tfevents.*'))
    for event in tf.train.summary_iterator(str(path))
    for value in event.summary.value
    if value.tag == tag
  ]


def written_tags(directory):
  return {
    value.tag
    for path in directory.glob('events.out.tfevents.*')
    for event in tf.train.summary_iterator(str(path))
    for value in event.summary.value
  }


def snapshot(directory):
  """Returns what tells whether any file was changed."""
  return {
    path.name: (path.stat().st_mtime_ns, path.stat().st_size)
    for path in directory.iterdir()
  }


def printed_losses(capsys):
  lines = capsys.readouterr().out.splitlines()
  return [line.split(',')[1].split('(')[0] for line in lines if 'step' in line]


def test_towers_are_placed_on_their_devices_and_share_cpu_variables(split):
  with tf.Graph().as_default() as graph:
    training.build_graph(
      split, batch_size=4, devices=['/gpu:0', '/gpu:1', '/cpu:0']
    )
    for i, device in enumerate(['GPU:0', 'GPU:1', 'CPU:0']):
      convs = [
        op
        for op in graph.get_operations()
        if op.type.startswith('Conv2D') and 'tower_%d/' % i in op.name
      ]
      # Two forward, and backward each to its weights and to its input.
      assert len(convs) == 6
      assert {op.device for op in convs} == {'/device:' + device}
    assert {v.device for v in tf.global_variables()} == {'/device:CPU:0'}
    assert {v.op.name for v in tf.global_variables()} == KEYS
    dequeues = [
      op for op in graph.get_operations() if op.type == 'QueueDequeueV2'
    ]
    assert len([op for op in dequeues if 'batch_queue' in op.name]) == 3


def test_towers_run_on_several_devices(split):
  devices = ['/cpu:0', '/cpu:1']
  with tf.Graph().as_default():
    loss, train_op = training.build_graph(split, batch_size=4, devices=devices)
    config = tf.ConfigProto(device_count={'CPU': 2})
    with tf.train.MonitoredSession(
      tf.train.ChiefSessionCreator(config=config)
    ) as session:
      _, value, step = session.run([train_op, loss, tf.train.get_global_step()])
  assert 4 < value < 6
  assert step in (0, 1)


def test_train_writes_checkpoints_summaries_and_run_json(
  small_data, tmp_path, capsys
):
  train(small_data, tmp_path / 'run', 5)
  assert len(printed_losses(capsys)) == 5
  assert written_tags(tmp_path / 'run') == TAGS | {'global_step/sec', 'run'}
  path = checkpoints.newest(str(tmp_path / 'run'))
  assert {name for name, _ in tf.train.list_variables(path)} == KEYS
  assert checkpoints.read_global_step(path) == 5
  assert checkpoints.read_run(str(tmp_path / 'run')) == checkpoints.Run(
    dataset='small',
    class_names=tuple('class%d' % i for i in range(10)),
    image_size=24,
    float_type='float32',
  )


def test_towers_have_the_tags_and_keys_of_one(small_data, tmp_path, capsys):
  train(small_data, tmp_path / 'one', 3)
  train(small_data, tmp_path / 'two', 3, num_gpus=2)
  one, two = tmp_path / 'one', tmp_path / 'two'
  assert written_tags(one) == written_tags(two)
  assert tf.train.list_variables(str(one)) == tf.train.list_variables(str(two))


def test_single_to_towers_to_single_goes_on(small_data, tmp_path, capsys):
  run = tmp_path / 'run'
  train(small_data, run, 2)
  train(small_data, run, 4, num_gpus=2)
  before = {name: tf.train.load_variable(str(run), name) for name in KEYS}
  train(small_data, run, 5, learning_rate=1e-9)
  after = {name: tf.train.load_variable(str(run), name) for name in KEYS}
  assert after['global_step'] == before['global_step'] + 1 == 5
  for layer in LAYERS:
    np.testing.assert_allclose(
      after[layer + '/weights'], before[layer + '/weights'], atol=1e-6
    )
  # The average of the loss goes on too: it did not start at zero again.
  assert after['total_loss/avg'] > before['total_loss/avg'] > 1
  assert len(printed_losses(capsys)) == 5
  assert written_steps(run, 'total_loss') == [1, 3, 5]


def test_the_same_seed_repeats_a_run(small_data, tmp_path, capsys):
  losses = []
  for name, seed in (('a', 7), ('b', 7), ('c', 8)):
    train(small_data, tmp_path / name, 3, seed=seed)
    losses.append(printed_losses(capsys))
  assert losses[0] == losses[1] != losses[2]
  a, b = (
    tf.train.load_variable(str(tmp_path / name), 'conv2/weights')
    for name in 'ab'
  )
  assert (a == b).all()


def test_a_seed_with_several_threads_is_refused(tmp_path):
  with pytest.raises(UsageError, match='--num_preprocess_threads=1') as error:
    training.train(
      train_dir=str(tmp_path / 'run'), seed=1, num_preprocess_threads=2
    )
  assert error.value.exit_status == 2
  assert not (tmp_path / 'run').exists()


def test_several_threads_train(small_data, tmp_path, capsys):
  train(small_data, tmp_path, 3, seed=None, num_preprocess_threads=2)
  assert 'step 0, loss' in capsys.readouterr().out


def test_a_finished_run_is_left_alone(small_data, tmp_path, capsys, caplog):
  caplog.set_level('INFO')
  run = tmp_path / 'run'
  train(small_data, run, 2)
  before = snapshot(run)
  capsys.readouterr()
  train(small_data, run, 2)
  train(small_data, run, 1)
  assert snapshot(run) == before
  assert capsys.readouterr().out == ''
  assert 'is at step 2, --max_steps is 1' in caplog.messages[-1]


def test_overwrite_starts_afresh_and_keeps_other_files(
  small_data, tmp_path, capsys
):
  run = tmp_path / 'run'
  train(small_data, run, 3)
  others = ['notes.txt', 'model.ckpt-best.zip', 'model.ckpt-2.index.bak']
  for name in others:
    (run / name).write_text('mine')
  (run / 'model.ckpt').mkdir()
  (run / 'model.ckpt-7').mkdir()
  (run / 'run.json').write_text('broken')
  train(small_data, run, 2, overwrite=True)
  assert checkpoints.read_global_step(checkpoints.newest(str(run))) == 2
  assert {(run / name).read_text() for name in others} == {'mine'}
  assert (run / 'model.ckpt').is_dir() and (run / 'model.ckpt-7').is_dir()
  assert not list(run.glob('model.ckpt-3*'))
  assert written_steps(run, 'total_loss') == [1]


@pytest.mark.parametrize('overwrite', [False, True])
def test_what_is_not_ours_stays(small_data, tmp_path, capsys, overwrite):
  """A folder of another program's checkpoints is no folder for a run."""
  run = tmp_path / 'run'
  run.mkdir()
  with tf.Graph().as_default(), tf.Session() as session:
    tf.Variable(np.int64(10**6), name='global_step')
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, str(run / 'model.ckpt'), 3)
  (run / 'events.out.tfevents.1.mine').write_text('mine')
  before = snapshot(run)
  with pytest.raises(
    checkpoints.CheckpointError, match='model.ckpt-3 is not of'
  ):
    train(small_data, run, 2, overwrite=overwrite)
  assert snapshot(run) == before


def test_overwrite_clears_no_folder_without_a_run(small_data, tmp_path, capsys):
  run = tmp_path / 'run'
  run.mkdir()
  (run / 'events.out.tfevents.1.mine').write_text('mine')
  (run / 'notes.txt').write_text('mine')
  train(small_data, run, 1, overwrite=True)
  assert (run / 'events.out.tfevents.1.mine').read_text() == 'mine'
  assert (run / 'notes.txt').read_text() == 'mine'


@pytest.mark.parametrize('num_examples', [1, 3])
@pytest.mark.parametrize('min_queue_fraction', [1e-9, 1.0])
def test_fewer_examples_than_a_batch(
  num_examples, min_queue_fraction, tmp_path, rng, capsys
):
  folder = tmp_path / 'data' / 'small-batches-bin'
  folder.mkdir(parents=True)
  images = rng.integers(0, 256, [num_examples, 32, 32, 3], np.uint8)
  write_records(folder / 'data_batch_1.bin', range(num_examples), images)
  (folder / 'batches.meta.txt').write_text('a\nb\nc\n')
  train(
    tmp_path / 'data',
    tmp_path / 'run',
    2,
    batch_size=32,
    min_queue_fraction=min_queue_fraction,
  )
  assert len(printed_losses(capsys)) == 2


def test_a_newest_checkpoint_that_is_cut_is_left_out(
  small_data, tmp_path, capsys, caplog
):
  caplog.set_level('INFO')
  run = tmp_path / 'run'
  train(small_data, run, 3, save_checkpoint_steps=1)
  data = run / 'model.ckpt-3.data-00000-of-00001'
  os.truncate(data, 1000)
  train(small_data, run, 4, max_to_keep=3)
  assert 'left out, %s/model.ckpt-2' % run in caplog.text
  assert 'Resuming from %s/model.ckpt-2 at step 2' % run in caplog.messages
  assert len(printed_losses(capsys)) == 3 + 2
  kept = checkpoints.listed(str(run))
  assert [path[-1] for path in kept] == ['1', '2', '4']
  # It is no longer counted, nor is it anybody's to remove.
  assert os.path.getsize(data) == 1000


def test_all_checkpoints_cut_start_nothing(small_data, tmp_path, capsys):
  run = tmp_path / 'run'
  train(small_data, run, 1)
  for path in run.glob('*.data-*'):
    os.truncate(path, 1000)
  before = snapshot(run)
  with pytest.raises(checkpoints.CheckpointError, match='is whole'):
    train(small_data, run, 2)
  assert snapshot(run) == before
  train(small_data, run, 2, overwrite=True)
  assert checkpoints.read_global_step(checkpoints.newest(str(run))) == 2


def test_max_to_keep_counts_over_a_resume(small_data, tmp_path, capsys):
  run = tmp_path / 'run'
  for steps, max_to_keep in ((4, 4), (5, 2), (6, 2)):
    train(
      small_data,
      run,
      steps,
      save_checkpoint_steps=1,
      max_to_keep=max_to_keep,
    )
    kept = sorted(path.stem for path in run.glob('*.index'))
    expected = range(steps - max_to_keep + 1, steps + 1)
    assert kept == ['model.ckpt-%d' % step for step in expected]


def test_the_graph_drawn_is_a_step_of_training(small_data, tmp_path, capsys):
  blocks = {}
  for name, num_gpus in (('one', None), ('two', 2)):
    train(small_data, tmp_path / name, 1, num_gpus=num_gpus)
    (path,) = (tmp_path / name).glob('events*')
    graphs = [
      tf.GraphDef.FromString(event.graph_def)
      for event in tf.train.summary_iterator(str(path))
      if event.HasField('graph_def')
    ]
    blocks[name] = {node.name.split('/')[0] for node in graphs[-1].node}
  layers = {*LAYERS, 'pool1', 'norm1', 'norm2', 'pool2'}
  others = {'input', 'loss', 'training', 'global_step'}
  averages = {'cross_entropy', 'total_loss'}
  assert blocks['one'] == layers | others | averages
  assert blocks['two'] == (
    {*LAYERS, 'tower_0', 'tower_1', 'average_gradients'} | others | averages
  )


def test_another_kind_of_run_is_refused(small_data, tmp_path, capsys):
  run = tmp_path / 'run'
  train(small_data, run, 1)
  before = snapshot(run)
  with pytest.raises(checkpoints.CheckpointError) as e:
    train(small_data, run, 2, use_fp16=True)
  assert str(e.value) == (
    '%s holds a run with float_type float32, not float16: give the flags of '
    'that run, name another folder, or --overwrite' % run
  )
  # Said before anything is fetched: that would be the wrong data set.
  with pytest.raises(checkpoints.CheckpointError, match='dataset small, not'):
    training.train(data_dir=str(tmp_path / 'none'), train_dir=str(run))
  assert not (tmp_path / 'none').exists()
  assert snapshot(run) == before


@pytest.mark.parametrize('save_summaries_steps', [1, 100])
def test_not_a_number_stops_and_is_not_saved(
  save_summaries_steps, small_data, tmp_path, capsys
):
  with pytest.raises(Error, match='not finite.* lower --learning_rate'):
    train(
      small_data,
      tmp_path / 'run',
      100,
      learning_rate=1e20,
      save_checkpoint_steps=1,
      save_summaries_steps=save_summaries_steps,
    )
  path = checkpoints.newest(str(tmp_path / 'run'))
  assert checkpoints.read_global_step(path) < 100
  for name, _ in tf.train.list_variables(path):
    assert np.isfinite(tf.train.load_variable(path, name)).all(), name
