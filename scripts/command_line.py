"""The command line of every script: shared flags, strict parsing, exit status.

Flags are absl's (`tf.app.flags`), but each script has a `FlagValues` of its
own, so that importing one, twice or beside another, defines nothing twice. And
`tf.app.run` would let an unknown flag pass: `run` below ignores nothing.
"""

import contextlib
import glob
import importlib
import logging
import math
import os
import platform
import re
import signal
import sys
import tempfile
import textwrap
import threading
import time
import warnings

try:
  from absl import flags
except ImportError:
  sys.exit(
    '%s: TensorFlow is not installed for %s: activate the environment that has '
    'it (. .venv/bin/activate), or pip install -r requirements.txt'
    % (os.path.basename(sys.argv[0]), sys.executable)
  )

# `python scripts/train.py` finds the package of the clone that it is in.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from cifar10 import Error, UsageError, signals

MAX_INT = 2**31 - 1  # TensorFlow's int32

# Flags that every `FlagValues` has, and that are no argument of ours.
_GENERAL_FLAGS = ('help', 'h', 'flagfile', 'undefok')

# The end of a group's title, which no module's name has.
_GROUP_END = ':'

# Where texts begin in the list of flags.
_HELP_COLUMN = 32

# What a run says of itself, unless a flag is given.
RUN_FLAGS = ('dataset', 'label', 'image_size', 'use_fp16')

# Signals that came while no training was there to end by itself: the first one,
# and when that was.
_received = []

# What TensorFlow's libraries print while they are loaded, whatever the level.
_BANNER = re.compile(r'WARNING: All log messages before absl::|[IW]0000 ')


@contextlib.contextmanager
def group(values, title):
  """Puts the flags that are defined within the block under a title, in help."""
  before = set(values)
  yield
  for name in values:
    if name not in before:
      # What absl lists by module, we list by group.
      values.register_flag_by_module(title + _GROUP_END, values[name])


def new_flags():
  """Returns an empty set of flags, but for `--help`."""
  values = flags.FlagValues()
  flags.DEFINE_boolean(
    'help', False, 'print this help', short_name='h', flag_values=values
  )
  return values


def define_positive(values, name, default, text, maximum=MAX_INT):
  """Defines a flag that takes a whole number from 1 to `maximum`."""
  flags.DEFINE_integer(
    name,
    default,
    text,
    lower_bound=1,
    upper_bound=maximum,
    flag_values=values,
  )


def define_float(values, name, default, text, maximum=math.inf):
  """Defines a flag that takes a number above 0 and at most `maximum`."""
  flags.DEFINE_float(name, default, text, flag_values=values)
  limit = '' if math.isinf(maximum) else ' and at most %g' % maximum
  flags.register_validator(
    name,
    lambda value: (
      value is None or (0 < value <= maximum and math.isfinite(value))
    ),
    message='must be a number above 0' + limit,
    flag_values=values,
  )


def exclude(values, *names):
  """Refuses a command line that gives all of some flags."""

  def is_fine(_):
    return not all(
      values[name].present and values[name].value for name in names
    )

  flags.register_multi_flags_validator(
    names,
    is_fine,
    message='exclude each other: give one of them',
    flag_values=values,
  )


class _PathParser(flags.ArgumentParser):
  """Parses the name of a folder, or of a file, `~` included."""

  def __init__(self, is_run=False, what='folder'):
    self._is_run = is_run
    self._what = what

  def parse(self, argument):
    if not argument:
      raise ValueError('must name a %s' % self._what)
    try:
      argument.encode()
    except UnicodeEncodeError as e:
      raise ValueError('TensorFlow takes names in UTF-8 only') from e
    if '://' in argument:
      raise ValueError('must be a %s of this machine, not a URL' % self._what)
    # Looking for checkpoints, it would find, and prune, those of other folders.
    if self._is_run and glob.escape(argument) != argument:
      raise ValueError('TensorFlow takes *, ? and [ for patterns')
    return os.path.expanduser(argument)


def define_folder(values, name, default, text, is_run=False):
  """Defines a flag that names a folder, maybe that of a run's checkpoints."""
  flags.DEFINE(_PathParser(is_run), name, default, text, flag_values=values)


def define_file(values, name, text):
  """Defines a flag that names a file, or none."""
  parser = _PathParser(what='file')
  flags.DEFINE(parser, name, None, text, flag_values=values)


def define_bool(values, name, text):
  """Defines a flag that is off unless it is given."""
  flags.DEFINE_boolean(name, False, text, flag_values=values)


def define_data_flags(values):
  """Defines what every script has that reads pictures."""
  with group(values, 'Data'):
    define_folder(
      values,
      'data_dir',
      '/tmp/cifar10_data',
      "the folder that holds the data set's folder, or that folder itself, or "
      'its archive',
    )
    flags.DEFINE_string(
      'dataset',
      'cifar10',
      'cifar10, cifar100, sample, or NAME: DATA_DIR/NAME-batches-bin',
      flag_values=values,
    )
    flags.DEFINE_enum(
      'label',
      'fine',
      ['fine', 'coarse'],
      "which of cifar100's labels",
      flag_values=values,
    )


def define_network_flags(values, batch_size=True):
  """Defines what every script has that builds the network."""
  with group(values, 'Network'):
    if batch_size:
      define_positive(
        values, 'batch_size', 128, 'examples in a batch', maximum=100000
      )
    define_bool(values, 'use_fp16', 'compute layers in float16')
    define_positive(
      values,
      'image_size',
      24,
      'height and width of the part of a picture that the network sees',
      maximum=32,
    )


def define_checkpoint_flags(values):
  """Defines what every script has that uses what was trained."""
  define_folder(
    values,
    'checkpoint_dir',
    '/tmp/cifar10_train',
    'the folder of checkpoints',
    is_run=True,
  )
  define_bool(
    values, 'use_raw_weights', 'use the weights, not their moving averages'
  )


def arguments(values, *unless_given):
  """Returns the flags as arguments for a function of the package.

  Args:
    values: the parsed flags.
    *unless_given: names of flags whose default counts as None.
  """
  return {
    name: None if name in unless_given and not values[name].present else value
    for name, value in values.flag_values_dict().items()
    if name not in _GENERAL_FLAGS
  }


def given_words(values, leave_out=()):
  """Returns the words of the command line that give these flags again."""
  given = {
    name: value
    for name, value in values.flag_values_dict().items()
    if values[name].present and name not in (*leave_out, *_GENERAL_FLAGS)
  }
  return ['--%s=%s' % item for item in given.items()]


def run(main, values, doc, unless_given=(), words=None):
  """Parses the command line strictly, calls `main`, and exits.

  Args:
    main: function without arguments; with `words`, of the list of them.
    values: the script's flags.
    doc: the script's docstring, the head of its help.
    unless_given: names of flags for which a run's own setting is the default.
    words: what words that are no flags are; None: there must be none.
  """
  if words:
    values.set_gnu_getopt(True)  # they may come before flags
  _open_closed_streams()
  # A background job may have inherited that SIGINT is ignored.
  for signum in signals.SIGNALS:
    signal.signal(signum, _interrupt)
  try:
    # A process that started itself anew has kept them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.SIGNALS)
    rest = _parse(values)
    if values.help:
      print(_help(values, doc, unless_given))
      sys.exit(0)
    _check_words(rest, words)
    _set_up_process(values)
    main(*([rest] if words else []))
  except flags.Error as e:
    _fail(e, UsageError.exit_status)
  except Error as e:
    _fail(e, e.exit_status)
  except OSError as e:
    where = '' if e.filename else 'standard output, or a file: '
    _fail('%s%s' % (where, e), Error.exit_status)
  except MemoryError:
    _fail('not enough memory: give a smaller --batch_size', Error.exit_status)
  except BaseException:
    # Where a signal comes inside a library, that may make another error of it.
    if not _received:
      raise
    name = signal.Signals(_received[0]).name
    _fail('interrupted by %s' % name, 128 + _received[0])


def _check_words(given, words):
  if given and not words:
    raise UsageError(
      'unexpected word %r: a flag takes its value as --flag=value (in quotes, '
      'if it has blanks), one that is on or off as --flag or --noflag'
      % given[0]
    )
  if words and not given:
    script = os.path.basename(sys.argv[0])
    raise UsageError('name %s, as in: %s x.jpg folder/' % (words, script))


def _parse(values):
  """Parses the command line, and returns the words that are no flags."""
  try:
    words = values.read_flags_from_files(sys.argv[1:])
  except UnicodeDecodeError as e:
    raise UsageError('--flagfile is no text in UTF-8: %s' % e) from e
  if any(re.match('--?undefok(=|$)', word) for word in words):
    raise UsageError('--undefok: no flag is ever ignored here')
  return values([sys.argv[0], *words])[1:]


def _open_closed_streams():
  """Gives a process that was started without output streams somewhere to write.

  TensorFlow would take descriptors 1 and 2 for files of its own.
  """
  for descriptor, name in ((1, 'stdout'), (2, 'stderr')):
    if getattr(sys, name) is None:
      stream = open(os.devnull, 'w')  # noqa: SIM115
      os.dup2(stream.fileno(), descriptor)
      setattr(sys, name, stream)
    elif hasattr(getattr(sys, name), 'reconfigure'):
      # Any name can be said, whatever the output's encoding.
      getattr(sys, name).reconfigure(errors='backslashreplace')


def _set_up_process(values):
  """Sends our log to standard error; sets what TensorFlow reads at import."""
  handler = logging.StreamHandler()
  handler.setFormatter(logging.Formatter('%(message)s'))
  logger = logging.getLogger('cifar10')
  logger.handlers = [handler]
  logger.setLevel(logging.INFO)
  # Where the root has no handler, some libraries give it one: lines come twice.
  logging.getLogger().addHandler(logging.NullHandler())
  # Of huge pictures; those that are too huge raise.
  warnings.filterwarnings('ignore', module='PIL')
  # Deprecation warnings, and errors that are raised as well.
  logging.getLogger('tensorflow').setLevel(logging.CRITICAL)
  threading.excepthook = _report_thread
  # What cancelled queues have to say.
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  if 'log_device_placement' in values and values.log_device_placement:
    # TensorFlow writes the list to descriptor 1: that becomes standard error.
    sys.stdout = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
  if 'use_fp16' in values and platform.machine() in ('x86_64', 'AMD64'):
    # By itself TensorFlow uses oneDNN's kernels where there is VNNI or AMX, but
    # with AVX2 they are the faster ones, too (benchmarks/README.md). Not those
    # of float16 gradients: 5.3 s a step of batch 32, beside 0.29 s of Eigen's.
    os.environ.setdefault(
      'TF_ENABLE_ONEDNN_OPTS', '0' if values.use_fp16 else '1'
    )


def _report_thread(args):
  """Reports what ended a thread, unless it is raised in the main thread too."""
  if args.thread is None or args.thread.name != 'EventLoggerThread':
    threading.__excepthook__(args)


def import_quietly(name):
  """Imports a module that loads TensorFlow, without TensorFlow's banners.

  They come from C++ before its log level is read, so standard error itself is
  put aside; what else was written there is written again.
  """
  with tempfile.TemporaryFile() as aside, contextlib.ExitStack() as stack:
    sys.stderr.flush()
    stderr = os.dup(2)
    signals.stderr = stderr
    stack.callback(_write_all_but_banners, aside, stderr)
    os.dup2(aside.fileno(), 2)
    with signals.deferred():
      return importlib.import_module(name)


def _write_all_but_banners(aside, stderr):
  os.dup2(stderr, 2)
  signals.stderr = 2
  os.close(stderr)
  aside.seek(0)
  for line in aside.read().decode(errors='replace').splitlines():
    if not _BANNER.match(line):
      print(line, file=sys.stderr)


def _interrupt(signum, _):
  if _received:
    if time.monotonic() - _received[1] > signals.REPEAT_SECS:
      signals.end_at_once(signum)
    return
  _received.extend([signum, time.monotonic()])
  # This is no `Exception`, as which libraries might take it for one of theirs.
  raise KeyboardInterrupt


def _fail(reason, exit_status):
  line = '%s: %s' % (
    os.path.basename(sys.argv[0]),
    ' '.join(str(reason).split()),
  )
  # A name that is not UTF-8 can be said all the same.
  line = line.encode(errors='backslashreplace').decode()
  with contextlib.suppress(OSError):  # nobody reads it: the status says it too
    print(line, file=sys.stderr, flush=True)
  sys.exit(exit_status)


def _help(values, doc, unless_given):
  """Returns the script's help: its docstring, and its flags by group."""
  lines = [doc.strip()]
  for title, members in values.flags_by_module_dict().items():
    if not title.endswith(_GROUP_END):
      continue
    lines += ['', title]
    for flag in members:
      shown = '  --[no]' + flag.name if flag.boolean else '  --' + flag.name
      text = flag.help
      if flag.name in unless_given:
        text += " (the run's, else %s)" % flag.default
      elif not flag.boolean and flag.default is not None:
        shown += '=%s' % flag.default
      if len(shown) >= _HELP_COLUMN:
        lines.append(shown)
        shown = ''
      lines += textwrap.wrap(
        text,
        79,
        initial_indent=shown.ljust(_HELP_COLUMN),
        subsequent_indent=' ' * _HELP_COLUMN,
        drop_whitespace=True,
      )
  return '\n'.join(lines)
