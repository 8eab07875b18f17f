"""Send rows that are too large for any broker to a dead-letter topic.

They are found before anything is sent: a record that a broker refuses fails its transaction, and with it the batch.
The limits are those that apply later: `max_request_size` as the producer measures it, and the topic's
`max.message.bytes` against the record as a batch of its own, compressed. (If a batch of several records is too large,
the producer splits it.)

A dead letter has the row's key, value, headers and timestamp as far as the dead-letter topic accepts them, and headers
that describe the error; see `Letter`. Must not send anything: `task` does. Start at `Sieve`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkaraw.client.admin import ConfigResource
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.config import AdminConfig, ProducerConfig
from kafkaraw.client.sending.accumulator import RECORD_OVERHEAD_BYTES, check_record_size
from kafkaraw.errors import BrokerError, RecordTooLargeError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import encode_batch
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.worker import ClientPool

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_LIMITS_AGE_MAX_S: Final = 60.0

_PREFIX: Final = "kafkaraw.error."
_USUAL: Final = ((f"{_PREFIX}topic", "{topic}"), (f"{_PREFIX}message", "{message}"))
# The parts that are left out, one after the other, until the dead-letter topic accepts the rest.
_LEFT_OUT: Final[tuple[tuple[str, ...], ...]] = ((), ("value",), ("value", "headers"), ("value", "headers", "key"))
_NOTHING: Final[dict[str, tuple[()] | None]] = {"value": None, "headers": (), "key": None}

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Letter:
    """A record that does not go to its own topic.

    Attributes:
        key: the row's key.
        value: the row's value.
        headers: the row's headers. A dead letter has others in front of them: `kafkaraw.error.topic` (the row's topic),
            `.message` (why the row did not fit), and, if something did not fit here either, `.left.out`.
        timestamp_ms: the row's timestamp, in ms since 1970; None if it has none.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Sieve:
    """Removes rows that are too large from batches of rows.

    Args:
        topic: the dead-letter topic.
        producer: settings of the producer that will send the rows.
        limit: returns a topic's `max.message.bytes`; None if it is not known.
        headers: of dead letters, in front of the row's own; `{topic}`, `{message}` and `{time}` (in ms since 1970) in
            their values are replaced. None for `kafkaraw.error.topic` and `.message`.
    """

    def __init__(
        self,
        topic: str,
        producer: ProducerConfig,
        limit: Callable[[str], int | None],
        headers: tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        self._headers = _USUAL if headers is None else headers
        self.topic = topic
        self._producer = producer
        self._limit = limit
        self._size_max = min(producer.max_request_size, producer.buffer_memory)

    def sift(self, batch: pa.RecordBatch, topic: str | None) -> tuple[pa.RecordBatch, list[Letter]]:
        """Return the rows that can be sent, and dead letters for the others.

        Args:
            batch: the columns of the records.
            topic: the topic of all rows; None to use the column `topic`.
        """
        import pyarrow as pa

        topics = [topic] if topic is not None else batch.column("topic").unique().to_pylist()
        limits = {each: self._limit(each) for each in topics if each is not None}
        least = min([self._size_max, *(limit for limit in limits.values() if limit is not None)])
        letters: list[Letter] = []
        dead: set[int] = set()
        for row in _maybe_larger(batch, 0, least):
            to, letter = _row(batch, row, topic)
            why = None if to is None else self._why_not(to, letter, limits[to])
            if to is not None and why is not None:
                dead.add(row)
                letters.append(self._dead(letter, to, why))
        if dead:
            batch = batch.filter(pa.array(row not in dead for row in range(batch.num_rows)))
        return batch, letters

    def _why_not(self, topic: str, letter: Letter, limit: int | None) -> str | None:
        try:
            check_record_size(self._producer, topic, letter.value, letter.key, letter.headers)
        except RecordTooLargeError as error:
            return str(error)
        if limit is None:
            return None
        record = (letter.timestamp_ms or 0, letter.key, letter.value, letter.headers)
        codec, level = self._producer.compression_type, self._producer.compression_level
        size = len(encode_batch([record], codec=codec, level=level))
        if size <= limit:
            return None
        return (
            f"the record takes {size} bytes in a batch of its own, {_MAX_MESSAGE_BYTES} of topic {topic!r} is {limit}"
        )

    def _dead(self, letter: Letter, topic: str, why: str) -> Letter:
        """Return the letter, without the parts that the dead-letter topic does not accept."""
        limit = self._limit(self.topic)
        texts = {"{topic}": topic, "{time}": str(time.time_ns() // 1_000_000), "{message}": why}
        said: Headers = tuple((name, _filled(text, texts).encode()) for name, text in self._headers)
        for left_out in _LEFT_OUT:
            rest = replace(letter, **{name: _NOTHING[name] for name in left_out})  # type: ignore[arg-type]  # by name
            note: Headers = ((f"{_PREFIX}left.out", ",".join(left_out).encode()),) if left_out else ()
            rest = replace(rest, headers=(*said, *note, *rest.headers))
            if self._why_not(self.topic, rest, limit) is None:
                break
        return rest


def _filled(text: str, texts: Mapping[str, str]) -> str:
    for place, each in texts.items():
        text = text.replace(place, each)
    return text


def _maybe_larger(batch: pa.RecordBatch, first: int, limit: int) -> Iterator[int]:
    """Find the rows that may be larger than a limit, by halves: a part that is smaller as a whole has no large row.

    Arrow's size of a row is at least four fifths of Kafka's upper bound without the fixed size of every record:
    a header has 10 bytes more than its name and value there, and 8 here.
    """
    if batch.num_rows == 0 or RECORD_OVERHEAD_BYTES + batch.nbytes * 5 // 4 <= limit:
        return
    if batch.num_rows == 1:
        yield first
        return
    half = batch.num_rows // 2
    yield from _maybe_larger(batch.slice(0, half), first, limit)
    yield from _maybe_larger(batch.slice(half), first + half, limit)


def _row(batch: pa.RecordBatch, row: int, topic: str | None) -> tuple[str | None, Letter]:
    """The topic of a row, and its record."""
    names = batch.schema.names

    def value(name: str) -> pa.Scalar | None:
        return batch.column(name)[row] if name in names else None

    def plain(name: str) -> object:
        found = value(name)
        return None if found is None else found.as_py()

    moment = value("timestamp")
    timestamp_us = None if moment is None else moment.value
    to = topic if topic is not None else plain("topic")
    return None if to is None else str(to), Letter(
        _bytes(plain("key")),
        _bytes(plain("value")),
        _headers(plain("headers")),
        None if timestamp_us is None else timestamp_us // 1000,
    )


def _bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _headers(value: object) -> Headers:
    """Convert a list of structures, or a map, which Python has as a list of pairs."""
    pairs = value if isinstance(value, list) else []
    plain = [(each["key"], each["value"]) if isinstance(each, Mapping) else each for each in pairs]
    return tuple((name or "", content) for name, content in plain)  # a missing name is refused when the row is sent


class TopicLimits:
    """The largest batch that each topic accepts, not older than a minute.

    Args:
        settings: of the client, as text.
    """

    def __init__(self, settings: Settings) -> None:
        self._admin = Admin(runtime=None, **typed_settings(AdminConfig, settings_for(AdminConfig, settings)))
        self._known: dict[str, tuple[float, int]] = {}

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def __call__(self, topic: str) -> int | None:
        """Return a topic's `max.message.bytes`; None if the topic does not exist.

        Raises:
            KafkaError: the configuration cannot be read; that needs the permission DESCRIBE_CONFIGS on the topic.
        """
        known = self._known.get(topic)
        if known is not None and time.monotonic() - known[0] < _LIMITS_AGE_MAX_S:
            return known[1]
        resource = ConfigResource.topic(topic)
        try:
            entries = self._admin.describe_configs([resource], names=[_MAX_MESSAGE_BYTES])[resource]
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise
        self._known[topic] = time.monotonic(), int(entries[_MAX_MESSAGE_BYTES].value or 0)
        return self._known[topic][1]


limits_pool: Final[ClientPool[TopicLimits]] = ClientPool(TopicLimits)
"""Kept in this process between tasks."""
