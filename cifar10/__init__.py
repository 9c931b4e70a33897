"""The classic TensorFlow 1 CIFAR-10 program, whole, on today's TensorFlow.

A small convolutional network, trained from input queues in graph mode, with
moving averages, hooks, multi-GPU towers and a separate evaluator. Importing
the package loads no TensorFlow; its modules, lowest first:

  locks          one process a folder
  progress       a line on a terminal
  archives       published archives: download, check, unpack
  sample         draws the generated data set
  specs          the data sets that are known
  datasets       files on disk: what is there, validation
  records        reads records, writes data sets of one's own
  summaries      TensorBoard summaries under exact tags
  lrn            local response normalization, compiled
  cifar10_input  queues: reader, distortions, batches
  cifar10        the model: inference, loss, train
  checkpoints    what a run leaves on disk, and restoring it
  signals        SIGINT and SIGTERM, while TensorFlow is at work
  watchdog       ends training on a signal, or when its files change
  hooks          what happens around each step
  towers         a copy of the network on each device
  cluster        which tasks a cluster has, and which this process is
  replicas       variables and gradients that the tasks share
  restarts       a process that starts itself anew
  words          what a chief says to the others
  distributed    this process as one of the tasks
  local_cluster  all of them on this machine
  session        opens a session, runs its steps, leaves it saved
  training       trains, as flags say
  models         a checkpoint, and what is to be known to use it
  evaluation     the evaluator
  pictures       picture files of any size and kind
  folders        data sets from folders of pictures, and back
  svhn           a data set from SVHN's files
  prediction     what a network takes pictures for
  exporting      SavedModels and TensorFlow Lite files
"""

__version__ = '0.1.0'


class Error(Exception):
  """What a person can mend: one line that says what, where, and what to do."""

  exit_status = 1


class UsageError(Error):
  """The command line asks for what cannot be done."""

  exit_status = 2


class Interrupted(Error):
  """A signal ended the work; what it had done is saved."""

  def __init__(self, message, signum):
    super().__init__(message)
    self.exit_status = 128 + signum
