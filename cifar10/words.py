"""What a cluster's chief says to the other tasks: a variable on its server.

It begins, with a number for each of its lives, and later says what is to end.
"""

import contextlib

import tensorflow.compat.v1 as tf

# The chief's word is the number of its life, or one of these.
WORKERS_END = -1  # workers are to end; parameter servers are still needed
ALL_END = -2
STARTING = 0
SILENT = -3  # no answer


class Word:
  """The chief's word to the others, a variable on its server."""

  def __init__(self, chief):
    self._target = 'grpc://' + chief.address
    self._session = None
    with tf.Graph().as_default() as graph, tf.device(chief.device):
      self._word = tf.get_variable(
        'word', [], tf.int64, tf.zeros_initializer(), use_resource=True
      )
      self._heard = self._word.value()
      # How many workers have ended, as they were asked to.
      ended = tf.get_variable(
        'ended', [], tf.int64, tf.zeros_initializer(), use_resource=True
      )
      self._num_ended = ended.value()
      self._begin = ended.initializer
      self._end = ended.assign_add(1, read_value=False)
      self._new = tf.placeholder(tf.int64, [])
      self._say = self._word.assign(self._new, read_value=False)
    self._graph = graph
    self._config = tf.ConfigProto(
      device_filters=[chief.device], operation_timeout_in_ms=5000
    )

  def say(self, word):
    """Says a word, the number of a life or the end.

    Raises:
      tf.errors.OpError: this task's own server does not answer.
    """
    self._run_again([self._say], {self._new: word})

  def begin(self):
    """Counts no worker as ended."""
    self._run_again(self._begin)

  def say_ended(self):
    with contextlib.suppress(tf.errors.OpError):
      self._run(self._end)

  def num_ended(self):
    with contextlib.suppress(tf.errors.OpError):
      return int(self._run(self._num_ended))
    return 0

  def hear(self):
    """Returns what the chief said; `SILENT` where it does not answer."""
    try:
      return int(self._run(self._heard))
    except tf.errors.FailedPreconditionError:
      return STARTING
    except tf.errors.OpError:
      self._session = None
      return SILENT

  def _run_again(self, fetch, feed=None):
    for _ in range(2):  # where the machine is busy
      try:
        return self._run(fetch, feed)
      except tf.errors.OpError:
        self._session = None
    return self._run(fetch, feed)

  def _run(self, fetch, feed=None):
    session = self._session  # another thread may give it up
    if session is None:
      session = tf.Session(self._target, graph=self._graph, config=self._config)
      self._session = session
    return session.run(fetch, feed)
