"""The learning curve: a point for each checkpoint, and a picture."""

import learning_curve
import numpy as np
from networks import save_random_network
from PIL import Image

from cifar10 import datasets, evaluation


def test_a_line_for_each_checkpoint(small_data, tmp_path, monkeypatch, capsys):
  (tmp_path / 'run').mkdir()
  paths = [save_random_network(tmp_path / 'run', step) for step in (10, 15, 20)]
  index = tmp_path / 'run' / 'checkpoint'
  index.write_text(
    'model_checkpoint_path: "model.ckpt-20"\n'
    + ''.join(
      'all_model_checkpoint_paths: "model.ckpt-%d"\n' % s for s in (10, 15, 20)
    )
  )
  words = ['--train_dir=%s' % (tmp_path / 'run'), '--dataset=small']
  words += ['--data_dir=%s' % small_data, '--every=10', '--secs_per_step=0.1']
  words.append('--out=%s' % (tmp_path / 'curve'))
  monkeypatch.setattr('sys.argv', ['learning_curve.py', *words])
  learning_curve.main()
  split = datasets.load('small', str(small_data), 'test')
  correct = [
    evaluation.evaluate_once(path, split, 20, 20)[0].correct for path in paths
  ]
  assert (tmp_path / 'curve.csv').read_text().splitlines() == [
    'step,correct,examples',
    '10,%d,20' % correct[0],
    '20,%d,20' % correct[2],
  ]
  with Image.open(tmp_path / 'curve.png') as image:
    assert image.size == (800, 400)
    assert np.asarray(image).std() > 10
  assert 'apart at most' in capsys.readouterr().out
