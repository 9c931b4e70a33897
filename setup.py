"""Packaging: the package `cifar10`; scripts are run from a clone."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent


def read_version():
  """Returns the version without importing what may not be installed yet."""
  text = (HERE / 'cifar10' / '__init__.py').read_text(encoding='utf-8')
  return re.search(r"^__version__ = '(.+)'$", text, re.MULTILINE).group(1)


def read_requirements():
  lines = (HERE / 'requirements.txt').read_text(encoding='utf-8').splitlines()
  return [line for line in lines if line and not line.startswith('#')]


setuptools.setup(
  name='cifar10',
  version=read_version(),
  description="The classic TensorFlow 1 CIFAR-10 program on today's TensorFlow",
  long_description=(HERE / 'README.md').read_text(encoding='utf-8'),
  long_description_content_type='text/markdown',
  license='Apache-2.0',
  packages=['cifar10'],
  python_requires='>=3.10',
  install_requires=read_requirements(),
  extras_require={
    'plots': ['matplotlib>=3.8'],
    'svhn': ['scipy>=1.11'],
    'dev': [
      'matplotlib>=3.8',
      'playwright>=1.48',
      'pytest>=8',
      'ruff>=0.12',
      'scipy>=1.11',
    ],
  },
)
