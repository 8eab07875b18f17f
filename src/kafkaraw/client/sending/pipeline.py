"""`Pipeline`: interceptors and serializers, which run in front of `append` and after a record's outcome.

Only producers with at least one of them have a pipeline; all their records go through it. Interceptors see a record
before it is serialized, may replace it, and get its outcome. Their errors are logged and change nothing, as in Java.
Start at `Pipeline.send`.  Source: KIP-42; Kafka's ProducerInterceptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias, cast

from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.interceptors import ProducerRecord, guarded, methods_of, name_of_method
from kafkaraw.client.serializers import (
    BeginSerialize,
    SerializationContext,
    Serialize,
    SerializerLike,
    awaiting_serializer_of,
    is_awaitable,
    serializer_of,
)
from kafkaraw.errors import KafkaTimeoutError, StaleMetadataError
from kafkaraw.records import Header, Headers, RecordMetadata, Ticket

log: logging.Logger = logging.getLogger(__name__)


PlainRecord: TypeAlias = tuple[str, bytes | None, bytes | None, Headers | None, int | None, int | None]
"""The arguments of `send`, serialized."""


class Turns:
    """The order of the records of each topic whose serializers wait; the records behind them wait for their turn.

    Attributes:
        taken: the last turn of each topic that has one.
    """

    def __init__(self) -> None:
        self.taken: dict[str, Turn] = {}

    def take(self, topic: str) -> Turn:
        """Take the turn behind the last one of a topic."""
        turn = self.taken[topic] = Turn(self, topic, self.taken.get(topic))
        return turn

    def ended(self, turn: Turn) -> None:
        """Forget a turn that is over, and all before it are."""
        if self.taken.get(turn.topic) is turn:
            del self.taken[turn.topic]


class Turn:
    """The place of a record among those of its topic. It is over once it has ended, and all before it are over."""

    def __init__(self, turns: Turns, topic: str, before: Turn | None) -> None:
        self.topic = topic
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns = turns
        self._before = None if before is None else before.over
        self._ended = False

    async def come(self) -> None:
        """Wait until all turns before this one are over."""
        if self._before is not None:
            await asyncio.shield(self._before)  # a task that is cancelled cancels what it waits for

    def end(self) -> None:
        """End the turn; if the ones before it are not over, because its record was given up, it is over with them."""
        if self._ended:
            return
        self._ended = True
        if self._before is None or self._before.done():
            self._finish(None)
        else:
            self._before.add_done_callback(self._finish)

    def _finish(self, _: asyncio.Future[None] | None) -> None:
        if not self.over.done():
            self.over.set_result(None)
        self._turns.ended(self)


@contextlib.asynccontextmanager
async def _within(max_block_ms: int, topic: str) -> AsyncIterator[None]:
    """Limit how long a record waits for its serializers.

    Raises:
        KafkaTimeoutError: `max_block_ms` passed.
    """
    limit = asyncio.timeout(max_block_ms / 1000)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise KafkaTimeoutError(
            f"send to topic {topic!r}: the serializers of this record, or of one before it, did not end within "
            f"max_block_ms={max_block_ms}; the record was not sent"
        ) from error


class Pipeline:
    """Interceptors and serializers of one producer.

    Args:
        config: has at least one of them.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._on_send = methods_of(config.interceptors, "on_send")
        self._on_acknowledgement = methods_of(config.interceptors, "on_acknowledgement")
        self._value_of = _serialize(config.value_serializer)
        self._key_of = _serialize(config.key_serializer)
        self._begin_value = _begin_serialize(config.value_serializer)
        self._begin_key = _begin_serialize(config.key_serializer)
        self._turns = Turns()
        self._max_block_ms = config.max_block_ms
        self._closings = deque(methods_of(config.interceptors, "close"))

    def send(self, send: Callable[..., Ticket], *given: object) -> Ticket:
        """Prepare a record, given as the six arguments of `send`, then call `send` with it."""
        record = self._intercepted(given)
        try:
            ticket = send(*self._serialized(record))
        except Exception as error:
            self._acknowledge(_metadata_unsent(record), error)
            raise
        self._follow(ticket)
        return ticket

    async def send_async(self, send: Callable[..., Awaitable[Ticket]], *given: object) -> Ticket:
        """As `send`, with a `send` that is awaited, and serializers that may return awaitables."""
        record = self._intercepted(given)
        try:
            topic = record.topic
            headers: list[Header] = list(record.headers or ())
            value: object = None
            key = self._begin_key(record.key, SerializationContext(topic, "key", headers))
            if type(key) is bytes or not is_awaitable(key):
                value = self._begin_value(record.value, SerializationContext(topic, "value", headers))
                if (value is None or type(value) is bytes) and not self._turns.taken:
                    ticket = await send(topic, value, key, headers or None, record.partition, record.timestamp_ms)
                else:
                    ticket = await self._send_in_turn(send, record, headers, None, key, value)
            else:
                ticket = await self._send_in_turn(send, record, headers, key, None, None)
        except Exception as error:
            self._acknowledge(_metadata_unsent(record), error)
            raise
        self._follow(ticket)
        return ticket

    async def _send_in_turn(
        self,
        send: Callable[..., Awaitable[Ticket]],
        record: ProducerRecord,
        headers: list[Header],
        coming_key: object,
        key: object,
        value: object,
    ) -> Ticket:
        """Finish the serialization, and send a record behind those of its topic whose `send` was called before.

        The next record's turn begins when this one is appended, or has failed: `send` may have to wait for the topic's
        metadata or for memory first, and the records that wait there are not woken up in order.

        Args:
            send: sends the record.
            record: the record.
            headers: its headers.
            coming_key: an awaitable of the key; then the value's serializer is called after it.
            key: the key, if it is known.
            value: the value, or an awaitable of it.
        """
        if coming_key is None and not is_awaitable(value) and record.topic not in self._turns.taken:
            return await send(record.topic, value, key, headers or None, record.partition, record.timestamp_ms)
        turn = self._turns.take(record.topic)
        try:
            async with _within(self._max_block_ms, record.topic):
                if coming_key is not None:
                    key = await cast("Awaitable[bytes | None]", coming_key)
                    value = self._begin_value(record.value, SerializationContext(record.topic, "value", headers))
                if is_awaitable(value):
                    value = await cast("Awaitable[bytes | None]", value)
                await turn.come()
            return await send(record.topic, value, key, headers or None, record.partition, record.timestamp_ms)
        finally:
            turn.end()

    def close(self) -> None:
        """Close the interceptors, each of them once, also if this is called again."""
        while self._closings:
            try:
                close = self._closings.popleft()
            except IndexError:  # another thread was faster
                return
            guarded(close)

    def _intercepted(self, given: tuple[object, ...]) -> ProducerRecord:
        record = ProducerRecord(*given)  # type: ignore[arg-type] # checked where all records are
        for on_send in self._on_send:
            changed = guarded(on_send, record)
            if isinstance(changed, ProducerRecord):
                record = changed
            elif changed is not None:
                log.error("%s returned %s instead of a ProducerRecord", name_of_method(on_send), type(changed).__name__)
        return record

    def _serialized(self, record: ProducerRecord) -> PlainRecord:
        headers: list[Header] = list(record.headers or ())
        topic = record.topic
        if self._turns.taken and topic in self._turns.taken:
            raise StaleMetadataError(
                f"send_nowait: an earlier record for topic {topic!r} waits for its serializer, and this one would "
                f"overtake "
                f"it; use `await send(...)`"
            )
        key = self._key_of(record.key, SerializationContext(topic, "key", headers))
        value = self._value_of(record.value, SerializationContext(topic, "value", headers))
        return (topic, value, key, headers or None, record.partition, record.timestamp_ms)

    def _follow(self, ticket: Ticket) -> None:
        if self._on_acknowledgement:
            # Not by the ticket's own callback: the error would count as known to the caller, and flush() not report it.
            ticket.batch_promise.add_callback(lambda _: self._settled(ticket))

    def _settled(self, ticket: Ticket) -> None:
        promise, _ = ticket.batch_promise.part_of(ticket.index)
        if promise.error is None:
            self._acknowledge(ticket.result(), None)
        else:
            self._acknowledge(RecordMetadata(promise.topic, promise.partition, -1, ticket.timestamp_ms), promise.error)

    def _acknowledge(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        for on_acknowledgement in self._on_acknowledgement:
            guarded(on_acknowledgement, metadata, error)


def _serialize(given: SerializerLike | None) -> Serialize:
    return _as_it_is if given is None else serializer_of(given)


def _begin_serialize(given: SerializerLike | None) -> BeginSerialize:
    return _as_it_is if given is None else awaiting_serializer_of(given)


def _as_it_is(content: object, _: SerializationContext) -> bytes | None:
    return content  # type: ignore[return-value] # checked where all records are


def _metadata_unsent(record: ProducerRecord) -> RecordMetadata:
    """Return the metadata of a record that was not appended."""
    partition = -1 if record.partition is None else record.partition
    return RecordMetadata(record.topic, partition, -1, -1 if record.timestamp_ms is None else record.timestamp_ms)
