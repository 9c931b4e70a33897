"""The README names tests that are there."""

import pathlib
import re

TESTS = pathlib.Path(__file__).parent


def test_every_promise_names_a_test():
  readme = (TESTS.parent / 'README.md').read_text(encoding='utf-8')
  section = readme.split('## What is promised')[1].split('\n## ')[0]
  rows = re.findall(r'^\| (?!\*|whatever|-)(.*) \|$', section, re.MULTILINE)
  assert len(rows) == 47
  for row in rows:
    named = re.findall(r'`(test_\w+\.py)::(test_\w+)`', row)
    assert named, row
    for file, test in named:
      source = (TESTS / file).read_text(encoding='utf-8')
      assert 'def %s(' % test in source, test
