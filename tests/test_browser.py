"""TensorBoard in a real browser: its pages show our tags."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from processes import run

sync_api = pytest.importorskip('playwright.sync_api')
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
TIMEOUT_SECS = 90

pytestmark = [
  pytest.mark.browser,
  pytest.mark.skipif(CHROMIUM is None, reason='there is no Chromium'),
]


@pytest.fixture(scope='module')
def address(tmp_path_factory):
  """Trains, evaluates, and starts TensorBoard; yields its address."""
  folder = tmp_path_factory.mktemp('browser')
  data = {'data_dir': folder / 'data'}
  run(
    'train',
    train_dir=folder / 'run',
    dataset='sample',
    max_steps=20,
    save_summaries_steps=10,
    **data,
  )
  run(
    'eval',
    checkpoint_dir=folder / 'run',
    eval_dir=folder / 'run' / 'eval',
    run_once=True,
    **data,
  )
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    port = s.getsockname()[1]
  process = subprocess.Popen(
    [
      os.path.join(os.path.dirname(sys.executable), 'tensorboard'),
      '--logdir=%s' % (folder / 'run'),
      '--port=%d' % port,
    ],
    stderr=subprocess.DEVNULL,
  )
  url = 'http://127.0.0.1:%d/' % port
  try:
    deadline = time.monotonic() + TIMEOUT_SECS
    while True:
      try:
        with urllib.request.urlopen(url + 'data/runs') as answer:
          if b'eval' in answer.read():
            break
      except OSError:
        pass
      assert process.poll() is None and time.monotonic() < deadline
      time.sleep(0.5)
    yield url
  finally:
    process.terminate()
    process.wait()


@pytest.fixture(scope='module')
def browser():
  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
      executable_path=CHROMIUM, args=['--no-sandbox', '--disable-gpu']
    )
    yield browser
    browser.close()


@pytest.mark.parametrize(
  'name, texts',
  [
    ('scalars', ['Precision @ 1', 'learning_rate', 'precision_by_class']),
    ('images', ['confusion_matrix', 'conv1/filters/image', 'mistakes']),
    ('histograms', ['conv1/activations', 'softmax_linear']),
    ('graphs', ['conv1', 'norm1', 'softmax_linear', 'training']),
    ('text', ['1068298 in 10 variables', '--dataset=sample']),
  ],
)
def test_a_page_shows_our_tags(name, texts, address, browser):
  page = browser.new_page(viewport={'width': 1500, 'height': 1100})
  page.set_default_timeout(1000 * TIMEOUT_SECS)
  page.goto(address + '#' + name)
  for text in texts:
    found = page.get_by_text(text)
    if name == 'graphs':  # nodes have a hidden title as well
      found = page.locator('svg text').filter(has_text=text)
    found.first.wait_for(state='visible')
  if name not in ('graphs', 'text'):  # the runs stand side by side
    page.get_by_text('eval', exact=True).first.wait_for(state='visible')
  if name == 'images':
    image = page.locator('img').first
    image.wait_for(state='visible')
    # The confusion matrix comes first: ten cells of 55 pixels, and its names.
    page.wait_for_function(
      'image => image.naturalWidth > 600', arg=image.element_handle()
    )
  page.close()
