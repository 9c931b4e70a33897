"""Progress: a line on a terminal, and silence anywhere else."""

import io
import sys

from cifar10 import progress


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_one_line_that_is_rewritten(monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, 'stderr', terminal)
  with progress.line('Converting', 2000) as show:
    for done in (2, 2, 4, 1000, 2000):
      show(done)
  assert terminal.getvalue() == (
    '\rConverting 0.1%\rConverting 0.2%\rConverting 50.0%\rConverting 100.0%\n'
  )


def test_nothing_where_there_is_no_terminal(capsys):
  with progress.line('Converting', 2) as show:
    show(1)
  assert capsys.readouterr().err == ''
