"""What a run begins with: another run's layers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from networks import save_constant_network, save_random_network
from pictures import random_images, write_records

from cifar10 import UsageError, checkpoints, training

LAYERS = ['conv1', 'conv2', 'local3', 'local4']


@pytest.fixture
def finetune(tmp_path, caplog):
  """Begins a run on three classes with another's layers; returns its folder."""
  folder = tmp_path / 'data' / 'pets-batches-bin'
  folder.mkdir(parents=True)
  write_records(folder / 'data_batch_1.bin', [0, 1, 2, 1], random_images(4))
  (folder / 'batches.meta.txt').write_text('cat\ndog\nox\n')
  caplog.set_level('INFO')

  def function(**settings):
    training.train(
      data_dir=str(tmp_path / 'data'),
      dataset='pets',
      finetune_from=str(tmp_path / 'old'),
      batch_size=4,
      **{'train_dir': str(tmp_path / 'run'), 'max_steps': 1, **settings},
    )
    return str(tmp_path / 'run')

  (tmp_path / 'old').mkdir()
  return function


def test_all_layers_but_the_last_are_the_other_runs(finetune, tmp_path, caplog):
  old = save_random_network(tmp_path / 'old')
  path = finetune() + '/model.ckpt-0'
  assert 'All layers but the last begin as in ' + old in caplog.messages
  for layer in LAYERS:
    for kind in ('weights', 'biases'):
      key = '%s/%s' % (layer, kind)
      np.testing.assert_array_equal(
        tf.train.load_variable(path, key),
        tf.train.load_variable(old, key + '/ExponentialMovingAverage'),
      )
  last = tf.train.load_variable(path, 'softmax_linear/weights')
  assert last.shape == (192, 3) and 0 < np.abs(last).max() < 2.1 / 192


def test_the_averages_follow_at_once(finetune, tmp_path):
  save_random_network(tmp_path / 'old')
  path = finetune(max_steps=30, learning_rate=1e-6) + '/model.ckpt-30'
  weights = tf.train.load_variable(path, 'local3/weights')
  average = tf.train.load_variable(
    path, 'local3/weights/ExponentialMovingAverage'
  )
  np.testing.assert_allclose(average, weights, atol=1e-4)


def test_a_run_goes_on_with_its_own(finetune, tmp_path, caplog):
  save_random_network(tmp_path / 'old')
  finetune()
  caplog.clear()
  finetune(max_steps=2)
  assert any(line.startswith('Resuming from') for line in caplog.messages)
  assert not any('begin as in' in line for line in caplog.messages)


def test_a_checkpoint_without_averages(finetune, tmp_path):
  old = save_constant_network(tmp_path / 'old', 1, 3, averages=False)
  path = finetune() + '/model.ckpt-0'
  np.testing.assert_array_equal(
    tf.train.load_variable(path, 'conv1/weights'),
    tf.train.load_variable(old, 'conv1/weights'),
  )


def test_what_does_not_fit_is_refused(finetune, tmp_path):
  with pytest.raises(
    checkpoints.CheckpointError, match='name another --finetune_from'
  ):
    finetune()
  save_random_network(tmp_path / 'old', image_size=32)
  with pytest.raises(checkpoints.CheckpointError, match='local3.* has shape'):
    finetune()


def test_the_run_itself_is_refused_and_stays(finetune, tmp_path):
  save_random_network(tmp_path / 'old')
  before = sorted((tmp_path / 'old').iterdir())
  for overwrite in (False, True):
    with pytest.raises(UsageError, match='is the run itself'):
      finetune(train_dir=str(tmp_path / 'old'), overwrite=overwrite)
  assert sorted((tmp_path / 'old').iterdir()) == before
