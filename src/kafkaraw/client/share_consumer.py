"""`AsyncShareConsumer`: a member of a share group, whose members share the records of partitions (KIP-932).

This module has the public methods and their documentation. Requests are in `sharing/`, decisions in `core/share`. Start
at `poll`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Never, Protocol, Self, Unpack

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.config import ShareConsumerConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.client_metrics import Metrics, MetricsSource
from kafkaraw.client.metrics.share_consumer_metrics import GROUP, MEMBER_GROUP
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sharing.batch import AcquiredBatch, Decoding, ShareBatch, ShareRecord
from kafkaraw.client.sharing.delivery import Delivery
from kafkaraw.client.sharing.membership import ShareMembership
from kafkaraw.client.sharing.outcomes import AcknowledgementCallback, CommitCall, Outcomes
from kafkaraw.client.sharing.reading import ShareReading
from kafkaraw.client.wakeups import Wakeups
from kafkaraw.core.share.acknowledgements import AcknowledgeType, RecordsInHand
from kafkaraw.errors import ClosedError, ConcurrentUseError, KafkaError, KafkaTimeoutError, UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.settings_types import ShareConsumerSettings

CLOSE_S: Final = 30.0
"""Default timeout of `close`, in seconds."""


class AsyncShareConsumer:
    """Reads records of a share group: its members share the records, not the partitions, and acknowledge each of them.

    The broker locks the records that it gives to a member. The member accepts, releases or rejects each record before
    the lock expires; otherwise the broker delivers it again, to any member. One task reads at a time.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ShareConsumerConfig`; `bootstrap_servers` and `group_id` are required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    _name = "AsyncShareConsumer"
    _waits_by: Literal["await", "block"] = "await"  # how deserializers may wait

    def __init__(
        self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ShareConsumerSettings]
    ) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._config = config = parse(ShareConsumerConfig, settings)
        self._engine = Engine.on(config, runtime)
        member_id = _new_member_id(self._engine)
        self._delivery = Delivery(is_explicit=self._is_explicit)
        self._decoding = _decoding_of(config, self._name, self._waits_by)
        self._reading = ShareReading(self._engine, config, member_id, self._decoding)
        self._membership = ShareMembership(self._engine, config, member_id, self._reading)
        self._reading.check = self._membership.check
        self._wakeups = Wakeups(lambda: None)
        self._is_reading = False
        self._is_over = False
        self._reports = True  # whether it calls the application's callback
        metrics = partial(_metrics, self._engine, self._reading, self._membership)
        labels = {"client_rack": config.client_rack, "group_id": config.group_id, "group_member_id": member_id}
        self._engine.source = MetricsSource("consumer", metrics, lambda: dict(labels))

    @classmethod
    def from_properties(
        cls, properties: Properties, *, runtime: Runtime | None = None, **settings: Unpack[ShareConsumerSettings]
    ) -> Self:
        """Create a share consumer from a `.properties` file, or a dict of names and values.

        Names are those of Java's clients, of librdkafka (so of confluent-kafka), or ours with dots. `settings` override
        them. The log has a warning with the names that have no effect here.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; the message says what to use
                instead.
        """
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, ShareConsumerConfig, properties, runtime, settings)

    async def __aenter__(self) -> AsyncShareConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(Deadline(CLOSE_S), in_doubt=error is not None)
        except Exception as problem:
            if error is None:
                raise
            error.add_note(f"while closing the consumer: {problem}")

    # -- what to read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics. The consumer joins the group in the next call that reads.

        A new share group starts at the end of the partitions, unless its configuration `share.auto.offset.reset` is
        "earliest". Subscribing again replaces the subscription.

        Args:
            topics: names; a topic that does not exist is read as soon as it exists.

        Raises:
            UsageError: the argument is not a list of names.
        """
        self._check_usable()
        self._membership.subscribe(topics)

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Send the acknowledgements that were made, release all other records, and leave the group.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.
        """
        self._check_usable()
        await self._leave(self._engine.deadline(timeout), "the consumer unsubscribes", in_doubt=False)
        self._report()

    def subscription(self) -> list[str]:
        """Return the subscribed topics, in order."""
        return self._membership.subscription

    # -- reading

    async def poll(self, timeout: float | None = None) -> dict[TopicPartition, ShareBatch]:
        """Wait for records, and return those that were acquired.

        With `share_acknowledgement_mode="implicit"`, this accepts the records that earlier calls returned. With
        "explicit", each of them must be acknowledged before. Records whose lock was renewed are returned again, alone.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.

        Returns:
            one batch for each partition that has records; empty when no record arrived in time.

        Raises:
            KafkaError: a fatal error, or no broker can be reached.
            CorruptBatchError: records are damaged. They are rejected; the next call continues behind them.
            DeserializationError: a record cannot be deserialized. It is released, unless it is acknowledged; the next
                call continues behind it.
            UsageError: there is no subscription, or a record is not acknowledged.
        """
        await self._read(timeout)
        self._report()
        return self._delivery.renewed() or self._delivery.batches()

    async def batches(self, timeout: float | None = None) -> AsyncIterator[ShareBatch]:
        """Yield batches as they are acquired, each with records of one partition.

        Args:
            timeout: stop after this many seconds without a record; None continues until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not self._is_over:
            batch = self._delivery.next_batch()
            if batch is not None:
                yield batch
            elif not await self._more(timeout) and timeout is not None:
                return

    def __aiter__(self) -> Self:
        """Iterate over records until the consumer is closed. A new loop continues behind the last record returned."""
        return self

    async def __anext__(self) -> ShareRecord:
        while not self._is_over:
            record = self._delivery.next_record()
            if record is not None:
                return record
            await self._more(None)
        raise StopAsyncIteration

    async def poll_arrow(self, timeout: float | None = None, columns: Iterable[str] | None = None) -> pyarrow.Table:
        """Wait for records, and return those that were acquired as Arrow columns, without record objects.

        Neither deserializers nor interceptors are called: key and value are the bytes that were sent. Records are
        acknowledged as with `poll`; in explicit mode with `acknowledge_offset`.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            columns: the columns to return, in order; None is all.

        Returns:
            the columns of `AsyncConsumer.poll_arrow`, and delivery_count int16. No rows when no record arrived in time.

        Raises:
            UsageError: a column is unknown, or as `poll`.
            CorruptBatchError: records are damaged. They are rejected; the next call continues behind them.
            KafkaError: as `poll`.
        """
        names = arrow_columns(columns)
        await self._take(timeout, renews=False)
        self._report()
        return self._delivery.arrow(names)

    # -- acknowledging

    def acknowledge(
        self, records: ShareRecord | ShareBatch, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record, or all records of a batch. The next call that reads, or `commit`, sends it.

        In implicit mode, this is for records that are not to be accepted. `RENEW`, in explicit mode, begins the
        acquisition lock again (KIP-1222, from Kafka 4.2): the record has to be acknowledged again later.

        Args:
            records: what `poll` or an iteration has returned.
            acknowledge_type: what became of it.

        Raises:
            UsageError: the record is not in hand: it was acknowledged and sent, the broker has released it, or the
                consumer has never had it; or `RENEW` in implicit mode.
        """
        if isinstance(records, ShareRecord):
            self.acknowledge_offset(TopicPartition(records.topic, records.partition), records.offset, acknowledge_type)
            return
        if not isinstance(records, ShareBatch):
            raise UsageError(f"acknowledge: {records!r} is neither a ShareRecord nor a ShareBatch of this consumer")
        self._check_usable()
        kind, in_hand = self._type_of(acknowledge_type), records.in_hand
        is_here = self._reading.has(in_hand)
        for record in records:
            if is_here and in_hand.holds(record.offset):
                in_hand.acknowledge(record.offset, kind)
            else:  # renewed records of several responses are in one batch
                self._reading.hand_of(records.topic_partition, record.offset).acknowledge(record.offset, kind)

    def acknowledge_offset(
        self,
        partition: TopicPartition,
        offset: int,
        acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record by its offset, as one of `poll_arrow`, or one that could not be deserialized.

        Args:
            partition: the partition.
            offset: the offset of the record.
            acknowledge_type: what became of it.

        Raises:
            UsageError: as `acknowledge`.
        """
        self._check_usable()
        kind, wanted = self._type_of(acknowledge_type), TopicPartition(*partition)
        self._reading.hand_of(wanted, offset).acknowledge(offset, kind)

    async def commit(self, timeout: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send acknowledgements, and wait until the brokers have stored them, those of earlier calls included.

        In implicit mode, this accepts the records that earlier calls returned.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the error of each partition with acknowledgements; None for none. INVALID_RECORD_STATE says that the
            acquisition lock expired before, so the record is, or will be, delivered again.

        Raises:
            WakeupError: `wakeup` was called.
        """
        self._check_usable()
        results = await self._wakeups.interruptible(self._commit(self._engine.deadline(timeout)))
        self._report()
        return results

    def commit_nowait(self) -> None:
        """Send acknowledgements without waiting for the response; see `set_acknowledgement_commit_callback`."""
        self._check_usable()
        self._report()
        self._settle()
        self._reading.flush()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that gets the results of acknowledgements.

        Args:
            callback: called in a later call that reads or commits, or in `close()`, with the offsets by partition and
                the error or None; must not block. None removes it: then failures are logged.
        """
        self._reading.outcomes.callback = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long acquired records stay locked for this consumer, in milliseconds.

        Returns:
            None before the first response of a broker.
        """
        return self._reading.lock_timeout_ms

    # -- the rest

    def wakeup(self) -> None:
        """Interrupt the call that waits: it raises `WakeupError`. If no call waits, the next one that may wait raises.

        No record is lost. May be called on any thread, and in signal handlers.
        """
        self._wakeups.wake()

    def metrics(self) -> Metrics:
        """Return the metrics of this client, about reading and acknowledging, about its group, and about each broker.

        Returns:
            metrics by group, then by name. Groups are node ids as text; "share_consumer", with records, bytes and
            acknowledgements; and "share_group", with heartbeats and assignments.
        """
        return _metrics(self._engine, self._reading, self._membership)

    async def client_instance_id(self, timeout: float | None = None) -> Uuid:
        """Return the id that the cluster has given this client for its metrics (KIP-714); as of `AsyncConsumer`.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: `enable_metrics_push` is false.
            KafkaError: no broker can be reached, or the brokers take no metrics of clients.
        """
        self._check_usable()
        return await self._engine.client_instance_id(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Send the acknowledgements, release all other records, leave the group, and close all connections.

        In implicit mode, this accepts the records that earlier calls returned; after an error in a `with` block it
        releases the last ones instead. May be called twice.

        Args:
            timeout: seconds for all of it; None is 30.
        """
        await self._close(Deadline(CLOSE_S if timeout is None else timeout), in_doubt=False)

    # -- inside

    def _parts(self) -> ShareParts:
        async def close(timeout: float | None, in_doubt: bool) -> None:
            await self._close(Deadline(CLOSE_S if timeout is None else timeout), in_doubt=in_doubt)

        return ShareParts(self._delivery, self._reading.outcomes, self._take, close, lambda: self._is_over)

    def _holding(self) -> Holding:
        return Holding(self._engine, self._reading, self._membership)

    def _report(self) -> None:
        """Call the application's callback, unless the blocking form does it on its caller's thread."""
        if self._reports:
            self._reading.outcomes.report()

    @property
    def _is_explicit(self) -> bool:
        return self._config.share_acknowledgement_mode == "explicit"

    async def _close(self, deadline: Deadline, *, in_doubt: bool) -> None:
        if self._is_over:
            return
        self._is_over = self._reading.is_ending = True
        self._reading.wakeup.set()
        try:
            await self._leave(deadline, "the consumer is closed", in_doubt=in_doubt)
        finally:
            await self._membership.close()
            await self._reading.close()
            await self._engine.close(deadline.remaining)
            if self._config.interceptors:
                from kafkaraw.client.fetching.interception import Interception

                Interception(self._config.interceptors).close()
            self._report()

    async def _leave(self, deadline: Deadline, reason: str, *, in_doubt: bool) -> None:
        if not self._engine.is_started:
            return
        if self._is_explicit:
            self._reading.collect(self._delivery.returned_below())
        else:
            self._reading.accept(self._delivery.returned_below(in_doubt=in_doubt), in_doubt=in_doubt)
        await self._reading.close_sessions(deadline)
        await self._membership.leave(deadline, reason)
        self._delivery.clear()

    def _settle(self) -> None:
        """Queue the acknowledgements that are due."""
        if self._is_explicit:
            self._reading.collect(self._delivery.returned_below())
            self._delivery.forget_settled()
        else:
            self._reading.accept(self._delivery.returned_below())

    async def _commit(self, deadline: Deadline) -> dict[TopicPartition, KafkaError | None]:
        call = CommitCall()
        self._settle()
        self._reading.expect(call)
        self._reading.flush()
        if not call.waits_for:
            return call.results
        try:
            async with asyncio.timeout(deadline.remaining):
                await call.done.wait()
        except TimeoutError:
            error = KafkaTimeoutError(f"commit: the broker has not answered within {deadline.timeout:g} s")
            return {**dict.fromkeys(call.waits_for, error), **call.results}
        return call.results

    async def _more(self, timeout: float | None) -> bool:
        """Acquire records for an iteration; return False when none came in time."""
        try:
            await self._read(timeout)
        except ClosedError:
            return False
        self._report()
        return self._delivery.has_waiting or self._delivery.has_renewed

    async def _take(self, timeout: float | None, *, renews: bool) -> None:
        """Settle the records of the last call, and acquire new ones unless some are left."""
        with self._one_reader():
            await self._wakeups.interruptible(self._acquire(self._engine.deadline(timeout), renews=renews))

    async def _read(self, timeout: float | None) -> None:
        """Acquire records, and decode them."""
        with self._one_reader():
            deadline = self._engine.deadline(timeout)
            await self._wakeups.interruptible(self._acquire(deadline, renews=True))
            if self._decoding.convert_awaiting is None:
                self._delivery.decode()
            else:
                await self._delivery.decode_awaiting()

    @contextmanager
    def _one_reader(self) -> Iterator[None]:
        self._check_usable()
        self._engine.check_loop()
        if self._is_reading:
            raise ConcurrentUseError(
                "poll: another task reads from this consumer. One task reads at a time: make a consumer for each task"
            )
        self._is_reading = True
        try:
            yield
        finally:
            self._is_reading = False

    async def _acquire(self, deadline: Deadline, *, renews: bool) -> None:
        self._check_acknowledged()
        self._membership.begin_poll()
        try:
            self._membership.check()
            self._settle()
            self._reading.drop_lost(self._delivery.returned_below())
            if any(in_hand.is_renewing for in_hand in self._reading.locked):
                await self._reading.renewed(deadline)
            if self._delivery.has_waiting or (renews and self._delivery.has_renewed):
                self._reading.flush()
                return
            self._delivery.receive(await self._reading.take(deadline))
            if self._is_over:
                raise ClosedError("the consumer is closed; make a new one")
        finally:
            self._membership.end_poll()

    def _check_acknowledged(self) -> None:
        """Refuse to read while a record has no acknowledgement, in explicit mode."""
        if not self._is_explicit:
            return
        below = self._delivery.returned_below()
        for in_hand in self._reading.locked:
            limit = below.get(in_hand)
            left = [offset for offset in in_hand.unacknowledged if limit is None or offset < limit]
            if left:
                topic, partition = in_hand.topic_partition
                raise UsageError(
                    f"poll: {len(left)} records of {topic}-{partition} that an earlier call returned are not "
                    f"acknowledged, the first at offset {min(left)}; call acknowledge() for each record, or set "
                    f"share_acknowledgement_mode='implicit'"
                )

    def _type_of(self, given: object) -> AcknowledgeType:
        if not isinstance(given, AcknowledgeType):
            raise UsageError(f"acknowledge: {given!r} is not an AcknowledgeType, such as AcknowledgeType.RELEASE")
        if given is AcknowledgeType.RENEW and not self._is_explicit:
            raise UsageError(
                "acknowledge: RENEW needs share_acknowledgement_mode='explicit': in implicit mode, the next call that "
                "reads accepts the record"
            )
        return given

    def _check_usable(self) -> None:
        if self._is_over or self._engine.closed:
            raise ClosedError("the consumer is closed; make a new one")
        self._engine.check_not_forked()


class TakeAcquired(Protocol):
    """`AsyncShareConsumer.poll` without decoding."""

    def __call__(self, timeout: float | None, *, renews: bool) -> Coroutine[object, None, None]:
        """Settle the records of the last call, and acquire new ones unless some are left."""


class ShareParts(NamedTuple):
    """What the blocking form of a share consumer uses on its caller's thread.

    Attributes:
        delivery: what the application has got.
        outcomes: results for the callback of the application.
        take: acquires records, on the loop.
        close: closes the consumer, on the loop; the second argument says whether the last records may be unprocessed.
        is_over: whether the consumer is closed.
    """

    delivery: Delivery
    outcomes: Outcomes
    take: TakeAcquired
    close: Callable[[float | None, bool], Coroutine[object, None, None]]
    is_over: Callable[[], bool]


def parts_of(consumer: AsyncShareConsumer) -> ShareParts:
    """Return the parts of a consumer, which reports results to the callback on its caller's thread from now on."""
    inner = consumer._parts()  # noqa: SLF001 - same module
    consumer._reports = False  # noqa: SLF001 - same module
    return inner


class Holding:
    """A share consumer whose records stay in hand over any number of calls, until each of them is acknowledged.

    It is for handlers that end in any order, as those of a worker: `AsyncShareConsumer.poll` wants all records
    acknowledged before it returns others. It decodes nothing. One task uses it.

    Args:
        engine: connections and metadata of the consumer.
        reading: its share sessions.
        membership: its membership.
    """

    def __init__(self, engine: Engine, reading: ShareReading, membership: ShareMembership) -> None:
        self._engine = engine
        self._reading = reading
        self._membership = membership

    async def acquire(self, records_max: int, timeout: float) -> Acquired:
        """Send the acknowledgements that were made, and wait for records.

        Args:
            records_max: number of records to acquire; 0 only sends acknowledgements.
            timeout: the longest wait, in seconds; `interrupt` ends it.

        Returns:
            the records, and those in hand that the brokers have released because their session has ended.

        Raises:
            KafkaError: as `AsyncShareConsumer.poll`.
        """
        self._engine.check_loop()
        self._membership.begin_poll()
        try:
            self._reading.collect({})
            batches = await self._reading.take(Deadline(timeout), records_max)
            self._reading.outcomes.report()
            lost = self._reading.lost
            self._reading.drop_lost({})
            return Acquired(batches, lost)
        finally:
            self._membership.end_poll()

    def interrupt(self) -> None:
        """Have the call of `acquire` that waits, or the next one, return at once."""
        self._reading.interrupt()

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long acquired records stay locked, in milliseconds; None before the first response of a broker."""
        return self._reading.lock_timeout_ms

    @property
    def can_renew(self) -> bool:
        """Whether the brokers can renew locks (KIP-1222)."""
        return self._reading.can_renew

    @property
    def partitions_count(self) -> int:
        """Number of partitions that the member reads."""
        return sum(map(len, self._reading.assignment.values()))


class Acquired(NamedTuple):
    """What `Holding.acquire` returns.

    Attributes:
        batches: new records.
        lost: the acknowledgements in hand of records that the brokers have released.
    """

    batches: list[AcquiredBatch]
    lost: list[RecordsInHand]


def holding_of(consumer: AsyncShareConsumer) -> Holding:
    """Return the part of a consumer that acquires records which stay in hand; then nothing else reads from it."""
    return consumer._holding()  # noqa: SLF001 - same module


def arrow_columns(columns: Iterable[str] | None) -> list[str]:
    """Return the Arrow columns to make.

    Raises:
        UsageError: an unknown one.
    """
    from kafkaraw.client.fetching.arrow import check_columns
    from kafkaraw.client.sharing.batch import DELIVERY_COUNT

    if columns is None:
        return [*check_columns(None), DELIVERY_COUNT]
    names = columns if isinstance(columns, str) else [*columns]
    check_columns(names if isinstance(names, str) else [name for name in names if name != DELIVERY_COUNT])
    return [*names]


def _new_member_id(engine: Engine) -> str:
    """Return an id as Java's `Uuid.randomUuid` makes them."""
    random = engine.runtime.rng.getrandbits(128).to_bytes(16, "big")
    return base64.urlsafe_b64encode(random).decode().rstrip("=")


_REMEDY: Final = "it is released unless you acknowledge it, and the next call continues behind it"


def _decoding_of(config: ShareConsumerConfig, name: str, waits_by: Literal["await", "block"]) -> Decoding:
    if not config.deserializers and not config.interceptors:
        return Decoding()
    from kafkaraw.client.deserializers import awaiting_conversion_of, conversion_of
    from kafkaraw.client.fetching.interception import Interception
    from kafkaraw.client.serializers import check_waiting

    check_waiting(name, waits_by, config.deserializers, "deserialize")
    key, value = config.key_deserializer, config.value_deserializer
    intercept = Interception(config.interceptors).consumed if config.interceptors else None
    if waits_by == "block" or not config.deserializers:
        return Decoding(conversion_of(key, value, remedy=_REMEDY), None, intercept)
    return Decoding(None, awaiting_conversion_of(key, value, remedy=_REMEDY), intercept)


def _metrics(engine: Engine, reading: ShareReading, membership: ShareMembership) -> Metrics:
    """Return the metrics of a share consumer. It is not given the consumer: what pushes them must not keep it alive."""
    member, counters = membership.member, reading.counters
    of_member = counters.of_member(member.metrics, sum(map(len, member.assignment.values())))
    return {GROUP: counters.as_dict(), MEMBER_GROUP: of_member, **engine.metrics.as_dict()}
