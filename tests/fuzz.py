"""Feeds broken files to data validation and checkpoint lookup.

  python tests/fuzz.py --minutes=10

Good files are changed in some bytes, cut, lengthened or replaced by noise, and
then read as the scripts read them. That must end, within seconds, with a result
or with one line of ours: no traceback, no hang. Each round is drawn from its
number, so `--first=N` repeats what failed in round N.
"""

import argparse
import collections
import faulthandler
import pathlib
import random
import tempfile
import time

import data_sets
import numpy as np
import tensorflow.compat.v1 as tf

from cifar10 import Error, checkpoints, datasets

HANG_SECS = 30


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--minutes', type=float, default=10)
  parser.add_argument('--first', type=int, default=0)
  args = parser.parse_args()
  tf.logging.set_verbosity(tf.logging.FATAL)
  with tempfile.TemporaryDirectory() as folder:
    print(fuzz(pathlib.Path(folder), args.minutes * 60, args.first))


def fuzz(folder, seconds, first=0):
  """Runs rounds for a time; returns how many ended how, for each target."""
  targets = [(load_data, good_data(folder / 'data'))]
  targets += [(look_up, good_checkpoints(folder / 'run'))]
  ends = collections.Counter()
  deadline = time.monotonic() + seconds
  number = first
  while time.monotonic() < deadline:
    function, good = targets[number % 2]
    rng = random.Random(number)
    for path, content in good.items():
      path.write_bytes(mutated(content, rng) if rng.random() < 0.4 else content)
    faulthandler.dump_traceback_later(HANG_SECS, exit=True)
    try:
      end = function(folder, rng)
    except Error as e:
      end = 'refused'
      assert '\n' not in str(e), 'round %d: %s' % (number, e)
    except Exception:
      print('round %d' % number)
      raise
    finally:
      faulthandler.cancel_dump_traceback_later()
    ends[function.__name__, end] += 1
    number += 1
  return dict(ends)


def mutated(content, rng):
  """Returns the bytes of a file that was damaged in one of several ways."""
  kind = rng.randrange(6)
  if kind == 0:
    return rng.randbytes(rng.choice([0, 1, 48, len(content), 5000]))
  if kind == 1:
    return content[: rng.randrange(len(content) + 1)]
  if kind == 2:
    return content + rng.randbytes(rng.randrange(1, 100))
  damaged = bytearray(content)
  for _ in range(rng.choice([1, 1, 2, 8])):
    at = rng.randrange(len(damaged) + 1)
    if kind == 3:
      damaged[at : at + 1] = rng.randbytes(1)
    elif kind == 4:
      damaged[at : at + rng.randrange(20)] = rng.randbytes(rng.randrange(20))
    else:
      other = rng.randrange(len(damaged) + 1)
      damaged[at : at + 10] = damaged[other : other + 10]
  return bytes(damaged)


def good_data(data_dir):
  """Writes three data sets; returns their files and what is in them."""
  names = {'cifar10': 'cifar-10-batches-bin', 'pets': 'pets-batches-bin'}
  for folder in names.values():
    data_sets.write_cifar10(data_dir / folder)
    text = ''.join('class%d\n' % i for i in range(10))
    (data_dir / folder / 'batches.meta.txt').write_text(text)
  data_sets.write_cifar100(data_dir / 'cifar-100-binary')
  return read_all(data_dir)


def good_checkpoints(train_dir):
  """Saves two checkpoints and a run.json; returns the files' contents."""
  train_dir.mkdir()
  with tf.Graph().as_default(), tf.Session() as session:
    for name in ('conv1/weights', 'local3/biases/ExponentialMovingAverage'):
      tf.Variable(np.linspace(0, 1, 30, dtype=np.float32), name=name)
    tf.Variable(np.int64(7), name='global_step')
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver(save_relative_paths=True)
    for step in (7, 9):
      saver.save(session, str(train_dir / 'model.ckpt'), step)
  run = checkpoints.Run('small', ('a', 'b'), 24, 'float32')
  checkpoints.write_run(str(train_dir), run)
  return read_all(train_dir)


def read_all(folder):
  return {p: p.read_bytes() for p in folder.rglob('*') if p.is_file()}


def load_data(folder, rng):
  name = rng.choice(['cifar10', 'cifar100', 'pets'])
  split = rng.choice(['train', 'test'])
  loaded = datasets.load(name, str(folder / 'data'), split, fetch=False)
  assert loaded.num_examples > 0
  return 'loaded'


def look_up(folder, rng):
  train_dir = str(folder / 'run')
  if rng.random() < 0.5:
    checkpoints.check_same_run(train_dir, dataset='small')
    checkpoints.is_run(train_dir)
  path = checkpoints.newest(train_dir)
  if path is None:
    return 'none'
  checkpoints.read_global_step(path)
  if rng.random() < 0.1:
    restore(path)
  return path[-1]


def restore(path):
  with tf.Graph().as_default(), tf.Session() as session:
    variables = {
      'conv1/weights': tf.Variable(np.zeros(30, np.float32), use_resource=True),
      'global_step': tf.Variable(np.int64(0), use_resource=True),
    }
    checkpoints.restore(session, path, variables)


if __name__ == '__main__':
  main()
