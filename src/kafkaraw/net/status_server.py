"""A small HTTP server for probes and metrics: /healthz and the like, each answered by a function.

It runs in a thread of its own, has no authentication, and by default listens on this machine only. It knows nothing of
what it serves. Start at `StatusServer`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of metrics in Prometheus' text format."""
TIMEOUT_S: Final = 10.0
"""For a connection to send its request, and for the thread to end."""


class Answer(NamedTuple):
    """A response.

    Attributes:
        status: of HTTP.
        text: the body.
        content_type: of the body.
    """

    status: HTTPStatus
    text: str
    content_type: str = "text/plain; charset=utf-8"


class StatusServer:
    """Serves paths, each by a function that is called in a thread of the server.

    Args:
        port: 0 for any free one.
        host: address to listen on.
        answers: by path, such as "/healthz".
        thread_name: of the thread.
        setting: how the user has given the port, for errors.

    Raises:
        ConfigError: the port is in use, or not allowed.
    """

    def __init__(
        self,
        port: int,
        host: str,
        answers: Mapping[str, Callable[[], Answer]],
        *,
        thread_name: str,
        setting: str = "port",
    ) -> None:
        handler = type("Handler", (_Handler,), {"answers": answers})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"{setting} {port}: {host}:{port} cannot be listened on: {error}; choose another port"
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name=thread_name, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address to open, such as "http://127.0.0.1:8090"."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_S)


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, Callable[[], Answer]]
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        answer_of = self.answers.get(self.path.partition("?")[0])
        if answer_of is None:
            *others, last = self.answers
            self._answer(Answer(HTTPStatus.NOT_FOUND, f"there are {', '.join(others)} and {last}\n"))
        else:
            self._answer(answer_of())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a probe asks every few seconds."""

    def _answer(self, answer: Answer) -> None:
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
