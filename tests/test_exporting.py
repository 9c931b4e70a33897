"""Exported models: what they answer, without a line of the package."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from networks import save_random_network
from pictures import gradient, random_images, write_gif
from PIL import Image

from cifar10 import Error, checkpoints, distortions, exporting, pictures
from cifar10 import cifar10 as network

NAMES = ('ant', 'red fox', 'übergroß', *'defghij')


@pytest.fixture
def run_dir(tmp_path):
  folder = tmp_path / 'run'
  folder.mkdir()
  save_random_network(folder)
  run = checkpoints.Run('pets', NAMES, 24, 'float32')
  checkpoints.write_run(str(folder), run)
  return folder


@pytest.fixture
def export(run_dir, tmp_path):
  def function(**kwargs):
    return exporting.export(
      checkpoint_dir=str(run_dir), export_dir=str(tmp_path / 'out'), **kwargs
    )

  return function


def logits_of(run_dir, images, image_size=24):
  """Returns what evaluation computes of pictures."""
  path = checkpoints.newest(str(run_dir))
  with tf.Graph().as_default(), tf.Session() as session:
    logits = network.inference(
      distortions.central_crops(tf.constant(images), image_size)
    )
    variables = {
      v.op.name + '/ExponentialMovingAverage': v
      for v in tf.trainable_variables()
    }
    checkpoints.restore(session, path, variables)
    return session.run(logits)


def run_signature(folder, name, **inputs):
  signature = tf.saved_model.load_v2(folder).signatures[name]
  inputs = {key: tf.constant(value) for key, value in inputs.items()}
  return {key: value.numpy() for key, value in signature(**inputs).items()}


def check_outputs(outputs, logits):
  np.testing.assert_array_equal(outputs['class_index'], logits.argmax(axis=1))
  assert [name.decode() for name in outputs['class_name']] == [
    NAMES[i] for i in logits.argmax(axis=1)
  ]
  # Up to a number for each picture, which softmax takes out.
  shifted = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  np.testing.assert_allclose(
    np.log(outputs['probabilities']), shifted, atol=1e-5, rtol=0
  )


@pytest.mark.parametrize('n', [1, 5, 130])
def test_it_equals_evaluation(n, export, run_dir, tmp_path, capsys):
  folder = export()
  assert folder == str(tmp_path / 'out' / '1')
  assert capsys.readouterr().out == folder + '\n'
  images = random_images(n)
  outputs = run_signature(folder, 'serving_default', images=images)
  logits = logits_of(run_dir, images)
  assert n == 1 or len({*logits.argmax(axis=1)}) > 1
  check_outputs(outputs, logits)


def test_encoded_pictures_of_any_kind_and_size(export, run_dir, tmp_path):
  names = [tmp_path / name for name in ('a.png', 'b.jpg', 'c.gif', 'd.bmp')]
  Image.fromarray(gradient(40, 70)).save(names[0])
  Image.fromarray(gradient(32, 32)).save(names[1], quality=70)
  write_gif(names[2], (200, 0, 0), (0, 0, 200))
  Image.fromarray(gradient(20, 20)).save(names[3])
  outputs = run_signature(
    export(), 'image_bytes', image_bytes=[path.read_bytes() for path in names]
  )
  images = [pixels for _, pixels in pictures.read_all(map(str, names))]
  check_outputs(outputs, logits_of(run_dir, np.stack(images)))


def test_only_stock_operations(export):
  loaded = tf.saved_model.load_v2(export())
  for name in ('serving_default', 'image_bytes'):
    graph = loaded.signatures[name].graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
      assert not any('XlaMustCompile' in key for key in function.attr)
      nodes += function.node_def
    operations = {node.op for node in nodes}
    assert 'LRN' in operations
    assert not {op for op in operations if op.startswith(('Xla', 'PyFunc'))}
    assert not any(node.device for node in nodes)


def test_the_size_is_that_of_the_run(export, run_dir):
  (run_dir / 'checkpoint').unlink()
  save_random_network(run_dir, 8, image_size=28)
  run = checkpoints.Run('pets', NAMES, 28, 'float32')
  checkpoints.write_run(str(run_dir), run)
  images = random_images(3)
  outputs = run_signature(export(), 'serving_default', images=images)
  check_outputs(outputs, logits_of(run_dir, images, 28))


def test_each_export_is_a_version_of_its_own(export, tmp_path):
  out = tmp_path / 'out'
  (out / '7').mkdir(parents=True)
  (out / 'notes.txt').write_text('x')
  assert export() == str(out / '8')
  before = {p: p.stat().st_mtime_ns for p in (out / '8').rglob('*')}
  assert export() == str(out / '9')
  assert {p: p.stat().st_mtime_ns for p in (out / '8').rglob('*')} == before
  assert sorted(os.listdir(out)) == ['7', '8', '9', 'notes.txt']


def test_a_version_that_another_process_has_just_written(
  export, tmp_path, monkeypatch
):
  rename = os.rename

  def beaten(source, target):
    if target.endswith('/1'):
      os.mkdir(target)
      pathlib.Path(target, 'theirs').touch()
    rename(source, target)

  monkeypatch.setattr(os, 'rename', beaten)
  assert export() == str(tmp_path / 'out' / '2')
  assert os.listdir(tmp_path / 'out' / '1') == ['theirs']


def test_tensorflow_lite(export, run_dir):
  folder = export(tflite=True)
  images = random_images(4)
  with pytest.warns(UserWarning, match='tf.lite.Interpreter is deprecated'):
    interpreter = tf.lite.Interpreter(folder + '/model.tflite')
  outputs = interpreter.get_signature_runner('serving_default')(images=images)
  check_outputs(outputs, logits_of(run_dir, images))


def test_a_lite_file_that_differs_is_not_exported(
  export, tmp_path, monkeypatch
):
  monkeypatch.setattr(exporting, '_TOLERANCE', -1)
  with pytest.raises(Error, match='gives other probabilities'):
    export(tflite=True)
  assert os.listdir(tmp_path / 'out') == []


def test_float16(export, run_dir):
  with pytest.raises(Error, match='--nouse_fp16 exports it in float32'):
    export(use_fp16=True, tflite=True)
  images = random_images(3)
  outputs = run_signature(
    export(use_fp16=True), 'serving_default', images=images
  )
  exact = np.exp(logits_of(run_dir, images))
  exact /= exact.sum(axis=1, keepdims=True)
  assert outputs['probabilities'].dtype == np.float32
  np.testing.assert_allclose(outputs['probabilities'], exact, atol=0.02)
  assert not np.array_equal(outputs['probabilities'], exact)


def test_what_a_killed_export_left_is_removed(export, tmp_path):
  left = tmp_path / 'out' / 'export.12345678.part'
  left.mkdir(parents=True)
  export()
  assert os.listdir(tmp_path / 'out') == ['1']


def test_a_folder_that_cannot_be_made(export, tmp_path):
  (tmp_path / 'out').write_text('x')
  with pytest.raises(
    Error, match='--export_dir=.*: File exists: name a folder'
  ):
    export()


def test_without_a_checkpoint(tmp_path):
  with pytest.raises(
    checkpoints.CheckpointError, match='is not there: train first'
  ):
    exporting.export(
      checkpoint_dir=str(tmp_path / 'gone'), export_dir=str(tmp_path / 'out')
    )
  assert not (tmp_path / 'out').exists()


@pytest.mark.process
def test_a_program_that_has_tensorflow_alone(export, run_dir, tmp_path):
  folder = export(tflite=True)
  images = random_images(50)
  np.save(tmp_path / 'images.npy', images)
  program = """
import sys
import numpy as np
import tensorflow as tf
images = np.load('images.npy')
served = tf.saved_model.load(sys.argv[1]).signatures['serving_default']
lite = tf.lite.Interpreter(sys.argv[1] + '/model.tflite')
for outputs in (
  served(images=tf.constant(images)),
  lite.get_signature_runner()(images=images),
):
  print(*np.asarray(outputs['class_index']))
assert not any(name.startswith('cifar10') for name in sys.modules)
"""
  process = subprocess.run(
    [sys.executable, '-I', '-c', program, folder],
    cwd=tmp_path,
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr
  expected = ' '.join(map(str, logits_of(run_dir, images).argmax(axis=1)))
  assert process.stdout.splitlines() == [expected, expected]
