"""Flags: their defaults, and that none is ever ignored."""

import importlib
import inspect
import logging
import os
import pathlib
import platform
import re
import signal
import sys

import command_line
import pytest
import training_flags

from cifar10 import (
  Error,
  Interrupted,
  UsageError,
  cluster,
  evaluation,
  training,
)

DATA = {
  'data_dir': '/tmp/cifar10_data',
  'dataset': 'cifar10',
  'label': 'fine',
}
NETWORK = {'batch_size': 128, 'use_fp16': False, 'image_size': 24}
TRAINED = {'checkpoint_dir': '/tmp/cifar10_train', 'use_raw_weights': False}
TRAINING = {
  **DATA,
  **NETWORK,
  'train_dir': '/tmp/cifar10_train',
  'max_steps': 100000,
  'log_device_placement': False,
  'log_frequency': 10,
  'overwrite': False,
  'finetune_from': None,
  'seed': None,
  'min_queue_fraction': 0.4,
  'num_preprocess_threads': 1,
  'learning_rate': 0.1,
  'save_checkpoint_secs': 600,
  'save_checkpoint_steps': None,
  'save_summaries_steps': 100,
  'max_to_keep': 5,
}
CLUSTER = {
  'sync_replicas': False,
  'replicas_to_aggregate': None,
  'start_timeout_secs': 600,
}
TASK = dict.fromkeys(
  ['job_name', 'task_index', 'ps_hosts', 'worker_hosts', 'chief_host']
)
FLAGS = {
  'train': {**TRAINING, **CLUSTER, **TASK},
  'multi_gpu_train': {
    **TRAINING,
    **CLUSTER,
    **TASK,
    'max_steps': 1000000,
    'num_gpus': 1,
  },
  'local_cluster': {
    **TRAINING,
    **CLUSTER,
    'num_workers': 1,
    'num_ps': 1,
    'evaluator': False,
    'max_restarts': 3,
  },
  'eval': {
    **DATA,
    **NETWORK,
    'eval_dir': '/tmp/cifar10_eval',
    'eval_data': 'test',
    **TRAINED,
    'eval_interval_secs': 300,
    'num_examples': 10000,
    'run_once': False,
    'idle_timeout_secs': 0,
    'per_class': False,
    'predictions': None,
  },
  'predict': {**DATA, **NETWORK, **TRAINED, 'top_k': 3, 'json': False},
  'export': {
    **DATA,
    **TRAINED,
    'use_fp16': False,
    'image_size': 24,
    'export_dir': '/tmp/cifar10_export',
    'tflite': False,
  },
  'prepare_data': {
    **DATA,
    'action': 'download',
    'image_dir': None,
    'test_fraction': None,
    'seed': 0,
  },
}


@pytest.fixture(params=FLAGS)
def script(request):
  """A script, imported as a module that nobody has imported before."""
  sys.modules.pop(request.param, None)
  return importlib.import_module(request.param)


def exit_of(values, monkeypatch, *words, main=lambda: None, **kwargs):
  """Returns the exit status of a script called with `words`."""
  # What the script sets in the environment does not outlive the test.
  monkeypatch.setattr(os, 'environ', os.environ.copy())
  monkeypatch.setattr(sys, 'argv', ['scripts/script.py', *words])
  monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '3')
  monkeypatch.setattr(logging.getLogger('cifar10'), 'handlers', [])
  monkeypatch.setattr(signal, 'signal', lambda *_: None)
  with pytest.raises(SystemExit) as e:
    command_line.run(main, values, 'What it does.', **kwargs)
    sys.exit(0)
  return e.value.code


def test_defaults_are_those_of_the_contract(script, monkeypatch):
  assert exit_of(script.FLAGS, monkeypatch) == 0
  assert command_line.arguments(script.FLAGS) == FLAGS[script.__name__]


def test_docs_list_every_flag_with_its_default(script):
  page = pathlib.Path(__file__).parent.parent / 'docs' / 'flags.md'
  rows = re.findall(
    r'^\| `(\w+)` \| (.+?) \| (.+?) \|', page.read_text(), re.MULTILINE
  )
  short = {'multi_gpu_train': 'multi', 'local_cluster': 'local'}
  name = short.get(script.__name__, script.__name__)
  listed = {
    flag: default.strip('`')
    for flag, default, scripts in rows
    if name in scripts.split(', ') or scripts == 'all'
  }
  assert listed == {
    flag: 'none' if default is None else str(default)
    for flag, default in FLAGS[script.__name__].items()
  }


def test_importing_again_and_beside_others_defines_nothing_twice():
  for _ in range(2):
    for name in FLAGS:
      sys.modules.pop(name, None)
      importlib.import_module(name)


@pytest.mark.parametrize('word', ['-h', '--help'])
def test_help(script, word, monkeypatch, capsys):
  assert exit_of(script.FLAGS, monkeypatch, word) == 0
  out, err = capsys.readouterr()
  assert out.startswith('What it does.')
  listed = re.findall(r'^  --(?:\[no\])?(\w+)', out, re.MULTILINE)
  assert sorted(listed) == sorted(FLAGS[script.__name__])
  assert max(map(len, out.splitlines())) < 80
  assert err == ''


@pytest.mark.parametrize(
  'words, said',
  [
    (['--nosuch=1'], "Unknown command line flag 'nosuch'"),
    (['word'], "unexpected word 'word'"),
    (['--batch_size', '0'], '--batch_size=0'),
    (['--batch_size', '-3'], '--batch_size=-3'),
    (['--batch_size', 'x'], '--batch_size=x'),
    (['--batch_size', '100001'], '--batch_size=100001'),
    (['--batch_size'], '--batch_size'),
    (['--use_fp16', 'False'], "unexpected word 'False'"),
    (['--use_fp16=maybe'], '--use_fp16=maybe'),
    (['--data_dir='], '--data_dir='),
    (['--data_dir=\udcff'], 'UTF-8'),
    (['--train_dir=run[1]'], 'patterns'),
    (['--max_steps', 'x'], '--max_steps=x'),
    (['--min_queue_fraction', '7'], '--min_queue_fraction=7'),
    (['--min_queue_fraction', '0'], '--min_queue_fraction=0'),
    (['--learning_rate', 'nan'], '--learning_rate=nan'),
    (['--learning_rate', 'inf'], '--learning_rate=inf'),
    (['--learning_rate', '-1'], '--learning_rate=-1'),
    (['--seed', '-1'], '--seed=-1'),
    (
      ['--save_checkpoint_secs=600', '--save_checkpoint_steps=5'],
      'save_checkpoint_secs=600, save_checkpoint_steps=5: exclude each other',
    ),
    (['--flagfile=/nowhere'], '/nowhere'),
    (['--undefok=nosuch', '--nosuch=1'], '--undefok'),
    (['--train_dir=ram://x'], 'must be a folder of this machine'),
    (['--data_dir=file:///x'], 'must be a folder of this machine'),
  ],
)
def test_what_is_wrong_is_named_in_one_line(words, said, monkeypatch, capsys):
  values = command_line.new_flags()
  training_flags.define(values, 1)
  assert exit_of(values, monkeypatch, *words) == 2
  out, err = capsys.readouterr()
  assert out == ''
  assert err.startswith('script.py: ')
  assert said in err
  assert err.count('\n') == 1


@pytest.mark.parametrize(
  'word, said',
  [
    ('--predictions=', 'must name a file'),
    ('--predictions=gs://x.csv', 'must be a file of this machine'),
  ],
)
def test_the_name_of_a_file(word, said, monkeypatch, capsys):
  values = command_line.new_flags()
  command_line.define_file(values, 'predictions', 'a file')
  assert exit_of(values, monkeypatch, word) == 2
  assert said in capsys.readouterr().err
  home = os.path.expanduser('~/x.csv')
  assert exit_of(values, monkeypatch, '--predictions=~/x.csv') == 0
  assert values.predictions == home


@pytest.mark.parametrize(
  'content, said',
  [
    (b'\xff\xfe', 'no text in UTF-8'),
    (b'--undefok=foo\n--foo=1\n', '--undefok: no flag is ever ignored'),
    (b'--foo=1\n', "Unknown command line flag 'foo'"),
  ],
)
def test_flags_in_a_file(content, said, tmp_path, monkeypatch, capsys):
  (tmp_path / 'flags').write_bytes(content)
  words = ['--flagfile=%s' % (tmp_path / 'flags')]
  assert exit_of(command_line.new_flags(), monkeypatch, *words) == 2
  assert said in capsys.readouterr().err


@pytest.mark.parametrize(
  'error, status',
  [
    (Error('what\nwhere'), 1),
    (UsageError('what where'), 2),
    (Interrupted('what where', 15), 143),
    (OSError('what where'), 1),
  ],
)
def test_exit_status(error, status, monkeypatch, capsys):
  def main():
    raise error

  values = command_line.new_flags()
  assert exit_of(values, monkeypatch, main=main) == status
  said = '' if type(error) is not OSError else 'standard output, or a file: '
  assert capsys.readouterr().err == 'script.py: %swhat where\n' % said


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize('meanwhile', ['passed on', 'made another'])
def test_a_signal_ends_it_whatever_a_library_makes_of_it(
  signum, meanwhile, monkeypatch, capsys
):
  def main():
    try:
      os.kill(os.getpid(), signum)
    except BaseException as e:
      if meanwhile == 'passed on':
        raise
      raise SystemError('error return without exception set') from e

  monkeypatch.setattr(command_line, '_received', [])
  handler = signal.signal(signum, command_line._interrupt)
  try:
    assert exit_of(command_line.new_flags(), monkeypatch, main=main) == (
      128 + signum
    )
  finally:
    monkeypatch.undo()
    signal.signal(signum, handler)
  said = 'script.py: interrupted by %s\n' % signum.name
  assert capsys.readouterr().err == said


def test_what_is_not_given_may_count_as_none(monkeypatch):
  values = command_line.new_flags()
  command_line.define_data_flags(values)
  assert exit_of(values, monkeypatch, '--data_dir=x') == 0
  assert command_line.arguments(values, 'data_dir', 'dataset') == {
    'data_dir': 'x',
    'dataset': None,
    'label': 'fine',
  }


@pytest.mark.parametrize(
  'words, before, after',
  [
    ([], None, '1'),
    (['--use_fp16'], None, '0'),
    ([], '0', '0'),
    (['--use_fp16'], '1', '1'),
  ],
)
def test_kernels_on_cpus(words, before, after, monkeypatch):
  monkeypatch.setattr(platform, 'machine', lambda: 'x86_64')
  monkeypatch.delenv('TF_ENABLE_ONEDNN_OPTS', raising=False)
  if before:
    monkeypatch.setenv('TF_ENABLE_ONEDNN_OPTS', before)
  values = command_line.new_flags()
  command_line.define_network_flags(values)
  assert exit_of(values, monkeypatch, *words) == 0
  assert os.environ['TF_ENABLE_ONEDNN_OPTS'] == after


def test_a_folder_may_begin_with_a_tilde(monkeypatch):
  monkeypatch.setenv('HOME', '/home/me')
  values = command_line.new_flags()
  command_line.define_data_flags(values)
  assert exit_of(values, monkeypatch, '--data_dir=~/data[1]') == 0
  assert values.data_dir == '/home/me/data[1]'


def test_flags_are_the_arguments_of_the_functions_that_they_are_for():
  def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters}

  none = dict.fromkeys(['num_gpus', 'cluster'])
  assert defaults(training.Settings) == {**TRAINING, **CLUSTER, **none}
  assert defaults(cluster.resolve) == {
    'environ': inspect.Parameter.empty,
    **TASK,
  }
  others = dict.fromkeys([*command_line.RUN_FLAGS, 'last_step'])
  assert defaults(evaluation.Settings) == {**FLAGS['eval'], **others}


@pytest.mark.parametrize(
  'name, words, status, said',
  [
    ('predict', [], 2, 'name pictures, as in'),
    ('predict', ['x', '--nosuch'], 2, "Unknown command line flag 'nosuch'"),
    ('predict', ['x', '--top_k=0'], 2, '--top_k=0'),
    ('predict', ['x'], 1, 'checkpoint_dir is not there'),
    ('export', ['x'], 2, "unexpected word 'x'"),
    ('export', [], 1, 'checkpoint_dir is not there'),
    ('prepare_data', ['--action=from_folder'], 2, 'needs --dataset'),
    (
      'prepare_data',
      ['--action=from_folder', '--dataset=x'],
      2,
      'needs --image_dir',
    ),
    ('prepare_data', ['--action=svhn'], 2, 'needs --image_dir'),
    (
      'prepare_data',
      ['--image_dir=x'],
      2,
      '--image_dir goes with --action=from',
    ),
    ('prepare_data', ['--dataset=svhn'], 2, '--action=svhn does'),
    ('prepare_data', ['--test_fraction=1'], 2, '--test_fraction=1'),
    ('prepare_data', ['--label=coarse'], 2, '--label=coarse'),
    ('train', ['--image_size=33'], 2, '--image_size=33'),
    ('train', ['--label=coarse'], 2, 'cifar10 has one label only'),
    ('eval', ['--label=coarse', '--dataset=sample'], 2, 'one label only'),
  ],
)
def test_what_is_wrong_with_a_script(
  name, words, status, said, tmp_path, monkeypatch, capsys
):
  sys.modules.pop(name, None)
  script = importlib.import_module(name)
  for flag in ('checkpoint_dir', 'train_dir', 'data_dir'):
    if flag in script.FLAGS:
      words = [*words, '--%s=%s' % (flag, tmp_path / flag)]
  takes = {'words': 'pictures'} if name == 'predict' else {}
  status_found = exit_of(
    script.FLAGS,
    monkeypatch,
    *words,
    main=script.main,
    unless_given=command_line.RUN_FLAGS,
    **takes,
  )
  out, err = capsys.readouterr()
  assert status_found == status
  assert said in err
  assert (out, err.count('\n')) == ('', 1)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  'words',
  [
    ['--action=sample', '--dataset=cifar10'],
    ['--action=download', '--dataset=sample'],
    ['--action=download', '--dataset=mine'],
  ],
)
def test_an_action_that_does_not_go_with_the_data_set(
  words, tmp_path, monkeypatch, capsys
):
  sys.modules.pop('prepare_data', None)
  script = importlib.import_module('prepare_data')
  words = [*words, '--data_dir=%s' % tmp_path]
  assert exit_of(script.FLAGS, monkeypatch, *words, main=script.main) == 2
  assert 'does not go with --dataset' in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


def test_banners_are_left_out_and_the_rest_is_kept(
  tmp_path, monkeypatch, capfd
):
  (tmp_path / 'noisy.py').write_text(
    'import os\n'
    "os.write(2, b'WARNING: All log messages before absl::Init\\n')\n"
    "os.write(2, b'I0000 00:00:1.2 3 port.cc:153] oneDNN\\n')\n"
    "os.write(2, b'worth reading\\n')\n"
  )
  monkeypatch.syspath_prepend(str(tmp_path))
  assert command_line.import_quietly('noisy').__name__ == 'noisy'
  assert capfd.readouterr().err == 'worth reading\n'
  with pytest.raises(ImportError):
    command_line.import_quietly('not_there')
