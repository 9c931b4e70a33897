"""Charts: each has a description that TensorBoard shows."""

import pytest
import tensorflow.compat.v1 as tf
from events import read

from cifar10 import charts, summaries


@pytest.fixture(autouse=True)
def graph():
  """A graph, which file writers want; no writer outlives it."""
  with tf.Graph().as_default():
    yield
  tf.summary.FileWriterCache.clear()


@pytest.mark.parametrize(
  'tag, begin',
  [
    ('total_loss_raw', 'Loss of one batch'),
    ('total_loss', 'Moving average'),
    ('local4/weight_loss', 'Moving average'),
    ('local4/weight_loss_raw', 'Weight decay'),
    ('conv1/weights', 'Weights'),
    ('conv1/weights/gradients', 'Gradient'),
    ('precision_by_class/red fox', "Part of this class's"),
  ],
)
def test_what_is_said_of_a_tag(tag, begin):
  summary = tf.Summary()
  summary.value.add(tag=tag, simple_value=1.5)
  (value,) = charts.describe(summary).value
  assert value.simple_value == 1.5
  assert value.metadata.summary_description.startswith(begin)
  assert value.metadata.plugin_data.plugin_name == 'scalars'


def test_the_description_goes_with_the_first_value(tmp_path):
  writer = charts.Writer(str(tmp_path))
  for step in (1, 2):
    summary = tf.Summary()
    summary.value.add(tag='learning_rate', simple_value=step)
    writer.add_summary(summary.SerializeToString(), step)
  writer.add_summary(charts.text('run', '**bold**'), 3)
  writer.flush()
  first, second, page = read(tmp_path)
  assert [first[0], second[0], page[0]] == [1, 2, 3]
  assert first[1].metadata.summary_description
  assert not second[1].metadata.summary_description
  assert second[1].simple_value == 2
  assert page[1].metadata.plugin_data.plugin_name == 'text'
  assert tf.make_ndarray(page[1].tensor).item() == b'**bold**'


def test_the_scalars_of_a_graph(tmp_path):
  step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
  summaries.scalar('learning_rate', 0.5)
  summaries.histogram('conv1/weights', [0.5])
  hooks = charts.scalar_hooks(str(tmp_path), 2)
  with tf.train.MonitoredSession(hooks=hooks) as session:
    for _ in range(5):
      session.run(step)
  found = [(step, value.tag) for step, value in read(tmp_path)]
  assert [s for s, tag in found if tag == 'learning_rate'] == [1, 3, 5]
  assert {tag for _, tag in found} == {'learning_rate', 'global_step/sec'}
