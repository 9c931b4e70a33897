"""Predictions: the same as evaluation's, whatever the batch."""

import json
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from networks import save_random_network
from pictures import random_images, write_folder, write_records
from PIL import Image

from cifar10 import (
  Error,
  checkpoints,
  cifar10,
  cifar10_input,
  datasets,
  models,
  prediction,
)

NAMES = tuple('abcdefghij')


@pytest.fixture
def run_dir(tmp_path):
  """The folder of a run on a data set called `pets`."""
  folder = tmp_path / 'run'
  folder.mkdir()
  save_random_network(folder)
  checkpoints.write_run(
    str(folder), checkpoints.Run('pets', NAMES, 24, 'float32')
  )
  return folder


@pytest.fixture
def images(tmp_path):
  """Twenty pictures as PNG files; their pixels."""
  (tmp_path / 'in').mkdir()
  images = random_images(20)
  for i, pixels in enumerate(images):
    Image.fromarray(pixels).save(tmp_path / 'in' / ('%02d.png' % i))
  return images


def evaluated(tmp_path, images, image_size=24):
  """Returns the probabilities that evaluation's graph gives pictures."""
  folder = tmp_path / 'data' / 'pets-batches-bin'
  folder.mkdir(parents=True)
  write_records(folder / 'test_batch.bin', np.zeros(len(images)), images)
  (folder / 'batches.meta.txt').write_text('\n'.join(NAMES))
  split = datasets.load('pets', str(tmp_path / 'data'), 'test')
  path = checkpoints.newest(str(tmp_path / 'run'))
  with tf.Graph().as_default():
    batch, _ = cifar10_input.eval_batches(split, len(images), image_size)
    op = tf.nn.softmax(cifar10.inference(batch))
    scaffold = tf.train.Scaffold(
      init_fn=lambda _, session: models.restore(session, path)
    )
    creator = tf.train.ChiefSessionCreator(scaffold)
    with tf.train.MonitoredSession(creator) as session:
      return session.run(op)


def predict(tmp_path, capsys, *names, **kwargs):
  """Returns the lines that are printed."""
  prediction.predict(
    list(names) or [str(tmp_path / 'in')],
    checkpoint_dir=str(tmp_path / 'run'),
    **kwargs,
  )
  return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize('batch_size', [1, 7, 20, 128])
def test_probabilities_are_those_of_evaluation(
  batch_size, run_dir, images, tmp_path, capsys
):
  lines = predict(
    tmp_path, capsys, batch_size=batch_size, top_k=99, as_json=True
  )
  assert len(lines) == 20
  expected = evaluated(tmp_path, images)
  assert len({row.argmax() for row in expected}) > 1  # it tells them apart
  for i, (line, row) in enumerate(zip(lines, expected)):
    found = json.loads(line)
    assert list(found) == ['path', 'predictions']
    assert found['path'] == str(tmp_path / 'in' / ('%02d.png' % i))
    assert [p['class'] for p in found['predictions']] == [
      NAMES[k] for k in np.argsort(-row)
    ]
    np.testing.assert_allclose(
      [p['probability'] for p in found['predictions']],
      np.sort(row)[::-1],
      rtol=1e-4,
      atol=1e-6,
    )


def test_the_size_is_that_of_the_run(tmp_path, images, capsys):
  (tmp_path / 'run').mkdir()
  save_random_network(tmp_path / 'run', image_size=32)
  checkpoints.write_run(
    str(tmp_path / 'run'), checkpoints.Run('pets', NAMES, 32, 'float32')
  )
  lines = predict(tmp_path, capsys, top_k=1, as_json=True)
  for line, row in zip(lines, evaluated(tmp_path, images, 32)):
    [best] = json.loads(line)['predictions']
    assert best['class'] == NAMES[row.argmax()]
    assert best['probability'] == pytest.approx(row.max(), rel=1e-4)


def test_a_line_of_text(run_dir, images, tmp_path, capsys):
  name = str(tmp_path / 'in' / '03.png')
  [line] = predict(tmp_path, capsys, name, top_k=2)
  row = evaluated(tmp_path, images[3:4])[0]
  first, second = np.argsort(-row)[:2]
  assert line == '%s  %s %.4f  %s %.4f' % (
    name,
    NAMES[first],
    row[first],
    NAMES[second],
    row[second],
  )


def test_what_is_no_picture_is_said_and_the_rest_goes_on(
  run_dir, images, tmp_path, capsys, caplog
):
  (tmp_path / 'in' / '05.png').write_text('none')
  (tmp_path / 'empty').mkdir()
  names = [str(tmp_path / name) for name in ('gone', 'empty', 'in')]
  with pytest.raises(Error, match='^3 of 22 could not be read') as raised:
    predict(tmp_path, capsys, *names, batch_size=4)
  assert raised.value.exit_status == 1
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[0][-6:-4] for line in lines] == [
    '%02d' % i for i in range(20) if i != 5
  ]
  assert [message.split(': ')[0] for message in caplog.messages] == [
    str(tmp_path / name) for name in ('gone', 'empty', 'in/05.png')
  ]


def test_nothing_but_what_is_no_picture(run_dir, tmp_path, capsys):
  with pytest.raises(Error, match='^1 of 1 could not be read'):
    predict(tmp_path, capsys, str(tmp_path / 'gone'))


def test_a_name_that_is_not_utf_8(run_dir, images, tmp_path):
  name = os.fsencode(tmp_path / 'in') + b'/\xff.png'
  os.rename(tmp_path / 'in' / '00.png', name)
  model = models.newest(str(run_dir))
  with prediction.Predictor(model) as predictor:
    [(path, row)] = prediction.predict_files(predictor, [os.fsdecode(name)])
  assert path == os.fsdecode(name)
  assert row.shape == (10,)


def test_classes_of_a_folder_without_run_json(images, tmp_path, capsys, rng):
  (tmp_path / 'run').mkdir()
  save_random_network(tmp_path / 'run')
  name = str(tmp_path / 'in' / '00.png')
  [line] = predict(tmp_path, capsys, name, top_k=10)
  assert set(line.split()[1::2]) == {*datasets.find_spec('cifar10').class_names}
  # Those of a data set of one's own are in its folder.
  data_dir = str(tmp_path / 'data')
  evaluated(tmp_path, images)
  [line] = predict(
    tmp_path, capsys, name, top_k=10, dataset='pets', data_dir=data_dir
  )
  assert set(line.split()[1::2]) == {*NAMES}
  with pytest.raises(checkpoints.CheckpointError, match='another kind of run'):
    predict(tmp_path, capsys, name, dataset='cifar100')


def test_coarse_labels(images, tmp_path, capsys):
  (tmp_path / 'run').mkdir()
  save_random_network(tmp_path / 'run', num_classes=20)
  name = str(tmp_path / 'in' / '00.png')
  given = {'dataset': 'cifar100', 'label': 'coarse'}
  [line] = predict(tmp_path, capsys, name, top_k=20, **given)
  names = datasets.find_spec('cifar100', 'coarse').class_names
  assert set(line.split()[1::2]) == {*names}


def test_another_size_than_the_runs(run_dir, images, tmp_path, capsys):
  # The weights would fit.
  with pytest.raises(checkpoints.CheckpointError, match='trained with 24'):
    predict(tmp_path, capsys, image_size=22)


def test_a_data_set_that_the_run_knows_need_not_be_there(
  run_dir, images, tmp_path, capsys
):
  given = {'dataset': 'pets', 'label': 'fine', 'image_size': 24}
  assert len(predict(tmp_path, capsys, **given)) == 20


def test_lines_stay_lines(run_dir, tmp_path, capsys, caplog):
  names = [tmp_path / name for name in ('a\nb.png', 'c\nd.png')]
  Image.new('RGB', (8, 8)).save(names[0])
  names[1].write_text('none')
  [line] = predict(tmp_path, capsys, str(names[0]))
  assert line.startswith(str(tmp_path / 'a\\nb.png') + '  ')
  [line] = predict(tmp_path, capsys, str(names[0]), as_json=True)
  assert json.loads(line)['path'] == str(names[0])
  with pytest.raises(Error):
    predict(tmp_path, capsys, str(names[1]))
  assert caplog.messages[-1].startswith(str(tmp_path / 'c\\nd.png') + ': ')


def test_json_is_ascii(run_dir, tmp_path, capsys):
  name = os.fsdecode(os.fsencode(tmp_path) + '/ü😀'.encode() + b'\xff.png')
  Image.new('RGB', (8, 8)).save(name)
  [line] = predict(tmp_path, capsys, name, as_json=True)
  assert line.isascii()
  assert json.loads(line)['path'] == name


def test_no_memory_for_a_batch(run_dir, images, tmp_path, monkeypatch, capsys):
  def fail(*_):
    raise tf.errors.ResourceExhaustedError(None, None, 'OOM')

  monkeypatch.setattr(tf.Session, 'run', fail)
  with pytest.raises(Error, match='OOM: give a smaller --batch_size'):
    predictor = object.__new__(prediction.Predictor)
    predictor._session = tf.Session()
    predictor._probabilities = predictor._images = None
    predictor(images)


def test_other_classes_than_the_runs(run_dir, images, tmp_path, capsys):
  with pytest.raises(checkpoints.CheckpointError, match='another --dataset'):
    predict(tmp_path, capsys, dataset='cifar10')


def test_without_a_checkpoint(tmp_path, images, capsys):
  with pytest.raises(
    checkpoints.CheckpointError, match='is not there: train first'
  ):
    predict(tmp_path, capsys)
  (tmp_path / 'run').write_text('x')
  with pytest.raises(checkpoints.CheckpointError, match='not a folder'):
    predict(tmp_path, capsys)


def test_a_folder_of_folders(run_dir, tmp_path, capsys, rng):
  write_folder(tmp_path / 'in', rng, b=2, a=1)
  assert [line.split()[0] for line in predict(tmp_path, capsys)] == [
    str(tmp_path / 'in' / name)
    for name in ('a/000.png', 'b/000.png', 'b/001.png')
  ]
