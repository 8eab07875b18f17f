"""The numbers of a worker, as a dictionary, as the text of a probe, and for Prometheus. Pure.

`service.py` collects them. Start at `WorkerStatus`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.worker.failures import Reaction, Reason

_PREFIX: Final = "kafkaraw_worker"


@dataclass(slots=True)
class HandlerMetrics:
    """What became of the records of one handler, since the worker was started.

    Attributes:
        handled: successful calls.
        failures: failed calls, by reason.
        reactions: what followed failures.
        dropped: records whose partitions were revoked or lost, or whose lock was lost, while they were in work.
        seconds: duration of all calls together.
    """

    handled: int = 0
    failures: dict[Reason, int] = field(default_factory=lambda: defaultdict(int))
    reactions: dict[Reaction, int] = field(default_factory=lambda: defaultdict(int))
    dropped: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker at one moment.

    Attributes:
        group: its group.
        problems: why it is not healthy; empty if it is.
        is_stopping: it starts no more records.
        partitions: number of assigned partitions.
        paused: number of partitions that are paused because of unfinished records.
        running: number of handlers that run.
        queued: records that have not started, or wait for a repeated call.
        commits: number of commits; in a share group, of acknowledged records.
        handlers: by name.
        locked: in a share group: records that are locked for the worker and not acknowledged.
        renewals: in a share group: acquisition locks that were renewed.
        late: in a share group: acknowledgements that the broker refused, because the lock had expired.
    """

    group: str
    problems: Sequence[str]
    is_stopping: bool
    partitions: int
    paused: int
    running: int
    queued: int
    commits: int
    handlers: Mapping[str, HandlerMetrics]
    locked: int = 0
    renewals: int = 0
    late: int = 0

    def as_dict(self) -> dict[str, object]:
        """Return the numbers, as `Worker.metrics` and `/status` do."""
        return {
            "group": self.group,
            "healthy": not self.problems,
            "problems": list(self.problems),
            "stopping": self.is_stopping,
            "partitions": self.partitions,
            "paused": self.paused,
            "running": self.running,
            "queued": self.queued,
            "commits": self.commits,
            "locked": self.locked,
            "renewals": self.renewals,
            "late": self.late,
            "handlers": {
                name: {
                    "handled": each.handled,
                    "failures": {reason.value: number for reason, number in each.failures.items()},
                    "reactions": {reaction.value: number for reaction, number in each.reactions.items()},
                    "dropped": each.dropped,
                    "seconds": round(each.seconds, 6),
                }
                for name, each in self.handlers.items()
            },
        }

    def health_text(self) -> str:
        """Return the text of `/healthz`."""
        return "\n".join(["not healthy", *self.problems] if self.problems else ["ok"]) + "\n"

    def metrics_text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return "\n".join(self._metric_lines()) + "\n"

    def _metric_lines(self) -> Iterator[str]:
        labels = {"group": self.group}
        for name, text, value in (
            ("healthy", "Whether /healthz returns 200", int(not self.problems)),
            ("partitions", "Assigned partitions", self.partitions),
            ("paused_partitions", "Partitions that are paused because of unfinished records", self.paused),
            ("running", "Handlers that run", self.running),
            ("queued", "Records that have not started, or wait for a repeated call", self.queued),
            ("locked", "In a share group: records that are locked for the worker and not acknowledged", self.locked),
        ):
            yield from _header(name, "gauge", text)
            yield _sample(name, labels, value)
        for name, text, value in (
            ("commits_total", "Commits of offsets; in a share group: acknowledged records", self.commits),
            ("lock_renewals_total", "In a share group: acquisition locks that were renewed", self.renewals),
            (
                "late_acknowledgements_total",
                "In a share group: acknowledgements that came after the lock had expired; the records come again",
                self.late,
            ),
        ):
            yield from _header(name, "counter", text)
            yield _sample(name, labels, value)
        yield from _header("handled_total", "counter", "Successful calls of handlers")
        for handler, each in self.handlers.items():
            yield _sample("handled_total", {**labels, "handler": handler}, each.handled)
        yield from _header("failures_total", "counter", "Failed calls of handlers, by reason")
        for handler, each in self.handlers.items():
            for reason in Reason:
                of_reason = {**labels, "handler": handler, "reason": reason.value}
                yield _sample("failures_total", of_reason, each.failures.get(reason, 0))
        yield from _header("reactions_total", "counter", "What followed failures")
        for handler, each in self.handlers.items():
            for reaction in Reaction:
                of_reaction = {**labels, "handler": handler, "reaction": reaction.value}
                yield _sample("reactions_total", of_reaction, each.reactions.get(reaction, 0))
        yield from _header("dropped_total", "counter", "Records in work whose partitions or locks were lost")
        for handler, each in self.handlers.items():
            yield _sample("dropped_total", {**labels, "handler": handler}, each.dropped)
        yield from _header("seconds_total", "counter", "Duration of all calls")
        for handler, each in self.handlers.items():
            yield _sample("seconds_total", {**labels, "handler": handler}, each.seconds)


def _header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {text}"
    yield f"# TYPE {_PREFIX}_{name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    escaped = (text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for text in labels.values())
    inside = ",".join(f'{label}="{text}"' for label, text in zip(labels, escaped, strict=True))
    return f"{_PREFIX}_{name}{{{inside}}} {value:g}"
