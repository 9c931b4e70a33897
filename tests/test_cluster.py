import json
import socket

import pytest

from cifar10 import UsageError, cluster

HOSTS = {
  'chief_host': 'a:1',
  'worker_hosts': 'b:1,b:2',
  'ps_hosts': 'c:1',
}
CONFIG = {
  'cluster': {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1']},
  'task': {'type': 'worker', 'index': 1},
}


def resolve(config=None, **flags):
  environ = {}
  if config is not None:
    text = config if isinstance(config, str) else json.dumps(config)
    environ = {'TF_CONFIG': text}
  return cluster.resolve(environ, **flags)


def test_flags_and_the_variable_say_the_same():
  by_flags = resolve(job_name='worker', task_index=1, **HOSTS)
  assert by_flags == resolve(CONFIG)
  assert by_flags.task == cluster.Task('worker', 1, 'b:2')
  assert by_flags.task.device == '/job:worker/task:1'
  assert by_flags.spec == CONFIG['cluster']
  assert [str(task) for task in by_flags.replicas] == [
    'chief 0 (a:1)',
    'worker 0 (b:1)',
    'worker 1 (b:2)',
  ]
  assert not by_flags.is_chief


@pytest.mark.parametrize(
  'config',
  [
    None,
    '',
    '{}',
    {'task': {}},
    {'cluster': {}, 'task': {}},
    {'cluster': None, 'task': None},
    {'cluster': {}, 'task': {'type': 'worker', 'index': 0}},
  ],
)
def test_without_a_cluster(config):
  assert resolve(config) is None


@pytest.mark.parametrize('job', ['worker', 'chief', 'master'])
def test_a_job_of_one_task_trains_alone(job):
  config = {'cluster': {job: ['a:1']}, 'task': {'type': job, 'index': 0}}
  assert resolve(config) is None


@pytest.mark.parametrize('job', ['ps', 'cook'])
def test_a_task_that_is_not_the_one_there_is(job):
  config = {'cluster': {'chief': ['a:1']}, 'task': {'type': job, 'index': 0}}
  with pytest.raises(UsageError):
    resolve(config)


def test_the_evaluator_of_a_job_of_one_task():
  config = {
    'cluster': {'chief': ['a:1'], 'evaluator': ['e:1']},
    'task': {'type': 'evaluator', 'index': 0},
  }
  assert resolve(config).task is None
  config['task']['type'] = 'chief'
  assert resolve(config) is None


def test_worker_0_is_the_chief_where_none_is_named():
  hosts = {**HOSTS, 'chief_host': None}
  first = resolve(job_name='worker', task_index=0, **hosts)
  assert first.is_chief
  assert resolve(job_name='chief', **hosts) == first
  assert not resolve(job_name='worker', task_index=1, **hosts).is_chief


def test_master_means_chief():
  config = json.loads(json.dumps(CONFIG).replace('chief', 'master'))
  config['task'] = {'type': 'master', 'index': 0}
  assert resolve(config).task == cluster.Task('chief', 0, 'a:1')
  assert resolve(config).is_chief


def test_flags_go_before_the_variable():
  found = resolve(CONFIG, task_index=0)
  assert found.task == cluster.Task('worker', 0, 'b:1')
  found = resolve(CONFIG, job_name='ps')
  assert found.task == cluster.Task('ps', 0, 'c:1')
  found = resolve(CONFIG, ps_hosts='d:1,d:2')
  assert [task.address for task in found.of_job('ps')] == ['d:1', 'd:2']


def test_the_evaluator_is_no_part_of_it():
  config = {
    'cluster': {**CONFIG['cluster'], 'evaluator': ['e:1']},
    'task': {'type': 'evaluator', 'index': 0},
  }
  found = resolve(config)
  assert found.task is None
  assert len(found.tasks) == 4


@pytest.mark.parametrize(
  ('config', 'flags', 'said'),
  [
    ('{', {}, 'TF_CONFIG cannot be understood'),
    ('[]', {}, 'TF_CONFIG cannot be understood'),
    ({'cluster': 3}, {}, 'TF_CONFIG cannot be understood'),
    ({'cluster': {'ps': {'0': 'a:1'}}}, {}, 'the tasks of ps are no list'),
    ({'cluster': {'ps': None}}, {}, 'the tasks of ps are no list'),
    ({'cluster': {'ps': [1]}}, {}, 'not every address of ps is a string'),
    ({'task': {'type': 3}}, {}, 'TF_CONFIG cannot be understood'),
    ({'task': {'index': 'x'}}, {}, 'TF_CONFIG cannot be understood'),
    ({'task': {'index': 0.5}}, {}, 'TF_CONFIG cannot be understood'),
    ({'cluster': CONFIG['cluster']}, {}, '--job_name is missing'),
    (
      {'cluster': {'chief': ['a:1'], 'master': ['a:1']}},
      {},
      'a chief and a master',
    ),
    ({**CONFIG, 'task': {'type': 'cook'}}, {}, "there is no job 'cook'"),
    ({**CONFIG, 'task': {'type': 'worker', 'index': 2}}, {}, 'task_index=2'),
    ({**CONFIG, 'task': {'type': 'worker', 'index': -1}}, {}, 'task_index=-1'),
    (CONFIG, {'task_index': 7}, '--task_index=7: there are 2 tasks of the job'),
    (CONFIG, {'ps_hosts': 'a:1'}, 'have the same address'),
    (None, {**HOSTS}, '--job_name is missing'),
    (None, {'task_index': 0}, '--job_name is missing'),
    (None, {'job_name': 'worker'}, 'needs --ps_hosts and --worker_hosts'),
    (None, {'job_name': 'ps'}, 'needs --ps_hosts and --worker_hosts'),
    (None, {**HOSTS, 'job_name': 'worker'}, '--task_index is missing'),
    (
      None,
      {**HOSTS, 'chief_host': None, 'job_name': 'chief', 'task_index': 1},
      'the chief is worker 0',
    ),
    (
      None,
      {'worker_hosts': 'b:1,b:2', 'job_name': 'worker', 'task_index': 0},
      'at least one ps: --ps_hosts',
    ),
    (
      None,
      {'ps_hosts': 'b:1,b:2', 'job_name': 'ps', 'task_index': 0},
      'at least one worker: --worker_hosts',
    ),
    (
      None,
      {**HOSTS, 'chief_host': 'a:1,a:2', 'job_name': 'chief'},
      'there is one chief, not 2',
    ),
  ],
)
def test_what_contradicts_itself(config, flags, said):
  with pytest.raises(UsageError) as raised:
    resolve(config, **flags)
  assert said in str(raised.value)
  assert '\n' not in str(raised.value)


@pytest.mark.parametrize(
  'address',
  ['', 'host', 'host:', ':1', 'host:0', 'host:65536', 'a b:1', 'grpc://a:1'],
)
def test_what_is_no_address(address):
  flags = {**HOSTS, 'ps_hosts': address, 'job_name': 'ps'}
  with pytest.raises(UsageError, match='host:port'):
    resolve(**flags)


@pytest.mark.parametrize('address', ['10.0.0.1:80', 'ps-0.svc:2222', '[::1]:9'])
def test_what_is_an_address(address):
  flags = {**HOSTS, 'ps_hosts': address, 'job_name': 'ps'}
  assert resolve(**flags).task.address == address


def test_a_port_that_is_taken():
  with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    port = listener.getsockname()[1]
    task = cluster.Task('ps', 0, '127.0.0.1:%d' % port)
    assert cluster.is_up(task)
    with pytest.raises(UsageError, match='cannot listen on port %d' % port):
      cluster.check_port(task)
  cluster.check_port(task)
  assert not cluster.is_up(task)


def test_free_ports_are_distinct():
  ports = cluster.free_ports(20)
  assert len(set(ports)) == 20
