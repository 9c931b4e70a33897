"""Tests of the generated data set: its bytes, and that it has to be learned."""

import hashlib

import numpy as np
import pytest

from cifar10 import sample

NUM_CLASSES = len(sample.CLASS_NAMES)
CHANCE = 1 / NUM_CLASSES


@pytest.fixture(scope='module')
def train_set():
  return sample.draw(2000, seed=0)


@pytest.fixture(scope='module')
def test_set():
  return sample.draw(1000, seed=5)


def _accuracy_of_class_means(features, labels, test_features, test_labels):
  """Returns the accuracy of choosing the class with the nearest mean."""
  means = np.stack(
    [features[labels == label].mean(axis=0) for label in range(NUM_CLASSES)]
  )
  distances = np.square(test_features[:, np.newaxis] - means).sum(axis=-1)
  return np.mean(distances.argmin(axis=1) == test_labels)


def _standardized(images):
  """Returns the central 24x24 pixels as the network sees them, flattened."""
  pixels = images[:, 4:28, 4:28].reshape(len(images), -1).astype(np.float64)
  pixels -= pixels.mean(axis=1, keepdims=True)
  return pixels / pixels.std(axis=1, keepdims=True)


def _linear_accuracy(images, labels, test_images, test_labels, ridge):
  """Returns the accuracy of regularized least squares on the pixels."""
  pixels = _standardized(images)
  gram = pixels.T @ pixels + ridge * np.eye(pixels.shape[1])
  weights = np.linalg.solve(gram, pixels.T @ np.eye(NUM_CLASSES)[labels])
  scores = _standardized(test_images) @ weights
  return np.mean(scores.argmax(axis=1) == test_labels)


def _diagonal_directions(images):
  """Returns the mean product of the slopes along x and y, [n]."""
  grey = images.mean(axis=-1)
  # Over two pixels, where noise matters less beside the stripes' edges.
  slope_y = grey[:, 2:, 1:-1] - grey[:, :-2, 1:-1]
  slope_x = grey[:, 1:-1, 2:] - grey[:, 1:-1, :-2]
  return (slope_x * slope_y).mean(axis=(1, 2))


def _mask(name, size, centre_x=0, centre_y=0):
  """Returns the upright mask of a class, [32, 32]."""
  pixels = np.arange(32, dtype=np.float32) - 15.5
  y, x = np.meshgrid(pixels - centre_y, pixels - centre_x, indexing='ij')
  return sample._CLASSES[name](x, y, np.float32(size))


def test_ten_distinct_class_names():
  assert isinstance(sample.CLASS_NAMES, tuple)
  assert len(set(sample.CLASS_NAMES)) == NUM_CLASSES == 10
  assert all(isinstance(name, str) for name in sample.CLASS_NAMES)


@pytest.mark.parametrize('num_examples', [0, 1, 7, 100])
def test_shapes_and_types(num_examples):
  labels, images = sample.draw(num_examples, seed=3)
  assert labels.shape == (num_examples,)
  assert images.shape == (num_examples, 32, 32, 3)
  assert labels.dtype == images.dtype == np.uint8


def test_negative_number_is_refused():
  with pytest.raises(ValueError, match='at least 0, not -1'):
    sample.draw(-1, seed=0)


def test_equal_seeds_give_equal_bytes():
  assert sample.records(50, seed=11) == sample.records(50, seed=11)


def test_bytes_are_the_same_everywhere():
  # Holds for all machines and numpy versions: nothing drawn here depends on
  # how a library rounds. Precisions measured on the data set depend on it.
  digest = hashlib.sha256(sample.records(100, seed=0)).hexdigest()
  assert digest == (
    'dccdfe8c101ef2b1f83a35c977d27e3a01cc466d86ca4b385546cdee42a82d7d'
  )


def test_seeds_give_different_pictures():
  labels, images = sample.draw(100, seed=1)
  other_labels, other_images = sample.draw(100, seed=2)
  assert (labels != other_labels).any()
  # Any two unrelated pictures differ nearly everywhere.
  assert (images != other_images).mean() > 0.9


def test_pictures_of_a_class_differ(train_set):
  labels, images = train_set
  for label in range(NUM_CLASSES):
    members = images[labels == label]
    assert len(np.unique(members, axis=0)) == len(members)


def test_records_have_the_cifar10_layout():
  labels, images = sample.draw(23, seed=4)
  data = sample.records(23, seed=4)
  assert isinstance(data, bytes)
  assert len(data) == 23 * 3073
  for index, (label, image) in enumerate(zip(labels, images, strict=True)):
    planes = b''.join(image[:, :, channel].tobytes() for channel in range(3))
    record = data[index * 3073 : (index + 1) * 3073]
    assert record == bytes([label]) + planes


@pytest.mark.parametrize('num_examples', [10, 23, 1000])
def test_labels_are_balanced_and_shuffled(num_examples):
  labels, _ = sample.draw(num_examples, seed=6)
  counts = np.bincount(labels, minlength=NUM_CLASSES)
  assert len(counts) == NUM_CLASSES
  assert counts.max() - counts.min() <= 1
  assert (labels != np.arange(num_examples) % NUM_CLASSES).any()
  assert (np.diff(labels.astype(int)) < 0).any()


def test_levels_use_the_whole_range(train_set):
  _, images = train_set
  assert images.min() == 0
  assert images.max() == 255
  # Neither extreme is common: little is lost to clipping.
  assert np.mean((images == 0) | (images == 255)) < 0.15
  assert 100 < images.mean() < 155


def test_every_picture_has_contrast(train_set):
  _, images = train_set
  assert images[:, 8:24, 8:24].std(axis=(1, 2)).max(axis=-1).min() > 10


def test_colour_does_not_tell_the_classes_apart(train_set, test_set):
  labels, images = train_set
  test_labels, test_images = test_set
  accuracy = _accuracy_of_class_means(
    images.mean(axis=(1, 2)), labels, test_images.mean(axis=(1, 2)), test_labels
  )
  assert accuracy < CHANCE + 0.06


def test_mean_picture_does_not_tell_the_classes_apart(train_set, test_set):
  labels, images = train_set
  test_labels, test_images = test_set
  accuracy = _accuracy_of_class_means(
    _standardized(images), labels, _standardized(test_images), test_labels
  )
  assert accuracy < 0.45


@pytest.mark.parametrize('ridge', [1e2, 1e4, 1e5])
def test_linear_classifier_is_not_enough(train_set, test_set, ridge):
  assert _linear_accuracy(*train_set[::-1], *test_set[::-1], ridge) < 0.45


@pytest.mark.parametrize('size', [6, 9])
@pytest.mark.parametrize('name', sample.CLASS_NAMES)
def test_masks_are_closed_under_mirroring(name, size):
  mask = _mask(name, size)
  assert 0 <= mask.min() < 0.1
  assert 0.9 < mask.max() <= 1
  if name == 'diagonal stripes':
    # The other direction comes from turning upside down as well.
    np.testing.assert_allclose(mask[:, ::-1], mask[::-1], atol=1e-4)
  else:
    np.testing.assert_allclose(mask[:, ::-1], mask, atol=1e-4)


@pytest.mark.parametrize('name', sample.CLASS_NAMES[:5])
def test_objects_stay_in_every_crop(name):
  for centre_x in (-3, 3):
    for centre_y in (-3, 3):
      mask = _mask(name, 9, centre_x, centre_y)
      # The outermost crops that training can draw.
      for crop in (
        mask[i : i + 24, j : j + 24] for i in (0, 8) for j in (0, 8)
      ):
        assert crop.sum() > 0.4 * mask.sum()
        assert 0.1 < crop.mean() < 0.8


def test_diagonals_run_both_ways():
  labels, images = sample.draw(1000, seed=8)
  diagonal = sample.CLASS_NAMES.index('diagonal stripes')
  directions = _diagonal_directions(images[labels == diagonal])
  # The two directions are mirror images, so flips keep the class.
  assert 0.3 < np.mean(directions > 0) < 0.7
  assert np.abs(directions).min() > 0
