"""Which tasks a cluster has, and which of them this process is.

Flags say so, or the variable TF_CONFIG, as TensorFlow's estimators and the job
operators of Kubernetes set it.
"""

import dataclasses
import json
import re
import socket

from cifar10 import UsageError

JOBS = ('chief', 'worker', 'ps', 'evaluator')

# The flags of `resolve` that name addresses, and the jobs that have these.
_HOST_FLAGS = {
  'chief_host': 'chief',
  'worker_hosts': 'worker',
  'ps_hosts': 'ps',
}


@dataclasses.dataclass(frozen=True)
class Task:
  """One process of a cluster.

  Attributes:
    job: 'chief', 'worker' or 'ps'.
    index: its number in this job, from 0.
    address: 'host:port'.
  """

  job: str
  index: int
  address: str

  def __str__(self):
    return '%s %d (%s)' % (self.job, self.index, self.address)

  @property
  def device(self):
    """What TensorFlow calls it, as in '/job:worker/task:0'."""
    return '/job:%s/task:%d' % (self.job, self.index)


@dataclasses.dataclass(frozen=True)
class Cluster:
  """All tasks, and this one.

  Attributes:
    tasks: tuple of `Task`, without evaluators, which are no part of it.
    task: the `Task` that this process is; None: the evaluator.
  """

  tasks: tuple
  task: Task | None

  def of_job(self, job):
    return [task for task in self.tasks if task.job == job]

  @property
  def spec(self):
    """Dict from job to addresses, what `tf.train.ClusterSpec` takes."""
    jobs = sorted({task.job for task in self.tasks})
    return {job: [task.address for task in self.of_job(job)] for job in jobs}

  @property
  def replicas(self):
    """The tasks that compute gradients; the first of them is the chief."""
    return self.of_job('chief') + self.of_job('worker')

  @property
  def chief(self):
    return self.replicas[0]

  @property
  def is_chief(self):
    return self.task == self.chief


def resolve(
  environ,
  *,
  job_name=None,
  task_index=None,
  chief_host=None,
  worker_hosts=None,
  ps_hosts=None,
):
  """Returns the `Cluster` that flags and TF_CONFIG describe; None: no cluster.

  Args:
    environ: dict of environment variables. What a flag says goes before what
      TF_CONFIG says of the same thing.
    job_name: one of `JOBS`.
    task_index: number of this task in its job.
    chief_host: address of the chief; None: worker 0 is the chief.
    worker_hosts: addresses of the workers, separated by commas.
    ps_hosts: addresses of the parameter servers, separated by commas.

  Raises:
    UsageError: it cannot be understood, or contradicts itself.
  """
  hosts, job, index = _parse_tf_config(environ.get('TF_CONFIG') or '{}')
  for flag, value in (
    ('chief_host', chief_host),
    ('worker_hosts', worker_hosts),
    ('ps_hosts', ps_hosts),
  ):
    if value is not None:
      hosts[_HOST_FLAGS[flag]] = [name.strip() for name in value.split(',')]
  if job_name is not None:
    # The variable's number is that of its own job.
    job, index = job_name, index if job_name == job else None
  if task_index is not None:
    index = task_index
  if job != 'evaluator':
    hosts.pop('evaluator', None)
  if job is None:
    if any(hosts.values()) or index is not None:
      raise UsageError(
        'which task is this? --job_name is missing (and TF_CONFIG names none)'
      )
    return None
  num_tasks = sum(map(len, hosts.values()))
  if (
    job_name is None
    and job in ('chief', 'worker')
    and (num_tasks == 0 or (num_tasks == 1 and len(hosts.get(job, [])) == 1))
  ):
    return None  # an operator's job of one task
  if num_tasks == 0 and job != 'evaluator':
    raise UsageError(
      '--job_name=%s needs --ps_hosts and --worker_hosts, or TF_CONFIG' % job
    )
  return _check(hosts, job, index)


def _parse_tf_config(text):
  """Returns a dict from job to addresses, this task's job and its index."""
  try:
    config = json.loads(text)
    hosts = {**(config.get('cluster') or {})}
    task = {**(config.get('task') or {})}
    for job, names in hosts.items():
      if not isinstance(names, list | str):
        raise TypeError('the tasks of %s are no list' % job)
      if not all(isinstance(name, str) for name in names):
        raise TypeError('not every address of %s is a string' % job)
      hosts[job] = [names] if isinstance(names, str) else names
    job, index = task.get('type'), task.get('index')
    if isinstance(index, str):
      index = int(index)
    if not isinstance(index, int | None) or isinstance(index, bool):
      raise TypeError('the index of the task is no whole number')
    if not isinstance(job, str | None):
      raise TypeError('the type of the task is no string')
  except (ValueError, TypeError, AttributeError, RecursionError) as e:
    raise UsageError(
      'TF_CONFIG cannot be understood (%s): it is to be like {"cluster": '
      '{"chief": ["host:port"], "worker": [...], "ps": [...]}, "task": '
      '{"type": "worker", "index": 0}}' % e
    ) from e
  if 'master' in hosts:
    if 'chief' in hosts:
      raise UsageError(
        'TF_CONFIG names a chief and a master, which is the same'
      )
    hosts['chief'] = hosts.pop('master')
  return hosts, 'chief' if job == 'master' else job, index


def _check(hosts, job, index):
  """Returns the `Cluster`; raises what contradicts itself."""
  unknown = [name for name in (job, *hosts) if name not in JOBS]
  if unknown:
    raise UsageError(
      'there is no job %r: it is one of %s' % (unknown[0], ', '.join(JOBS))
    )
  tasks = tuple(
    Task(name, i, _checked_address(address))
    for name in ('chief', 'worker', 'ps')
    for i, address in enumerate(hosts.get(name, []))
  )
  cluster = Cluster(tasks, None)
  seen = {}
  for task in tasks:
    other = seen.setdefault(task.address, task)
    if other is not task:
      raise UsageError('%s and %s have the same address' % (other, task))
  if job == 'evaluator':
    return cluster
  if len(cluster.of_job('chief')) > 1:
    raise UsageError('there is one chief, not %d' % len(hosts['chief']))
  for name, needed in (('worker', cluster.replicas), ('ps', hosts.get('ps'))):
    if not needed:
      raise UsageError(
        'a cluster needs at least one %s: --%s_hosts' % (name, name)
      )
  if job == 'chief' and not hosts.get('chief'):
    if index:
      raise UsageError('without --chief_host the chief is worker 0')
    job, index = 'worker', 0
  return dataclasses.replace(cluster, task=_find(cluster, job, index))


def _find(cluster, job, index):
  """Returns the task of a job and index."""
  tasks = cluster.of_job(job)
  if index is None and len(tasks) > 1:
    raise UsageError(
      'which %s is this? --task_index is missing, from 0 to %d'
      % (job, len(tasks) - 1)
    )
  if not 0 <= (index or 0) < len(tasks):
    raise UsageError(
      '--task_index=%d: there are %d tasks of the job %s, from 0'
      % (index or 0, len(tasks), job)
    )
  return tasks[index or 0]


def _checked_address(address):
  """Returns an address; raises what cannot be one."""
  match = re.fullmatch(r'([\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})', address)
  if not match or not 0 < int(match.group(2)) < 2**16:
    raise UsageError(
      'the address %r cannot be used: it is to be host:port, with a port from '
      '1 to 65535' % address
    )
  return address


def check_port(task):
  """Raises `UsageError` where another process listens on this task's port."""
  port = int(task.address.rpartition(':')[2])
  # TensorFlow's server listens on every interface.
  with socket.socket() as listener:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
      listener.bind(('', port))
      listener.listen()
    except OSError as e:
      raise UsageError(
        '%s cannot listen on port %d: %s: end what listens there, or give it '
        'another port' % (task, port, e.strerror)
      ) from e


def is_up(task, timeout_secs=2.0):
  """Returns whether something accepts connections at a task's address."""
  host, _, port = task.address.rpartition(':')
  try:
    address = host.strip('[]'), int(port)
    with socket.create_connection(address, timeout_secs) as connection:
      # Where nothing listens, a connection may meet itself.
      return connection.getsockname() != connection.getpeername()
  except (OSError, UnicodeError):  # a name that cannot be one
    return False


def free_ports(count):
  """Returns distinct ports of this machine on which nothing listens."""
  listeners = [socket.socket() for _ in range(count)]
  try:
    for listener in listeners:
      listener.bind(('', 0))
    return [listener.getsockname()[1] for listener in listeners]
  finally:
    for listener in listeners:
      listener.close()
