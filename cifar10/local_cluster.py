"""A cluster of processes on this machine, to try it and to test it."""

import logging
import signal
import subprocess
import sys
import threading
import time

from cifar10 import Error, Interrupted, cluster, signals

_INTERVAL_SECS = 0.2
# What others have to end in after the chief did, or after a signal.
_GRACE_SECS = 40.0

log = logging.getLogger(__name__)


def run(command, num_workers, num_ps, with_evaluator, max_restarts):
  """Runs a chief, workers and parameter servers until the chief is done.

  A task that a signal ends is started again; where one ends with an error, or
  too often, all are ended.

  Args:
    command: list of words that start a task, but for what says which it is.
    num_workers: how many workers there are beside the chief.
    num_ps: how many parameter servers there are.
    with_evaluator: whether to run an evaluator as well.
    max_restarts: how often a task is started again.

  Raises:
    cifar10.Error: a task failed for good.
    cifar10.Interrupted: SIGINT or SIGTERM came, and was passed on.
  """
  sizes = {'ps': num_ps, 'chief': 1, 'worker': num_workers}
  ports = cluster.free_ports(sum(sizes.values()))
  hosts = {
    job: ['127.0.0.1:%d' % ports.pop() for _ in range(size)]
    for job, size in sizes.items()
  }
  command = [
    *command,
    '--ps_hosts=' + ','.join(hosts['ps']),
    '--chief_host=' + hosts['chief'][0],
  ]
  if num_workers:
    command.append('--worker_hosts=' + ','.join(hosts['worker']))
  names = [(job, i) for job, size in sizes.items() for i in range(size)]
  if with_evaluator:
    names.append(('evaluator', 0))
  _Supervisor([_Process(command, *name) for name in names], max_restarts).run()


class _Supervisor:
  """Starts processes, restarts some, passes signals on, and ends all."""

  def __init__(self, tasks, max_restarts):
    self._tasks = tasks
    (self._chief,) = [task for task in tasks if task.job == 'chief']
    self._max_restarts = max_restarts
    self._signum = None
    self._failed = None
    self._deadline = None

  def run(self):
    previous = {s: signal.signal(s, self._handle) for s in signals.SIGNALS}
    try:
      for task in self._tasks:
        task.start()
      while any(task.is_running() for task in self._tasks):
        self._look()
        if self._deadline is not None and time.monotonic() > self._deadline:
          break
        time.sleep(_INTERVAL_SECS)
    finally:
      for task in self._tasks:
        task.kill()
      for signum, handler in previous.items():
        signal.signal(signum, handler)
    if self._signum:
      name = signal.Signals(self._signum).name
      raise Interrupted('%s: passed on to all tasks' % name, self._signum)
    if self._failed:
      raise Error(
        '%s: all others were ended: see its last lines' % self._failed
      )

  def _handle(self, signum, _):
    now = time.monotonic()
    if self._signum is None:
      self._signum, self._signal_time = signum, now
    elif now - self._signal_time > signals.REPEAT_SECS:
      self._deadline = now  # the second one ends it at once

  def _look(self):
    """Looks at every task once, and does what is to be done."""
    if self._deadline is None:
      for task in self._tasks:
        if not task.is_running() and not task.is_done():
          self._start_again(task)
      if self._signum or self._failed or self._chief.is_done():
        self._begin_end()
    elif self._chief.has_failed():  # nobody has the others end
      self._deadline = 0

  def _start_again(self, task):
    if task.was_killed() and task.starts <= self._max_restarts:
      log.info('%s ended (%s): started again', task, task.how())
      task.start()
    else:
      self._failed = '%s failed (%s)' % (task, task.how())

  def _begin_end(self):
    # The chief saves, and then has all others end: they must not end before.
    self._deadline = time.monotonic() + _GRACE_SECS
    for task in self._tasks:
      if task.job == 'chief' or (task.job == 'evaluator' and self._signum):
        task.send(self._signum or signal.SIGTERM)


class _Process:
  """A task as a process, whose lines come out here with its name before."""

  def __init__(self, command, job, index):
    self.job = job
    self.index = index
    self.starts = 0
    self._command = [*command, '--job_name=%s' % job, '--task_index=%d' % index]
    self._threads = []

  def __str__(self):
    return '%s %d' % (self.job, self.index)

  def start(self):
    words = self._command
    if self.starts:
      words = [word for word in words if word != '--overwrite=True']
    # In a session of its own: a Ctrl-C of the terminal is for this process,
    # which has the chief end the others in order.
    self._process = subprocess.Popen(
      words,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      errors='replace',
      start_new_session=True,
    )
    self.starts += 1
    log.info('%s is process %d', self, self._process.pid)
    self._threads = [
      threading.Thread(target=self._pass_on, args=streams, daemon=True)
      for streams in (
        (self._process.stdout, sys.stdout),
        (self._process.stderr, sys.stderr),
      )
    ]
    for thread in self._threads:
      thread.start()

  def _pass_on(self, source, sink):
    for line in source:
      print('[%s] %s' % (self, line.rstrip('\n')), file=sink, flush=True)

  def is_running(self):
    return self._process.poll() is None

  def is_done(self):
    return self._process.poll() == 0

  def has_failed(self):
    """Returns whether it has ended, and not as it should."""
    status = self._process.poll()
    return status is not None and (status < 0 or 0 < status < 128)

  def was_killed(self):
    """Returns whether a signal ended it, which says nothing against it."""
    status = self._process.returncode
    return status < 0 or (status > 128 and self.job != 'chief')

  def how(self):
    status = self._process.returncode
    return 'exit status %d' % status if status > 0 else 'signal %d' % -status

  def send(self, signum):
    if self.is_running():
      self._process.send_signal(signum)

  def kill(self):
    """Ends it, if it has not ended, and passes its last lines on."""
    if self.starts:
      self._process.kill()
      self._process.wait()
      for thread in self._threads:
        thread.join(timeout=5)
