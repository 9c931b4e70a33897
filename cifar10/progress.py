"""One line on a terminal that says how far long work is."""

import contextlib
import sys

# Back to the start of the line, and clear it (ECMA-48).
_CLEAR = '\r\x1b[K'


@contextlib.contextmanager
def line(what, total):
  """Yields a function of how much is done, which rewrites the line.

  Where standard error is no terminal, nothing is ever written.

  Args:
    what: the work, as the line begins.
    total: how much there is to do.
  """
  if not sys.stderr.isatty():
    yield lambda done: None
    return

  shown = None

  def show(done):
    nonlocal shown
    text = '\r%s %.1f%%' % (what, 100.0 * done / max(1, total))
    if text != shown:
      sys.stderr.write(text)
      sys.stderr.flush()
      shown = text

  try:
    yield show
  finally:
    sys.stderr.write('\n')


def clear():
  """Clears the line, before something else is said."""
  if sys.stderr.isatty():
    sys.stderr.write(_CLEAR)
    sys.stderr.flush()
