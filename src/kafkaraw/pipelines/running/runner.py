"""Runs a pipeline: which flow starts when, what happens when one fails, and how a run ends.

A flow that reads a table starts after the flows that write it: with `once`, when they have read everything; otherwise
as soon as they are started. The loop of `_Run.follow` looks at all queries several times a second; Spark runs them in
its own threads. Must not decide how a flow writes (`targets.py`) or what an error means (`supervision.py`).
Start at `run`.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.pipelines.balance import CountsTable, FlowBalance
from kafkaraw.pipelines.model import Dataset, DatasetKind, FlowKind, Pipeline, PipelineError
from kafkaraw.pipelines.plan import Plan, flows_of_run
from kafkaraw.pipelines.running.commits import Commits
from kafkaraw.pipelines.running.flow_query import FlowQuery, FlowState
from kafkaraw.pipelines.running.kafka import KAFKA
from kafkaraw.pipelines.running.plans import check_changes, keep_plan
from kafkaraw.pipelines.running.preparation import Preparation, PreparedFlow, selected_flows
from kafkaraw.pipelines.running.progress import UNBALANCED, FlowProgress, RunStatus
from kafkaraw.pipelines.running.queries import Queries
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.running.supervision import Backoff, Failure
from kafkaraw.pipelines.running.targets import Targets, TopicFunctions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S: Final = 0.1
_STATUS_S: Final = 1.0
_JVM_END_S: Final = 15.0
_ATTEMPTS_ONCE: Final = 6
"""With `once`, number of consecutive failures after which a flow has failed, because the run must end."""


class Reporter(Protocol):
    """Shows a run."""

    def status(self, status: RunStatus) -> None:
        """Show what all flows do; called about once a second, and at the end."""
        ...

    def failed(self, flow: str, failure: Failure, retry_in: float | None) -> None:
        """Show that a flow has failed, and starts again after some seconds; None if it does not."""
        ...


class Silent:
    """Shows nothing."""

    def status(self, status: RunStatus) -> None:
        """Do nothing."""

    def failed(self, flow: str, failure: Failure, retry_in: float | None) -> None:
        """Do nothing."""


class JvmDiedError(KafkaError):
    """Spark's JVM has ended, and with it all queries."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run has ended.

    Args:
        status: what all flows have done.
        seconds: its duration.
    """

    status: RunStatus
    seconds: float

    @property
    def failed(self) -> tuple[FlowProgress, ...]:
        """The flows that have failed for good."""
        return tuple(each for each in self.status.flows if each.state == FlowState.FAILED.value)

    @property
    def unbalanced(self) -> tuple[FlowBalance, ...]:
        """The flows whose counts do not add up at the end of a run with `once`; none after other runs."""
        return self.status.unbalanced if self.status.state == UNBALANCED else ()

    @property
    def exit_code(self) -> int:
        """0 if all flows are completed or were stopped, 1 if one has failed for good, or does not balance."""
        return 1 if self.failed or self.unbalanced else 0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run.

    Args:
        once: read what is there, and end; otherwise go on until `should_stop`.
        select: names of datasets or flows, which run with everything that they read; none for all.
        full_refresh: names of tables that are emptied and computed again.
        should_stop: asked several times a second.
        should_kill: whether the run waits for micro-batches no longer.
    """

    once: bool = False
    select: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    should_stop: Callable[[], bool] = bool
    should_kill: Callable[[], bool] = bool


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    options: RunOptions | None = None,
    *,
    topics: TopicFunctions | None = None,
    reporter: Reporter | None = None,
    plan: Plan | None = None,
) -> Summary:
    """Run a pipeline until it has read everything (`once`), is stopped, or all flows have failed.

    Args:
        pipeline: what to run.
        spark: the session that its definitions were loaded with.
        options: how to run.
        topics: how topics are read and written; None for those of the brokers in the settings.
        reporter: what shows the run.
        plan: of the pipeline; changes since the plan of the last run are refused if a checkpoint or table cannot follow
            them, otherwise it is kept. None to compare nothing.

    Raises:
        ConfigError: the definition, the selection or the storage is wrong; nothing was started.
        StorageInUseError: another run has the storage.
        JvmDiedError: Spark's JVM has ended.
    """
    storage = Storage.of(pipeline.storage, pipeline.name)
    with storage.lock() as lock:
        jvm = jvm_process_id(spark)
        if jvm is not None:
            lock.note_jvm(jvm)
        chosen = options or RunOptions()
        if plan is not None:
            selected = (each.name for each in selected_flows(pipeline, chosen.select))
            flows = flows_of_run(plan, selected) if chosen.select else None
            check_changes(plan, pipeline, storage, flows=flows, full_refresh=chosen.full_refresh)
        return _Run(pipeline, spark, storage, chosen, topics or KAFKA, reporter or Silent()).follow(plan)


class _Run:
    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        storage: Storage,
        options: RunOptions,
        topics: TopicFunctions,
        reporter: Reporter,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._storage = storage
        self._options = options
        self._topics = topics
        self._reporter = reporter
        self._targets = Targets(pipeline, storage, spark, topics)
        self._preparation = Preparation(pipeline, storage, spark, self._targets, topics)
        self._queries = Queries(pipeline, spark, self._targets, self._preparation, topics, once=options.once)
        self._commits = Commits(pipeline)
        self._counts = CountsTable(storage.root / "expectations")
        self._flows: dict[str, FlowQuery] = {}
        self._upstream: dict[str, tuple[FlowQuery, ...]] = {}
        self._refreshes: dict[str, _Refresh] = {}
        self._joined: dict[str, tuple[Dataset, ...]] = {}
        self._restarts: dict[str, _Refresh] = {}
        self._since = time.time()
        self._status_at = 0.0
        self._stopping = False

    def follow(self, plan: Plan | None) -> Summary:
        """Start everything, and look at it until it has ended."""
        self._refresh_fully()
        flows = self._preparation.flows(self._options.select)
        if plan is not None:
            keep_plan(plan, self._storage, {each.flow.name for each in flows} if self._options.select else None)
        self._topics.create_topics(self._pipeline, any(each.topics for each in flows))
        for prepared in flows:
            self._add(prepared)
        try:
            while not self._has_ended():
                self._step(time.monotonic())
                time.sleep(_POLL_S)
        except Exception as error:
            raise_if_jvm_died(self._spark, error)
            raise
        finally:
            self._kill_all()
            self._note_positions()
            self._commits.close()
        failed = any(each.state is FlowState.FAILED for each in self._flows.values())
        status = self._status("failed" if failed else "stopped" if self._stopping else "completed")
        if self._options.once and status.state == "completed" and status.unbalanced:
            status = replace(status, state=UNBALANCED)
        self._reporter.status(status)
        self._counts.write(status.flows)
        return Summary(status, time.time() - self._since)

    def _add(self, prepared: PreparedFlow) -> None:
        flow = prepared.flow
        kept = self._storage.flow(flow.name)
        kept.prepare()
        backoff = Backoff(attempts_max=_ATTEMPTS_ONCE if self._options.once else None)
        query = FlowQuery(flow, kept, lambda query: self._queries.start(query, prepared), backoff)
        query.progress.totals = kept.counts().totals
        self._upstream[flow.name] = tuple(self._flows[name] for name in self._preparation.upstream(prepared))
        self._flows[flow.name] = query
        self._joined[flow.name] = self._preparation.tables_joined(prepared)
        if self._options.once or flow.kind in (FlowKind.ONCE, FlowKind.DEAD_LETTERS):
            return
        interval = seconds_of(self._pipeline.settings.materialized_view_interval)
        if flow.kind is FlowKind.COMPLETE:
            self._refreshes[flow.name] = _Refresh(interval, unknown_inputs=prepared.reads_others)
        elif self._joined[flow.name]:
            self._restarts[flow.name] = _Refresh(interval, unknown_inputs=False)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _step(self, now: float) -> None:
        """Look at everything once."""
        if not self._stopping and self._options.should_stop():
            self._stopping = True
        for flow in self._flows.values():
            if self._stopping and not flow.ended:
                flow.request_stop()
            if self._stopping and self._options.should_kill():
                flow.kill()
            self._report(flow, flow.poll(now, random.random()), now)
            if not self._stopping and self._restart_is_due(flow, now):
                flow.request_restart()
            if not self._stopping and self._may_start(flow, now):
                if flow.flow.name in self._restarts:
                    self._restarts[flow.flow.name].note(now, self._batches_of_joined(flow))
                self._report(flow, flow.start(now, random.random()), now)
        if now >= self._status_at:
            self._status_at = now + _STATUS_S
            raise_if_jvm_died(self._spark, None)
            self._note_positions()
            status = self._status("stopping" if self._stopping else "running")
            self._reporter.status(status)
            self._counts.write(status.flows)

    def _note_positions(self) -> None:
        for flow in self._flows.values():
            self._commits.note(flow.flow.name, flow.progress.positions)

    def _may_start(self, flow: FlowQuery, now: float) -> bool:
        upstream = self._upstream[flow.flow.name]
        if flow.state is FlowState.BACKING_OFF:
            return now >= flow.retry_at
        if flow.state is FlowState.WAITING:
            if not self._options.once:
                return self._upstream_has_started(flow, upstream) and self._refresh_is_due(flow, now)
            lost = [each.flow.name for each in upstream if each.state in (FlowState.FAILED, FlowState.STOPPED)]
            if lost:
                flow.give_up(f"not started: it reads what flow {lost[0]!r} writes, which has failed")
                return False
            return all(each.state is FlowState.COMPLETED for each in upstream)
        return (
            flow.state is FlowState.COMPLETED and flow.flow.name in self._refreshes and self._refresh_is_due(flow, now)
        )

    def _upstream_has_started(self, flow: FlowQuery, upstream: tuple[FlowQuery, ...]) -> bool:
        """Return whether the flows before one are started, and the tables that it reads as batches have contents."""
        if any(each.state is FlowState.WAITING and each.progress.batches == 0 for each in upstream):
            return False
        for table in self._joined[flow.flow.name]:
            if not self._targets.has_contents(table):
                writers = self._pipeline.flows_into(table.name)
                if all(
                    self._flows[each.name].state is FlowState.FAILED for each in writers if each.name in self._flows
                ):
                    flow.give_up(
                        f"not started: it reads {table.name!r}, which has no contents, and whose flow has failed"
                    )
                return False
        return True

    def _restart_is_due(self, flow: FlowQuery, now: float) -> bool:
        """Return whether a stream that joins tables starts again, since they have changed: at most each interval."""
        restart = self._restarts.get(flow.flow.name)
        if restart is None or flow.state is not FlowState.RUNNING:
            return False
        return flow.is_restarting or restart.is_due(now, self._batches_of_joined(flow))

    def _batches_of_joined(self, flow: FlowQuery) -> tuple[int, ...]:
        """Return the numbers of micro-batches of the flows into the tables that a flow joins."""
        tables = self._joined[flow.flow.name]
        writers = (each.name for table in tables for each in self._pipeline.flows_into(table.name))
        return tuple(self._flows[name].progress.batches for name in writers if name in self._flows)

    def _refresh_is_due(self, flow: FlowQuery, now: float) -> bool:
        refresh = self._refreshes.get(flow.flow.name)
        if refresh is None:
            return True
        basis = tuple(each.progress.batches for each in self._upstream[flow.flow.name])
        return refresh.is_due(now, basis)

    def _has_ended(self) -> bool:
        states = [each.state for each in self._flows.values()]
        if self._options.once or self._stopping:
            return all(each.ended for each in self._flows.values())
        # A materialized view that is computed waits for its next refresh, as long as there is something that runs.
        return all(state in (FlowState.FAILED, FlowState.STOPPED) for state in states) or (
            all(each.ended for each in self._flows.values()) and not self._refreshes
        )

    def _report(self, flow: FlowQuery, failure: Failure | None, now: float) -> None:
        if failure is not None:
            retry_in = max(flow.retry_at - now, 0.0) if flow.state is FlowState.BACKING_OFF else None
            self._reporter.failed(flow.flow.name, failure, retry_in)

    def _status(self, state: str) -> RunStatus:
        flows = tuple(each.progress for each in self._flows.values())
        mode = "once" if self._options.once else "continuous"
        return RunStatus(self._pipeline.name, mode, state, self._since, time.time(), os.getpid(), flows)

    def _kill_all(self) -> None:
        """Stop what still runs, after an error or Ctrl-C; the next run repeats unfinished micro-batches."""
        if jvm_has_died(self._spark):
            return
        for flow in self._flows.values():
            if not flow.ended:
                flow.kill()

    # -- full refresh --------------------------------------------------------------------------------------------------

    def _refresh_fully(self) -> None:
        """Empty the tables of `full_refresh`, and begin new checkpoints for their flows."""
        named = [self._pipeline.dataset(name) for name in self._options.full_refresh]
        for dataset in named:
            if dataset.kind is not DatasetKind.STREAMING_TABLE and dataset.kind is not DatasetKind.MATERIALIZED_VIEW:
                raise PipelineError(
                    f"--full-refresh: a {dataset.kind.value} cannot be emptied; to read everything again, use "
                    "`kafkaraw pipelines checkpoint rewind`",
                    location=dataset.location,
                    dataset=dataset.name,
                )
        if not named:
            return
        with self._targets.columns_of_definition(named):
            again = {dataset.name for dataset in named}
            preparation = Preparation(self._pipeline, self._storage, self._spark, self._targets, self._topics)
            for prepared in preparation.flows():
                self._check_full_refresh(prepared, again)
        for dataset in named:
            self._targets.clear(dataset)
            for flow in self._pipeline.flows_into(dataset.name):
                self._storage.flow(flow.name).begin_generation(None, {})

    def _check_full_refresh(self, prepared: PreparedFlow, again: set[str]) -> None:
        """Check that no flow would get rows of a refreshed table a second time."""
        target = prepared.flow.target
        read = sorted({each.name for each in prepared.inputs if each.streaming} & again)
        if not read or target in again:
            return
        reads = f"--full-refresh {' '.join(read)}: flow {prepared.flow.name!r} reads it as a stream"
        found = self._pipeline.find(target)
        if found is not None and found.kind.is_table:
            raise ConfigError(f"{reads}, and would add its rows a second time; add --full-refresh {target}")
        raise ConfigError(f"{reads} and writes to {target!r}, which cannot be emptied: its rows would be there twice")


class _Refresh:
    """When a flow reads tables again that it reads as batches: after an interval, if they have changed."""

    def __init__(self, interval_s: float, *, unknown_inputs: bool) -> None:
        self._interval_s = interval_s
        self._unknown_inputs = unknown_inputs
        self._next = 0.0
        self._basis: tuple[int, ...] | None = None

    def is_due(self, now: float, basis: tuple[int, ...]) -> bool:
        """Return whether to compute it now; the answer yes is given once."""
        if now < self._next or (basis == self._basis and not self._unknown_inputs):
            return False
        self.note(now, basis)
        return True

    def note(self, now: float, basis: tuple[int, ...]) -> None:
        """Note that it is computed now, from what the flows that it reads have written so far."""
        self._next, self._basis = now + self._interval_s, basis


_INTERVAL: Final = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(millisecond|ms|second|s|minute|min|hour|h|day|d)s?\s*", re.IGNORECASE
)
_UNITS: Final = {
    "millisecond": 0.001,
    "ms": 0.001,
    "second": 1,
    "s": 1,
    "minute": 60,
    "min": 60,
    "hour": 3600,
    "h": 3600,
}


def seconds_of(interval: str) -> float:
    """Return the seconds of an interval such as "1 minute".

    Raises:
        ConfigError: the text is no interval.
    """
    found = _INTERVAL.fullmatch(interval)
    if found is None:
        raise ConfigError(f'interval {interval!r}: give a number and a unit, such as "30 seconds" or "1 minute"')
    return float(found[1]) * _UNITS.get(found[2].lower(), 86_400)


def jvm_process_id(spark: SparkSession) -> int | None:
    """Return the process id of Spark's JVM; None if this process has not started it."""
    process = getattr(_gateway(spark), "proc", None)
    return None if process is None else int(process.pid)


def jvm_exit_code(spark: SparkSession) -> int | None:
    """Return how Spark's JVM has ended; None if it runs, or this process has not started it."""
    process = getattr(_gateway(spark), "proc", None)
    code = None if process is None else process.poll()
    return None if code is None else int(code)


def jvm_has_died(spark: SparkSession) -> bool:
    """Return whether Spark's JVM has ended."""
    return jvm_exit_code(spark) is not None


def raise_if_jvm_died(spark: SparkSession, error: Exception | None) -> None:
    """Raise what explains other errors, if Spark's JVM has ended.

    Raises:
        JvmDiedError: it has.
    """
    code = jvm_exit_code(spark)
    deadline = time.monotonic() + _JVM_END_S
    while code is None and error is not None and _is_lost_connection(error) and time.monotonic() < deadline:
        time.sleep(_POLL_S)  # it closes connections some time before it ends
        code = jvm_exit_code(spark)
    if code is not None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        hint = " (SIGKILL often means that the system had no memory left)" if code == -signal.SIGKILL else ""
        raise JvmDiedError(
            f"Spark's JVM {how}{hint}, and with it all flows. Run the pipeline again: it continues after the last "
            "finished micro-batches. The log of this run has what the JVM has printed"
        ) from error


def _is_lost_connection(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, is that of a connection to the JVM."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, ConnectionError) or type(each).__name__ == "Py4JNetworkError":
            return True
        each = each.__cause__ or each.__context__
    return False


def _gateway(spark: SparkSession) -> object:
    return getattr(spark.sparkContext, "_gateway", None)
