"""What an evaluation found, against counts made by hand."""

import csv
import os

import numpy as np
import pytest

from cifar10 import Error, UsageError
from cifar10.results import Results, check_csv


@pytest.fixture
def results():
  """Six examples of three classes; of the fourth there are none."""
  return Results(
    ('cat', 'dog, big', 'frog', 'ship'),
    np.array([0, 0, 0, 1, 1, 2], np.int32),
    np.array([0, 1, 1, 1, 3, 2], np.int32),
    np.array([0.9, 0.4, 0.7, 0.5, 0.7, 1.0], np.float32),
  )


def test_counts(results):
  assert (results.correct, results.total) == (3, 6)
  assert results.confusion_matrix().tolist() == [
    [1, 2, 0, 0],
    [0, 1, 0, 1],
    [0, 0, 1, 0],
    [0, 0, 0, 0],
  ]
  assert results.precisions()[:3].tolist() == [1 / 3, 1 / 2, 1]
  assert np.isnan(results.precisions()[3])


def test_the_most_confident_mistakes_come_first(results):
  assert results.mistakes(9).tolist() == [2, 4, 1]
  assert results.mistakes(2).tolist() == [2, 4]


def test_the_table_adds_up(results):
  assert results.table() == [
    'class     examples  correct  precision @ 1  predicted',
    'cat              3        1          0.333          1',
    'dog, big         2        1          0.500          3',
    'frog             1        1          1.000          1',
    'ship             0        0              -          1',
    'all              6        3          0.500          6',
  ]


def test_a_line_for_each_example(results, tmp_path):
  path = tmp_path / 'x.csv'
  for _ in range(2):  # it replaces one of its own
    check_csv(str(path))
    results.write_csv(str(path))
  with open(path, newline='') as f:
    header, *rows = csv.reader(f)
  assert header == ['index', 'label', 'prediction', 'probability']
  assert rows[1] == ['1', 'cat', 'dog, big', '0.400000']
  assert [row[0] for row in rows] == list('012345')
  assert sum(row[1] == row[2] for row in rows) == results.correct
  assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
  'name, text',
  [
    ('none/x.csv', 'there is no folder'),
    ('letter.txt', 'a file that is something else: name another'),
    ('folder', 'not a file'),
    ('pipe', 'not a file'),
  ],
)
def test_a_path_that_is_not_for_it(name, text, tmp_path):
  (tmp_path / 'letter.txt').write_text('Dear')
  (tmp_path / 'folder').mkdir()
  os.mkfifo(tmp_path / 'pipe')
  with pytest.raises(UsageError, match=text):
    check_csv(str(tmp_path / name))
  assert (tmp_path / 'letter.txt').read_text() == 'Dear'


def test_a_folder_that_is_gone(results, tmp_path):
  with pytest.raises(Error, match='cannot be written: No such file'):
    results.write_csv(str(tmp_path / 'gone' / 'x.csv'))


def test_a_link_stays_a_link(results, tmp_path):
  (tmp_path / 'real').mkdir()
  (tmp_path / 'x.csv').symlink_to(tmp_path / 'real' / 'y.csv')
  check_csv(str(tmp_path / 'x.csv'))
  results.write_csv(str(tmp_path / 'x.csv'))
  assert (tmp_path / 'x.csv').is_symlink()
  assert len((tmp_path / 'real' / 'y.csv').read_text().splitlines()) == 7
