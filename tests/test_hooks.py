"""What is printed while training, and what is written before a checkpoint."""

import re

import pytest
import tensorflow.compat.v1 as tf

from cifar10 import checkpoints, hooks

LINE = re.compile(
  r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: step (\d+), loss = (\d+\.\d\d) '
  r'\((\d+\.\d) examples/sec; (\d+\.\d{3}) sec/batch\)'
)
SECS_PER_STEP = 0.5


class Clock(tf.train.SessionRunHook):
  """Stands for the clock of `hooks`: each step takes half a second."""

  now = 100.0

  def perf_counter(self):
    return self.now

  def after_run(self, run_context, run_values):
    self.now += SECS_PER_STEP


def run(first_step, num_steps, make_hooks):
  """Runs steps, from a global step on; the loss is the step's own number."""
  with tf.Graph().as_default():
    global_step = tf.train.get_or_create_global_step()
    loss = tf.to_float(global_step.read_value())
    with tf.control_dependencies([loss]):
      train_op = tf.assign_add(global_step, 1)
    start = tf.assign(global_step, first_step)
    scaffold = tf.train.Scaffold(init_fn=lambda _, session: session.run(start))
    with tf.train.MonitoredSession(
      tf.train.ChiefSessionCreator(scaffold), make_hooks(loss)
    ) as session:
      for _ in range(num_steps):
        if not session.should_stop():
          session.run(train_op)


@pytest.mark.parametrize('num_batches', [1, 4])
@pytest.mark.parametrize(
  'first_step, num_steps, frequency, steps',
  [
    (0, 25, 10, [0, 10, 20]),
    (7, 15, 10, [7, 10, 20]),
    (10, 11, 10, [10, 20]),
    (3, 3, 1, [3, 4, 5]),
    (5, 4, 100, [5]),
  ],
)
def test_lines_and_rates(
  first_step, num_steps, frequency, steps, num_batches, monkeypatch, capsys
):
  clock = Clock()
  monkeypatch.setattr(hooks, 'time', clock)
  run(
    first_step,
    num_steps,
    lambda loss: [clock, hooks.LoggerHook(loss, frequency, 8, num_batches)],
  )
  lines = capsys.readouterr().out.splitlines()
  printed = [LINE.fullmatch(line).groups() for line in lines]
  assert [int(step) for step, *_ in printed] == steps
  # The step printed is the one before the update, and so is the loss.
  assert [float(loss) for _, loss, *_ in printed] == steps
  # Rates cover the steps since the last line, no more and no less.
  examples_per_sec = '%.1f' % (8 * num_batches / SECS_PER_STEP)
  sec_per_batch = '%.3f' % (SECS_PER_STEP / num_batches)
  assert {(examples, secs) for _, _, examples, secs in printed} == {
    (examples_per_sec, sec_per_batch)
  }


def test_run_json_is_there_before_the_first_checkpoint(tmp_path):
  described = checkpoints.Run('small', ('a', 'b'), 24, 'float32')
  writer = hooks.RunWriter(str(tmp_path), described)
  seen = []

  class Watching(tf.train.CheckpointSaverListener):
    def before_save(self, session, global_step_value):
      seen.append((checkpoints.read_run(str(tmp_path)), global_step_value))
      assert checkpoints.newest(str(tmp_path)) is None or global_step_value

  run(
    0,
    2,
    lambda loss: [
      tf.train.CheckpointSaverHook(
        str(tmp_path), save_steps=1, listeners=[writer, Watching()]
      )
    ],
  )
  assert seen == [(described, 0), (described, 1), (described, 2)]
