"""From a folder of pictures to a served model, as people run it."""

import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest
from pictures import write_folder, write_records
from PIL import Image
from processes import ALARMING, command, losses, precision, run

from cifar10 import checkpoints, datasets

pytestmark = pytest.mark.process


@pytest.fixture
def pets(tmp_path, rng):
  """A folder of pictures, two classes that colour tells apart."""
  for split, count in (('train', 20), ('test', 4)):
    for name, colour in (('cat', (200, 60, 0)), ('red fox', (0, 60, 200))):
      folder = tmp_path / 'in' / split / name
      folder.mkdir(parents=True)
      for i in range(count):
        noise = rng.integers(0, 50, [40, 60, 3])
        pixels = (noise + colour).astype(np.uint8)
        Image.fromarray(pixels).save(folder / ('%d.jpg' % i), quality=95)
  return tmp_path / 'in'


def predict(*images, status=0, **flags):
  """Returns what predict.py prints: lines of output, and of error."""
  process = subprocess.run(
    [*command('predict', **flags), *map(str, images)],
    capture_output=True,
    text=True,
  )
  assert process.returncode == status, process.stderr
  assert not ALARMING.search(process.stderr), process.stderr
  return process.stdout.splitlines(), process.stderr.splitlines()


def test_five_commands(pets, tmp_path):
  data_dir, run_dir = tmp_path / 'data', tmp_path / 'run'
  (pets / 'train' / 'cat' / 'x.jpg').write_text('none')
  out, err = run(
    'prepare_data',
    action='from_folder',
    image_dir=pets,
    dataset='pets',
    data_dir=data_dir,
  )
  assert out[0].startswith('40 train examples in %s' % data_dir)
  assert out[1].startswith('8 test examples in %s' % data_dir)
  assert err[1:] == [
    '2 classes: cat 24, red fox 24',
    '1 of 49 files skipped: see above',
  ]
  flags = {'dataset': 'pets', 'data_dir': data_dir, 'batch_size': 8}
  out, _ = run(
    'train', train_dir=run_dir, max_steps=60, seed=1, image_size=28, **flags
  )
  assert losses(out)[0] == pytest.approx(np.log(2) + 3.2, abs=0.15)
  assert checkpoints.read_run(str(run_dir)).class_names == ('cat', 'red fox')
  out, _ = run(
    'eval',
    run_once=True,
    checkpoint_dir=run_dir,
    eval_dir=tmp_path / 'eval',
    data_dir=data_dir,
  )
  _, correct, total, step = precision(out)
  assert (total, step) == (8, 60)

  # Nothing but the folder of checkpoints is to be named; the count is the same.
  out, err = predict(pets / 'test', checkpoint_dir=run_dir, top_k=1)
  assert err == []
  assert len(out) == 8
  found = [re.fullmatch(r'(.+)  (cat|red fox) (\d\.\d{4})', s) for s in out]
  assert correct == sum(
    os.path.basename(os.path.dirname(m.group(1))) == m.group(2) for m in found
  )
  lines, err = predict(
    pets / 'test' / 'cat' / '0.jpg',
    pets / 'train' / 'cat' / 'x.jpg',
    status=1,
    checkpoint_dir=run_dir,
    json=True,
  )
  [line] = map(json.loads, lines)
  assert line['path'] == str(pets / 'test' / 'cat' / '0.jpg')
  assert sum(p['probability'] for p in line['predictions']) == pytest.approx(1)
  assert [p['class'] for p in line['predictions']] in (
    ['cat', 'red fox'],
    ['red fox', 'cat'],
  )
  assert 'x.jpg: no picture of a kind' in err[0]
  assert err[1] == 'predict.py: 1 of 2 could not be read: see above'

  for version in ('1', '2'):
    out, err = run(
      'export', checkpoint_dir=run_dir, export_dir=tmp_path / 'out', tflite=True
    )
    assert out == [str(tmp_path / 'out' / version)]
    assert err[0].startswith('Exporting ')
    assert err[1:] == ['model.tflite is there as well, and agrees with it']

  # The size is that of the run, and another one is refused.
  _, err = run('train', 1, train_dir=run_dir, max_steps=61, **flags)
  assert 'holds a run with image_size 28, not 24' in err[-1]


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_a_conversion_that_is_interrupted_leaves_nothing(signum, tmp_path, rng):
  write_folder(tmp_path / 'in', rng, a=4, b=4)
  # Far more names than files: the conversion takes a while.
  for i in range(20000):
    os.link(tmp_path / 'in' / 'a' / '000.png', tmp_path / 'in' / 'a' / str(i))
  process = subprocess.Popen(
    command(
      'prepare_data',
      action='from_folder',
      image_dir=tmp_path / 'in',
      dataset='pets',
      data_dir=tmp_path / 'data',
    ),
    stderr=subprocess.PIPE,
    text=True,
  )
  with process:
    while not list(tmp_path.glob('data/*.part/*/data_batch_1.bin')):
      assert process.poll() is None
    process.send_signal(signum)
    _, err = process.communicate(timeout=30)
  assert process.returncode == 128 + signum
  last = err.splitlines()[-1]
  assert last == 'prepare_data.py: interrupted by %s' % signum.name
  assert os.listdir(tmp_path / 'data') == []


def test_coarse_labels(tmp_path, rng):
  folder = tmp_path / 'data' / 'cifar-100-binary'
  folder.mkdir(parents=True)
  for name in ('train.bin', 'test.bin'):
    fine = np.arange(100, dtype=np.uint8)
    images = rng.integers(0, 256, [100, 32, 32, 3], np.uint8)
    write_records(folder / name, np.stack([fine // 5, fine], axis=1), images)
  flags = {'data_dir': tmp_path / 'data', 'batch_size': 8}
  run_dir = tmp_path / 'run'
  out, _ = run(
    'train',
    train_dir=run_dir,
    dataset='cifar100',
    label='coarse',
    max_steps=2,
    **flags,
  )
  assert losses(out)[0] == pytest.approx(np.log(20) + 2.36, abs=0.15)
  found = checkpoints.read_run(str(run_dir))
  names = datasets.find_spec('cifar100', 'coarse').class_names
  assert (found.label, found.class_names) == ('coarse', names)
  eval_flags = {
    'run_once': True,
    'checkpoint_dir': run_dir,
    'eval_dir': tmp_path / 'eval',
    **flags,
  }
  out, _ = run('eval', **eval_flags)
  assert precision(out)[2:] == (100, 2)
  _, err = run('eval', 1, label='fine', **eval_flags)
  assert 'the run was trained on the classes aquatic_mammals fish' in err[-1]
  Image.new('RGB', (32, 32)).save(tmp_path / 'x.png')
  [line], _ = predict(tmp_path / 'x.png', checkpoint_dir=run_dir, top_k=20)
  assert {*line.split()[1::2]} == {*names}
