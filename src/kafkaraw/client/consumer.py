"""`AsyncConsumer`: read partitions of topics from positions of one's own choosing.

A thin shell: where each partition stands, what to fetch next and what an answer means is decided in `core/fetch`; how
to reach a broker in `engine`. What is left here is to start requests, to wait, and to hand batches over. Requests run
in tasks of their own, so a `poll()` that times out loses nothing. Start at `poll` and `_pump`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from kafkaraw.client.arrow import check_columns, to_arrow
from kafkaraw.client.assignment import partition_of
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.cursor import RecordCursor
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.engine import Engine, reply
from kafkaraw.client.java_names import Properties, settings_from_properties
from kafkaraw.client.metadata import UNKNOWN_TOPIC_GRACE_S
from kafkaraw.client.metrics import Metrics
from kafkaraw.client.offsets import OffsetAndTimestamp, look_up, look_up_once
from kafkaraw.client.pool import Lane
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.security import with_principal
from kafkaraw.core.fetch.cutting import Cut
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.plan import FetchLimits, FetchPlan
from kafkaraw.core.fetch.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Standing
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ClosedError, KafkaError, UsageError
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import Batch, Record, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

log = logging.getLogger(__name__)

_RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}


class _Underway(NamedTuple):
    """A Fetch whose answer is awaited."""

    plan: FetchPlan
    task: asyncio.Task[None]


class AsyncConsumer:
    """Reads records from partitions that are assigned to it.

    The connection is made on first use. Not safe for use by several tasks at once, except `close`.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ConsumerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
    """

    def __init__(self, *, runtime: Runtime | None = None, **settings: object) -> None:
        self._config = parse(ConsumerConfig, settings)
        self._engine = Engine.on(self._config, runtime)
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        reset = _RESET_TIMESTAMPS[self._config.auto_offset_reset]
        self._fetcher = Fetcher(reset, backoff, self._engine.runtime.rng)
        self._cursor = RecordCursor()
        self._committed_only = self._config.isolation_level == "read_committed"
        self._limits = FetchLimits(
            committed_only=self._committed_only,
            min_bytes=self._config.fetch_min_bytes,
            max_wait_ms=self._config.fetch_max_wait_ms,
            max_bytes=self._config.fetch_max_bytes,
            partition_max_bytes=self._config.max_partition_fetch_bytes,
        )
        self._fetches: dict[tuple[int, Lane], _Underway] = {}
        self._errand: asyncio.Task[None] | None = None
        self._refresh: set[str] = set()
        self._no_start: KafkaError | None = None
        self._failure: BaseException | None = None
        self._news = asyncio.Event()

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        """Make one with a Java client's configuration, a `.properties` file or names and values; `settings` go first.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; says what to use instead.
        """
        return cls(runtime=runtime, **settings_from_properties(ConsumerConfig, properties) | settings)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- what to read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on.

        Partitions that were assigned before keep their positions; new ones begin where `auto_offset_reset` says,
        unless `seek` says otherwise.

        Args:
            partitions: `TopicPartition`s; an empty list stops reading.

        Raises:
            UsageError: an entry is not a topic and a partition.
        """
        checked = [partition_of(partition) for partition in partitions]
        self._usable()
        for gone in set(self._fetcher.assignment) - set(checked):
            self._cursor.drop(gone)
        self._fetcher.assign(checked)
        self._engine.use_topics({topic_partition.topic for topic_partition in checked})
        self._news.set()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, in order."""
        return self._fetcher.assignment

    def subscribe(self, topics: Iterable[str]) -> NoReturn:
        """Not in this version: consumer groups come later.

        Raises:
            UsageError: always; says what to use instead.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        raise UsageError(
            f"subscribe({names!r}): consumer groups are not part of this version; read all partitions of a topic with "
            f"assign(partitions_for(topic))"
        )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at an offset.

        Args:
            partition: an assigned one.
            offset: of the next record to give; whether it exists turns out when it is fetched.

        Raises:
            UsageError: the partition is not assigned, or the offset is negative.
        """
        if offset < 0:
            raise UsageError(f"seek to offset {offset}: must be 0 or more; see seek_to_beginning and seek_to_end")
        self._jump([partition])
        self._fetcher.seek(partition_of(partition), offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on at the first record that the brokers still have.

        Args:
            partitions: assigned ones; all of them when None.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on behind the last record there is when the position is looked up, which the next call that waits does.

        Args:
            partitions: assigned ones; all of them when None.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, LATEST_TIMESTAMP)

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be given.

        Args:
            partition: an assigned one.
            timeout: seconds, should the offset have to be looked up; None is `default_api_timeout_ms`.

        Raises:
            UsageError: the partition is not assigned, or has no position.
            KafkaTimeoutError: the offset is not known in time.
        """
        deadline = self._engine.deadline(timeout)
        topic_partition = partition_of(partition)
        while True:
            self._usable()
            within = self._cursor.position_in(topic_partition)
            if within is not None:
                return within
            position = self._fetcher.position(topic_partition)
            if position.standing is Standing.READY:
                return position.offset
            await self._progress(deadline)
            if deadline.expired:
                raise deadline.error(f"looking up the position of {partition.topic}-{partition.partition}")

    # -- reading

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> dict[TopicPartition, Batch]:
        """Wait for records, and give what there is.

        The next fetch is under way when this returns. Records are decoded when the batch is looked at.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            max_records: most records in all batches together; None is `max_poll_records`.

        Returns:
            one batch for each partition that has records; empty when none came in time.

        Raises:
            KafkaError: what cannot be mended by trying again, or has not been for `default_api_timeout_ms`: no broker
                can be reached, a topic does not exist, the position is gone and `auto_offset_reset` is "none".
            CorruptBatch: what a broker sent is damaged.
        """
        rest = self._cursor.rest()
        if rest is not None:
            return {rest.topic_partition: rest}
        cuts = await self._next(self._engine.deadline(timeout), max_records)
        return {piece.topic_partition: self._batch(piece) for piece in cuts}

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:
        """Give batches as they come, one partition at a time.

        Args:
            timeout: stop when nothing comes for so many seconds; None goes on until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not self._engine.closed:
            batch = self._cursor.rest() or await self._next_batch(timeout)
            if batch is not None:
                yield batch
            elif timeout is not None:
                return

    def __aiter__(self) -> AsyncConsumer:
        """Iterate over records, until the consumer is closed; may be left and gone on with at any record."""
        return self

    async def __anext__(self) -> Record:
        while True:
            record = self._cursor.next_record()
            if record is not None:
                return record
            if self._engine.closed:
                raise StopAsyncIteration
            batch = await self._next_batch(None)
            if batch is not None:
                self._cursor.start(batch)

    async def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch:
        """Wait for records, and give what there is as Arrow columns; no record objects are made.

        Args:
            max_records: most rows; None is `max_poll_records`.
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            columns: which columns, in order; None is all.

        Returns:
            topic dictionary<int32, string>, partition int32, offset int64, timestamp timestamp[ms, UTC],
            timestamp_type int8, key and value binary, headers list<struct<key: string, value: binary>> (null when a
            record has none). No rows when none came in time.

        Raises:
            UsageError: an unknown column.
            KafkaError: as `poll`.
        """
        names = check_columns(columns)
        batches = await self.poll(timeout, max_records)
        return to_arrow(list(batches.values()), names)

    # -- asking

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic, ready for `assign`.

        Args:
            topic: its name.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            StaleMetadataError: the topic does not exist.
            KafkaError: no broker gave an answer.
        """
        self._usable()
        deadline = self._engine.deadline(timeout)
        await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], deadline.remaining)
        return self._engine.cluster.partitions_of(topic) or []

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that the brokers still have, by partition; they need not be assigned.

        Args:
            partitions: any.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some cannot be found out.
        """
        return await self._offsets(dict.fromkeys(map(partition_of, partitions), EARLIEST_TIMESTAMP), timeout)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record to be written will have, by partition; they need not be assigned.

        Args:
            partitions: any.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some cannot be found out.
        """
        return await self._offsets(dict.fromkeys(map(partition_of, partitions), LATEST_TIMESTAMP), timeout)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, by partition.

        Args:
            timestamps: milliseconds since 1970 UTC, by partition.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            offset and timestamp of the record; None when all records are older.

        Raises:
            UsageError: a negative timestamp.
            KafkaError: some cannot be found out.
        """
        for partition, timestamp_ms in timestamps.items():
            if timestamp_ms < 0:
                raise UsageError(f"{partition}: timestamp {timestamp_ms} must be 0 or more")
        self._usable()
        deadline = self._engine.deadline(timeout)
        wanted = {partition_of(partition): timestamp for partition, timestamp in timestamps.items()}
        found = await look_up(self._engine, wanted, deadline=deadline, committed_only=self._committed_only)
        return {partition: offset if offset.offset >= 0 else None for partition, offset in found.items()}

    def metrics(self) -> Metrics:
        """What this client has counted about each broker so far; see `AsyncProducer.metrics`."""
        return self._engine.metrics.as_dict()

    async def close(self) -> None:
        """Close all connections. A call that waits gets a `ClosedError`. May be called twice."""
        tasks = [underway.task for underway in self._fetches.values()]
        tasks += [self._errand] if self._errand else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._engine.close()
        self._news.set()

    # -- inside: waiting

    async def _next_batch(self, timeout: float | None) -> Batch | None:
        """The next batch of one partition; None when none came in time."""
        try:
            cuts = await self._next(self._engine.deadline(timeout), None, one_partition=True)
        except ClosedError:
            return None  # closed while waiting: the iteration ends
        return self._batch(cuts[0]) if cuts else None

    async def _next(self, deadline: Deadline, max_records: int | None, *, one_partition: bool = False) -> list[Cut]:
        limit = self._config.max_poll_records if max_records is None else max_records
        if limit is not None and limit < 1:
            raise UsageError(f"max_records={limit}: must be at least 1")
        while True:
            self._usable()
            if not self._fetcher.assignment:
                raise UsageError("nothing is assigned to this consumer: call assign() first")
            cuts = self._fetcher.take(limit, one_partition=one_partition)
            if cuts:
                await self._send_next(cuts)
                return cuts
            await self._progress(deadline, fetch=True)
            if deadline.expired and not self._fetcher.has_records:
                return []

    async def _send_next(self, cuts: list[Cut]) -> None:
        """Let the next fetch go out before these records are handed over; should nobody take them, they come again."""
        self._pump()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._fetcher.give_back(cuts)
            raise

    async def _progress(self, deadline: Deadline, *, fetch: bool = False) -> None:
        """Start what can be started, and wait until something has changed or may be tried again."""
        now_ms = self._now_ms()
        self._raise_problem(now_ms)
        self._news.clear()
        self._pump(fetch=fetch)
        retry_at_ms = self._fetcher.retry_at_ms(now_ms)
        pause = deadline.remaining if retry_at_ms is None else deadline.at_most((retry_at_ms - now_ms) / 1000)
        try:
            async with asyncio.timeout(pause):
                await self._news.wait()
        except TimeoutError:
            pass

    def _raise_problem(self, now_ms: int) -> None:
        """Raise what the user must hear of."""
        if self._failure is not None:
            raise self._failure
        problem, self._no_start = self._no_start, None
        problem = problem or self._fetcher.problem(
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
        if self._errand is None and self._has_errand(now_ms):
            self._errand = self._start(self._run_errand(), "consumer errand")
        if not fetch:
            return
        for plan in self._fetcher.plan(self._engine.cluster, now_ms, self._busy_nodes()):
            # After a jump the answer on its way is of no use, and may be half a second off: go around it.
            lane: Lane = "spare fetch" if (plan.node_id, "fetch") in self._fetches else "fetch"
            task = self._start(self._fetch(plan, lane), f"fetch from broker {plan.node_id}")
            self._fetches[plan.node_id, lane] = _Underway(plan, task)

    def _busy_nodes(self) -> set[int]:
        """Brokers that owe an answer which is still wanted, or that owe one on either lane."""
        nodes = Counter(node_id for node_id, _ in self._fetches)
        wanted = {
            underway.plan.node_id for underway in self._fetches.values() if self._fetcher.is_wanted(underway.plan)
        }
        return wanted | {node_id for node_id, count in nodes.items() if count > 1}

    def _has_errand(self, now_ms: int) -> bool:
        return bool(
            self._refresh
            or self._fetcher.without_leader(self._engine.cluster, now_ms)
            or self._fetcher.searches(now_ms)
        )

    async def _run_errand(self) -> None:
        """Find the cluster, leaders and positions, as far as they are missing; one round."""
        try:
            await self._engine.start()
        except KafkaError as error:
            self._no_start = error
        else:
            await self._find_out()
        finally:
            self._errand = None
            self._news.set()

    async def _find_out(self) -> None:
        try:
            await self._find_leaders()
            await self._find_positions()
        except KafkaError as error:
            log.info("looking for leaders and positions failed: %s", error)
            self._fetcher.errand_failed(error, self._engine.cluster, self._now_ms())

    async def _find_leaders(self) -> None:
        missing = self._fetcher.without_leader(self._engine.cluster, self._now_ms())
        topics, self._refresh = self._refresh | missing, set()
        if not topics:
            return
        await self._engine.refresh(topics)
        missing = self._fetcher.without_leader(self._engine.cluster, self._now_ms())
        if missing and self._config.allow_auto_create_topics:
            await self._engine.refresh(missing, allow_auto_create=True)
        self._fetcher.still_without_leader(topics, self._engine.cluster, self._now_ms())

    async def _find_positions(self) -> None:
        searches = self._fetcher.searches(self._now_ms())
        if not searches:
            return
        timestamps = {topic_partition: timestamp for topic_partition, (timestamp, _) in searches.items()}
        outcomes = await look_up_once(
            self._engine, timestamps, deadline=self._engine.deadline(None), committed_only=self._committed_only
        )
        for topic_partition, outcome in outcomes.items():
            _, generation = searches[topic_partition]
            if isinstance(outcome, OffsetAndTimestamp):
                self._fetcher.found(topic_partition, generation, outcome.offset)
            else:
                self._fetcher.search_failed(topic_partition, generation, outcome, self._now_ms())
                self._refresh.add(topic_partition.topic)

    async def _fetch(self, plan: FetchPlan, lane: Lane) -> None:
        """Send one Fetch and take its answer in."""
        request, timeout = plan.request(self._limits), self._config.answer_timeout_ms / 1000
        try:
            answer = await self._engine.request(
                plan.node_id, request, timeout=timeout, lane=lane, version_max=plan.version_max
            )
            response = reply(answer, FetchResponse)
            self._refresh |= self._fetcher.receive(plan, response, self._engine.cluster, self._now_ms())
        except KafkaError as error:
            is_news = self._fetcher.fetch_failed(plan, error, self._now_ms())
            level = logging.WARNING if is_news else logging.DEBUG  # an outage is told once, not with every try
            log.log(level, "fetch from broker %d failed, trying again: %s", plan.node_id, error)
            self._refresh.update(target.topic_partition.topic for target in plan.targets)
        finally:
            del self._fetches[plan.node_id, lane]
            self._news.set()

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An error that is none of Kafka's is a fault in this program: the next call raises it."""
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    # -- inside: small things

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, int]:
        self._usable()
        found = await look_up(
            self._engine, timestamps, deadline=self._engine.deadline(timeout), committed_only=self._committed_only
        )
        return {topic_partition: offset.offset for topic_partition, offset in found.items()}

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        chosen = self.assignment() if partitions is None else [partition_of(partition) for partition in partitions]
        self._jump(chosen)
        for topic_partition in chosen:
            self._fetcher.seek_to(topic_partition, timestamp)

    def _jump(self, partitions: Iterable[TopicPartition]) -> None:
        """Check that all may jump, before any does."""
        self._usable()
        for partition in partitions:
            self._fetcher.position(partition_of(partition))
        for partition in partitions:
            self._cursor.drop(partition)
        self._news.set()

    def _usable(self) -> None:
        if self._engine.closed:
            raise ClosedError("the consumer is closed; make a new one")
        self._engine.check_not_forked()

    def _batch(self, piece: Cut) -> Batch:
        return Batch(
            piece.topic_partition.topic,
            piece.topic_partition.partition,
            piece.data,
            start_offset=piece.start_offset,
            end_offset=piece.end_offset,
            check_crcs=self._config.check_crcs,
        )

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


# -- for the blocking face, which reads records on its caller's thread while no call is under way


def cursor_of(consumer: AsyncConsumer) -> RecordCursor:
    """Where the next record comes from."""
    return consumer._cursor  # noqa: SLF001 - same module


async def next_batch_of(consumer: AsyncConsumer, timeout: float | None) -> Batch | None:
    """The rest of the batch under the cursor, or the next one; None when none came in time, or it was closed."""
    return consumer._cursor.rest() or await consumer._next_batch(timeout)  # noqa: SLF001 - same module


def is_closed(consumer: AsyncConsumer) -> bool:
    """Whether an iteration over it has come to its end."""
    return consumer._engine.closed  # noqa: SLF001 - same module
