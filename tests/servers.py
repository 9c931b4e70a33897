"""An HTTP server on this machine, which does what a test says."""

import contextlib
import http.server
import threading


class Server(http.server.ThreadingHTTPServer):
  """Serves whatever `reply`, a function of the handler, writes."""

  def __init__(self, reply):
    super().__init__(('127.0.0.1', 0), Handler)
    self.reply = reply
    self.num_requests = 0
    self.done = threading.Event()

  @property
  def url(self):
    return 'http://127.0.0.1:%d/some/where/things.tar.gz' % self.server_port

  def handle_error(self, request, client_address):
    """Says nothing: clients that go away are part of the tests."""


class Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    self.server.num_requests += 1
    self.server.reply(self)

  def log_message(self, *args):
    """Says nothing."""

  def head(self, status=200, length=None):
    self.send_response(status)
    if length is not None:
      self.send_header('Content-Length', str(length))
    self.end_headers()


@contextlib.contextmanager
def running(reply):
  """Runs a server, and stops it and those that wait for its `done`."""
  with Server(reply) as server:
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
      yield server
    finally:
      server.done.set()
      server.shutdown()
      thread.join()
