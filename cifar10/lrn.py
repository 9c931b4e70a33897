"""Local response normalization with a gradient of its own.

On a CPU `tf.nn.lrn` takes a third of a step, most of it in its gradient. Here
forward and backward are one compiled (XLA) function each, and the gradient is
derived by hand. Over channels, with s_i = bias + alpha sum_{|j-i|<=r} x_j^2,

  y_i  = x_i s_i^-beta
  dx_i = g_i s_i^-beta - 2 alpha beta x_i sum_{|j-i|<=r} g_j y_j / s_j

as Krizhevsky et al. 2012, section 3.3, defines y.
"""

import tensorflow.compat.v1 as tf

# Keeps g_j y_j / s_j, which x_i is yet to multiply, from underflow. Without it
# x could be 1e15 at most; with it 1e18, where x^2 itself is near overflow.
_UP = 2.0**32


def compiled(depth_radius=5, bias=1.0, alpha=1.0, beta=0.5):
  """Returns a function that normalizes, which XLA compiles once a shape.

  Layers of one graph that normalize alike should share the function: it is then
  compiled for one of them only.

  Args:
    depth_radius: channels on each side that count.
    bias: what is added to the weighted sum of squares.
    alpha: weight of the sum of squares.
    beta: exponent.

  Returns:
    A function of x (float16, bfloat16 or float32 [batch, height, width,
    channels]) and name, which returns a tensor like x. On a GPU it is
    `tf.nn.lrn`: there this one was never measured.
  """

  @tf.function(jit_compile=True, autograph=False)
  def forward(x):
    x32 = tf.to_float(x)
    scale, _ = _scales(x32, depth_radius, bias, alpha, beta)
    return tf.cast(x32 * scale, x.dtype)

  @tf.function(jit_compile=True, autograph=False)
  def backward(x, g):
    x32, g32 = tf.to_float(x), tf.to_float(g)
    scale, reciprocal = _scales(x32, depth_radius, bias, alpha, beta)
    sums = _window_sum((_UP * g32) * (x32 * scale) * reciprocal, depth_radius)
    dx = g32 * scale - (2 * alpha * beta / _UP) * x32 * sums
    return tf.cast(dx, x.dtype)

  @tf.custom_gradient
  def normalize(x):
    return forward(x), lambda g: backward(x, g)

  def normalize_on_device(x, name=None):
    if _is_on_gpu(x):
      return tf.nn.lrn(x, depth_radius, bias, alpha, beta, name)
    with tf.name_scope(name or 'lrn'):
      return normalize(x)

  return normalize_on_device


def _scales(x, depth_radius, bias, alpha, beta):
  """Returns s^-beta and s^-1."""
  s = bias + alpha * _window_sum(x * x, depth_radius)
  if beta == 0.75:
    # Square roots alone: no powers, and no division, cost a third less time.
    root = tf.rsqrt(s)
    return root * tf.sqrt(root), root * root
  return tf.pow(s, -beta), tf.reciprocal(s)


def _window_sum(values, radius):
  """Sums over windows of 2 radius + 1 channels, fewer at the ends."""
  channels = values.shape[-1]
  padded = tf.pad(values, [[0, 0]] * 3 + [[radius, radius]])
  return tf.add_n(
    [padded[..., i : i + channels] for i in range(2 * radius + 1)]
  )


def _is_on_gpu(x):
  """Returns whether the operations made now will run on a GPU."""
  device = tf.identity(x).op.device
  if 'CPU' in device.upper():
    return False
  return 'GPU' in device.upper() or bool(tf.config.list_physical_devices('GPU'))
