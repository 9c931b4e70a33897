"""What a run says at its start and end, and its page in TensorBoard."""

import re

import pytest
import tensorflow.compat.v1 as tf
from events import read

from cifar10 import overview, training


@pytest.fixture
def train(small_data, tmp_path, caplog, capsys):
  """Trains; returns what was logged."""
  caplog.set_level('INFO')

  def function(**settings):
    caplog.clear()
    training.train(
      data_dir=str(small_data),
      dataset='small',
      train_dir=str(tmp_path / 'run'),
      batch_size=5,
      **settings,
    )
    tf.summary.FileWriterCache.clear()
    return caplog.messages

  return function


def test_what_it_is_going_to_do_and_what_it_did(train, tmp_path, small_data):
  run = str(tmp_path / 'run')
  start, data, plan, saving, done = train(max_steps=4)
  assert start == 'Starting a new run in ' + run
  assert re.fullmatch(
    r'Data: small, (\d+) examples of 10 classes, in %s/small-batches-bin'
    % re.escape(str(small_data)),
    data,
  )
  examples = int(re.search(r'(\d+) examples', data).group(1))
  assert plan.startswith(
    'Training: from step 0 to step 4, 5 examples each: %.4g epochs, on '
    % (20 / examples)
  )
  assert saving == (
    'Checkpoints: every 600 seconds, in %s; look at it with: tensorboard '
    '--logdir %s' % (run, run)
  )
  assert re.fullmatch(
    r'Trained: steps 0 to 4 in \d+\.\d seconds, \d+ examples a second; '
    r'saved as ' + re.escape(run + '/model.ckpt-4'),
    done,
  )
  resuming, _, plan, saving, done = train(
    max_steps=6, num_gpus=2, save_checkpoint_steps=3
  )[1:]
  assert resuming.startswith('Resuming from')
  assert plan.startswith('Training: from step 4 to step 6, 10 examples each')
  assert '2 towers on ' in plan
  assert saving.startswith('Checkpoints: every 3 steps, ')
  assert done.startswith('Trained: steps 4 to 6 in ')


def test_the_page(train, tmp_path, monkeypatch):
  monkeypatch.setattr('sys.argv', ['scripts/train.py', '--seed=1', 'a|b'])
  train(max_steps=2, seed=1)
  train(max_steps=3, seed=1)
  pages = [(s, v) for s, v in read(tmp_path / 'run') if v.tag == 'run']
  assert [step for step, _ in pages] == [0, 2]
  text = tf.make_ndarray(pages[0][1].tensor).item().decode()
  assert "| command | python scripts/train.py --seed=1 'a\\|b' |" in text
  assert '| parameters | 1068298 in 10 variables |' in text
  assert '| examples a step | 5 |' in text
  assert '| versions | cifar10 ' in text
  assert '| seed | 1 |' in text
  assert '| learning_rate | 0.1 |' in text


def test_every_chart_is_described(train, tmp_path):
  train(max_steps=2, save_summaries_steps=1)
  said = {}
  for _, value in read(tmp_path / 'run'):
    said.setdefault(value.tag, value.metadata.summary_description)
  assert len(said) > 40
  assert [tag for tag, text in said.items() if not text] == []


@pytest.mark.parametrize(
  'secs, text', [(0.26, '0.3 seconds'), (125.4, '0:02:05'), (3661, '1:01:01')]
)
def test_times(secs, text):
  assert overview._duration(secs) == text
