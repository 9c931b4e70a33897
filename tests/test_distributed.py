import time

import pytest
import tensorflow.compat.v1 as tf

from cifar10 import cluster, distributed, words


def members_of(job):
  ports = cluster.free_ports(3)
  hosts = ['127.0.0.1:%d' % port for port in ports]
  return cluster.resolve(
    {},
    job_name=job,
    chief_host=hosts[0],
    ps_hosts=hosts[1],
    worker_hosts=hosts[2],
  )


def test_the_chiefs_word_is_heard():
  members = members_of('chief')
  word = words.Word(members.chief)
  server = tf.train.Server(
    tf.train.ClusterSpec(members.spec), 'chief', 0, start=True
  )
  assert server.target.startswith('grpc://')
  assert word.hear() == words.STARTING
  words.Word(members.chief).say(77)
  assert word.hear() == 77


def test_a_chief_that_is_not_there_is_silent():
  word = words.Word(members_of('chief').chief)
  begin = time.monotonic()
  assert word.hear() == words.SILENT
  assert time.monotonic() - begin < 15


@pytest.mark.parametrize('job', ['chief', 'worker', 'ps'])
def test_what_each_task_needs(job, monkeypatch):
  needed = {'chief': ['ps'], 'worker': ['ps', 'chief'], 'ps': ['ps', 'chief']}
  member = distributed.Member(members_of(job), 10, 600)
  assert [task.job for task in member._needed()] == needed[job]
  assert cluster.is_up(member.cluster.task)
