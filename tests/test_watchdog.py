"""A signal or a changed file ends training, while a step waits as well."""

import os
import signal
import threading
import time

import pytest
import tensorflow.compat.v1 as tf

from cifar10 import watchdog


def run(watch, num_steps=10, before_step=lambda step: None, tokens=1000):
  """Runs steps that each wait for a token; returns how many came to an end.

  Args:
    watch: the `Watchdog`.
    num_steps: how many, at most.
    before_step: function that is called with the number of each.
    tokens: how many there are.
  """
  done = 0
  with watch, tf.Graph().as_default():
    source = tf.FIFOQueue(tokens, [tf.int32], [[]])
    fill = source.enqueue_many([tf.range(tokens)])
    # Takes a token and puts it back, until there is none.
    again = source.enqueue(source.dequeue())
    tf.train.add_queue_runner(tf.train.QueueRunner(source, [again]))
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    enqueue = queue.enqueue(source.dequeue())
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    step = queue.dequeue()
    tf.train.get_or_create_global_step()
    scaffold = tf.train.Scaffold(init_fn=lambda _, session: session.run(fill))
    with tf.train.MonitoredSession(
      tf.train.ChiefSessionCreator(scaffold), [watch]
    ) as session:
      while done < num_steps and not session.should_stop():
        before_step(done + 1)
        session.run(step)
        done += 1
  return done


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_training_after_its_step(signum):
  previous = signal.getsignal(signum)
  watch = watchdog.Watchdog()

  def interrupt(step):
    if step == 3:
      os.kill(os.getpid(), signum)

  assert run(watch, before_step=interrupt) == 3
  assert watch.signum == signum and watch.fault is None
  assert signal.getsignal(signum) == previous
  # Whoever had the descriptor of wake-ups before has it again: nobody.
  assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_while_a_step_waits(monkeypatch):
  monkeypatch.setattr(watchdog, '_GRACE_SECS', 0.2)
  monkeypatch.setattr(watchdog, '_INTERVAL_SECS', 0.05)
  watch = watchdog.Watchdog()

  def interrupt(step):
    if step == 4:
      timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
      timer.start()

  assert run(watch, before_step=interrupt, tokens=3) == 3
  assert watch.signum == signal.SIGINT


@pytest.mark.parametrize(
  'change, said',
  [
    (lambda path: os.truncate(path, 2), 'a.bin had 4 bytes, and has 2 now'),
    (lambda path: os.truncate(path, 0), 'a.bin had 4 bytes, and has 0 now'),
    (lambda path: path.unlink(), 'a.bin was removed'),
  ],
)
@pytest.mark.parametrize('tokens', [3, 1000])
def test_a_file_that_changes(change, said, tokens, tmp_path, monkeypatch):
  monkeypatch.setattr(watchdog, '_INTERVAL_SECS', 0.05)
  path = tmp_path / 'a.bin'
  path.write_bytes(b'1234')
  watch = watchdog.Watchdog([str(path)])

  def change_at_3(step):
    if step == 3:
      change(path)
    time.sleep(0.1)

  assert 3 <= run(watch, 1000, change_at_3, tokens) < 20
  assert said in watch.fault
  assert watch.signum is None


def test_in_another_thread_signals_stay_with_whoever_has_them():
  previous = signal.getsignal(signal.SIGINT)
  found = []

  def target():
    watch = watchdog.Watchdog()
    found.append(run(watch, 5))
    found.append(signal.getsignal(signal.SIGINT))

  thread = threading.Thread(target=target)
  thread.start()
  thread.join()
  assert found == [5, previous]
