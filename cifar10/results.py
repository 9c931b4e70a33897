"""What an evaluation found, example by example: counts, a table, a file."""

import contextlib
import csv
import dataclasses
import os

import numpy as np

from cifar10 import Error, UsageError

_COLUMNS = ['index', 'label', 'prediction', 'probability']
_HEADER = ','.join(_COLUMNS) + '\n'


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """The examples of an evaluation, in file order.

  Attributes:
    class_names: tuple of str.
    labels: int32 [n].
    predictions: int32 [n], the likeliest class; of several that are equally
      likely the label, if it is one of them.
    probabilities: float32 [n], how likely that class is.
  """

  class_names: tuple
  labels: np.ndarray
  predictions: np.ndarray
  probabilities: np.ndarray

  @property
  def total(self):
    return len(self.labels)

  @property
  def correct(self):
    return int((self.labels == self.predictions).sum())

  def confusion_matrix(self):
    """Returns int64 [classes, classes]: true classes by predicted ones."""
    n = len(self.class_names)
    pairs = self.labels.astype(np.int64) * n + self.predictions
    return np.bincount(pairs, minlength=n * n).reshape(n, n)

  def precisions(self):
    """Returns precision @ 1 of each class's examples; NaN where none are."""
    matrix = self.confusion_matrix()
    with np.errstate(invalid='ignore'):
      return matrix.diagonal() / matrix.sum(axis=1)

  def mistakes(self, count):
    """Returns the indices of the most confident mistakes, those first."""
    (wrong,) = np.nonzero(self.labels != self.predictions)
    order = np.argsort(-self.probabilities[wrong], kind='stable')
    return wrong[order[:count]]

  def table(self):
    """Returns the lines of a table of the classes, their sum last."""
    matrix = self.confusion_matrix()
    examples, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
    rows = zip(self.class_names, examples, matrix.diagonal(), predicted)
    rows = [*rows, ('all', self.total, self.correct, self.total)]
    width = max(len(name) for name, *_ in [('class',), *rows])
    layout = '%-*s  %8s  %7s  %13s  %9s'
    lines = [
      layout
      % (width, 'class', 'examples', 'correct', 'precision @ 1', 'predicted')
    ]
    for name, total, correct, times in rows:
      precision = '%.3f' % (correct / total) if total else '-'
      lines.append(layout % (width, name, total, correct, precision, times))
    return lines

  def write_csv(self, path):
    """Writes a line for each example, class names in the place of numbers.

    The file is replaced as a whole: who reads it meanwhile sees the last one.

    Raises:
      cifar10.Error: it cannot be written.
    """
    target = os.path.realpath(path)
    part = '%s.%d.part' % (target, os.getpid())
    names = self.class_names
    try:
      with open(part, 'w', encoding='utf-8', newline='') as f:
        writer = csv.writer(f, lineterminator='\n')
        writer.writerow(_COLUMNS)
        columns = zip(self.labels, self.predictions, self.probabilities)
        for i, (label, prediction, probability) in enumerate(columns):
          writer.writerow(
            [i, names[label], names[prediction], '%.6f' % probability]
          )
      os.replace(part, target)
    except OSError as e:
      raise Error(
        '--predictions=%s: cannot be written: %s' % (path, e.strerror)
      ) from e
    finally:
      with contextlib.suppress(OSError):
        os.remove(part)


def check_csv(path):
  """Raises `cifar10.UsageError` where `Results.write_csv` should not write."""
  folder = os.path.dirname(os.path.realpath(path))
  if not os.path.isdir(folder):
    raise UsageError('--predictions=%s: there is no folder %s' % (path, folder))
  if not os.access(folder, os.W_OK):
    raise UsageError(
      '--predictions=%s: %s cannot be written to' % (path, folder)
    )
  if not os.path.exists(path):
    return
  if not os.path.isfile(path):
    raise UsageError('--predictions=%s: not a file' % path)
  try:
    with open(path, encoding='utf-8', errors='replace') as f:
      is_ours = f.read(len(_HEADER)) in ('', _HEADER)
  except OSError as e:
    raise UsageError('--predictions=%s: %s' % (path, e.strerror)) from e
  if not is_ours:
    raise UsageError(
      '--predictions=%s: a file that is something else: name another' % path
    )
