"""The CIFAR-10 network: input, inference, loss and training as graphs.

Summary of the functions, in the order in which a program calls them:

  # Pictures and labels, from queues.
  images, labels = distorted_inputs()
  # Logits of each class.
  logits = inference(images)
  # The loss of these predictions, weight decay included.
  total_loss = loss(logits, labels)
  # One step of gradient descent, and the moving averages.
  train_op = train(total_loss, global_step)

The names of variables are the checkpoint format: the original tutorial's.
Variables live on the CPU, where the towers of a multi-GPU program share them.
"""

import re

import tensorflow.compat.v1 as tf

from cifar10 import cifar10_input, datasets, lrn, summaries

# The tutorial's numbers. They hold for its data set; the functions below take
# those of any other as arguments.
IMAGE_SIZE = cifar10_input.IMAGE_SIZE
NUM_CLASSES = cifar10_input.NUM_CLASSES
NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN = (
  cifar10_input.NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN
)
NUM_EXAMPLES_PER_EPOCH_FOR_EVAL = cifar10_input.NUM_EXAMPLES_PER_EPOCH_FOR_EVAL
BATCH_SIZE = cifar10_input.BATCH_SIZE

MOVING_AVERAGE_DECAY = 0.9999  # of the trainable variables
LOSS_AVERAGE_DECAY = 0.9  # of the losses, for charts alone
NUM_EPOCHS_PER_DECAY = 350.0  # epochs after which the learning rate drops
LEARNING_RATE_DECAY_FACTOR = 0.1
INITIAL_LEARNING_RATE = 0.1

# The collection in which `train` puts the learning rate of the step.
LEARNING_RATE = 'learning_rate'

# Towers are name scopes `tower_0`, `tower_1`, …; no tag or variable has them.
TOWER_NAME = 'tower'

# Local response normalization as cuda-convnet's CIFAR-10 layers have it
# (Krizhevsky et al. 2012, section 3.3, gives the formula).
LRN = {'depth_radius': 4, 'bias': 1.0, 'alpha': 0.001 / 9.0, 'beta': 0.75}


def maybe_download_and_extract(data_dir=datasets.DATA_DIR, dataset='cifar10'):
  """Downloads (or draws) the data set unless .bin files of it are there.

  Raises:
    cifar10.Error: it cannot be had, in one line that says what to do.
  """
  datasets.prepare(datasets.find_spec(dataset), data_dir)


def distorted_inputs(
  data_dir=datasets.DATA_DIR,
  batch_size=BATCH_SIZE,
  use_fp16=False,
  *,
  dataset='cifar10',
  label='fine',
  image_size=IMAGE_SIZE,
  min_queue_fraction=cifar10_input.MIN_QUEUE_FRACTION,
  num_preprocess_threads=cifar10_input.NUM_PREPROCESS_THREADS,
):
  """Builds training input, see `cifar10_input.distorted_inputs`; fetches data.

  Args:
    data_dir: the folder that holds the data set's folder.
    use_fp16: whether to return float16 pictures.
    All others: as there.

  Returns:
    images: float [batch_size, image_size, image_size, 3], standardized.
    labels: int32 [batch_size].
  """
  _fetch(data_dir, dataset)
  images, labels = cifar10_input.distorted_inputs(
    data_dir,
    batch_size,
    dataset=dataset,
    label=label,
    image_size=image_size,
    min_queue_fraction=min_queue_fraction,
    num_preprocess_threads=num_preprocess_threads,
  )
  return _cast(images, use_fp16), labels


def inputs(
  eval_data,
  data_dir=datasets.DATA_DIR,
  batch_size=BATCH_SIZE,
  use_fp16=False,
  *,
  dataset='cifar10',
  label='fine',
  image_size=IMAGE_SIZE,
):
  """Builds evaluation input, see `cifar10_input.inputs`; fetches data.

  Args:
    data_dir: the folder that holds the data set's folder.
    use_fp16: whether to return float16 pictures.
    All others: as there.

  Returns:
    images: float [?, image_size, image_size, 3], standardized.
    labels: int32 [?].
  """
  _fetch(data_dir, dataset)
  images, labels = cifar10_input.inputs(
    eval_data,
    data_dir,
    batch_size,
    dataset=dataset,
    label=label,
    image_size=image_size,
  )
  return _cast(images, use_fp16), labels


def _fetch(data_dir, dataset):
  """Fetches what is not there; not outside a graph, where input cannot be."""
  cifar10_input.check_graph()
  maybe_download_and_extract(data_dir, dataset)


def _cast(values, use_fp16):
  return tf.cast(values, tf.float16 if use_fp16 else tf.float32)


def inference(
  images,
  num_classes=NUM_CLASSES,
  use_fp16=False,
  summarize=True,
  normalize=None,
):
  """Builds the network.

  Args:
    images: float [batch, height, width, 3]; height and width are static.
    num_classes: how many logits.
    use_fp16: whether layers compute in float16. Variables, and the logits with
      the layer that makes them, are float32 all the same.
    summarize: whether to add the activations' summaries; the second tower and
      those after it must not add them again.
    normalize: function of activations and name that normalizes them; None: one
      that is compiled for the CPU.

  Returns:
    Unscaled logits, float32 [batch, num_classes].
  """
  layers = {}
  normalize = normalize or lrn.compiled(**LRN)
  with tf.variable_scope('conv1'):
    conv1, biases1, kernels1 = _convolution(
      _cast(images, use_fp16), channels=64, bias=0.0
    )
    layers['conv1'] = _biased_relu(conv1, biases1)
  # Bias and ReLU keep the order of values: applied to the largest of each
  # window they give the same pool, for a quarter of the work. What they make of
  # all of conv1 is for summaries only.
  with tf.name_scope('pool1'):
    pool1 = _biased_relu(_max_pool(conv1, 'max'), biases1)
  norm1 = normalize(pool1, name='norm1')

  with tf.variable_scope('conv2'):
    conv2, biases2, _ = _convolution(norm1, channels=64, bias=0.1)
    layers['conv2'] = conv2 = _biased_relu(conv2, biases2)
  norm2 = normalize(conv2, name='norm2')
  pool2 = _max_pool(norm2, 'pool2')

  with tf.variable_scope('local3'):
    # Each picture's features in one row.
    features = tf.reshape(pool2, [-1, pool2.shape[1:].num_elements()])
    layers['local3'] = local3 = _fully_connected(features, 384)
  with tf.variable_scope('local4'):
    layers['local4'] = local4 = _fully_connected(local3, 192)

  # Linear: softmax is part of the loss, where it is computed more precisely.
  with tf.variable_scope('softmax_linear'):
    weights = _variable_with_weight_decay(
      'weights', [192, num_classes], stddev=1 / 192.0, wd=None
    )
    biases = _variable_on_cpu(
      'biases', [num_classes], tf.constant_initializer(0.0)
    )
    layers['softmax_linear'] = logits = tf.nn.bias_add(
      tf.matmul(tf.to_float(local4), weights), biases, name='logits'
    )

  if summarize:
    with tf.name_scope('summaries'):
      for name, activations in layers.items():
        _activation_summary(activations, name)
      summaries.filters('conv1/filters', kernels1)
  return logits


def _convolution(x, channels, bias):
  """Returns conv(x), of 5x5 kernels, stride 1, SAME; its biases and kernels."""
  weights = _variable_with_weight_decay(
    'weights', [5, 5, x.shape[-1], channels], stddev=5e-2, wd=None
  )
  biases = _variable_on_cpu('biases', [channels], tf.constant_initializer(bias))
  conv = tf.nn.conv2d(
    x, tf.cast(weights, x.dtype), strides=[1, 1, 1, 1], padding='SAME'
  )
  return conv, biases, weights


def _biased_relu(x, biases):
  return tf.nn.relu(tf.nn.bias_add(x, tf.cast(biases, x.dtype)))


def _max_pool(x, name):
  return tf.nn.max_pool2d(
    x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding='SAME', name=name
  )


def _fully_connected(x, units):
  """Returns relu(x weights + biases), with weight decay."""
  weights = _variable_with_weight_decay(
    'weights', [x.shape[-1], units], stddev=0.04, wd=0.004
  )
  biases = _variable_on_cpu('biases', [units], tf.constant_initializer(0.1))
  return _biased_relu(tf.matmul(x, tf.cast(weights, x.dtype)), biases)


def _variable_on_cpu(name, shape, initializer):
  """Returns the float32 variable `name` of the current scope, on the CPU."""
  with tf.device('/cpu:0'):
    # A resource variable: a step's reads never see the same step's update.
    return tf.get_variable(
      name,
      shape,
      dtype=tf.float32,
      initializer=initializer,
      use_resource=True,
    )


def _variable_with_weight_decay(name, shape, stddev, wd):
  """Returns a truncated normal variable's value; adds its decay to the losses.

  The value is read once: in a cluster each read is sent over the network.

  Args:
    name: name of the variable.
    shape: list of int.
    stddev: standard deviation before truncation.
    wd: adds wd * sum(variable ** 2) / 2 to the losses; None adds nothing.
  """
  value = tf.convert_to_tensor(
    _variable_on_cpu(
      name, shape, tf.truncated_normal_initializer(stddev=stddev)
    )
  )
  if wd is not None:
    tf.add_to_collection(
      'losses', tf.multiply(tf.nn.l2_loss(value), wd, name='weight_loss')
    )
  return value


def _activation_summary(x, layer_name):
  """Adds a histogram of a layer's activations, and how many of them are 0."""
  summaries.histogram(layer_name + '/activations', x)
  zeros = tf.to_float(tf.equal(x, 0))
  summaries.scalar(layer_name + '/sparsity', tf.reduce_mean(zeros))


def loss(logits, labels, scope=None):
  """Adds cross entropy and all weight decay terms.

  Args:
    logits: float32 [batch, classes], from `inference`.
    labels: int [batch], each in [0, classes).
    scope: name scope of the tower whose losses these are; None: all of them.

  Returns:
    The total loss, float32 [].
  """
  with tf.name_scope('loss'):
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(
      labels=labels, logits=logits, name='cross_entropy_per_example'
    )
    tf.add_to_collection(
      'losses', tf.reduce_mean(per_example, name='cross_entropy')
    )
    return tf.add_n(tf.get_collection('losses', scope), name='total_loss')


def _add_loss_summaries(total_loss, losses):
  """Keeps a moving average of every loss, and shows it.

  Args:
    total_loss: float32 [], from `loss`.
    losses: the terms of it.

  Returns:
    The operation that updates the averages.
  """
  updates = []
  for value in [*losses, total_loss]:
    name = loss_name(value)
    with tf.device('/cpu:0'):
      average = tf.get_variable(
        name + '/avg',
        [],
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
      )
    update = average.assign_sub((1 - LOSS_AVERAGE_DECAY) * (average - value))
    updates.append(update)
    summaries.scalar(name, tf.convert_to_tensor(update))
  return tf.group(*updates, name='loss_averages')


def loss_name(value):
  """Returns the name of a loss, without the scopes of towers and of `loss`."""
  return re.sub(r'^(%s_\d+/)?(loss/)?' % TOWER_NAME, '', value.op.name)


def train(
  total_loss,
  global_step,
  *,
  batch_size=BATCH_SIZE,
  num_examples=NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN,
  learning_rate=INITIAL_LEARNING_RATE,
  losses=None,
  gradients=None,
  average_losses=True,
  wrap_optimizer=None,
):
  """Builds one step of training.

  In this order: the moving averages of the losses, the gradients, the update of
  variables and global step, the moving averages of the variables. A loss or a
  gradient that is infinite or no number fails the step
  (`tf.errors.InvalidArgumentError`, which names it) before the global step is
  counted; some of the variables may be updated by then.

  Args:
    total_loss: float32 [], from `loss`.
    global_step: int64 [] variable that counts steps.
    batch_size: examples a step, those of all towers together.
    num_examples: examples an epoch.
    learning_rate: the rate of the first epochs.
    losses: the terms of `total_loss`; None: the collection `losses`.
    gradients: list of (gradient, variable) that towers have computed; None: to
      be computed here, from `total_loss`.
    average_losses: whether this step updates the moving averages of the losses.
    wrap_optimizer: function that returns the optimizer to use in the place of
      the one it is given, which updates variables, global step and averages.

  Returns:
    The operation that does the step.
  """
  if losses is None:
    losses = tf.get_collection('losses')
  with tf.name_scope('training'):
    rate = _decayed_learning_rate(
      learning_rate, global_step, batch_size, num_examples
    )
    dependencies = [tf.debugging.check_numerics(total_loss, 'total_loss')]
    if average_losses:
      dependencies.append(_add_loss_summaries(total_loss, losses))
    for value in [*losses, total_loss]:
      summaries.scalar(loss_name(value) + '_raw', value)
    optimizer = _AveragedGradientDescent(rate)
    if wrap_optimizer is not None:
      optimizer = wrap_optimizer(optimizer)
    with tf.control_dependencies(dependencies):
      if gradients is None:
        gradients = optimizer.compute_gradients(total_loss)
      gradients = [
        (tf.debugging.check_numerics(g, 'the gradient of ' + v.op.name), v)
        for g, v in gradients
      ]
    # Not within the dependencies: replicas may have others apply gradients.
    train_op = optimizer.apply_gradients(gradients, global_step)
    for gradient, variable in gradients:
      summaries.histogram(variable.op.name, variable)
      summaries.histogram(variable.op.name + '/gradients', gradient)
    return train_op


class _AveragedGradientDescent(tf.train.GradientDescentOptimizer):
  """Gradient descent that keeps the variables' moving averages as well."""

  def __init__(self, learning_rate):
    # Locked: of two workers' updates at the same moment none is lost.
    super().__init__(learning_rate, use_locking=True)

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    averages = tf.train.ExponentialMovingAverage(
      MOVING_AVERAGE_DECAY, num_updates=global_step
    )
    apply_op = super().apply_gradients(grads_and_vars, global_step, name)
    # Each where its variable is: neither of them is sent anywhere for it.
    variables = {}
    for variable in tf.trainable_variables():
      variables.setdefault(variable.device, []).append(variable)
    with tf.control_dependencies([apply_op]):
      updates = []
      for device, group in variables.items():
        with tf.device(device):
          updates.append(averages.apply(group))
      return tf.group(*updates)


def _decayed_learning_rate(initial_rate, global_step, batch_size, num_examples):
  """Returns the rate at this step: a tenth after each 350 epochs."""
  decay_steps = max(1, int(NUM_EPOCHS_PER_DECAY * num_examples / batch_size))
  rate = tf.train.exponential_decay(
    initial_rate,
    global_step,
    decay_steps,
    LEARNING_RATE_DECAY_FACTOR,
    staircase=True,
  )
  summaries.scalar('learning_rate', rate)
  tf.add_to_collection(LEARNING_RATE, rate)
  return rate


def session_config(log_device_placement=False):
  """Returns a session's settings: GPU memory grows, as eval runs beside."""
  config = tf.ConfigProto(
    allow_soft_placement=True, log_device_placement=log_device_placement
  )
  config.gpu_options.allow_growth = True
  return config
