"""A few seconds of the fuzz test: that it feeds what it says."""

import fuzz


def test_a_few_rounds(tmp_path):
  ends = fuzz.fuzz(tmp_path, 3)
  assert ends.keys() >= {
    ('load_data', 'loaded'),
    ('load_data', 'refused'),
    ('look_up', 'refused'),
    ('look_up', '7'),
    ('look_up', '9'),
  }
