"""A process as a task of a cluster, on TensorFlow's distributed runtime.

Variables are on the parameter servers, and what outlives the cluster is the
checkpoints of the chief. So when the chief or a parameter server is lost, there
is one way on: the chief restores the newest checkpoint, and all others join it.
A task that has lost one of them starts its own process anew (`restarts`), as
nothing can end a call that is blocked within TensorFlow.

Each life of the chief has a number. What is on parameter servers is in a
container of that number, so that a worker of an earlier life, which was stopped
meanwhile, touches nothing of the present one. The number is in a variable on
the chief, its word to the others, which each of them looks at every second.
"""

import contextlib
import logging
import os
import threading
import time

import tensorflow.compat.v1 as tf

from cifar10 import (
  Error,
  UsageError,
  checkpoints,
  cifar10,
  cluster,
  hooks,
  replicas,
  restarts,
  words,
)

_INTERVAL_SECS = 1.0
# A session that takes longer to open is blocked.
_OPENING_SECS = 60.0
# Looks without an answer after which a task that accepts connections is lost.
_MAX_SILENT = 30
# What a step may take once the chief has said that it was the last.
_GRACE_SECS = 3.0
# From a signal or a fault to the end. The chief saves within it.
_END_SECS = 10.0
_CHIEF_END_SECS = 30.0
# How long the chief stays for those that have not heard its last word.
_LINGER_SECS = 30.0
_LINGER_AFTER_SIGNAL_SECS = 4.0
# … and for those that never came, where there was nothing to do.
_LINGER_UNSEEN_SECS = 12.0

# What TensorFlow raises where another task is gone, or is another process now.
_LOST = (tf.errors.AbortedError, tf.errors.UnavailableError)

log = logging.getLogger(__name__)


class Member(tf.train.SessionRunHook):
  """This process as a task of its cluster; also the first hook of its session.

  Attributes:
    cluster: the `cluster.Cluster`.
    target: what `tf.Session` connects to.
    life: the number of the chief's life.
    has_ended: whether the chief has said that training is over.
    watch: the `watchdog.Watchdog` of the session, once there is one.
    step: the global step after the last step here; None: there was no session.
  """

  def __init__(self, members, max_steps, start_timeout_secs):
    """Joins: from now on this task's server listens.

    Args:
      members: the `cluster.Cluster`.
      max_steps: the global step at which training is done.
      start_timeout_secs: how long to wait for other tasks.

    Raises:
      UsageError: another process listens on this task's port.
    """
    self.cluster = members
    self.max_steps = max_steps
    self.life = None
    self.has_ended = False
    self.watch = None
    self.step = None
    self._done = threading.Event()
    cluster.check_port(members.task)
    log.info(
      '%s of %s: anyone who reaches this port can use it, on every interface: '
      'run clusters in a private network, or behind a firewall',
      members.task,
      ', '.join('%d %s' % (len(v), k) for k, v in members.spec.items()),
    )
    config = cifar10.session_config()
    if members.task.job == 'ps':
      config.device_count['GPU'] = 0  # those are for replicas beside it
    try:
      self._server = tf.train.Server(
        tf.train.ClusterSpec(members.spec),
        job_name=members.task.job,
        task_index=members.task.index,
        config=config,
      )
    except tf.errors.OpError as e:
      raise UsageError(
        '%s cannot listen: %s' % (members.task, checkpoints.first_line(e))
      ) from e
    self.target = self._server.target
    self._word = words.Word(members.chief)
    self._patience = restarts.Patience(start_timeout_secs)
    self._coordinator = None
    self._has_failed = False

  @property
  def is_chief(self):
    return self.cluster.is_chief

  @property
  def rank(self):
    return self.cluster.replicas.index(self.cluster.task)

  def _needed(self):
    """Returns the tasks without which this one can do nothing."""
    others = [] if self.is_chief else [self.cluster.chief]
    return self.cluster.of_job('ps') + others

  def wait_for_start(self):
    """Waits for the tasks that this one needs; returns whether there is work.

    Raises:
      cifar10.Error: they did not come.
    """
    while True:
      missing = [t for t in self._needed() if not cluster.is_up(t)]
      word = words.SILENT
      if not self.is_chief and self.cluster.chief not in missing:
        word = self._word.hear()
        if word in (words.WORKERS_END, words.ALL_END):
          return False  # parameter servers may have ended already
      if not missing and (self.is_chief or word > 0):
        self.life = time.time_ns() if self.is_chief else word
        return True
      what = ', '.join(map(str, missing))
      self._patience.wait_for(what or '%s, to begin' % self.cluster.chief)
      time.sleep(_INTERVAL_SECS)

  def serve(self):
    """Holds variables until the chief says that all is over."""
    while self._hear() != words.ALL_END:
      time.sleep(_INTERVAL_SECS)

  def _hear(self):
    """Returns the chief's word, and is patient where there is none."""
    chief = self.cluster.chief
    word = self._word.hear() if cluster.is_up(chief) else words.SILENT
    if word == words.SILENT:
      self._patience.wait_for(chief)
    elif word == words.STARTING:
      self._patience.wait_for('%s, to begin' % chief)
    else:
      self._patience.reset()
    return word

  @contextlib.contextmanager
  def leading(self):
    """The block of all that a chief does; the others end at its end.

    Where an error ends it, they wait for a chief that mends that.
    """
    try:
      yield
    except (Exception, KeyboardInterrupt) as e:
      is_signal = isinstance(e, KeyboardInterrupt)
      if is_signal or (self.watch and self.watch.signum):
        self._leave(_LINGER_AFTER_SIGNAL_SECS)
      raise
    self._leave(_LINGER_SECS)

  @contextlib.contextmanager
  def devices(self):
    """The block that builds a graph, and runs it: where its parts are."""
    setter = replicas.device_setter(self.cluster)
    container = tf.get_default_graph().container('life%d' % self.life)
    with container, tf.device(setter):
      yield

  def device_filters(self):
    return ['/job:ps', self.cluster.task.device]

  @contextlib.contextmanager
  def watching(self, watch):
    """Looks out for the others within a block."""
    self.watch = watch
    self._last_time = time.monotonic()  # of a step, or of the start
    thread = threading.Thread(target=self._look_out, daemon=True)
    thread.start()
    try:
      yield
    finally:
      self._done.set()

  def after_create_session(self, session, coord):
    self._coordinator = coord
    self._last_time = time.monotonic()
    self._global_step = tf.train.get_global_step()
    self._look_at_step(session)
    if self.step >= self.max_steps:
      coord.request_stop()

  def _look_at_step(self, session):
    self.step = int(session.run(self._global_step))

  def step_fn(self, train_op):
    """Returns a function for `run_step_fn` that does a step.

    It looks at errors before the session does: that would be made anew.
    """

    def step(step_context):
      try:
        step_context.run_with_hooks(train_op)
      except tf.errors.OpError as e:
        self.check(e)
        # Of errors like that the session makes itself anew, and waits.
        if self.has_ended or (self._is_ending() and isinstance(e, _LOST)):
          step_context.request_stop()
        raise

    return step

  def say_begin(self):
    """Lets the others in: variables are initialized."""
    self._word.begin()
    self._word.say(self.life)

  def after_run(self, run_context, run_values):
    self._look_at_step(run_context.session)
    self._last_time = time.monotonic()
    self._patience.reset()
    if self.has_ended or self.step >= self.max_steps:
      run_context.request_stop()

  def end(self, session):
    """Has the workers end before the chief saves what they did."""
    if self.is_chief and not self.watch.fault and not self._has_failed:
      with contextlib.suppress(tf.errors.OpError):
        self._word.say(words.WORKERS_END)
      workers = [t for t in self.cluster.replicas if t != self.cluster.task]
      expected = sum(map(cluster.is_up, workers))
      deadline = time.monotonic() + _GRACE_SECS
      while self._word.num_ended() < expected and time.monotonic() < deadline:
        time.sleep(_INTERVAL_SECS / 5)

  def wait_for_end(self):
    """Stays, once a worker has done its last step, until the chief has saved.

    A chief that fails to do so goes on from an older checkpoint.
    """
    self._word.say_ended()
    while (word := self._word.hear()) != words.ALL_END:
      is_lost = word == words.SILENT and not cluster.is_up(self.cluster.chief)
      if is_lost or word not in (words.SILENT, words.WORKERS_END, self.life):
        restarts.restart('%s is lost' % self.cluster.chief)
      time.sleep(_INTERVAL_SECS / 2)

  def _await_end(self, tasks, timeout_secs, since_up=False):
    """Waits until tasks accept connections no more; returns those that do."""
    deadline = time.monotonic() + timeout_secs
    left = [task for task in tasks if task != self.cluster.task]
    was_up = set()
    while left and time.monotonic() < deadline:
      is_up = {task for task in left if cluster.is_up(task)}
      was_up |= is_up
      left = [t for t in left if t in is_up or (since_up and t not in was_up)]
      time.sleep(_INTERVAL_SECS / 5)
    return left

  def _leave(self, timeout_secs):
    try:
      self._word.say(words.ALL_END)
    except tf.errors.OpError as e:
      log.info('The others do not hear the end: %s', checkpoints.first_line(e))
      return
    # Where there was nothing to do, some may not even have begun.
    unseen = self.step is None
    left = self._await_end(
      self.cluster.tasks,
      min(timeout_secs, _LINGER_UNSEEN_SECS) if unseen else timeout_secs,
      since_up=unseen,
    )
    for task in filter(cluster.is_up, left):
      log.info('%s has not ended', task)

  def check(self, error):
    """Restarts the process if an error is due to another task that was lost.

    It returns where the error has another cause, and where training is over:
    then `has_ended` is true.
    """
    if self.watch.signum or self.watch.fault or self.has_ended:
      return  # it is over anyway
    if hooks.what_is_not_finite(error) is not None:
      return
    reason = checkpoints.first_line(error)
    lost = (
      isinstance(error, _LOST)
      # A variable of a parameter server that was restarted.
      or (
        isinstance(error, tf.errors.FailedPreconditionError)
        and 'variable' in str(error).lower()
      )
      or not all(map(cluster.is_up, self._needed()))
    )
    if not self.is_chief:
      # The chief has closed the queue that synchronous workers wait at.
      lost |= 'sync_token_q' in str(error)
      # The queues that a chief closes at its end are heard of before its word.
      deadline = time.monotonic() + _GRACE_SECS
      while time.monotonic() < deadline:
        if self._obey(self._word.hear()):
          return
        time.sleep(_INTERVAL_SECS / 5)
    self._has_failed = True
    if lost:
      restarts.restart(reason)

  def _obey(self, word):
    """Does what the chief's word is; returns whether training is over."""
    if word in (words.WORKERS_END, words.ALL_END):
      self.has_ended = True
    elif word not in (words.SILENT, self.life):
      restarts.restart('%s began anew' % self.cluster.chief)
    return self.has_ended

  def _look_out(self):
    """Runs in a thread: restarts the process, or ends it, where it must."""
    try:
      self._look_out_until_done()
    except Exception as e:
      log.info('Looking out for the other tasks failed: %r', e)
      os._exit(1)

  def _look_out_until_done(self):
    silent, over_since = 0, None
    while not self._done.wait(_INTERVAL_SECS):
      if self.watch.signum or self.watch.fault:
        over_since = over_since or time.monotonic()
        self._end_late(time.monotonic() - over_since)
        continue
      late = time.monotonic() - self._last_time
      if self._coordinator is None and late > _OPENING_SECS:
        restarts.restart('the session does not open')
      if not self.is_chief:
        word = self._word.hear()
        if self._done.is_set() or self.watch.signum or self.watch.fault:
          continue  # meanwhile
        if self._obey(word):
          self._end_worker()
          return
        silent = silent + 1 if word == words.SILENT else 0
        if silent > _MAX_SILENT:
          restarts.restart('%s does not answer' % self.cluster.chief)
      for task in self._needed():
        if not cluster.is_up(task) and not self._is_ending():
          restarts.restart('%s is lost' % task)
      self._report_stall(late)

  def _end_late(self, secs):
    """Ends a process that is blocked where it should have ended."""
    # With what is left of a cluster nothing can be saved.
    can_save = self.is_chief and all(map(cluster.is_up, self._needed()))
    if secs > (_CHIEF_END_SECS if can_save else _END_SECS):
      log.info('Ended without saving: a call does not come back')
      if self.is_chief and self.watch.signum:
        with contextlib.suppress(tf.errors.OpError):
          self._word.say(words.ALL_END)
      os._exit(128 + self.watch.signum if self.watch.signum else 1)

  def _is_ending(self):
    return (
      self.has_ended
      or self._done.is_set()
      or self.watch.signum
      or self.watch.fault
    )

  def _end_worker(self):
    """Ends a worker whose last step goes on for too long: it is of no use."""
    if not self._done.wait(_GRACE_SECS) and self._coordinator:
      self._coordinator.request_stop()
    if not self._done.wait(_GRACE_SECS):
      log.info('Training is over')
      os._exit(0)

  def _report_stall(self, late):
    """Says for whom this task waits, in a step that takes long."""
    if late < _GRACE_SECS or self._is_ending():
      return
    missing = [t for t in self.cluster.replicas if not cluster.is_up(t)]
    if not missing:
      return
    try:
      self._patience.wait_for(', '.join(map(str, missing)))
    except Error as e:
      self.watch.fault = str(e)


class WorkerLogger(tf.train.SessionRunHook):
  """Says which replica this is, where it runs, and at which step."""

  def __init__(self, member, log_frequency):
    self._member = member
    self._log_frequency = log_frequency
    self._last = None

  def after_run(self, run_context, run_values):
    member = self._member
    due = member.step // self._log_frequency
    if due != self._last:
      self._last = due
      log.info(
        'replica %d of %d on %s: step %d',
        member.rank,
        len(member.cluster.replicas),
        member.cluster.task.device,
        member.step,
      )
