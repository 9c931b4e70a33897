"""Evaluation: counts that are known beforehand, and what is written."""

import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from networks import SHAPES, save_constant_network
from pictures import write_records

from cifar10 import UsageError, checkpoints, cifar10, datasets, evaluation

LINE = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: precision @ 1 = (\d\.\d{3})'


@pytest.fixture
def data_dir(tmp_path, rng):
  """Data whose test file has 3 examples of class 4 among its first 10 of 20."""
  folder = tmp_path / 'data' / 'small-batches-bin'
  folder.mkdir(parents=True)
  labels = [4, 1, 4, 3, 4, 5, 6, 7, 8, 9] + [4] * 8 + [0, 1]
  images = rng.integers(0, 256, [20, 32, 32, 3], np.uint8)
  write_records(folder / 'test_batch.bin', labels, images)
  write_records(folder / 'data_batch_1.bin', [4, 4, 0], images[:3])
  (folder / 'batches.meta.txt').write_text(
    ''.join('class%d\n' % i for i in range(10))
  )
  return tmp_path / 'data'


@pytest.fixture
def evaluate(tmp_path, data_dir, capsys):
  """Evaluates once; returns what was printed: precision, correct, of, step."""
  (tmp_path / 'run').mkdir()

  def function(**kwargs):
    evaluation.evaluate(
      **{
        'data_dir': str(data_dir),
        'dataset': 'small',
        'checkpoint_dir': str(tmp_path / 'run'),
        'eval_dir': str(tmp_path / 'eval'),
        'run_once': True,
        **kwargs,
      }
    )
    lines = capsys.readouterr().out.splitlines()
    first, second = lines[:2] if kwargs.get('per_class') else lines
    counts = re.fullmatch(r'(\d+) of (\d+) correct, step (\d+)', second)
    return (re.fullmatch(LINE, first).group(1), *map(int, counts.groups()))

  return function


@pytest.mark.parametrize('batch_size', [1, 7, 20, 128])
def test_a_known_count_at_any_batch_size(evaluate, tmp_path, batch_size):
  save_constant_network(tmp_path / 'run', 4, 123)
  assert evaluate(batch_size=batch_size) == ('0.550', 11, 20, 123)


@pytest.mark.parametrize(
  'num_examples, expected',
  [(1, ('1.000', 1, 1)), (10, ('0.300', 3, 10)), (99, ('0.550', 11, 20))],
)
def test_the_first_examples(evaluate, tmp_path, num_examples, expected):
  save_constant_network(tmp_path / 'run', 4, 0)
  assert evaluate(num_examples=num_examples, batch_size=3) == (*expected, 0)


def test_train_eval_reads_the_training_files(evaluate, tmp_path):
  save_constant_network(tmp_path / 'run', 4, 5)
  assert evaluate(eval_data='train_eval') == ('0.667', 2, 3, 5)


def test_summaries_are_written_at_the_step(evaluate, tmp_path):
  for step in (5, 8):
    save_constant_network(tmp_path / 'run', 4, step)
    evaluate()
  layers = list(SHAPES)
  written = {}
  for path in sorted((tmp_path / 'eval').iterdir()):
    for event in tf.train.summary_iterator(str(path)):
      for value in event.summary.value:
        written.setdefault(value.tag, []).append((event.step, value))
  precision = written['Precision @ 1']
  assert [step for step, _ in precision] == [5, 8]
  assert precision[0][1].simple_value == pytest.approx(11 / 20)
  expected = {'Precision @ 1', *('images/image/%d' % i for i in range(3))}
  expected |= {layer + '/activations' for layer in layers}
  expected |= {layer + '/sparsity' for layer in layers}
  present = [0, 1, 3, 4, 5, 6, 7, 8, 9]
  expected |= {'precision_by_class/class%d' % i for i in present}
  expected |= {'confusion_matrix', 'mistakes', 'conv1/filters/image'}
  assert written.keys() == expected
  for (_, value), *_ in written.values():
    assert value.metadata.summary_description
  for i in present:
    _, value = written['precision_by_class/class%d' % i][0]
    assert value.simple_value == (i == 4)


def test_a_table_and_a_line_for_each_example(evaluate, tmp_path):
  save_constant_network(tmp_path / 'run', 4, 123)
  path = tmp_path / 'x.csv'
  evaluate(per_class=True, predictions=str(path), num_examples=12)
  header, *lines = path.read_text().splitlines()
  assert header == 'index,label,prediction,probability'
  labels = [4, 1, 4, 3, 4, 5, 6, 7, 8, 9, 4, 4]
  # The logits are nine zeros and a one.
  assert lines == [
    '%d,class%d,class4,%.6f' % (i, label, np.e / (np.e + 9))
    for i, label in enumerate(labels)
  ]
  with pytest.raises(UsageError, match='something else'):
    evaluate(predictions=str(tmp_path / 'run' / 'checkpoint'))


def test_without_matplotlib_the_rest_works(evaluate, tmp_path, monkeypatch):
  monkeypatch.setattr(evaluation.plots, 'available', lambda: False)
  save_constant_network(tmp_path / 'run', 4, 123)
  assert evaluate() == ('0.550', 11, 20, 123)


def test_a_network_that_is_perfect_has_no_mistakes(evaluate, tmp_path):
  save_constant_network(tmp_path / 'run', 4, 123)
  assert evaluate(num_examples=1) == ('1.000', 1, 1, 123)
  (path,) = (tmp_path / 'eval').iterdir()
  tags = {
    value.tag
    for event in tf.train.summary_iterator(str(path))
    for value in event.summary.value
  }
  assert 'confusion_matrix' in tags
  assert 'mistakes' not in tags


class Clock:
  """Stands for the clock: time passes at once, and something happens in it."""

  def __init__(self, happens):
    self.naps = []
    self._happens = happens

  def monotonic(self):
    return sum(self.naps)

  def sleep(self, seconds):
    self.naps.append(seconds)
    self._happens(self.naps)


def test_the_newest_checkpoint_once_for_each_step(
  evaluate, tmp_path, monkeypatch, capsys
):
  run = tmp_path / 'run'

  def happens(naps):
    if len(naps) == 2:
      save_constant_network(run, 4, 10)
    elif len(naps) == 4:
      for path in run.iterdir():  # as --overwrite does
        path.unlink()
    elif len(naps) == 5:
      save_constant_network(run, 3, 10)
    elif len(naps) == 6:
      raise KeyboardInterrupt

  clock = Clock(happens)
  monkeypatch.setattr(evaluation, 'time', clock)
  with pytest.raises(KeyboardInterrupt):
    evaluate(run_once=False, eval_interval_secs=7)
  assert clock.naps == [7] * 6
  counts = capsys.readouterr().out.splitlines()[1::2]
  assert counts == ['11 of 20 correct, step 10', '1 of 20 correct, step 10']


def test_it_ends_when_nothing_comes(evaluate, tmp_path, monkeypatch, caplog):
  def happens(naps):
    if sum(naps) == 10:
      save_constant_network(tmp_path / 'run', 4, 11)

  clock = Clock(happens)
  monkeypatch.setattr(evaluation, 'time', clock)
  caplog.set_level('INFO')
  save_constant_network(tmp_path / 'run', 4, 10)
  with pytest.raises(ValueError):  # two results are printed, not one
    evaluate(run_once=False, eval_interval_secs=5, idle_timeout_secs=12)
  # Two looks to the second; from there two more, and what is left of twelve.
  assert clock.naps == [5, 5, 5, 5, 2]
  assert 'No new checkpoint in 12 seconds' in caplog.text


def test_a_checkpoint_that_is_removed_meanwhile_for_a_newer_one(
  evaluate, tmp_path, monkeypatch
):
  run = tmp_path / 'run'
  first = save_constant_network(run, 4, 10)
  evaluate_once = evaluation.evaluate_once

  def losing_the_race(path, *args, **kwargs):
    if path == first:
      save_constant_network(run, 4, 11)
      raise checkpoints.CheckpointError('gone')
    return evaluate_once(path, *args, **kwargs)

  monkeypatch.setattr(evaluation, 'evaluate_once', losing_the_race)
  assert evaluate() == ('0.550', 11, 20, 11)


def test_a_data_set_that_cannot_be_is_refused_at_once(evaluate, tmp_path):
  with pytest.raises(UsageError, match='no such data set'):
    evaluate(dataset='nosuch', run_once=False)
  assert not (tmp_path / 'eval').exists()


def test_a_file_in_place_of_the_folder(evaluate, tmp_path, data_dir):
  path = next(data_dir.rglob('*.bin'))
  with pytest.raises(checkpoints.CheckpointError, match='bin: not a folder'):
    evaluate(checkpoint_dir=str(path), run_once=False)


def test_without_a_checkpoint(evaluate, tmp_path):
  with pytest.raises(checkpoints.CheckpointError, match='holds no checkpoint'):
    evaluate()
  assert not (tmp_path / 'eval').exists()


@pytest.mark.parametrize('kind', ['cut', 'gone', 'empty index'])
def test_the_newest_whole_checkpoint_is_said(kind, evaluate, tmp_path, caplog):
  caplog.set_level('INFO')
  run = tmp_path / 'run'
  save_constant_network(run, 4, 10)
  newer = save_constant_network(run, 3, 11)
  if kind == 'cut':
    os.truncate(newer + '.data-00000-of-00001', 1000)
  elif kind == 'gone':
    for path in run.glob('model.ckpt-11*'):
      path.unlink()
  else:
    os.truncate(newer + '.index', 10)
    os.truncate(run / 'checkpoint', 0)
  if kind != 'empty index':
    (run / 'checkpoint').write_text(
      'model_checkpoint_path: "model.ckpt-11"\n'
      'all_model_checkpoint_paths: "model.ckpt-10"\n'
      'all_model_checkpoint_paths: "model.ckpt-11"\n'
    )
  assert evaluate() == ('0.550', 11, 20, 10)
  assert caplog.messages[-1] == 'Evaluating %s/model.ckpt-10' % run
  if kind != 'gone':
    assert caplog.messages[0].startswith(newer)
    assert 'left out' in caplog.messages[0]


def test_a_checkpoint_of_another_model(evaluate, tmp_path):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.Variable(np.int64(3), name='global_step')
    tf.Variable(np.zeros(5, np.float32), name='dense/kernel')
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, str(tmp_path / 'run' / 'model.ckpt'), 3)
  with pytest.raises(
    checkpoints.CheckpointError, match='not a checkpoint of t'
  ):
    evaluate()


def test_nothing_of_the_trainers_is_touched(evaluate, tmp_path):
  run = tmp_path / 'run'
  save_constant_network(run, 4, 10)
  before = {path: os.stat(path) for path in (run, *run.iterdir())}
  evaluate()
  assert {run, *run.iterdir()} == before.keys()
  for path, status in before.items():
    assert os.stat(path).st_mtime_ns == status.st_mtime_ns


def test_without_moving_averages(evaluate, tmp_path):
  save_constant_network(tmp_path / 'run', 3, 0, averages=False)
  with pytest.raises(checkpoints.CheckpointError, match='--use_raw_weights'):
    evaluate()
  # The weights themselves answer class 4.
  assert evaluate(use_raw_weights=True) == ('0.550', 11, 20, 0)


def test_the_run_says_data_set_and_float_type(evaluate, tmp_path, data_dir):
  save_constant_network(tmp_path / 'run', 4, 3)
  names = tuple('class%d' % i for i in range(10))
  run = checkpoints.Run('small', names, 24, 'float16')
  checkpoints.write_run(str(tmp_path / 'run'), run)
  assert evaluate(dataset=None) == ('0.550', 11, 20, 3)


def test_other_classes_than_the_runs_are_refused(evaluate, tmp_path):
  save_constant_network(tmp_path / 'run', 4, 3)
  run = checkpoints.Run('small', ('a', 'b'), 24, 'float32')
  checkpoints.write_run(str(tmp_path / 'run'), run)
  with pytest.raises(checkpoints.CheckpointError, match='classes a b, small'):
    evaluate()


def test_other_shapes_than_the_networks_are_refused(
  evaluate, tmp_path, data_dir
):
  save_constant_network(tmp_path / 'run', 4, 3)
  with open(data_dir / 'small-batches-bin' / 'batches.meta.txt', 'a') as f:
    f.write('class10\n')
  with pytest.raises(
    checkpoints.CheckpointError, match=r'shape \[192, 10\], .* \[192, 11\]'
  ):
    evaluate()


def test_logits_are_those_of_the_averages(tmp_path, data_dir, rng):
  """The counts above need a constant answer; here answers depend on pixels."""
  split = datasets.load('small', str(data_dir), 'test')
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(4)
    images = tf.placeholder(tf.float32, [None, 24, 24, 3])
    logits = cifar10.inference(images)
    tf.train.get_or_create_global_step()
    values = {
      v.op.name + '/ExponentialMovingAverage': v
      for v in tf.trainable_variables()
    }
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver(values).save(session, str(tmp_path / 'model.ckpt'))
    raw = np.fromfile(split.files[0], np.uint8).reshape(20, 3073)
    pixels = raw[:, 1:].reshape(20, 3, 32, 32).transpose(0, 2, 3, 1)
    pixels = pixels[:, 4:28, 4:28].astype(np.float64)
    pixels -= pixels.mean((1, 2, 3), keepdims=True)
    pixels /= pixels.std((1, 2, 3), keepdims=True)
    answers = session.run(logits, {images: pixels}).argmax(1)
  results, _ = evaluation.evaluate_once(path, split, 6, 20)
  assert (results.predictions == answers).all()
  assert (results.labels == raw[:, 0]).all()
  assert (results.correct, results.total) == ((answers == raw[:, 0]).sum(), 20)
  assert len(set(answers)) > 1
