"""What a flow has done: read from Spark's progress events, and shown by `reports.py`, `http.py` and the status file.

Must not start or stop anything. Start at `FlowProgress`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.pipelines.balance import ROWS as ROWS
from kafkaraw.pipelines.balance import WRITTEN as WRITTEN
from kafkaraw.pipelines.balance import FlowBalance, balance_of
from kafkaraw.pipelines.tables import Metrics

if TYPE_CHECKING:
    from kafkaraw.pipelines.running.supervision import Failure

UNBALANCED: Final = "unbalanced"
"""State of a run with `once` that has read everything, and whose counts do not add up."""
UNHEALTHY_FAILURES: Final = 5
"""Number of consecutive failures after which a flow is reported as unhealthy; it is still started again."""


@dataclass(slots=True)
class FlowProgress:
    """What one flow shows. Numbers are those of this run, except `totals`.

    Args:
        flow: its name.
        target: name of the dataset it writes to.
        state: of the flow, such as "running".
        batch: Spark's id of the last finished micro-batch; None before the first one.
        batches: number of finished micro-batches.
        rows_read: rows that its sources have returned.
        rows_written: rows that have gone into its target.
        rows_per_second: of the last micro-batch that had rows.
        batch_ms: duration of the last micro-batch.
        lag: offsets between what it has read and the ends of its topics; None if it reads none, or it is not known.
        late_rows: rows that watermarks have dropped.
        watermark: the event time that state is kept from; None without one.
        restarts: attempts after failures.
        failures: in a row, since the last finished micro-batch.
        failure: the last of these.
        totals: what micro-batches have counted since the flow's first run or full refresh.
        positions: offsets of the next records that it reads, by topic and partition.
    """

    flow: str
    target: str
    state: str = "waiting"
    batch: int | None = None
    batches: int = 0
    rows_read: int = 0
    rows_written: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    lag: int | None = None
    late_rows: int = 0
    watermark: str | None = None
    restarts: int = 0
    failures: int = 0
    failure: Failure | None = None
    totals: Metrics = field(default_factory=dict)
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any]) -> bool:
        """Add a progress event of Spark, as the value of its JSON.

        Returns:
            whether it is that of a micro-batch that was not added yet.
        """
        batch = int(event.get("batchId", -1))
        self.lag = _lag(event)
        self.watermark = event.get("eventTime", {}).get("watermark", self.watermark)
        if batch < 0 or (self.batch is not None and batch <= self.batch):
            return False
        self.batch = batch
        self.batches += 1
        self.positions = _positions(event)
        rows = max(int(event.get("numInputRows", 0)), 0)
        self.rows_read += rows
        self.batch_ms = int(event.get("batchDuration", 0))
        if rows:
            self.rows_per_second = 1000 * rows / max(self.batch_ms, 1)
        self.late_rows += sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in event.get("stateOperators", ()))
        self.failure, self.failures = None, 0
        return True

    def as_json(self) -> dict[str, object]:
        """Return the values for JSON."""
        failure = None if self.failure is None else {"remedy": self.failure.remedy.value, "error": self.failure.text}
        return {name: getattr(self, name) for name in _SHOWN} | {"failure": failure}


_SHOWN: Final = (
    *("flow", "target", "state", "batch", "batches", "rows_read", "rows_written", "rows_per_second", "batch_ms", "lag"),
    *("late_rows", "watermark", "restarts", "failures", "totals"),
)


def _positions(event: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the offsets up to which all topics of a query were read; the lower one of a topic that it reads twice."""
    found = dict[tuple[str, str], int]()
    for source in event.get("sources", ()):
        for each, offset in (_offsets(source.get("endOffset")) or {}).items():
            found[each] = min(offset, found.get(each, offset))
    return found


def _lag(event: Mapping[str, Any]) -> int | None:
    """Return the sum of offsets behind over the topics that a query reads; None if Spark does not tell."""
    total: int | None = None
    for source in event.get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        behind = (max(latest[each] - offset, 0) for each, offset in end.items() if each in latest)
        total = (total or 0) + sum(behind)
    return total


def _offsets(value: object) -> dict[tuple[str, str], int] | None:
    """Return the offsets of a Kafka source by topic and partition; None for another source."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    found = dict[tuple[str, str], int]()
    for topic, offsets in value.items():
        if not isinstance(offsets, dict):
            return None
        for partition, offset in offsets.items():
            if not isinstance(offset, int):
                return None
            found[topic, partition] = offset
    return found


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run shows at one moment.

    Args:
        pipeline: its name.
        mode: "once" or "continuous".
        state: "starting", "running", "stopping", "completed", "stopped", "failed" or "unbalanced".
        since: when the run started, in seconds since 1970.
        at: when this was written, likewise.
        pid: of the driver.
        flows: in the order of their start.
    """

    pipeline: str
    mode: str
    state: str
    since: float
    at: float
    pid: int
    flows: tuple[FlowProgress, ...]

    @property
    def healthy(self) -> bool:
        """Whether no flow has failed for good, none fails again and again, and the counts add up at the end."""
        if self.state == UNBALANCED:
            return False
        return all(each.state != "failed" and each.failures < UNHEALTHY_FAILURES for each in self.flows)

    @property
    def balance(self) -> tuple[FlowBalance, ...]:
        """Whether the counts of the flows that read topics add up."""
        return balance_of(self.flows)

    @property
    def unbalanced(self) -> tuple[FlowBalance, ...]:
        """The flows whose counts do not add up; in a run that goes on, rows may be on their way."""
        return tuple(each for each in self.balance if not each.is_balanced)

    def as_json(self) -> dict[str, object]:
        """Return the values for JSON."""
        values = {name: getattr(self, name) for name in ("pipeline", "mode", "state", "since", "at", "pid", "healthy")}
        flows = [each.as_json() for each in self.flows]
        return values | {"flows": flows, "balance": [each.as_json() for each in self.balance]}
