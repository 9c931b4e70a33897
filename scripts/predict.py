"""Says what a trained network takes pictures for: files, or folders of files.

  python scripts/predict.py kitten.jpg pictures/ --checkpoint_dir=runs/pets

Classes, size and float type are those of the run, unless flags say otherwise.
"""

import command_line

FLAGS = command_line.new_flags()
with command_line.group(FLAGS, 'Prediction'):
  command_line.define_checkpoint_flags(FLAGS)
  command_line.define_positive(
    FLAGS, 'top_k', 3, 'how many classes a picture, the likeliest first'
  )
  command_line.define_bool(FLAGS, 'json', 'print a JSON object a line')
command_line.define_data_flags(FLAGS)
command_line.define_network_flags(FLAGS)


def main(images):
  prediction = command_line.import_quietly('cifar10.prediction')
  given = command_line.arguments(FLAGS, *command_line.RUN_FLAGS)
  as_json = given.pop('json')
  prediction.predict(images, as_json=as_json, **given)


if __name__ == '__main__':
  command_line.run(
    main, FLAGS, __doc__, command_line.RUN_FLAGS, words='pictures'
  )
