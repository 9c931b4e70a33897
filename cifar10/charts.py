"""What TensorBoard's charts show, in a sentence each, and who writes them."""

import re

import tensorflow.compat.v1 as tf

# Tags, and what is said of them: the first pattern that fits counts.
_DESCRIPTIONS = [
  (
    'total_loss_raw',
    'Loss of one batch: cross entropy, and the weight decay of local3 and '
    'local4. What gradients are computed of.',
  ),
  (
    'cross_entropy_raw',
    'Mean cross entropy of one batch, before weight decay. Guessing among n '
    'classes gives ln n: 2.3 for ten.',
  ),
  (
    r'local\d/weight_loss_raw',
    'Weight decay: 0.004 times half the sum of the squared weights of the '
    'layer.',
  ),
  (
    '(total_loss|cross_entropy|.+/weight_loss)',
    'Moving average, with decay 0.9, of the chart of this name with _raw.',
  ),
  (
    'learning_rate',
    'Learning rate of the step: a tenth after each 350 epochs.',
  ),
  ('global_step/sec', 'Steps a second since the last point of this chart.'),
  (
    'input/examples_in_queue',
    'Examples in the shuffle queue. Below its minimum, which the first line of '
    'training names, reading waits for the disk.',
  ),
  (
    'input/batches_in_queue',
    'Finished batches that wait for a step. If it is 0 most of the time, '
    'training waits for input.',
  ),
  (
    '.+/sparsity',
    'Part of the activations of the layer that are exactly 0, in one batch.',
  ),
  ('.+/activations', 'What the layer puts out, for one batch.'),
  ('.+/gradients', 'Gradient of the loss by the variable, in one step.'),
  ('.+/weights', 'Weights of the layer.'),
  ('.+/biases', 'Biases of the layer.'),
  (
    'images/image/.+',
    'A picture of one batch as the network sees it, cropped and distorted, in '
    'the grey levels that it had before it was standardized.',
  ),
  (
    'conv1/filters/image',
    'The kernels of conv1, 5x5 weights of red, green and blue each. Grey is 0; '
    'all share one scale.',
  ),
  (
    'Precision @ 1',
    'Part of the evaluated examples for which no class is likelier than their '
    'label.',
  ),
  (
    'precision_by_class/.+',
    "Part of this class's evaluated examples for which no class is likelier "
    'than their label.',
  ),
  (
    'confusion_matrix',
    'Evaluated examples: true classes by predicted ones, shaded by the part of '
    'the row.',
  ),
  (
    'mistakes',
    'Examples that are taken for another class with the highest probability, '
    'those first.',
  ),
  ('run', 'What was started, where, and on what.'),
]

# TensorBoard's page, and class of data, for each kind of value.
_PLUGINS = {
  'simple_value': ('scalars', 'DATA_CLASS_SCALAR'),
  'histo': ('histograms', 'DATA_CLASS_TENSOR'),
  'image': ('images', 'DATA_CLASS_BLOB_SEQUENCE'),
  'tensor': ('text', 'DATA_CLASS_TENSOR'),
}


def describe(summary):
  """Gives each value of a `tf.Summary` the description of its tag."""
  for value in summary.value:
    plugin, data_class = _PLUGINS[value.WhichOneof('value')]
    # TensorBoard passes over metadata without a plugin and a class of data.
    value.metadata.CopyFrom(
      tf.SummaryMetadata(
        plugin_data={'plugin_name': plugin},
        data_class=data_class,
        summary_description=_description(value.tag),
      )
    )
  return summary


def _description(tag):
  for pattern, text in _DESCRIPTIONS:
    if re.fullmatch(pattern, tag):
      return text
  return ''


def text(tag, markdown):
  """Returns a `tf.Summary` that TensorBoard shows as a page of text."""
  summary = tf.Summary()
  summary.value.add(tag=tag, tensor=tf.make_tensor_proto(markdown))
  return describe(summary)


class Writer:
  """Writes described summaries to the event file of a folder.

  It stands for `tf.summary.FileWriter` in hooks. The file is that of all hooks
  of the folder, looked up when something is written.
  """

  def __init__(self, directory):
    self._directory = directory

  def _writer(self):
    return tf.summary.FileWriterCache.get(self._directory)

  def add_summary(self, summary, global_step=None):
    if isinstance(summary, bytes):
      summary = tf.Summary.FromString(summary)
    # The file writer keeps the first description of each tag.
    self._writer().add_summary(describe(summary), global_step)

  def add_session_log(self, session_log, global_step=None):
    self._writer().add_session_log(session_log, global_step)

  def flush(self):
    self._writer().flush()


def scalar_hooks(directory, save_steps):
  """Returns hooks that write the graph's scalars, and steps a second.

  Args:
    directory: the folder to write to.
    save_steps: steps between points.
  """
  writer = Writer(directory)
  scalars = [
    summary
    for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)
    if summary.op.type == 'ScalarSummary'
  ]
  return [
    tf.train.SummarySaverHook(
      save_steps=save_steps,
      summary_writer=writer,
      summary_op=tf.summary.merge(scalars),
    ),
    tf.train.StepCounterHook(save_steps, summary_writer=writer),
  ]
