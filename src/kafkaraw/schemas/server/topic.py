"""The topic `_schemas`: creates or checks it, reads it from the beginning, writes with acks=all and reads back.

A write counts when the reader of this instance has applied it, so an answer never tells of a record that is not in the
topic. Damaged and foreign records are skipped and logged. Start at `TopicLog.start`.
Source: Confluent's KafkaStore and KafkaStoreReaderThread.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.configs import ConfigResource
from kafkaraw.client.admin.topics import NewTopic
from kafkaraw.client.config import ClientConfig
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import (
    BrokerError,
    ConfigError,
    DeliveryError,
    InternalError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    RecordTooLargeError,
    RetriableError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record, TopicPartition
from kafkaraw.schemas.server.records import (
    NOOP,
    RecordError,
    RegistryRecord,
    decode,
    encode_key,
    encode_value,
)
from kafkaraw.schemas.server.state import Outcome, State

log: logging.Logger = logging.getLogger(__name__)

DEFAULT_TOPIC: Final = "_schemas"
_CLEANUP_POLICY: Final = "cleanup.policy"
_RETRY_S: Final = 1.0
_POLL_S: Final = 5.0
_POLL_RECORDS: Final = 500
"""How many records are applied before other tasks of the loop get a turn."""
_CLOSE_S: Final = 5.0
_LOGGED_MAX: Final = 20
"""How many damaged records are logged one by one."""
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How the registry uses Kafka.

    Attributes:
        topic: the topic's name.
        replication_factor: replicas when the topic is created; fewer if there are fewer brokers.
        start_timeout_s: until the topic is read at the start, in seconds.
        write_timeout_s: until a write is read back, in seconds.
        read_only: write nothing, not even to create the topic.
    """

    topic: str = DEFAULT_TOPIC
    replication_factor: int = 3
    start_timeout_s: float = 60.0
    write_timeout_s: float = 15.0
    read_only: bool = False


class TopicLog:
    """The log of a registry in a topic.

    Args:
        state: gets the records.
        client: settings of the clients, such as `bootstrap_servers`.
        settings: how the registry uses Kafka.
        progress: called with the number of records that were read and that there are, while the topic is read.

    Attributes:
        cluster_id: id of the Kafka cluster; None until it is known.
    """

    def __init__(
        self,
        state: State,
        client: Mapping[str, object],
        settings: TopicSettings,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._state = state
        self._settings = settings
        self._progress = progress
        self._partition = TopicPartition(settings.topic, 0)
        milliseconds = int(settings.write_timeout_s * 1000)
        self._admin = AsyncAdmin(**_common(client))
        self._consumer = AsyncConsumer(**_common(client), auto_offset_reset="earliest", allow_auto_create_topics=False)
        self._producer: AsyncProducer | None = None
        if not settings.read_only:
            self._producer = AsyncProducer(
                **_common(client),
                acks="all",
                linger_ms=0,
                delivery_timeout_ms=milliseconds,
                request_timeout_ms=max(milliseconds // 3, 1),
                max_block_ms=milliseconds,
            )
        self._reader: asyncio.Task[None] | None = None
        self._written_offset: int | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waits = 0
        self._outcomes: dict[int, Outcome] | None = None
        self._skipped = 0
        self._fault: BaseException | None = None
        self.cluster_id: str | None = None

    @property
    def state(self) -> State:
        """What the records that were read make."""
        return self._state

    # -- life

    async def start(self) -> None:
        """Create or check the topic, read it to its end, and go on reading.

        Raises:
            ConfigError: the topic is not compacted, or has more than one partition.
            KafkaError: Kafka cannot be reached, or the topic cannot be created or read, within `start_timeout_s`.
        """
        deadline = Deadline(self._settings.start_timeout_s)
        await self._prepare_topic(deadline)
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning()
        end = await self._end(deadline)
        while await self._consumer.position(self._partition, deadline.remaining) < end:
            await self._read(deadline.at_most(_POLL_S))
            if self._progress is not None:
                self._progress(min(self._state.applied_offset + 1, end), end)
            if deadline.expired:
                text = (
                    f"the topic {self._settings.topic!r} was read to offset {self._state.applied_offset} of {end - 1}"
                )
                raise KafkaTimeoutError(f"{text} within {deadline.timeout:g} s; raise the start timeout")
        if self._skipped:
            log.warning("%d records of %r are damaged or foreign and were skipped", self._skipped, self._settings.topic)
        self._reader = asyncio.create_task(self._keep_reading(), name="registry reader")
        self._reader.add_done_callback(self._note_end)

    async def _prepare_topic(self, deadline: Deadline) -> None:
        """Create the topic or check it; wait for Kafka if it cannot be reached yet."""
        reported = False
        while True:
            try:
                self.cluster_id = (await self._admin.describe_cluster(timeout=deadline.remaining)).cluster_id
                return await self._create_or_check(deadline)
            except (NetworkError, RetriableError) as error:
                if deadline.remaining <= _RETRY_S:
                    raise
                (log.debug if reported else log.warning)("waiting for Kafka: %s", error)
                reported = True
            await deadline.sleep(_RETRY_S)

    async def _create_or_check(self, deadline: Deadline) -> None:
        name = self._settings.topic
        known = {listing.name for listing in await self._admin.list_topics(timeout=deadline.remaining)}
        if name not in known:
            if self._settings.read_only:
                raise ConfigError(
                    f"the topic {name!r} does not exist, and a registry in read-only mode does not create it: start "
                    "the registry that writes first, or name its topic"
                )
            await self._create(name, deadline)
        await self._check_topic(name, deadline)

    async def _create(self, name: str, deadline: Deadline) -> None:
        brokers = len((await self._admin.describe_cluster(timeout=deadline.remaining)).brokers)
        replicas = max(min(brokers, self._settings.replication_factor), 1)
        if replicas < self._settings.replication_factor:
            log.warning(
                "the topic %r is created with %d of %d replicas", name, replicas, self._settings.replication_factor
            )
        topic = NewTopic(name, 1, replicas, {_CLEANUP_POLICY: "compact"})
        try:
            await self._admin.create_topics([topic], timeout=deadline.remaining)
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another instance was faster
                raise

    async def _check_topic(self, name: str, deadline: Deadline) -> None:
        [topic] = (await self._admin.describe_topics([name], timeout=deadline.remaining)).values()
        if len(topic.partitions) != 1:
            raise ConfigError(
                f"the topic {name!r} has {len(topic.partitions)} partitions; a registry needs exactly 1, because the "
                "order of its records decides"
            )
        resource = ConfigResource.topic(name)
        found = await self._admin.describe_configs([resource], timeout=deadline.remaining)
        entry = found[resource].get(_CLEANUP_POLICY)
        policy = None if entry is None else entry.value
        if policy != "compact":
            raise ConfigError(
                f"the topic {name!r} has cleanup.policy={policy!r}, so Kafka would delete schemas; set it to 'compact' "
                f"(kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=compact)"
            )

    async def _end(self, deadline: Deadline) -> int:
        found = await self._consumer.end_offsets([self._partition], timeout=deadline.remaining)
        return found[self._partition]

    async def close(self) -> None:
        """Stop reading, and close the clients."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for _, _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(KafkaTimeoutError("the registry is closing"))
        clients = [self._consumer.close(_CLOSE_S), self._admin.close()]
        if self._producer is not None:
            clients.append(self._producer.close(_CLOSE_S))
        for result in await asyncio.gather(*clients, return_exceptions=True):
            if isinstance(result, BaseException):
                log.debug("while closing: %s", result)

    # -- reading

    async def _keep_reading(self) -> None:
        reported = False
        while True:
            try:
                await self._read(_POLL_S)
                reported = False
            except KafkaError as error:
                (log.debug if reported else log.warning)(
                    "reading %r failed, trying again: %s", self._settings.topic, error
                )
                reported = True
                await asyncio.sleep(_RETRY_S)

    async def _read(self, timeout_s: float) -> None:
        for batch in (await self._consumer.poll(timeout_s, _POLL_RECORDS)).values():
            for record in batch:
                self._apply(record)
        position = await self._consumer.position(self._partition)
        # Control records and what compaction has removed have no record, but are behind the reader, too.
        self._state.skip(max(position - 1, self._state.applied_offset))
        while self._waiting and self._waiting[0][0] <= self._state.applied_offset:
            waiter = heapq.heappop(self._waiting)[2]
            if not waiter.done():
                waiter.set_result(None)

    def _apply(self, record: Record) -> None:
        offset = record.offset
        if offset <= self._state.applied_offset:
            log.error("the topic %r begins anew at offset %d: its state is built again", self._settings.topic, offset)
            self._state.clear()
            self._written_offset = None
        try:
            parsed = decode(_bytes(record.key), _bytes(record.value))
        except RecordError as error:
            self._note_skipped(offset, error)
            return
        if parsed.key == NOOP:
            self._state.skip(offset)
            return
        try:
            outcome = self._state.apply(parsed, offset, record.timestamp_ms)
        except ValueError as error:  # such as half a surrogate pair, which JSON can have and UTF-8 cannot
            self._note_skipped(offset, error)
            return
        if self._outcomes is not None:
            self._outcomes[offset] = outcome
        elif not outcome.applied:
            log.warning("offset %d of %r does not count: %s", offset, self._settings.topic, outcome.reason)

    def _note_skipped(self, offset: int, error: Exception) -> None:
        self._skipped += 1
        if self._skipped <= _LOGGED_MAX:
            log.warning("offset %d of %r is skipped: %s", offset, self._settings.topic, error)
        self._state.skip(offset)

    def _note_end(self, reader: asyncio.Task[None]) -> None:
        """Have writes fail at once if the reader has ended by a fault of this package."""
        if not reader.cancelled() and reader.exception() is not None:
            log.error(
                "the reader of %r has failed; restart the registry", self._settings.topic, exc_info=reader.exception()
            )
            self._fault = reader.exception()

    async def _applied(self, offset: int, deadline: Deadline) -> None:
        if self._state.applied_offset >= offset:
            return
        if self._fault is not None:
            raise InternalError(f"the reader of {self._settings.topic!r} has failed: {self._fault!r}")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits += 1
        heapq.heappush(self._waiting, (offset, self._waits, waiter))
        await deadline.wait(waiter, f"reading offset {offset} of {self._settings.topic!r} back")

    # -- writing

    def forget_position(self) -> None:
        """Have the next write read the topic to its end first: this instance has become the primary."""
        self._written_offset = None

    async def append(self, records: Sequence[RegistryRecord]) -> list[Outcome]:
        """Write records, and return when this instance has read them back; as `SchemaLog.append`."""
        deadline = Deadline(self._settings.write_timeout_s)
        self._outcomes = {}
        try:
            offsets = await self._produce(records, deadline)
            await self._applied(max(offsets), deadline)
            found = [self._outcomes.get(offset) for offset in offsets]
            if None in found:
                raise KafkaTimeoutError(f"the topic {self._settings.topic!r} was made anew during a write")
            return [outcome for outcome in found if outcome is not None]
        except BaseException:
            self._written_offset = None
            raise
        finally:
            self._outcomes = None

    async def catch_up(self) -> None:
        """Return when this instance has read what was written before; as `SchemaLog.catch_up`.

        The end is known from the last own write; if that is not certain, a NOOP record finds it out: what an earlier
        request may still have written is before it.
        """
        deadline = Deadline(self._settings.write_timeout_s)
        offset = self._written_offset
        if offset is None:
            [offset] = await self._produce([RegistryRecord(NOOP, None)], deadline)
        await self._applied(offset, deadline)

    async def wait_for(self, offset: int, timeout_s: float) -> None:
        """Return when this instance has read an offset that the primary has written, or after the timeout."""
        with contextlib.suppress(KafkaTimeoutError):
            await self._applied(offset, Deadline(timeout_s))

    async def _produce(self, records: Sequence[RegistryRecord], deadline: Deadline) -> list[int]:
        assert self._producer is not None, "a registry in read-only mode writes nothing"
        self._written_offset = None
        tickets = []
        try:
            for record in records:
                key, value = encode_key(record.key), encode_value(record)
                tickets.append(
                    await deadline.wait(
                        self._producer.send(self._settings.topic, value, key, partition=0), "sending records"
                    )
                )
            metadata = [await deadline.wait(ticket, "the acknowledgement of records") for ticket in tickets]
        except (BrokerError, DeliveryError) as error:
            if {getattr(error, "code", None), getattr(error.__cause__, "code", None)} & _TOO_LARGE:
                raise RecordTooLargeError(str(error)) from error
            raise
        offsets = [it.offset for it in metadata]
        self._written_offset = offsets[-1]
        return offsets


def _bytes(data: Any) -> bytes | None:  # noqa: ANN401 -- bytes, or a view of them
    return None if data is None else bytes(data)


def _common(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return settings that every client has.

    Raises:
        ConfigError: one is not a setting of every client.
    """
    known = ClientConfig.__dataclass_fields__
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: not a setting of all Kafka clients, so the registry does not take it")
    return dict(settings)
