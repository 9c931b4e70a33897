"""The benchmark runs on both sides; no speed is asserted."""

import argparse
import json
import pathlib
import subprocess
import sys

import bench as bench_module
import pytest

pytestmark = pytest.mark.process

BENCH = pathlib.Path(__file__).parent.parent / 'benchmarks' / 'bench.py'
NUMBERS = {
  'input': ['images/s', 'CPU-ms a batch'],
  'lrn': ['forward, ms', 'with gradient, ms', 'CPU-ms'],
  'step': ['ms a step', 'examples/s', 'matmul peak, GFLOP/s', 'share of peak'],
  'startup': ['to first step, s', 'import, s', 'without import, s'],
  'run': [
    'whole run, s',
    'resident after a tenth, MB',
    'resident at the end, MB',
  ],
  'eval': ['whole evaluation, s', 'images/s', 'CPU-s'],
  'cluster': ['step, ms'],
}


def bench(tmp_path, what, *words):
  return subprocess.run(
    [
      sys.executable,
      str(BENCH),
      '--what=' + what,
      '--pairs=1',
      '--steps=2',
      '--data_dir=%s' % tmp_path,
      *words,
    ],
    capture_output=True,
    text=True,
  )


@pytest.mark.parametrize('what', NUMBERS)
def test_every_side_is_measured(what, tmp_path):
  file = tmp_path / 'result.json'
  process = bench(tmp_path, what, '--json=%s' % file)
  assert process.returncode == 0, process.stderr
  result = json.loads(file.read_text())
  assert result['machine']['cores'] >= 1
  sides = result['what'][what]
  assert [*sides] == [*bench_module.SIDES[what]]
  for side, (turn,) in sides.items():
    assert turn.keys() >= {*NUMBERS[what], 'peak memory, MB'}
    assert all(value > 0 for value in turn.values())
    assert process.stdout.count(' %s ' % side) == len(turn)


def test_a_side_that_fails_is_an_error(tmp_path):
  process = bench(tmp_path, 'step', '--dataset=nosuch')
  assert process.returncode != 0
  assert 'nosuch' in process.stderr
  # The same when it fails in a turn, after the data was found to be there.
  args = argparse.Namespace(
    data_dir=str(tmp_path), dataset='nosuch', steps=2, pairs=1
  )
  with pytest.raises(SystemExit, match='step, ours failed'):
    bench_module.run_side('step', 'ours', args, str(tmp_path))
