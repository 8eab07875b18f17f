"""The HTTP endpoints of a run: /healthz, /metrics (Prometheus) and /status (JSON).

Only reads the status that `publish` was last called with. There is no authentication; by default it listens on this
machine only. Must not touch Spark: its answers must come while Spark is busy. Start at `RunStatusServer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from kafkaraw.net.status_server import PROMETHEUS, Answer, StatusServer
from kafkaraw.pipelines.running.progress import FlowProgress, RunStatus

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


class RunStatusServer:
    """Serves the status of a run, in a thread.

    Args:
        port: 0 for any free one.
        host: address to listen on.

    Raises:
        ConfigError: the port is in use, or not allowed.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.status: RunStatus | None = None
        answers = {"/healthz": _health, "/metrics": _metrics, "/status": _json}
        self._server = StatusServer(
            port,
            host,
            {path: partial(self._answer, answer) for path, answer in answers.items()},
            thread_name="kafkaraw-pipeline-http",
            setting="--port",
        )

    @property
    def address(self) -> str:
        """The address to open, such as "http://127.0.0.1:8090"."""
        return self._server.address

    def publish(self, status: RunStatus) -> None:
        """Set what is served."""
        self.status = status

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _answer(self, answer: Callable[[RunStatus], Answer]) -> Answer:
        status = self.status
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "starting\n") if status is None else answer(status)


def _health(status: RunStatus) -> Answer:
    bad = [each for each in status.flows if each.failure is not None]
    lines = [f"{each.flow}: {each.state}: {each.failure}" for each in bad]
    code = HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(code, "\n".join(["ok" if status.healthy else "not healthy", *lines]) + "\n")


def _metrics(status: RunStatus) -> Answer:
    return Answer(HTTPStatus.OK, metrics_text(status), PROMETHEUS)


def _json(status: RunStatus) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(status.as_json()), "application/json")
