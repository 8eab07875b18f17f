"""The HTTP endpoints of a run: /healthz, /metrics (Prometheus) and /status (JSON).

Only reads the status that `publish` was last called with. There is no authentication; by default it listens on this
machine only. Must not touch Spark: its answers must come while Spark is busy. Start at `StatusServer`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.running.progress import FlowProgress, RunStatus

_TIMEOUT_S: Final = 10.0
_PREFIX: Final = "kafkaraw_pipeline"

_METRICS: Final[tuple[tuple[str, str, str, Callable[[FlowProgress], float | None]], ...]] = (
    ("batches_total", "counter", "Finished micro-batches of this run", lambda flow: flow.batches),
    (
        "rows_read_total",
        "counter",
        "Rows that the sources of a flow have returned in this run",
        lambda flow: flow.rows_read,
    ),
    (
        "rows_written_total",
        "counter",
        "Rows that have gone into the target in this run",
        lambda flow: flow.rows_written,
    ),
    ("late_rows_total", "counter", "Rows that watermarks have dropped in this run", lambda flow: flow.late_rows),
    ("restarts_total", "counter", "Restarts of a flow after failures in this run", lambda flow: flow.restarts),
    (
        "rows_per_second",
        "gauge",
        "Rows per second of the last micro-batch with rows",
        lambda flow: flow.rows_per_second,
    ),
    ("batch_seconds", "gauge", "Duration of the last micro-batch", lambda flow: flow.batch_ms / 1000),
    ("lag_offsets", "gauge", "Offsets between what a flow has read and the ends of its topics", lambda flow: flow.lag),
)


def metrics_text(status: RunStatus) -> str:
    """Return the metrics of a run in Prometheus' text format."""
    return "\n".join(_metric_lines(status)) + "\n"


def _metric_lines(status: RunStatus) -> Iterator[str]:
    yield from _header("healthy", "gauge", "Whether no flow has failed for good or fails again and again")
    yield f"{_PREFIX}_healthy{_labels(pipeline=status.pipeline)} {int(status.healthy)}"
    yield from _header("flow_state", "gauge", "1 for the state that a flow is in")
    for flow in status.flows:
        yield f"{_PREFIX}_flow_state{_labels(pipeline=status.pipeline, flow=flow.flow, state=flow.state)} 1"
    for name, kind, text, value_of in _METRICS:
        yield from _header(name, kind, text)
        for flow in status.flows:
            value = value_of(flow)
            if value is not None:
                yield f"{_PREFIX}_{name}{_labels(pipeline=status.pipeline, flow=flow.flow)} {value:g}"
    yield from _header("counted", "gauge", "What a flow has counted since its first run or full refresh")
    for flow in status.flows:
        for observation, counts in flow.totals.items():
            for count, number in counts.items():
                labels = _labels(pipeline=status.pipeline, flow=flow.flow, observation=observation, count=count)
                yield f"{_PREFIX}_counted{labels} {number}"
    yield from _header("records", "gauge", "Records that a flow has read, by what became of them")
    for each in status.balance:
        for part, amount in each.as_json().items():
            if part != "flow":
                labels = _labels(pipeline=status.pipeline, flow=each.flow, part=part)
                yield f"{_PREFIX}_records{labels} {amount}"


def _header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {text}"
    yield f"# TYPE {_PREFIX}_{name} {kind}"


def _labels(**labels: str) -> str:
    escaped = (text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for text in labels.values())
    return "{" + ",".join(f'{name}="{text}"' for name, text in zip(labels, escaped, strict=True)) + "}"


class StatusServer:
    """Serves the status of a run, in a thread.

    Args:
        port: 0 for any free one.
        host: address to listen on.

    Raises:
        ConfigError: the port is in use, or not allowed.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        handler = type("Handler", (_Handler,), {"current": self})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--port {port}: {host}:{port} cannot be listened on: {error}; choose another port"
            ) from None
        self._server.daemon_threads = True
        self.status: RunStatus | None = None
        self._thread = threading.Thread(target=self._server.serve_forever, name="kafkaraw-pipeline-http", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address to open, such as "http://127.0.0.1:8090"."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def publish(self, status: RunStatus) -> None:
        """Set what is served."""
        self.status = status

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT_S)


class _Handler(BaseHTTPRequestHandler):
    current: StatusServer
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        status, path = self.current.status, self.path.partition("?")[0]
        if status is None and path in ("/healthz", "/metrics", "/status"):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "starting\n")
        elif status is not None and path == "/healthz":
            bad = [each for each in status.flows if each.failure is not None]
            lines = [f"{each.flow}: {each.state}: {each.failure}" for each in bad]
            code = HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(code, "text/plain", "\n".join(["ok" if status.healthy else "not healthy", *lines]) + "\n")
        elif status is not None and path == "/metrics":
            self._answer(HTTPStatus.OK, "text/plain; version=0.0.4", metrics_text(status))
        elif status is not None and path == "/status":
            self._answer(HTTPStatus.OK, "application/json", json.dumps(status.as_json()))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there are /healthz, /metrics and /status\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a probe asks every few seconds."""

    def _answer(self, code: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if "charset" not in kind else kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
