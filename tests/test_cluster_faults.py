"""What a cluster does when a task of it is lost, stopped, or never there."""

import signal
import time

import clusters
import pytest
from events import read

pytestmark = pytest.mark.process

MODES = pytest.mark.parametrize('sync', [False, True], ids=['async', 'sync'])
MAX_STEPS = 200


@pytest.fixture
def flags(sample):
  return {
    **sample,
    'batch_size': 8,
    'log_frequency': 1,
    'save_checkpoint_steps': 50,
    'learning_rate': 0.01,
    'max_steps': MAX_STEPS,
  }


def check_end(tasks, sync, secs=120, **statuses):
  """Waits for max_steps; looks at how all end, and at what is saved."""
  # The workers of an asynchronous run may end it while the chief saves.
  tasks.wait_for_any(MAX_STEPS - 4)
  tasks.wait(15 if secs is None else secs, **statuses)
  step = tasks.saved_step()
  # Each of the other two replicas may have been in a step.
  assert MAX_STEPS <= step <= MAX_STEPS + (0 if sync else 2)


@MODES
def test_a_run_without_faults(sync, flags, tmp_path):
  with clusters.running(tmp_path, sync_replicas=sync, **flags) as tasks:
    check_end(tasks, sync, secs=15)
    assert tasks.steps()[0] == 0
    # The others have no checkpoints, and need none; workers have charts.
    assert {p.name for p in (tmp_path / 'ps0').iterdir()} == {'err', 'out'}
    for name, task in (('worker0', 'worker_0'), ('worker1', 'worker_1')):
      (folder,) = (tmp_path / name / 'run').iterdir()
      assert folder.name == task
      tags = {value.tag for _, value in read(folder)}
      assert {'total_loss_raw', 'input/batches_in_queue'} <= tags
      assert 'conv1/weights' not in tags


@MODES
def test_a_worker_is_killed_and_joins_again(sync, flags, tmp_path):
  flags['max_steps'] = 100000
  with clusters.running(tmp_path, sync_replicas=sync, **flags) as tasks:
    tasks.wait_for_step(20)
    tasks.kill('worker1')
    if not sync:
      tasks.wait_for_step(tasks.steps()[-1] + 20)
    said = tasks.err('worker1').count('replica 2 of 3')
    tasks.start('worker1')
    tasks.wait_for(
      lambda: tasks.err('worker1').count('replica 2 of 3') > said + 5
    )
    tasks.wait_for_step(tasks.steps()[-1] + 20)
    tasks['chief0'].terminate()
    tasks.wait(15, chief0=143)


@MODES
def test_the_chief_is_killed_and_restarted(sync, flags, tmp_path):
  with clusters.running(tmp_path, sync_replicas=sync, **flags) as tasks:
    tasks.wait_for_step(60)
    tasks.kill('chief0')
    lines = len(tasks.steps())
    saved = tasks.saved_step()
    time.sleep(3)
    tasks.start('chief0')
    tasks.wait_for_step(saved, lines)
    assert tasks.steps()[lines] == saved  # nobody went on without it
    check_end(tasks, sync)
    assert 'Resuming from run/model.ckpt-' in tasks.err('chief0')


@MODES
def test_a_parameter_server_is_killed_and_restarted(sync, flags, tmp_path):
  with clusters.running(
    tmp_path, sync_replicas=sync, num_ps=2, **flags
  ) as tasks:
    tasks.wait_for_step(60)
    tasks.kill('ps0')
    time.sleep(3)
    lines = len(tasks.steps())
    saved = tasks.saved_step()
    tasks.start('ps0')
    tasks.wait_for_step(saved, lines)
    assert tasks.steps()[lines] == saved
    check_end(tasks, sync)


@MODES
def test_a_worker_stops_for_a_while(sync, flags, tmp_path):
  with clusters.running(tmp_path, sync_replicas=sync, **flags) as tasks:
    tasks.wait_for_step(20)
    tasks['worker0'].send_signal(signal.SIGSTOP)
    time.sleep(20)
    tasks['worker0'].send_signal(signal.SIGCONT)
    check_end(tasks, sync)


@MODES
def test_sigterm_to_the_chief(sync, flags, tmp_path):
  flags['max_steps'] = 100000
  with clusters.running(tmp_path, sync_replicas=sync, **flags) as tasks:
    tasks.wait_for_step(20)
    tasks['chief0'].terminate()
    tasks.wait(15, chief0=143)
    last = tasks.steps()[-1]
    assert tasks.saved_step() > last
    assert 'SIGTERM: the run is saved in run' in tasks.err('chief0')


def test_a_task_that_never_comes(flags, tmp_path):
  flags['start_timeout_secs'] = 35
  with clusters.running(tmp_path, 'chief0', 'worker0', **flags) as tasks:
    tasks.wait(80, chief0=1, worker0=1)
    for name in ('chief0', 'worker0'):
      *_, said, last = tasks.err(name).splitlines()
      assert said.startswith('Waiting for ps 0 (127.0.0.1:')
      assert 'ps 0 (127.0.0.1:' in last
      assert '--start_timeout_secs' in last


def test_a_finished_run_has_all_others_end(flags, tmp_path):
  flags['max_steps'] = 3
  with clusters.running(tmp_path, **flags) as tasks:
    tasks.wait(60)
    tasks.start()
    tasks.wait(30)
    assert 'Nothing to do' in tasks.err('chief0')


def test_fewer_gradients_than_replicas_are_enough(flags, tmp_path):
  flags.update(sync_replicas=True, replicas_to_aggregate=2)
  with clusters.running(tmp_path, **flags) as tasks:
    tasks.wait_for_step(20)
    tasks.kill('worker1')
    tasks.wait_for_step(tasks.steps()[-1] + 20)
    check_end(tasks, sync=True, worker1=-signal.SIGKILL)


def test_sigterm_to_all_at_once(flags, tmp_path):
  """As an operator of jobs does; the state may then be lost, but no time."""
  flags['max_steps'] = 100000
  with clusters.running(tmp_path, **flags) as tasks:
    tasks.wait_for_step(60)
    for name in tasks.names:
      tasks[name].terminate()
    deadline = time.monotonic() + 15
    ended = {name: tasks[name].wait(15) for name in tasks.names}
    assert time.monotonic() < deadline
    assert ended['chief0'] in (1, 143)
    others = {status for name, status in ended.items() if name != 'chief0'}
    assert others <= {0, 143}, tasks.said()
    assert 'Traceback' not in tasks.said()
    assert tasks.saved_step() >= 50
