"""`Reading`: starts a consumer's requests, for leaders, positions and records, and waits for the responses.

`SubscriptionState` has the positions; `Fetcher` decides what to fetch next and processes responses (both in
`core/fetch`); the engine reaches the brokers. This module starts requests, waits, and takes fetched records in hand.
Requests run in tasks of their own, so a call that times out loses no records. It must not depend on groups or commits.
Start at `Reading.more` and `Reading.take`.

`FetchRequests` has the Fetch requests in flight: for each broker at most one whose response is still wanted. If the
connection to a broker is open, its request is sent at once, and a callback takes the response, without a task: a task
takes two more turns of the loop for every response.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, look_up_once
from kafkaraw.client.metrics.consumer_metrics import FetchCounters
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.metadata import UNKNOWN_TOPIC_GRACE_S
from kafkaraw.client.network.pool import Lane
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.wakeups import Wakeups
from kafkaraw.core.fetch.cursor import Conversion, RecordCursor
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.offsets import OffsetAndMetadata, parse_reset_policy
from kafkaraw.core.fetch.requests import (
    PARTITION_BYTES,
    PARTITION_BYTES_MOST,
    AdaptiveFetchSize,
    FetchLimits,
    FetchPlan,
    epoch_ends_request,
    must_validate,
)
from kafkaraw.core.fetch.subscription_state import FetchRange, PartitionState, SubscriptionState
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ClosedError, KafkaError, UsageError, copy_to_raise
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import Batch, TopicPartition, keep_freed_memory

if TYPE_CHECKING:
    from kafkaraw.client.fetching.interception import Interception
    from kafkaraw.records import Record

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")


class Reading:
    """The requests and fetched records of a consumer.

    Args:
        engine: connections and metadata.
        config: the consumer's settings.

    Attributes:
        subscriptions: where the consumer is in each partition.
        fetcher: decides what to ask brokers.
        cursor: what the caller has in hand; that of `subscriptions`.
        interception: the user's interceptors; None without any.
        awaits: whether a deserializer may return awaitables, so that batches have to be decoded before they are read.
        committed_only: whether records of open and aborted transactions are left out.
        is_waiting: whether a call waits for something to come.
        is_over: the consumer is being closed, or is closed: nothing is given any more.
        wakeups: how other threads end calls that wait.
        turn: what has to be done before anything is given, as for a group; returns whether it is done by the deadline.
    """

    def __init__(self, engine: Engine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        policy = parse_reset_policy(config.auto_offset_reset)
        self.subscriptions: SubscriptionState = SubscriptionState(
            lambda: policy.timestamp_at(engine.runtime.clock.time_ms()),
            notes_processed=config.group_id is not None and config.enable_auto_offset_store,
        )
        self.interception: Interception | None = _interception_of(config)
        self.awaits: bool = _awaits(config)
        self.fetcher: Fetcher = Fetcher(
            self.subscriptions,
            self._awaited_batches(config)
            if self.awaits
            else partial(
                Batch if self.interception is None else self.interception.batch,
                check_crcs=config.check_crcs,
                convert=_conversion_of(config),
            ),
            Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            engine.runtime.rng,
            replica_age_max_ms=config.metadata_max_age_ms,
        )
        self.cursor: RecordCursor = self.subscriptions.cursor
        self.is_waiting: bool = False
        self.is_over: bool = False
        self.wakeups: Wakeups = Wakeups(self._require_loop)
        self.turn: Callable[[Deadline], Awaitable[bool]] | None = None
        self.committed_only: bool = config.isolation_level == "read_committed"
        self._lookup: asyncio.Task[None] | None = None
        self._refresh: set[str] = set()
        self._no_start: KafkaError | None = None
        self._failure: BaseException | None = None
        self._wake_event = asyncio.Event()
        self._wants_records = False  # a call waits, and nothing is in hand
        self._counters = FetchCounters()
        self._fetch_requests = FetchRequests(
            engine, self.fetcher, config, self._counters, self._fetch_ended, self._program_failed
        )
        keep_freed_memory()

    def _awaited_batches(self, config: ConsumerConfig) -> Callable[..., Batch]:
        """Return what makes batches that are decoded by a coroutine."""
        from kafkaraw.client.deserializers import awaiting_conversion_of
        from kafkaraw.client.fetching.awaiting import AwaitedBatch  # few consumers have such deserializers

        conversion = awaiting_conversion_of(config.key_deserializer, config.value_deserializer)
        intercept = None if self.interception is None else self.interception.consumed

        def make(*given: Any, **settings: Any) -> Batch:  # noqa: ANN401 - the arguments of `Batch`
            batch = AwaitedBatch(*given, check_crcs=config.check_crcs, **settings)
            batch.conversion, batch.intercept = conversion, intercept
            return batch

        return make

    # -- what to read

    def assign(
        self, partitions: Iterable[TopicPartition], starts: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    ) -> None:
        """Assign exactly these partitions; see `SubscriptionState.assign`."""
        self.subscriptions.assign(partitions, starts)
        self.wake()

    def assign_ranges(self, ranges: Mapping[TopicPartition, FetchRange]) -> None:
        """Assign exactly these partitions, and fetch only these ranges; see `SubscriptionState.assign_ranges`."""
        self.check_usable()
        self.subscriptions.assign_ranges(ranges)
        self._engine.use_topics({of.topic for of in ranges})
        self.wake()

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Set a position; see `SubscriptionState.seek`."""
        self.check_usable()
        self.subscriptions.seek(topic_partition, offset, leader_epoch)
        self.wake()

    def seek_to(self, topic_partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Set positions to the offsets of a timestamp; see `SubscriptionState.seek_to`."""
        self.check_usable()
        self.subscriptions.seek_to(topic_partitions, timestamp)
        self.wake()

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return records of paused partitions again; see `SubscriptionState.resume`."""
        self.subscriptions.resume(topic_partitions)
        self.wake()

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end in the last response; None if unknown.

        Raises:
            UsageError: the partition is not assigned.
        """
        partition = self.subscriptions.partition(topic_partition)
        return _distance(self.subscriptions.position(topic_partition), self._end_of(partition))

    def _end_of(self, partition: PartitionState) -> int:
        return partition.last_stable_offset if self.committed_only else partition.high_watermark

    def metrics(self) -> dict[str, float | dict[str, int]]:
        """Return the metrics of fetching, and the lag of every partition whose lag is known."""
        positions = self.subscriptions.positions()
        lags: dict[TopicPartition, int | None] = {}
        leads: dict[TopicPartition, int | None] = {}
        for partition in list(self.subscriptions.partitions()):
            of = partition.topic_partition
            at = positions.get(of)
            offset = None if at is None else at.offset
            lags[of] = _distance(offset, self._end_of(partition))
            leads[of] = _distance(partition.log_start_offset, offset)
        return self._counters.as_dict(_known(lags), _known(leads))

    async def position(self, topic_partition: TopicPartition, deadline: Deadline) -> int:
        """Return the offset of the next record to read.

        Raises:
            UsageError: the partition is not assigned.
            KafkaTimeoutError: the offset is not known in time.
        """
        while True:
            self.check_usable()
            offset = self.subscriptions.position(topic_partition)
            if offset is not None:
                return offset
            await self._progress(deadline)
            if deadline.expired:
                raise deadline.error(f"looking up the position of {topic_partition.topic}-{topic_partition.partition}")

    # -- waiting

    def limit(self, max_records: int | None) -> int | None:
        """Most records of one call; `max_poll_records` when the call does not say.

        Raises:
            UsageError: less than one.
        """
        limit = self._config.max_poll_records if max_records is None else max_records
        given: object = limit
        if given is not None and (not isinstance(given, int) or given < 1):
            raise UsageError(f"max_records={limit!r}: must be a whole number, at least 1")
        return limit

    def take_at_once(self, convert: Conversion[T], limit: int | None, size_bytes: int | None = None) -> T | None:
        """As `take`, if that need not wait; None, or nothing, if it may have to."""
        self.check_usable()
        if self.turn is not None or self.is_over or self.wakeups.is_wanted:
            return None
        return self.cursor.take_converted(convert, limit, size_bytes)

    async def take(
        self, convert: Conversion[T], limit: int | None, timeout: float | None, size_bytes: int | None = None
    ) -> T:
        """What is in hand, or what comes in time, converted; see `RecordCursor.take_converted` and `more`.

        Raises:
            WakeupError: as `more`.
        """
        self.check_usable()
        return await self.wakeups.interruptible(self._take(convert, limit, timeout, size_bytes))

    async def _take(
        self, convert: Conversion[T], limit: int | None, timeout: float | None, size_bytes: int | None
    ) -> T:
        deadline = self._engine.deadline(timeout)
        if not await self._is_ready(deadline):
            return convert([])[0]
        taken = self.cursor.take_converted(convert, limit, size_bytes)
        while not taken and await self._more(deadline):  # again, when the group called before they were taken
            taken = self.cursor.take_converted(convert, limit, size_bytes)
        return taken

    async def more(self, timeout: float | None) -> bool:
        """Wait for records, and take them in hand; to be called when nothing is left in hand.

        Returns:
            whether there is anything; False when nothing came in time.

        Raises:
            KafkaError: trying again does not help, or has not helped for long; see `Fetcher.problem`.
            WakeupError: `wakeup` was called; what is in hand stays there.
        """
        return await self.wakeups.interruptible(self._more(self._engine.deadline(timeout)))

    async def _more(self, deadline: Deadline) -> bool:
        self._engine.check_loop()
        while True:
            self.check_usable()
            if not await self._is_ready(deadline):
                return False
            if self.turn is None and not self.subscriptions.assignment:
                raise UsageError("nothing is assigned to this consumer: call assign() first")
            if self.cursor.holds_records:  # they were in hand already, and the turn came first
                return True
            if self._take_in_hand():
                if not self._fetch_requests.all_sent:
                    await asyncio.sleep(0)  # the next Fetch goes out before the caller looks at these records
                return True
            if self.subscriptions.is_all_fetched:
                return False
            await self._progress(deadline, fetch=True)
            if deadline.expired and not self.subscriptions.buffer and not self.cursor.holds_records:
                return False

    async def _is_ready(self, deadline: Deadline) -> bool:
        self._check_goes_on()
        if self.turn is None:
            self.allow_reading()
            return True
        ready = await self.turn(deadline)
        self._check_goes_on()  # another task or thread may have begun to close meanwhile
        return ready

    async def more_unless_closed(self, timeout: float | None) -> bool:
        """As `more`, for iterations: they end when the consumer is closed while they wait."""
        try:
            return await self.more(timeout)
        except ClosedError:
            return False

    def wake(self) -> None:
        """Have the call that waits look again."""
        self._wake_event.set()

    def allow_reading(self) -> None:
        """Give what is in hand, unless the next call is to raise `WakeupError`."""
        # No call in between: `wakeup` on another thread is not missed.
        self.cursor.must_enter_loop = self.wakeups.is_wanted

    def wakeup(self) -> None:
        """End the calls that wait, or else the next one that reads; on any thread. Nothing is lost."""
        self.wakeups.wake()
        self._require_loop()

    def _require_loop(self) -> None:
        """Have the next call come to `more`, though there are records in hand."""
        self.cursor.must_enter_loop = True

    def end(self) -> None:
        """Return no more records: their partitions are revoked, and none may be processed after the last commit."""
        self.is_over = True
        self.cursor.must_enter_loop = True
        self.wake()

    def _check_goes_on(self) -> None:
        if self.is_over:
            raise ClosedError("the consumer is closed; make a new one")

    def check_usable(self) -> None:
        """Refuse a consumer that is closed, or belongs to a parent process.

        Raises:
            ClosedError: it is closed.
            ForkedError: this is a child process.
        """
        if self._engine.closed:
            raise ClosedError("the consumer is closed; make a new one")
        self._engine.check_not_forked()

    async def close(self, deadline: Deadline | None = None) -> None:
        """End every request; the engine is closed, too, by the deadline if there is one."""
        self.end()
        try:
            await self._fetch_requests.close()
            if self._lookup:
                self._lookup.cancel()
                await asyncio.gather(self._lookup, return_exceptions=True)
        finally:
            await (self._engine.close() if deadline is None else self._engine.close(deadline.remaining))
        if self.interception is not None:
            self.interception.close()
        self.wake()

    # -- inside: waiting

    def _take_in_hand(self) -> bool:
        """Take in hand what has come, if anything, and send the next Fetch."""
        count = self.subscriptions.take()
        if not count:
            return False
        self._counters.records += count
        self._pump()
        return True

    async def _progress(self, deadline: Deadline, *, fetch: bool = False) -> None:
        """Start what can be started, and wait until something has changed or may be tried again."""
        now_ms = self._now_ms()
        self._raise_problem(now_ms)
        self._wake_event.clear()
        self._pump(fetch=fetch)
        retry_at_ms = self.fetcher.retry_at_ms(now_ms)
        pause = deadline.remaining if retry_at_ms is None else deadline.at_most((retry_at_ms - now_ms) / 1000)
        self.is_waiting, self._wants_records = True, fetch
        self._counters.wait_began()
        try:
            async with asyncio.timeout(pause):
                await self._wake_event.wait()
        except TimeoutError:
            pass
        finally:
            self.is_waiting = self._wants_records = False
            self._counters.wait_ended()

    def _raise_problem(self, now_ms: int) -> None:
        """Raise the error that the application has to handle, if there is one."""
        if self._failure is not None:
            raise copy_to_raise(self._failure)
        problem, self._no_start = self._no_start, None
        problem = problem or self.fetcher.problem(
            now_ms,
            patience_ms=self._config.default_api_timeout_ms,
            unknown_patience_ms=round(UNKNOWN_TOPIC_GRACE_S * 1000),
        )
        if problem is not None:
            raise with_principal(problem, self._config)

    # -- inside: starting requests

    def _pump(self, *, fetch: bool = True) -> None:
        """Start every request that is due and not under way."""
        now_ms = self._now_ms()
        if self._lookup is None and (self._refresh or self.fetcher.has_pending_lookup(self._engine.cluster, now_ms)):
            self._lookup = self._start(self._look_up(), "consumer lookups")
        if not fetch:
            return
        for plan in self.fetcher.plan(self._engine.cluster, now_ms, self._fetch_requests.busy_nodes()):
            self._fetch_requests.begin(plan)

    async def _look_up(self) -> None:
        """Find the cluster, leaders and positions, as far as they are missing; one round."""
        try:
            await self._engine.start()
        except KafkaError as error:
            self._no_start = error
        else:
            await self._find_out()
        finally:
            self._lookup = None
            self._wake_event.set()

    async def _find_out(self) -> None:
        try:
            await self._find_leaders()
            await self._find_positions()
        except KafkaError as error:
            log.info("looking for leaders and positions failed: %s", error)
            self.fetcher.lookups_failed(error, self._engine.cluster, self._now_ms())

    async def _find_leaders(self) -> None:
        missing = self.fetcher.without_leader(self._engine.cluster, self._now_ms())
        topics, self._refresh = self._refresh | missing | self.fetcher.behind(self._engine.cluster), set()
        if not topics:
            return
        await self._engine.refresh(topics)
        missing = self.fetcher.without_leader(self._engine.cluster, self._now_ms())
        if missing and self._config.allow_auto_create_topics:
            await self._engine.refresh(missing, allow_auto_create=True)
        self.fetcher.still_without_leader(topics, self._engine.cluster, self._now_ms())
        self.fetcher.still_behind(self._engine.cluster)

    async def _find_positions(self) -> None:
        lookups = self.fetcher.offset_lookups(self._now_ms())
        if not lookups:
            return
        timestamps = {topic_partition: timestamp for topic_partition, (timestamp, _) in lookups.items()}
        outcomes = await look_up_once(
            self._engine, timestamps, deadline=self._engine.deadline(None), committed_only=self.committed_only
        )
        for topic_partition, outcome in outcomes.items():
            _, generation = lookups[topic_partition]
            if isinstance(outcome, OffsetAndTimestamp):
                self.fetcher.offset_found(topic_partition, generation, outcome.offset, outcome.leader_epoch)
            else:
                self.fetcher.offset_lookup_failed(topic_partition, generation, outcome, self._now_ms())
                self._refresh.add(topic_partition.topic)

    def _fetch_ended(self, refresh: set[str], came: bool) -> None:
        self._refresh |= refresh
        if came and self._wants_records and self._take_in_hand():  # the next Fetch is out before the call has woken up
            self._wants_records = False
        self._wake_event.set()

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An error that is none of Kafka's is a fault in this program: the next call raises it."""
        if not task.cancelled() and task.exception() is not None:
            self._program_failed(task.exception())

    def _program_failed(self, error: BaseException | None) -> None:
        self._failure = error
        self._wake_event.set()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _interception_of(config: ConsumerConfig) -> Interception | None:
    if not config.interceptors:
        return None
    from kafkaraw.client.fetching.interception import Interception  # most consumers have none

    return Interception(config.interceptors)


def _conversion_of(config: ConsumerConfig) -> Callable[[Record], Record] | None:
    if not config.deserializers:
        return None
    from kafkaraw.client.deserializers import conversion_of  # most consumers have none

    return conversion_of(config.key_deserializer, config.value_deserializer)


def _awaits(config: ConsumerConfig) -> bool:
    """Whether a deserializer may return an awaitable."""
    if not config.deserializers:
        return False
    from kafkaraw.client.serializers import waiting_of  # most consumers have none

    return any(waiting_of(given, "deserialize") == "await" for given in config.deserializers.values())


def _distance(begin: int | None, end: int | None) -> int | None:
    """How many offsets lie between two of them; None when either is not known."""
    return None if begin is None or end is None or min(begin, end) < 0 else max(0, end - begin)


def _known(offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {of: offset for of, offset in offsets.items() if offset is not None}


_FETCH_KEY: Final = 1

Over: TypeAlias = Callable[[set[str], bool], None]
"""Called when a request has ended: with the topics to refresh, and whether a response was processed."""


@dataclass(slots=True)
class _FetchInFlight:
    """A Fetch that has begun.

    Attributes:
        task: opens the connection, or asks what has to be asked before; None once the request is out.
    """

    plan: FetchPlan
    lane: Lane
    task: asyncio.Task[None] | None = None


class FetchRequests:
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
        self._in_flight: dict[tuple[int, Lane], _FetchInFlight] = {}
        self._closed = False

    @property
    def all_sent(self) -> bool:
        """Whether none waits for its connection."""
        return all(in_flight.task is None for in_flight in self._in_flight.values())

    def busy_nodes(self) -> set[int]:
        """Brokers that owe an answer which is still wanted, or that owe one on either lane."""
        owed = Counter(node_id for node_id, _ in self._in_flight)
        wanted = {node_id for (node_id, _), it in self._in_flight.items() if self._fetcher.is_wanted(it.plan)}
        return wanted | {node_id for node_id, count in owed.items() if count > 1}

    def begin(self, plan: FetchPlan) -> None:
        """Send one Fetch."""
        # After a seek the pending response is useless, and may take half a second: use the other lane.
        lane: Lane = "spare fetch" if (plan.node_id, "fetch") in self._in_flight else "fetch"
        in_flight = self._in_flight[plan.node_id, lane] = _FetchInFlight(plan, lane)
        connection = self._engine.open_connection(plan.node_id, lane)
        if connection is not None:
            try:
                version = self._version(plan, connection)
            except KafkaError as error:
                self._lost(in_flight, error)
                return
            if not must_validate(version, connection.version_for):
                self._send(in_flight, connection, version, self._timeout)
                return
        name = f"fetch from broker {plan.node_id}"
        in_flight.task = asyncio.get_running_loop().create_task(self._find_way(in_flight), name=name)
        in_flight.task.add_done_callback(self._found_way)

    async def close(self) -> None:
        """Begin no more requests, and call no more callbacks; the engine closes the connections."""
        self._closed = True
        tasks = [in_flight.task for in_flight in self._in_flight.values() if in_flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside: the way there

    async def _find_way(self, in_flight: _FetchInFlight) -> None:
        plan, deadline = in_flight.plan, Deadline(self._timeout)
        try:
            connection = await self._engine.connection(plan.node_id, timeout=deadline.remaining, lane=in_flight.lane)
            version = self._version(plan, connection)
            is_needed = must_validate(version, connection.version_for)
            refresh = await self._validate(plan, connection, deadline) if is_needed else None
        except KafkaError as error:
            self._lost(in_flight, error)
            return
        in_flight.task = None
        if refresh is None:
            self._send(in_flight, connection, version, deadline.remaining)
        else:
            self._end(in_flight, refresh)

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

    def _send(self, in_flight: _FetchInFlight, connection: Connection, version: int, timeout: float) -> None:
        began_s = asyncio.get_running_loop().time()

        def answered(outcome: FetchResponse | KafkaError) -> None:
            if self._closed:
                return
            try:
                self._answered(in_flight, outcome, began_s)
            except Exception as error:  # noqa: BLE001 - the call that waits raises it
                self._failed(error)

        plan = in_flight.plan
        request = plan.request(self._size_for(plan.node_id).limits, version)
        connection.submit(request, answered, version=version, timeout=timeout)

    def _answered(self, in_flight: _FetchInFlight, outcome: FetchResponse | KafkaError, began_s: float) -> None:
        plan, took_s = in_flight.plan, asyncio.get_running_loop().time() - began_s
        try:
            if isinstance(outcome, KafkaError):
                raise outcome
            self._counters.answered(outcome, took_s)
            self._size_for(plan.node_id).answered(outcome, took_s)
            refresh = self._fetcher.receive(plan, outcome, self._engine.cluster, self._now_ms())
        except KafkaError as error:
            self._lost(in_flight, error)
            return
        self._end(in_flight, refresh, came=True)

    def _size_for(self, node_id: int) -> AdaptiveFetchSize:
        if node_id not in self._sizes:
            self._sizes[node_id] = AdaptiveFetchSize(self._limits, self._partition_bytes_most)
        return self._sizes[node_id]

    def _lost(self, in_flight: _FetchInFlight, error: KafkaError) -> None:
        plan = in_flight.plan
        self._counters.failed()
        is_news = self._fetcher.fetch_failed(plan, error, self._now_ms()) and not isinstance(error, ClosedError)
        level = logging.WARNING if is_news else logging.DEBUG  # an outage is logged once, not with every attempt
        log.log(level, "fetch from broker %d failed, retrying: %s", plan.node_id, error)
        self._end(in_flight, {target.topic_partition.topic for target in plan.targets})

    def _end(self, in_flight: _FetchInFlight, refresh: set[str], *, came: bool = False) -> None:
        del self._in_flight[in_flight.plan.node_id, in_flight.lane]
        self._over(refresh, came)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
