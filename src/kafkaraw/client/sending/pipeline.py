"""`Pipeline`: interceptors and serializers, which run in front of `append` and after a record's outcome.

Only producers with at least one of them have a pipeline; all their records go through it. Interceptors see a record
before it is serialized, may replace it, and get its outcome. Their errors are logged and change nothing, as in Java.
Start at `Pipeline.send`.  Source: KIP-42; Kafka's ProducerInterceptors.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.interceptors import ProducerRecord, guarded, methods_of, name_of_method
from kafkaraw.client.serializers import SerializationContext, Serialize, SerializerLike, serializer_of
from kafkaraw.records import Header, Headers, RecordMetadata, Ticket

log = logging.getLogger(__name__)


PlainRecord: TypeAlias = tuple[str, bytes | None, bytes | None, Headers | None, int | None, int | None]
"""The arguments of `send`, serialized."""


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
        """As `send`, with a `send` that is awaited."""
        record = self._intercepted(given)
        try:
            ticket = await send(*self._serialized(record))
        except Exception as error:
            self._acknowledge(_metadata_unsent(record), error)
            raise
        self._follow(ticket)
        return ticket

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


def _as_it_is(content: object, _: SerializationContext) -> bytes | None:
    return content  # type: ignore[return-value] # checked where all records are


def _metadata_unsent(record: ProducerRecord) -> RecordMetadata:
    """Return the metadata of a record that was not appended."""
    partition = -1 if record.partition is None else record.partition
    return RecordMetadata(record.topic, partition, -1, -1 if record.timestamp_ms is None else record.timestamp_ms)
