"""The Fetch requests in flight: for each broker at most one whose response is still wanted.

`core/fetch` decides what to request and reads the responses; `reading` knows the calls that wait for records. If the
connection to a broker is open, its request is sent at once, and a callback takes the response, without a task: a task
takes two more turns of the loop for every response. Start at `Fetches.begin`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.consumer_metrics import FetchCounters
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.pool import Lane
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.requests import (
    PARTITION_BYTES,
    PARTITION_BYTES_MOST,
    AdaptiveFetchSize,
    FetchLimits,
    FetchPlan,
    epoch_ends_request,
    must_validate,
)
from kafkaraw.errors import ClosedError, KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.fetch import FetchResponse

log = logging.getLogger(__name__)

_FETCH_KEY: Final = 1

Over: TypeAlias = Callable[[set[str], bool], None]
"""Called when a request has ended: with the topics to refresh, and whether a response was processed."""


@dataclass(slots=True)
class _Underway:
    """A Fetch that has begun.

    Attributes:
        task: opens the connection, or asks what has to be asked before; None once the request is out.
    """

    plan: FetchPlan
    lane: Lane
    task: asyncio.Task[None] | None = None


class Fetches:
    """The Fetch requests of one consumer.

    Args:
        engine: connections and metadata.
        fetcher: called with responses and failures.
        config: the consumer's settings.
        counters: count them.
        over: called when a request has ended, with a response or an error.
        failed: called with errors that are not Kafka's: faults in this program.
    """

    def __init__(
        self,
        engine: Engine,
        fetcher: Fetcher,
        config: ConsumerConfig,
        counters: FetchCounters,
        over: Over,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._fetcher = fetcher
        self._limits = FetchLimits(
            committed_only=config.isolation_level == "read_committed",
            min_bytes=config.fetch_min_bytes,
            max_wait_ms=config.fetch_max_wait_ms,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes or PARTITION_BYTES,
            rack=config.client_rack,
        )
        self._partition_bytes_most = config.max_partition_fetch_bytes or PARTITION_BYTES_MOST
        self._timeout = config.answer_timeout_ms / 1000  # with the way to the broker
        self._counters = counters
        self._over = over
        self._failed = failed
        self._sizes: dict[int, AdaptiveFetchSize] = {}
        self._underway: dict[tuple[int, Lane], _Underway] = {}
        self._closed = False

    @property
    def are_out(self) -> bool:
        """Whether none waits for its connection."""
        return all(underway.task is None for underway in self._underway.values())

    def busy_nodes(self) -> set[int]:
        """Brokers that owe an answer which is still wanted, or that owe one on either lane."""
        owed = Counter(node_id for node_id, _ in self._underway)
        wanted = {node_id for (node_id, _), it in self._underway.items() if self._fetcher.is_wanted(it.plan)}
        return wanted | {node_id for node_id, count in owed.items() if count > 1}

    def begin(self, plan: FetchPlan) -> None:
        """Send one Fetch."""
        # After a seek the pending response is useless, and may take half a second: use the other lane.
        lane: Lane = "spare fetch" if (plan.node_id, "fetch") in self._underway else "fetch"
        underway = self._underway[plan.node_id, lane] = _Underway(plan, lane)
        connection = self._engine.open_connection(plan.node_id, lane)
        if connection is not None:
            try:
                version = self._version(plan, connection)
            except KafkaError as error:
                self._lost(underway, error)
                return
            if not must_validate(version, connection.version_for):
                self._send(underway, connection, version, self._timeout)
                return
        name = f"fetch from broker {plan.node_id}"
        underway.task = asyncio.get_running_loop().create_task(self._find_way(underway), name=name)
        underway.task.add_done_callback(self._found_way)

    async def close(self) -> None:
        """Begin no more requests, and call no more callbacks; the engine closes the connections."""
        self._closed = True
        tasks = [underway.task for underway in self._underway.values() if underway.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside: the way there

    async def _find_way(self, underway: _Underway) -> None:
        plan, deadline = underway.plan, Deadline(self._timeout)
        try:
            connection = await self._engine.connection(plan.node_id, timeout=deadline.remaining, lane=underway.lane)
            version = self._version(plan, connection)
            is_needed = must_validate(version, connection.version_for)
            refresh = await self._validate(plan, connection, deadline) if is_needed else None
        except KafkaError as error:
            self._lost(underway, error)
            return
        underway.task = None
        if refresh is None:
            self._send(underway, connection, version, deadline.remaining)
        else:
            self._end(underway, refresh)

    def _found_way(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    def _version(self, plan: FetchPlan, connection: Connection) -> int:
        version = connection.version_for(_FETCH_KEY)
        return version if plan.version_max is None else min(version, plan.version_max)

    async def _validate(self, plan: FetchPlan, connection: Connection, deadline: Deadline) -> set[str] | None:
        """Check with the leader for log divergence, where a Fetch response does not report it.

        Returns:
            None when there is nothing to ask, so that it is to be fetched; else topics whose metadata must be
            refreshed: some positions may have moved, so the next look makes a new plan.
        """
        unvalidated = self._fetcher.unvalidated(plan, self._engine.cluster)
        if not unvalidated:
            return None
        response = await connection.request(epoch_ends_request(unvalidated), timeout=deadline.remaining)
        refresh = self._fetcher.validated(unvalidated, response, self._engine.cluster, self._now_ms())
        self._fetcher.abandon(plan)
        return refresh

    # -- inside: the request and its answer

    def _send(self, underway: _Underway, connection: Connection, version: int, timeout: float) -> None:
        began_s = asyncio.get_running_loop().time()

        def answered(outcome: FetchResponse | KafkaError) -> None:
            if self._closed:
                return
            try:
                self._answered(underway, outcome, began_s)
            except Exception as error:  # noqa: BLE001 - the call that waits raises it
                self._failed(error)

        plan = underway.plan
        request = plan.request(self._size_for(plan.node_id).limits, version)
        connection.submit(request, answered, version=version, timeout=timeout)

    def _answered(self, underway: _Underway, outcome: FetchResponse | KafkaError, began_s: float) -> None:
        plan, took_s = underway.plan, asyncio.get_running_loop().time() - began_s
        try:
            if isinstance(outcome, KafkaError):
                raise outcome
            self._counters.answered(outcome, took_s)
            self._size_for(plan.node_id).answered(outcome, took_s)
            refresh = self._fetcher.receive(plan, outcome, self._engine.cluster, self._now_ms())
        except KafkaError as error:
            self._lost(underway, error)
            return
        self._end(underway, refresh, came=True)

    def _size_for(self, node_id: int) -> AdaptiveFetchSize:
        if node_id not in self._sizes:
            self._sizes[node_id] = AdaptiveFetchSize(self._limits, self._partition_bytes_most)
        return self._sizes[node_id]

    def _lost(self, underway: _Underway, error: KafkaError) -> None:
        plan = underway.plan
        self._counters.failed()
        is_news = self._fetcher.fetch_failed(plan, error, self._now_ms()) and not isinstance(error, ClosedError)
        level = logging.WARNING if is_news else logging.DEBUG  # an outage is logged once, not with every attempt
        log.log(level, "fetch from broker %d failed, trying again: %s", plan.node_id, error)
        self._end(underway, {target.topic_partition.topic for target in plan.targets})

    def _end(self, underway: _Underway, refresh: set[str], *, came: bool = False) -> None:
        del self._underway[underway.plan.node_id, underway.lane]
        self._over(refresh, came)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
