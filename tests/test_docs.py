"""README and docs: links, messages, promises, and flags of every command."""

import ast
import importlib
import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page, language):
  """Returns the code blocks of a page."""
  text = page.read_text(encoding='utf-8')
  return re.findall(r'^```%s\n(.*?)^```$' % language, text, re.M | re.S)


def commands(page):
  """Returns the words of each command that runs a script of ours."""
  variables, found = {}, []
  for block in blocks(page, 'shell'):
    for line in block.splitlines():
      if match := re.fullmatch(r'(\w+)="(.*)"', line):
        variables[match.group(1)] = match.group(2)
      for name, value in variables.items():
        line = line.replace('$' + name, value)
      words = shlex.split(line, comments=True)
      if words[:1] == ['python'] and words[1].startswith('scripts/'):
        found.append(words)
  return found


def test_there_are_pages_and_commands():
  assert len(PAGES) >= 8
  assert sum(len(commands(page)) for page in PAGES) > 25


@pytest.mark.parametrize('page', PAGES, ids=NAMES)
def test_flags_of_every_command(page):
  for _, script, *words in commands(page):
    module = importlib.import_module(pathlib.Path(script).stem)
    flags = module.FLAGS
    flags.unparse_flags()
    try:
      rest = flags([script, *words])[1:]
    finally:
      for name in flags:
        flags[name].unparse()
    assert not rest or script == 'scripts/predict.py', words


@pytest.mark.parametrize('page', PAGES, ids=NAMES)
def test_links_lead_somewhere(page):
  text = page.read_text(encoding='utf-8')
  for target in re.findall(r'\]\(([^)#]+)', text):
    if not target.startswith('http'):
      assert (page.parent / target).exists(), target


@pytest.mark.parametrize('page', PAGES, ids=NAMES)
def test_paths_of_modules_and_tests_are_there(page):
  text = page.read_text(encoding='utf-8')
  for path in re.findall(r'`((?:cifar10|scripts|tests)/\w+\.py)`', text):
    assert (ROOT / path).exists(), path


def _said():
  """Returns the fixed parts of every string of the sources."""
  said = []
  for folder in ('cifar10', 'scripts'):
    for path in (ROOT / folder).glob('*.py'):
      for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        value = getattr(node, 'value', None)
        if isinstance(node, ast.Constant) and isinstance(value, (str, bytes)):
          value = value.decode() if isinstance(value, bytes) else value
          said += re.split(r'%-?[\d.*]*[a-zA-Z]', value)
  return said


def test_messages_are_those_of_the_sources():
  said = _said()
  page = (ROOT / 'docs' / 'troubleshooting.md').read_text(encoding='utf-8')
  messages = re.findall(r'^\| `(.+?)` \|', page, re.M)
  assert len(messages) > 20
  for message in messages:
    if message == 'Unknown command line flag':
      continue  # absl's
    for part in message.split('…'):
      assert any(part.strip() in text for text in said), message


def test_every_promise_names_a_test():
  text = (ROOT / 'docs' / 'promises.md').read_text(encoding='utf-8')
  rows = re.findall(r'^\| (?!\*|whatever|-)(.*) \|$', text, re.MULTILINE)
  assert len(rows) == 50
  for row in rows:
    named = re.findall(r'`(test_\w+\.py)::(test_\w+)`', row)
    assert named, row
    for file, test in named:
      source = (ROOT / 'tests' / file).read_text(encoding='utf-8')
      assert 'def %s(' % test in source, test
