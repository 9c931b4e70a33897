"""Exports a trained network as a SavedModel, for TensorFlow Serving and others.

  python scripts/export.py --checkpoint_dir=runs/pets --export_dir=served/pets

Each call writes a version of its own: export_dir/1, export_dir/2, …
"""

import command_line

FLAGS = command_line.new_flags()
with command_line.group(FLAGS, 'Export'):
  command_line.define_checkpoint_flags(FLAGS)
  command_line.define_folder(
    FLAGS, 'export_dir', '/tmp/cifar10_export', 'the folder of versions'
  )
  command_line.define_bool(
    FLAGS, 'tflite', 'write model.tflite beside the SavedModel as well'
  )
command_line.define_data_flags(FLAGS)
command_line.define_network_flags(FLAGS, batch_size=False)


def main():
  exporting = command_line.import_quietly('cifar10.exporting')
  exporting.export(**command_line.arguments(FLAGS, *command_line.RUN_FLAGS))


if __name__ == '__main__':
  command_line.run(main, FLAGS, __doc__, command_line.RUN_FLAGS)
