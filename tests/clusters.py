"""Clusters of real processes on this machine, one process for each task."""

import contextlib
import re
import subprocess
import time

from processes import ALARMING, command, saved_step

from cifar10 import cluster


class Tasks:
  """The tasks of a cluster: a chief, workers, parameter servers.

  Each has a working folder of its own, and shares none with the others.
  """

  def __init__(self, folder, num_ps=1, num_workers=2, **flags):
    self.folder = folder
    self.train_dir = folder / 'chief0' / 'run'
    self._flags = flags
    self._processes = {}
    self._files = []
    ports = cluster.free_ports(1 + num_ps + num_workers)
    hosts = ['127.0.0.1:%d' % port for port in ports]
    self._hosts = {
      'chief_host': hosts[0],
      'ps_hosts': ','.join(hosts[1 : 1 + num_ps]),
      'worker_hosts': ','.join(hosts[1 + num_ps :]),
    }
    self.names = [
      'chief0',
      *('ps%d' % i for i in range(num_ps)),
      *('worker%d' % i for i in range(num_workers)),
    ]

  def start(self, *names):
    for name in names or self.names:
      cwd = self.folder / name
      cwd.mkdir(exist_ok=True)
      words = command(
        'train',
        job_name=name[:-1],
        task_index=name[-1],
        train_dir='run',
        **self._hosts,
        **self._flags,
      )
      out = open(cwd / 'out', 'a')  # noqa: SIM115
      err = open(cwd / 'err', 'a')  # noqa: SIM115
      self._files += [out, err]
      self._processes[name] = subprocess.Popen(
        words, stdout=out, stderr=err, cwd=cwd
      )

  def __getitem__(self, name):
    return self._processes[name]

  def out(self, name):
    return (self.folder / name / 'out').read_text()

  def err(self, name):
    return (self.folder / name / 'err').read_text()

  def kill(self, name):
    self[name].kill()
    self[name].wait()

  def steps(self):
    """Returns the steps that the chief has printed."""
    return [
      int(step) for step in re.findall(r'step (\d+),', self.out('chief0'))
    ]

  def wait_for(self, condition, secs=90):
    deadline = time.monotonic() + secs
    while not condition():
      assert time.monotonic() < deadline, self.said()
      time.sleep(0.1)

  def wait_for_step(self, step, lines=0):
    """Waits for the chief to print a step, after so many lines of steps."""
    self.wait_for(lambda: any(s >= step for s in self.steps()[lines:]))

  def wait_for_any(self, step):
    """Waits for any task to say that it is at a step, or past it."""
    self.wait_for(
      lambda: any(
        int(said) >= step
        for name in self._processes
        for said in re.findall(r': step (\d+)', self.out(name) + self.err(name))
      )
    )

  def wait(self, secs, **statuses):
    """Waits for all to end by themselves; all with 0 unless said otherwise."""
    deadline = time.monotonic() + secs
    for name, process in self._processes.items():
      try:
        process.wait(max(0.1, deadline - time.monotonic()))
      except subprocess.TimeoutExpired:
        raise AssertionError(
          '%s has not ended\n%s' % (name, self.said())
        ) from None
    ended = {name: p.returncode for name, p in self._processes.items()}
    assert ended == {**dict.fromkeys(ended, 0), **statuses}, self.said()
    for name in ended:
      assert not ALARMING.search(self.err(name)), self.said()

  def said(self):
    return '\n'.join(
      '%s:\n%s%s' % (name, self.out(name)[-1500:], self.err(name)[-3000:])
      for name in self._processes
    )

  def saved_step(self):
    return saved_step(self.train_dir)

  def close(self):
    for process in self._processes.values():
      process.kill()
      process.wait()
    for file in self._files:
      file.close()


@contextlib.contextmanager
def running(folder, *names, **flags):
  """Starts tasks, all unless they are named; ends them after the block."""
  tasks = Tasks(folder, **flags)
  try:
    tasks.start(*names)
    yield tasks
  finally:
    tasks.close()
