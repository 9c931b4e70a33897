"""Measures the package beside the same work from stock TensorFlow ops.

  python benchmarks/bench.py --what=step --dataset=sample

Sides take turns, each time in a process of its own and in the other order every
second time, so that neither profits from the other's warm caches and a slow
minute of the machine hits both. What is
printed is the median over the turns, the spread (smallest to largest), and the
ratio of the medians. A side that fails ends the benchmark.
"""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'benchmarks')]

# A step's floating-point operations at batch 128, forward and backward.
STEP_GFLOP = 13.5
BATCH_SIZE = 128
# Our scripts turn oneDNN's kernels on, as the others here do. `stock` is what
# TensorFlow does by itself: the same where it finds VNNI or AMX.
_NETWORK_SIDES = ('ours', 'stock', 'stock+oneDNN')
SIDES = {
  'input': ('ours', 'ours, threads', 'stock', 'tf.data'),
  'lrn': _NETWORK_SIDES,
  'step': (*_NETWORK_SIDES, 'Keras 3'),
  'startup': _NETWORK_SIDES,
  'run': _NETWORK_SIDES,
  'eval': _NETWORK_SIDES,
  'cluster': ('ours', '1 ps', '1 ps, sync'),
}


def main():
  args = parse_arguments()
  if args.side:
    print(json.dumps(measure(args)))
    return
  load_data(args)
  result = {'machine': machine(), 'pairs': args.pairs, 'what': {}}
  for what in SIDES if args.what == 'all' else [args.what]:
    result['what'][what] = compare(what, args)
    print_table(what, result['what'][what])
  print('\n' + ', '.join('%s %s' % item for item in result['machine'].items()))
  if args.json:
    pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + '\n')


def parse_arguments():
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--what', choices=[*SIDES, 'all'], default='all')
  parser.add_argument('--pairs', type=int, default=5, help='turns of each side')
  parser.add_argument('--data_dir', default='/tmp/cifar10_data')
  parser.add_argument('--dataset', default='sample')
  parser.add_argument('--steps', type=int, default=None, help='steps of a turn')
  parser.add_argument('--json', metavar='FILE', help='also write results here')
  parser.add_argument('--side', help=argparse.SUPPRESS)
  parser.add_argument('--work_dir', help=argparse.SUPPRESS)
  return parser.parse_args()


def load_data(args):
  """Puts the data in place before anything is timed."""
  from cifar10 import datasets

  datasets.load(args.dataset, args.data_dir, 'train')


def compare(what, args):
  """Returns a dict from side to a list of measurements, one for each turn."""
  turns = {side: [] for side in SIDES[what]}
  with tempfile.TemporaryDirectory() as work_dir:
    if what == 'eval':
      run_side(what, 'checkpoint', args, work_dir)
    for i in range(args.pairs):
      for side in [*turns][:: -1 if i % 2 else 1]:
        turns[side].append(run_side(what, side, args, work_dir))
  return turns


def run_side(what, side, args, work_dir):
  """Runs one turn of one side in a process of its own."""
  words = ['--what', what, '--side', side, '--work_dir', work_dir]
  words += ['--data_dir', args.data_dir, '--dataset', args.dataset]
  if args.steps:
    words += ['--steps', str(args.steps)]
  environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  environment.pop('TF_ENABLE_ONEDNN_OPTS', None)
  if side != 'stock':
    environment['TF_ENABLE_ONEDNN_OPTS'] = '1'
  started = time.time()
  process = subprocess.run(
    [sys.executable, __file__, *words],
    capture_output=True,
    text=True,
    env=environment,
  )
  if process.returncode:
    sys.exit('%s, %s failed:\n%s' % (what, side, process.stderr))
  turn = json.loads(process.stdout.splitlines()[-1])
  if what == 'startup':
    turn['to first step, s'] = turn.pop('first step at') - started
    turn['without import, s'] = turn['to first step, s'] - turn['import, s']
  return turn


def measure(args):
  """Measures one side in this process; returns a dict of numbers."""
  started = time.perf_counter()
  import tensorflow.compat.v1 as tf

  import_secs = time.perf_counter() - started
  tf.logging.set_verbosity(tf.logging.ERROR)
  import stock

  function = {
    'input': measure_input,
    'lrn': measure_lrn,
    'step': measure_step,
    'startup': measure_startup,
    'run': measure_run,
    'cluster': measure_cluster,
    'eval': measure_eval,
  }[args.what]
  with (
    stock.in_use()
    if args.side.startswith('stock')
    else contextlib.nullcontext()
  ):
    turn = function(args)
  if args.what == 'startup':
    turn['import, s'] = import_secs
  # Linux counts kilobytes.
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  return {**turn, 'peak memory, MB': peak}


def timed_steps(session, fetches, warm_up, steps):
  """Returns seconds and CPU seconds a step, after `warm_up` steps."""
  for _ in range(warm_up):
    session.run(fetches)
  started, cpu = time.perf_counter(), time.process_time()
  for _ in range(steps):
    session.run(fetches)
  return (
    (time.perf_counter() - started) / steps,
    (time.process_time() - cpu) / steps,
  )


def load_split(args, name='train'):
  from cifar10 import datasets

  return datasets.load(args.dataset, args.data_dir, name)


def measure_input(args):
  """Takes batches as fast as they come: nothing else uses the cores."""
  import stock
  import tensorflow.compat.v1 as tf

  from cifar10 import cifar10_input

  with tf.Graph().as_default():
    split = load_split(args)
    if args.side == 'tf.data':
      dataset = stock.tf_data(split, BATCH_SIZE)
      images, labels = tf.data.make_one_shot_iterator(dataset).get_next()
    elif args.side == 'ours, threads':
      images, labels = cifar10_input.distorted_batches(
        split, BATCH_SIZE, num_preprocess_threads=num_cores()
      )[0]
    else:
      images, labels = cifar10_input.distorted_batches(split, BATCH_SIZE)[0]
    with tf.train.MonitoredSession() as session:
      secs, cpu_secs = timed_steps(
        session, [images.op, labels.op], 50, args.steps or 500
      )
  return {
    'images/s': BATCH_SIZE / secs,
    'CPU-ms a batch': 1000 * cpu_secs,
  }


def measure_lrn(args):
  """Times normalization alone, at the size that both layers have."""
  import tensorflow.compat.v1 as tf

  from cifar10 import cifar10, lrn

  shape = [BATCH_SIZE, 12, 12, 64]
  with tf.Graph().as_default():
    x = tf.get_variable('x', shape, initializer=tf.random_normal_initializer())
    g = tf.get_variable('g', shape, initializer=tf.random_normal_initializer())
    y = lrn.compiled(**cifar10.LRN)(tf.identity(x))
    (dx,) = tf.gradients(y, [x], g)
    with tf.train.MonitoredSession() as session:
      steps = args.steps or 200
      forward, _ = timed_steps(session, y.op, 20, steps)
      both, cpu_secs = timed_steps(session, [y.op, dx.op], 20, steps)
  return {
    'forward, ms': 1000 * forward,
    'with gradient, ms': 1000 * both,
    'CPU-ms': 1000 * cpu_secs,
  }


def measure_step(args):
  """Times a whole step with the loss fetched, and the matmul peak."""
  peak = matmul_gflops()
  time_steps = fit_keras if args.side == 'Keras 3' else run_steps
  secs, cpu_secs = time_steps(load_split(args), 30, args.steps or 200)
  return {
    'ms a step': 1000 * secs,
    'examples/s': BATCH_SIZE / secs,
    'CPU-ms a step': 1000 * cpu_secs,
    'matmul peak, GFLOP/s': peak,
    'share of peak': STEP_GFLOP / secs / peak,
  }


def run_steps(split, warm_up, steps):
  """Returns seconds and CPU seconds a step of the graph."""
  import stock
  import tensorflow.compat.v1 as tf

  with tf.Graph().as_default():
    loss, train_op = stock.train_op(split, BATCH_SIZE)
    with tf.train.MonitoredSession() as session:
      return timed_steps(session, [train_op, loss], warm_up, steps)


def fit_keras(split, warm_up, steps):
  """Returns seconds and CPU seconds a step of Keras' `fit`, from `tf.data`.

  Its loss stays where it is until the end of an epoch; a graph's is fetched.
  """
  import keras
  import stock

  clocks = {}

  def note_time(batch, logs=None):
    clocks[batch] = time.perf_counter(), time.process_time()

  stock.keras_model(split.num_classes).fit(
    stock.tf_data(split, BATCH_SIZE),
    steps_per_epoch=warm_up + steps,
    verbose=0,
    callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=note_time)],
  )
  before, after = clocks[warm_up - 1], clocks[warm_up + steps - 1]
  return tuple((b - a) / steps for a, b in zip(before, after))


def matmul_gflops(size=2048, repeats=15):
  """Returns the best rate of float32 matrix products on this machine, now."""
  import tensorflow.compat.v1 as tf

  with tf.Graph().as_default(), tf.Session() as session:
    a = tf.get_variable('a', [size, size])
    product = tf.matmul(a, a)
    session.run(tf.global_variables_initializer())
    secs = min(
      timed_steps(session, product.op, 0, 1)[0] for _ in range(repeats)
    )
  return 2 * size**3 / secs / 1e9


def measure_startup(args):
  """Trains one step as train.py does; the parent knows when it all began."""
  times = []
  train(args, 1, lambda step: times.append(time.time()))
  return {'first step at': times[0]}


def measure_run(args):
  """Trains as a user does, summaries and checkpoints on."""
  steps = args.steps or 1000
  early, memory = max(1, steps // 10), {}

  def note_memory(step):
    if step == early:
      memory['resident after a tenth, MB'] = resident_mb()
    if step == steps:
      memory['resident at the end, MB'] = resident_mb()

  started = time.perf_counter()
  train(args, steps, note_memory)
  return {'whole run, s': time.perf_counter() - started, **memory}


def measure_cluster(args):
  """Trains alone, or as a chief whose variables are on a parameter server."""
  from cifar10 import cluster

  times, flags = [], {}
  with contextlib.ExitStack() as stack:
    if args.side != 'ours':
      hosts = ['127.0.0.1:%d' % port for port in cluster.free_ports(2)]
      hosts = {'ps_hosts': hosts[0], 'chief_host': hosts[1]}
      words = ['--%s=%s' % item for item in hosts.items()]
      script = str(ROOT / 'scripts' / 'train.py')
      stack.enter_context(
        subprocess.Popen([sys.executable, script, '--job_name=ps', *words])
      )
      flags['cluster'] = cluster.resolve({}, job_name='chief', **hosts)
      flags['sync_replicas'] = args.side.endswith('sync')
    train(
      args,
      args.steps or 150,
      lambda _: times.append(time.perf_counter()),
      **flags,
    )
  times = times[len(times) // 5 :]
  steps = [1000 * (b - a) for a, b in zip(times, times[1:])]
  return {'step, ms': statistics.median(steps)}


def train(args, max_steps, after_step, **flags):
  """Trains in a folder of its own, away from the results on our output.

  Args:
    args: the command line.
    max_steps: how many steps.
    after_step: function that is called with the number of each finished step.
    **flags: further arguments of `training.train`.
  """
  from cifar10 import hooks, training

  logger_after_run = hooks.LoggerHook.after_run
  steps = itertools.count(1)

  def after_run(hook, run_context, run_values):
    after_step(next(steps))
    logger_after_run(hook, run_context, run_values)

  hooks.LoggerHook.after_run = after_run
  with (
    tempfile.TemporaryDirectory(dir=args.work_dir) as train_dir,
    contextlib.redirect_stdout(sys.stderr),
  ):
    training.train(
      data_dir=args.data_dir,
      dataset=args.dataset,
      train_dir=train_dir,
      max_steps=max_steps,
      **flags,
    )


def resident_mb():
  """Returns the resident memory of this process."""
  pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
  return pages * resource.getpagesize() / 2**20


def measure_eval(args):
  """Evaluates the test split, from the graph to the last example."""
  from cifar10 import evaluation

  path = os.path.join(args.work_dir, 'model.ckpt-1')
  if args.side == 'checkpoint':
    save_checkpoint(args, path)
    return {}
  split = load_split(args, 'test')
  started, cpu = time.perf_counter(), time.process_time()
  results, _ = evaluation.evaluate_once(path, split, BATCH_SIZE, 10000)
  secs = time.perf_counter() - started
  assert results.total == min(10000, split.num_examples)
  return {
    'whole evaluation, s': secs,
    'images/s': results.total / secs,
    'CPU-s': time.process_time() - cpu,
  }


def save_checkpoint(args, path):
  """Saves initial weights: what is evaluated does not matter to the time."""
  import stock
  import tensorflow.compat.v1 as tf

  with tf.Graph().as_default(), tf.Session() as session:
    stock.train_op(load_split(args), BATCH_SIZE)
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, path)


def num_cores():
  return len(os.sched_getaffinity(0))


def vector_instructions():
  """Returns those of AVX and AMX that Linux says there are."""
  words = pathlib.Path('/proc/cpuinfo').read_text().split()
  names = ('avx2', 'avx512f', 'avx512_vnni', 'avx_vnni', 'amx_tile')
  return '+'.join(name for name in names if name in words) or 'none'


def machine():
  """Returns what a figure depends on beside the code."""
  return {
    'TensorFlow': importlib.metadata.version('tensorflow'),
    'Python': sys.version.split()[0],
    'cores': num_cores(),
    'vector instructions': vector_instructions(),
    'load before': '%.2f' % os.getloadavg()[0],
  }


def print_table(what, turns):
  """Prints a row for each number of each side; ratios are to our median."""
  print(
    '\n%-10s%-27s%-14s%10s%22s%8s'
    % (what, '', 'side', 'median', 'spread', 'ratio')
  )
  for name in turns['ours'][0]:
    ours = statistics.median(turn[name] for turn in turns['ours'])
    for side, measured in turns.items():
      values = [turn[name] for turn in measured]
      median = statistics.median(values)
      print(
        '%-10s%-27s%-14s%10.4g%11.4g-%10.4g%8.2f'
        % ('', name, side, median, min(values), max(values), median / ours)
      )


if __name__ == '__main__':
  main()
