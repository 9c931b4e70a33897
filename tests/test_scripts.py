"""The scripts as people run them: processes, real files, real signals."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from processes import (
  ALARMING,
  ROOT,
  command,
  losses,
  past_step_3,
  precision,
  run,
)

from cifar10 import checkpoints, datasets

pytestmark = pytest.mark.process


def test_train_resume_towers_and_evaluate(sample_run, sample, tmp_path):
  out, err = run('train', max_steps=12, **sample_run)
  assert out[0].startswith('Filling queue with 4000 CIFAR')
  assert list(losses(out)) == [0, 10]
  assert 4.6 < losses(out)[0] < 4.8
  assert err[0] == 'Starting a new run in %s' % sample_run['train_dir']
  begins = [
    'Data: sample',
    'Training: ',
    'Checkpoints: ',
    'Trained: steps 0 to 12',
  ]
  assert [line.startswith(s) for line, s in zip(err[1:], begins)] == [True] * 4
  assert err[5].startswith('Evaluate it: python ') and len(err) == 6

  out, err = run('train', max_steps=14, log_frequency=1, **sample_run)
  assert list(losses(out)) == [12, 13]
  assert err[0] == (
    'Resuming from %s/model.ckpt-12 at step 12' % sample_run['train_dir']
  )
  # The command that it ends with is one to copy: it runs as it stands.
  words = shlex.split(err[-1].removeprefix('Evaluate it: '))
  process = subprocess.run(
    [sys.executable, *words[1:]], capture_output=True, text=True
  )
  assert precision(process.stdout.splitlines())[2:] == (2000, 14)

  out, err = run('multi_gpu_train', max_steps=17, num_gpus=2, **sample_run)
  assert list(losses(out)) == [14]
  assert err[0] == '2 towers on /cpu:0, /cpu:0 (0 GPUs found)'

  flags = {
    'data_dir': sample['data_dir'],
    'checkpoint_dir': sample_run['train_dir'],
    'eval_dir': tmp_path / 'eval',
  }
  # The run says which data set it was trained on.
  out, _ = run('eval', run_once=True, **flags)
  value, correct, total, step = precision(out)
  assert (total, step) == (2000, 17)
  assert '%.3f' % value == '%.3f' % (correct / total)
  out, _ = run('eval', run_once=True, batch_size=33, **flags)
  assert precision(out) == (value, correct, total, step)

  before = sorted(sample_run['train_dir'].iterdir())
  out, err = run('train', max_steps=17, **sample_run)
  assert out == []
  assert 'Nothing to do' in err[0]
  assert sorted(sample_run['train_dir'].iterdir()) == before


def test_the_run_is_saved_when_nobody_reads_its_lines(sample_run):
  with past_step_3(**sample_run) as process:
    process.stdout.close()
    err = process.stderr.read()
  assert process.returncode == 1
  assert 'standard output: Broken pipe: stopped, the run is saved' in err
  path = checkpoints.newest(str(sample_run['train_dir']))
  assert checkpoints.read_global_step(path) > 3


def test_without_output_streams(sample_run):
  words = command('train', max_steps=1, **sample_run)
  process = subprocess.run(['sh', '-c', '"$@" >&- 2>&-', 'sh', *words])
  assert process.returncode == 0
  assert checkpoints.newest(str(sample_run['train_dir'])).endswith('ckpt-1')


def test_placement_goes_to_standard_error(sample_run):
  process = subprocess.run(
    command('train', max_steps=1, log_device_placement=True, **sample_run),
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0
  assert list(losses(process.stdout.splitlines())) == [0]
  assert 'conv1/Conv2D: (Conv2D)' in process.stderr


def test_a_run_that_diverges_ends_with_one_line(sample_run):
  process = subprocess.run(
    command('train', max_steps=99, learning_rate=1e25, **sample_run),
    capture_output=True,
    text=True,
  )
  assert process.returncode == 1
  starting, *_, said = process.stderr.splitlines()
  assert 'not finite' in said
  assert str(sample_run['train_dir']) in said


def test_train_draws_what_is_not_there(tmp_path):
  out, err = run(
    'train',
    dataset='sample',
    data_dir=tmp_path / 'data',
    train_dir=tmp_path / 'run',
    batch_size=4,
    max_steps=1,
    cwd=tmp_path,
  )
  assert list(losses(out)) == [0]
  assert err[0] == 'Drawing the sample data set in %s' % (tmp_path / 'data')
  assert sorted(path.name for path in tmp_path.iterdir()) == ['data', 'run']


def test_without_network_one_line_says_what_to_do(tmp_path):
  environment = {**os.environ, 'https_proxy': 'http://127.0.0.1:9'}
  process = subprocess.run(
    command('train', data_dir=tmp_path / 'data', train_dir=tmp_path / 'run'),
    capture_output=True,
    text=True,
    env=environment,
  )
  assert process.returncode == 1
  line = process.stderr.splitlines()[-1]
  assert 'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz' in line
  assert str(tmp_path / 'data' / 'cifar-10-binary.tar.gz') in line
  assert '--dataset=sample' in line
  assert not (tmp_path / 'run').exists()
  assert list((tmp_path / 'data').iterdir()) == []


@pytest.mark.parametrize(
  'script, words, said',
  [
    ('eval', ['--run_once', 'False'], 'False'),
    ('train', ['--batch_size', '0'], 'batch_size'),
    ('train', ['--max_steps', 'x'], 'max_steps'),
    ('train', ['--min_queue_fraction', '7'], 'min_queue_fraction'),
    ('train', ['--dataset', 'nosuch'], 'nosuch'),
    ('eval', ['--eval_data', 'both'], 'both'),
    ('eval', ['--dataset', 'nosuch'], 'nosuch'),
    ('multi_gpu_train', ['--num_gpus', '0'], 'num_gpus'),
    ('prepare_data', ['--unknown'], 'unknown'),
  ],
)
def test_wrong_flags(script, words, said, tmp_path):
  flags = {'data_dir': tmp_path / 'data'}
  if 'train' in script:
    flags['train_dir'] = tmp_path / 'run'
  if script == 'eval':
    flags['checkpoint_dir'] = tmp_path / 'run'
    flags['eval_dir'] = tmp_path / 'eval'
  process = subprocess.run(
    [*command(script, **flags), *words], capture_output=True, text=True
  )
  assert process.returncode == 2
  assert process.stdout == ''
  assert process.stderr.count('\n') == 1
  assert said in process.stderr
  assert not list(tmp_path.iterdir())


def test_the_same_seed_prints_the_same_losses_under_load(sample_run, tmp_path):
  flags = {**sample_run, 'max_steps': 8, 'log_frequency': 1, 'seed': 5}
  quiet, _ = run('train', **flags)
  with subprocess.Popen([sys.executable, '-c', 'while True: pass']) as busy:
    try:
      flags['train_dir'] = tmp_path / 'again'
      loaded, _ = run('train', **flags)
    finally:
      busy.kill()
  assert losses(quiet) == losses(loaded)


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_next_run_goes_on(signum, sample_run):
  with past_step_3(**sample_run) as process:
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
  assert process.returncode == 128 + signum
  assert not ALARMING.search(err)
  assert err.splitlines()[-1].endswith(
    'the run is saved in %s' % sample_run['train_dir']
  )
  last = int(re.findall(r'step (\d+),', out)[-1]) if 'step' in out else 3
  flags = {**sample_run, 'max_steps': last + 3, 'log_frequency': 1}
  out, _ = run('train', **flags)
  assert list(losses(out)) == [last + 1, last + 2]


def test_main_twice_in_one_process(sample_run, sample, tmp_path):
  code = (
    'import sys; sys.path.insert(0, %r)\n'
    'import cifar10.cifar10, train, eval as evaluating\n'
    'import cifar10.cifar10, train, eval as evaluating\n'
    'import tensorflow as tf; assert tf.executing_eagerly()\n'
    'tf.get_logger().setLevel("ERROR")\n'
    'train.FLAGS(["x", %s]); evaluating.FLAGS(["x", %s])\n'
    'for steps in (1, 2):\n'
    '  train.FLAGS.max_steps = steps\n'
    '  train.main(); evaluating.main()\n'
  )
  train_flags = command('train', **sample_run)[2:]
  eval_flags = command(
    'eval',
    data_dir=sample['data_dir'],
    checkpoint_dir=sample_run['train_dir'],
    eval_dir=tmp_path / 'eval',
    run_once=True,
  )[2:]
  process = subprocess.run(
    [
      sys.executable,
      '-c',
      code
      % (
        str(ROOT / 'scripts'),
        ', '.join(map(repr, train_flags)),
        ', '.join(map(repr, eval_flags)),
      ),
    ],
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr
  assert re.findall('correct, step (.)', process.stdout) == ['1', '2']
  assert 'step 0,' in process.stdout and 'step 1,' in process.stdout


def save_as_the_original_did(directory, step_type):
  """Saves what the original program's graph held, with stock ops alone.

  Its multi-GPU script kept the step as a float, and no averages of losses.
  """
  directory.mkdir()
  shapes = {
    'conv1': ([5, 5, 3, 64], [64]),
    'conv2': ([5, 5, 64, 64], [64]),
    'local3': ([2304, 384], [384]),
    'local4': ([384, 192], [192]),
    'softmax_linear': ([192, 10], [10]),
  }
  with tf.Graph().as_default(), tf.Session() as session:
    step = tf.Variable(7, dtype=step_type, name='global_step')
    variables = []
    for layer, (weights, biases) in shapes.items():
      with tf.variable_scope(layer, use_resource=False):
        variables += [
          tf.get_variable(
            'weights',
            weights,
            initializer=tf.truncated_normal_initializer(stddev=0.04),
          ),
          tf.get_variable('biases', biases),
        ]
    averages = tf.train.ExponentialMovingAverage(0.9999, step).apply(variables)
    if step_type == tf.int64:
      for name in ('total_loss', 'cross_entropy'):
        tf.Variable(1.5, name=name + '/avg')
      for layer in ('local3', 'local4'):
        tf.Variable(1.5, name=layer + '/weight_loss/avg')
    # The averages start at the variables' values.
    session.run(tf.variables_initializer([step, *variables]))
    session.run(tf.variables_initializer(tf.global_variables()))
    session.run(averages)
    path = str(directory / 'model.ckpt')
    tf.train.Saver().save(session, path, global_step=7)


@pytest.mark.parametrize('step_type', [tf.int64, tf.float32])
def test_the_originals_checkpoints_evaluate_and_resume(
  step_type, sample_run, sample, tmp_path
):
  train_dir = sample_run['train_dir']
  save_as_the_original_did(train_dir, step_type)
  out, _ = run(
    'eval',
    run_once=True,
    num_examples=200,
    checkpoint_dir=train_dir,
    eval_dir=tmp_path / 'eval',
    **sample,
  )
  assert precision(out)[2:] == (200, 7)
  out, err = run('train', max_steps=9, log_frequency=1, **sample_run)
  assert list(losses(out)) == [7, 8]
  assert err[0].endswith('model.ckpt-7 at step 7')
  path = checkpoints.newest(str(train_dir))
  assert tf.train.load_variable(path, 'global_step').dtype == np.int64
  average = tf.train.load_variable(path, 'total_loss/avg')
  start = 1.5 if step_type == tf.int64 else 0.0
  expected = start
  for loss in losses(out).values():
    expected = 0.9 * expected + 0.1 * loss
  assert average == pytest.approx(expected, abs=0.01)
  with open(train_dir / 'run.json', encoding='utf-8') as f:
    assert json.load(f)['dataset'] == 'sample'


def test_fp16_ends_near_float32_and_is_evaluated(sample, tmp_path):
  last = {}
  for use_fp16 in (False, True):
    train_dir = tmp_path / str(use_fp16)
    out, err = run(
      'train',
      train_dir=train_dir,
      batch_size=32,
      max_steps=100,
      log_frequency=99,
      seed=1,
      # At higher rates this batch size is chaotic on the sample set: runs that
      # differ by rounding alone part, in float32 too.
      learning_rate=0.02,
      use_fp16=use_fp16,
      **sample,
    )
    last[use_fp16] = losses(out)[99]
    slower = [line for line in err if 'slower' in line]
    assert len(slower) == use_fp16
  assert last[True] == pytest.approx(last[False], abs=0.1)
  key = 'conv2/biases/ExponentialMovingAverage'
  average = tf.train.load_variable(str(train_dir), key)
  assert average.dtype == np.float32
  assert (average != np.float32(0.1)).all()
  out, _ = run(
    'eval',
    run_once=True,
    num_examples=200,
    data_dir=sample['data_dir'],
    checkpoint_dir=train_dir,
    eval_dir=tmp_path / 'eval',
  )
  assert precision(out)[2:] == (200, 100)


def test_cifar100_has_a_hundred_classes(tmp_path, rng):
  folder = tmp_path / 'data' / 'cifar-100-binary'
  folder.mkdir(parents=True)
  for name in ('train.bin', 'test.bin'):
    records = rng.integers(0, 256, [200, 3074], np.uint8)
    records[:, 0] %= 20
    records[:, 1] = np.arange(200) % 100
    (folder / name).write_bytes(records.tobytes())
  flags = {'data_dir': tmp_path / 'data', 'batch_size': 8}
  out, _ = run(
    'train',
    train_dir=tmp_path / 'run',
    dataset='cifar100',
    max_steps=2,
    **flags,
  )
  assert losses(out)[0] == pytest.approx(np.log(100) + 2.36, abs=0.15)
  run_json = checkpoints.read_run(str(tmp_path / 'run'))
  assert run_json.class_names == datasets.find_spec('cifar100').class_names
  out, _ = run(
    'eval',
    run_once=True,
    checkpoint_dir=tmp_path / 'run',
    eval_dir=tmp_path / 'eval',
    **flags,
  )
  assert precision(out)[2:] == (200, 2)


@pytest.mark.data
def test_real_pictures(real_data, tmp_path):
  out, _ = run(
    'train',
    data_dir=real_data,
    train_dir=tmp_path / 'run',
    max_steps=121,
    seed=1,
  )
  assert out[0].startswith('Filling queue with 20000 CIFAR')
  assert 4.6 < losses(out)[0] < 4.8
  assert losses(out)[120] < losses(out)[0] - 0.3
  out, _ = run(
    'eval',
    run_once=True,
    data_dir=real_data,
    checkpoint_dir=tmp_path / 'run',
    eval_dir=tmp_path / 'eval',
  )
  value, _, total, step = precision(out)
  assert (total, step) == (10000, 121)
  assert value > 0.25
