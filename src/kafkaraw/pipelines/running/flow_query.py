"""One flow of a run: its state, its streaming query, and what each micro-batch does.

A streaming flow is one query. Its micro-batches go through `foreachBatch`, also into topics: only there can the counts
of a micro-batch be kept before Spark notes that it is finished, so that they count once (balance), and only there can a
run stop between two micro-batches. The writes themselves are exactly once: `StreamingTable.append`, and `batch_writer`
with `exactlyOnce`.

    WAITING <─> RUNNING ──> COMPLETED        all present records are read (--once)
                │   ▲ └───> STOPPED          between two micro-batches, on request
                ▼   │
            BACKING_OFF ──> FAILED           a person must look at it; or there were too many attempts

Must not decide which flow runs when: `runner.py` does. Start at `FlowQuery`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import InternalError, KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import FlowDefinition
from kafkaraw.pipelines.running.progress import ROWS, WRITTEN, FlowProgress
from kafkaraw.pipelines.running.storage import FlowStorage
from kafkaraw.pipelines.running.supervision import Backoff, Failure, Remedy, sort_error
from kafkaraw.pipelines.tables import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class FlowState(Enum):
    """State of a flow in a run."""

    WAITING = "waiting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


TRANSITIONS: Final[Mapping[FlowState, frozenset[FlowState]]] = {
    FlowState.WAITING: frozenset({FlowState.RUNNING, FlowState.BACKING_OFF, FlowState.STOPPED, FlowState.FAILED}),
    FlowState.RUNNING: frozenset(
        # It waits after `request_restart`.
        {FlowState.COMPLETED, FlowState.BACKING_OFF, FlowState.STOPPED, FlowState.FAILED, FlowState.WAITING}
    ),
    FlowState.BACKING_OFF: frozenset({FlowState.RUNNING, FlowState.BACKING_OFF, FlowState.STOPPED, FlowState.FAILED}),
    FlowState.COMPLETED: frozenset({FlowState.RUNNING}),  # a materialized view is computed again
    FlowState.STOPPED: frozenset(),
    FlowState.FAILED: frozenset(),
}

ENDED: Final = frozenset({FlowState.COMPLETED, FlowState.STOPPED, FlowState.FAILED})


class StopRequested(Exception):
    """Ends a query before its next micro-batch, which the next run plans with the same offsets."""


WriteBatch = Callable[["DataFrame", int, Callable[[], Metrics]], Metrics]
"""Writes a micro-batch: its rows, its number, and what returns the counts of its plan once the rows are computed.
Returns the counts to keep."""


@dataclass(frozen=True, slots=True)
class Started:
    """A query that was started.

    Args:
        query: Spark's query.
        gate: its micro-batches pass it; None for a sink of Spark, whose micro-batches do not.
    """

    query: StreamingQuery
    gate: BatchGate | None


class BatchGate:
    """The function of `foreachBatch`: writes micro-batches one by one until a stop is requested.

    Args:
        storage: where the counts of micro-batches are kept.
        write: writes one.
        progress: what the flow shows.
    """

    def __init__(self, storage: FlowStorage, write: WriteBatch, progress: FlowProgress) -> None:
        self._storage = storage
        self._write = write
        self._progress = progress
        self._query: StreamingQuery | None = None
        self._known = threading.Event()
        self._stopping = threading.Event()
        self.error: Exception | None = None
        self.finished: int = 0

    def follow(self, query: StreamingQuery) -> None:
        """Tell the query, whose first micro-batch waits for this."""
        self._query = query
        self._known.set()

    def stop(self) -> None:
        """Let no further micro-batch begin."""
        self._stopping.set()
        self._known.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a micro-batch; called by Spark."""
        self._known.wait()
        if self._stopping.is_set() or self._query is None:
            self.error = StopRequested()
            raise self.error
        query = self._query
        try:
            counts = self._write(batch, number, lambda: observed(query))
        except Exception as error:
            self.error = error
            raise
        kept = self._storage.keep_counts(number, counts)
        self._progress.totals = kept.totals
        self._progress.rows_written += counts.get(WRITTEN, {}).get(ROWS, 0)
        self.finished += 1


def observed(query: StreamingQuery) -> Metrics:
    """Return what `observe()` has counted in the micro-batch that a query is executing."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001
    found = dict[str, dict[str, int]]()
    for entry in _java_map(query, execution.observedMetrics()).entrySet():
        # A name may end with a number of its evaluation, "#7", which differs from run to run.
        of_name = found.setdefault(entry.getKey().partition("#")[0], {})
        for name, number in json.loads(entry.getValue().json()).items():
            if isinstance(number, int):
                of_name[name] = of_name.get(name, 0) + number
    return found


def _java_map(query: StreamingQuery, scala_map: Any) -> Any:  # noqa: ANN401 -- objects of the JVM
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is None or context._jvm is None:  # noqa: SLF001
        raise InternalError("the Spark session has ended while a micro-batch was written")
    return context._jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map)  # noqa: SLF001


class FlowQuery:
    """One flow of a run.

    Args:
        flow: its definition.
        storage: what it keeps.
        start: evaluates the flow and starts its query; called again after failures.
        backoff: when it starts again.
    """

    def __init__(
        self, flow: FlowDefinition, storage: FlowStorage, start: Callable[[FlowQuery], Started], backoff: Backoff
    ) -> None:
        self.flow = flow
        self.storage = storage
        self.progress: FlowProgress = FlowProgress(flow.name, flow.target)
        self.state: FlowState = FlowState.WAITING
        self.retry_at: float = 0.0
        self._start = start
        self._backoff = backoff
        self._started: Started | None = None
        self._seen_batches = -1
        self._look_at = 0.0
        self._stopping = False
        self._restarting = False

    @property
    def is_restarting(self) -> bool:
        """Whether it stops in order to be started again."""
        return self._restarting

    @property
    def ended(self) -> bool:
        """Whether the flow does nothing any more."""
        return self.state in ENDED

    def move(self, state: FlowState) -> None:
        """Change the state.

        Raises:
            InternalError: there is no such transition.
        """
        if state not in TRANSITIONS[self.state]:
            raise InternalError(f"flow {self.flow.name!r}: no transition from {self.state.value} to {state.value}")
        self.state = state
        self.progress.state = state.value

    def start(self, now: float, random: float) -> Failure | None:
        """Start the query, for the first time or after a failure.

        Returns:
            why it did not start; None if it did.
        """
        if self.state is FlowState.BACKING_OFF:
            self.progress.restarts += 1
        try:
            self._started = self._start(self)
        except Exception as error:  # noqa: BLE001 -- of the user's functions, Spark, or brokers
            return self._failed(error, now, random)
        self._seen_batches = -1
        self._restarting = False
        self.move(FlowState.RUNNING)
        return None

    def poll(self, now: float, random: float) -> Failure | None:
        """Look at the running query.

        Returns:
            the failure that has ended it since the last call; None if there is none.
        """
        if self.state is not FlowState.RUNNING or self._started is None:
            return None
        query, gate = self._started.query, self._started.gate
        active = query.isActive
        self._read_progress(query, gate, now, last=not active)
        if active:
            return None
        error = query.exception()
        was_asked = self._stopping or (gate is not None and isinstance(gate.error, StopRequested))
        if self._restarting and not self._stopping and (error is None or was_asked):
            self._restarting = False
            self.move(FlowState.WAITING)
            return None
        if error is None:
            self.move(FlowState.STOPPED if self._stopping else FlowState.COMPLETED)
            return None
        if was_asked:
            self.move(FlowState.STOPPED)
            return None
        cause = gate.error if gate is not None and isinstance(gate.error, KafkaError) else error
        return self._failed(cause, now, random)

    def request_stop(self) -> None:
        """Stop after the micro-batch that is being written; at once if there is none."""
        self._stopping = True
        if self.state in (FlowState.WAITING, FlowState.BACKING_OFF):
            self.move(FlowState.STOPPED)
        elif self.state is FlowState.RUNNING and self._started is not None:
            self._stop_between_batches(self._started)

    def request_restart(self) -> None:
        """Stop as `request_stop` does, and wait to be started again. Call it until the query has stopped."""
        assert self.state is FlowState.RUNNING and self._started is not None, "only a running query is restarted"
        self._restarting = True
        self._stop_between_batches(self._started)

    def _stop_between_batches(self, started: Started) -> None:
        if started.gate is not None:
            started.gate.stop()
        if not started.query.isActive or not started.query.status["isTriggerActive"]:
            started.query.stop()

    def kill(self) -> None:
        """Stop in the middle of a micro-batch, which the next run repeats."""
        self._stopping = True
        if self._started is not None and self._started.query.isActive:
            self._started.query.stop()

    def give_up(self, text: str) -> None:
        """End a flow that never started, such as one that reads what a failed flow writes."""
        self.progress.failure = Failure(Remedy.HUMAN, text)
        self.move(FlowState.FAILED)

    def _failed(self, error: BaseException, now: float, random: float) -> Failure:
        failure = sort_error(error)
        self.progress.failure = failure
        delay = self._backoff.failed(random) if failure.remedy is Remedy.RETRY else None
        self.progress.failures = self._backoff.failures
        if delay is None:
            self.move(FlowState.FAILED)
        else:
            self.retry_at = now + delay
            self.move(FlowState.BACKING_OFF)
        return failure

    def _read_progress(self, query: StreamingQuery, gate: BatchGate | None, now: float, *, last: bool) -> None:
        """Read Spark's progress events: after micro-batches, and now and then for the lag."""
        finished = -1 if gate is None else gate.finished
        if finished == self._seen_batches and now < self._look_at and not last:
            return
        self._look_at = now + _LOOK_S
        added = False
        for event in query.recentProgress if last else [query.lastProgress]:
            if event is not None:
                added = self.progress.add(json.loads(event.json)) or added
        if added or gate is None:
            self._seen_batches = finished
        if added:
            self._backoff.succeeded()


_LOOK_S: Final = 1.0
"""Spark publishes the progress of a micro-batch after it has noted its end, and that of idle queries now and then."""
