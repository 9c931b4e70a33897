"""Precision of each checkpoint of a run: a CSV file, and a picture of it.

  python benchmarks/learning_curve.py --train_dir=runs/long --data_dir=data \\
    --secs_per_step=0.075 --out=docs/images/learning_curve

The run must have kept its checkpoints (--max_to_keep). Seconds a step are those
of a quiet stretch of it, as the lines of train.py say.
"""

import argparse
import csv
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

# The same algorithm written plainly with stock operations, trained on the same
# pictures elsewhere: global step, precision @ 1.
PLAIN = [
  (3862, 0.737),
  (11059, 0.793),
  (15454, 0.804),
  (22287, 0.814),
  (28073, 0.818),
  (34105, 0.822),
  (39587, 0.828),
  (46410, 0.825),
  (53950, 0.830),
  (60001, 0.830),
]


def measure(args, path):
  """Writes a line for each checkpoint: step, correct, examples."""
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  from cifar10 import checkpoints, datasets, evaluation, models

  split = datasets.load(args.dataset, args.data_dir, 'test', fetch=False)
  run = models.described(args.train_dir)
  with open(path, 'w', newline='') as f:
    writer = csv.writer(f, lineterminator='\n')
    writer.writerow(['step', 'correct', 'examples'])
    last, paths = 0, checkpoints.listed(args.train_dir)
    for checkpoint in paths:
      step = checkpoints.read_global_step(checkpoint)
      if step < last + args.every and checkpoint != paths[-1]:
        continue
      last = step
      results, _ = evaluation.evaluate_once(
        checkpoint, split, 500, split.num_examples, run.image_size
      )
      writer.writerow([step, results.correct, results.total])
      print(step, results.correct, flush=True)


def draw(rows, secs_per_step, path):
  """Draws precision against steps, and against minutes above that."""
  import matplotlib.figure

  figure = matplotlib.figure.Figure(figsize=(8, 4), layout='constrained')
  axes = figure.add_subplot()
  steps, precisions = zip(*rows)
  axes.plot(steps, precisions, marker='.', label='this program')
  axes.plot(*zip(*PLAIN), 'x', label='the plain algorithm')
  axes.set_xlabel('step')
  axes.set_ylabel('precision @ 1')
  axes.set_xlim(left=0)
  axes.grid(color='0.9')
  axes.legend(loc='lower right')
  minutes = secs_per_step / 60
  above = axes.secondary_xaxis(
    'top', functions=(lambda x: x * minutes, lambda x: x / minutes)
  )
  above.set_xlabel('minutes')
  figure.savefig(path, dpi=100)


def compare(rows):
  """Prints each of the plain algorithm's figures beside ours at that step."""
  import numpy as np

  steps, precisions = zip(*rows)
  apart = []
  for step, plain in PLAIN:
    ours = float(np.interp(step, steps, precisions))
    apart.append(abs(ours - plain))
    print('%6d  %.3f  %.3f  %+.3f' % (step, plain, ours, ours - plain))
  print(
    'apart at most %.3f, %.3f on average' % (max(apart), np.mean(apart).item())
  )


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--train_dir', help='leave out to draw what OUT.csv has')
  parser.add_argument('--data_dir', default='/tmp/cifar10_data')
  parser.add_argument('--dataset', default='cifar10')
  parser.add_argument(
    '--every', type=int, default=1, help='steps apart, at least'
  )
  parser.add_argument('--secs_per_step', type=float, required=True)
  parser.add_argument('--out', required=True, help='without .csv and .png')
  args = parser.parse_args()
  if args.train_dir:
    measure(args, args.out + '.csv')
  with open(args.out + '.csv', newline='') as f:
    rows = [
      (int(row['step']), int(row['correct']) / int(row['examples']))
      for row in csv.DictReader(f)
    ]
  draw(rows, args.secs_per_step, args.out + '.png')
  compare(rows)


if __name__ == '__main__':
  main()
