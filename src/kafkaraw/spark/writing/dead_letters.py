"""Send rows that cannot become records of their topic to a dead-letter topic.

They are found before anything is sent: a record that a broker refuses fails its transaction, and with it the batch.
These rows are refused:

- too large: `max_request_size` as the producer measures it, and the topic's `max.message.bytes` against the record as a
  batch of its own, compressed (if a batch of several records is too large, the producer splits it);
- without a key, for a compacted topic;
- without a topic, or with a name that no topic can have, in the column `topic`;
- with a value or key that does not fit the schema of its column.

A dead letter has the row's key, value, headers and timestamp as far as the dead-letter topic accepts them, and headers
that describe the error; see `Letter`. Must not send anything: `task` does. Start at `Sieve`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaraw.client.admin import ConfigResource
from kafkaraw.client.arguments import check_topic_name
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.config import AdminConfig, ProducerConfig
from kafkaraw.client.sending.accumulator import RECORD_OVERHEAD_BYTES, check_record_size
from kafkaraw.errors import BrokerError, RecordTooLargeError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import encode_batch
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.worker import ClientPool

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.writing.typed_rows import Unfit

_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_CLEANUP_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_RULES_AGE_MAX_S: Final = 60.0
_SHOWN_MAX: Final = 300

_PREFIX: Final = "kafkaraw.error."
LEFT_OUT: Final = f"{_PREFIX}left.out"
AS_JSON: Final = f"{_PREFIX}as.json"
"""Headers of dead letters that are not the record that was to be written: parts are missing, or not encoded."""
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
            `.message` (why the row did not fit), `.as.json` (parts that are JSON, since they do not fit their schema),
            and, if something did not fit here either, `.left.out`.
        timestamp_ms: the row's timestamp, in ms since 1970; None if it has none.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class TopicRules(NamedTuple):
    """What a topic demands of its records.

    Attributes:
        size_max: its `max.message.bytes`.
        needs_key: whether it is compacted.
    """

    size_max: int
    needs_key: bool = False


class Sieve:
    """Removes rows that a topic does not take from batches of rows.

    Args:
        topic: the dead-letter topic.
        producer: settings of the producer that will send the rows.
        rules: returns what a topic demands; None if it is not known.
        headers: of dead letters, in front of the row's own; `{topic}`, `{message}` and `{time}` (in ms since 1970) in
            their values are replaced. None for `kafkaraw.error.topic` and `.message`.
    """

    def __init__(
        self,
        topic: str,
        producer: ProducerConfig,
        rules: Callable[[str], TopicRules | None],
        headers: tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        self._headers = _USUAL if headers is None else headers
        self.topic = topic
        self._producer = producer
        self._rules = rules
        self._size_max = min(producer.max_request_size, producer.buffer_memory)

    def sift(self, batch: pa.RecordBatch, topic: str | None) -> tuple[pa.RecordBatch, list[Letter]]:
        """Return the rows that can be sent, and dead letters for the others.

        Args:
            batch: the columns of the records.
            topic: the topic of all rows; None to use the column `topic`.
        """
        import pyarrow as pa

        topics = [topic] if topic is not None else batch.column("topic").unique().to_pylist()
        rules = {each: self._rules(each) for each in topics if each is not None and can_be_topic(each)}
        letters = dict[int, Letter]()
        for row in (*_without_topic(batch, topic), *_without_key(batch, topic, rules)):
            to, letter = _row(batch, row, topic)
            if row not in letters:
                letters[row] = self._dead(letter, to or "", _why_unnamed(to) or _NO_KEY.format(topic=to))
        least = min([self._size_max, *(found.size_max for found in rules.values() if found is not None)])
        for row in _maybe_larger(batch, 0, least):
            to, letter = _row(batch, row, topic)
            why = None if to is None or row in letters else self._why_not(to, letter, rules[to])
            if to is not None and why is not None:
                letters[row] = self._dead(letter, to, why)
        if letters:
            batch = batch.filter(pa.array(row not in letters for row in range(batch.num_rows)))
        return batch, [letters[row] for row in sorted(letters)]

    def unfit(self, batch: pa.RecordBatch, topic: str | None, unfit: Sequence[Unfit]) -> list[Letter]:
        """Return dead letters for rows that do not fit the schemas of their columns.

        Args:
            batch: the rows, before their columns were encoded.
            topic: the topic of all rows; None to use the column `topic`.
            unfit: which rows, and why.
        """
        found = []
        for each in unfit:
            to, letter = _row(batch, each.row, topic)
            shown = {name: _json(batch.column(name)[each.row].as_py()) for name in each.columns}
            note: Headers = ((AS_JSON, ",".join(shown).encode()),)
            letter = replace(letter, **shown, headers=(*note, *letter.headers))  # type: ignore[arg-type]  # by name
            found.append(self._dead(letter, to or "", each.why))
        return found

    def _why_not(self, topic: str, letter: Letter, rules: TopicRules | None) -> str | None:
        try:
            check_record_size(self._producer, topic, letter.value, letter.key, letter.headers)
        except RecordTooLargeError as error:
            return str(error)
        if rules is None:
            return None
        record = (letter.timestamp_ms or 0, letter.key, letter.value, letter.headers)
        codec, level = self._producer.compression_type, self._producer.compression_level
        size = len(encode_batch([record], codec=codec, level=level))
        if size <= rules.size_max:
            return None
        return (
            f"the record takes {size} bytes in a batch of its own, {_MAX_MESSAGE_BYTES} of topic {topic!r} is "
            f"{rules.size_max}"
        )

    def _dead(self, letter: Letter, topic: str, why: str) -> Letter:
        """Return the letter, without the parts that the dead-letter topic does not accept."""
        rules = self._rules(self.topic)
        texts = {"{topic}": topic, "{time}": str(time.time_ns() // 1_000_000), "{message}": why}
        said: Headers = tuple((name, _filled(text, texts).encode()) for name, text in self._headers)
        for left_out in _LEFT_OUT:
            rest = replace(letter, **{name: _NOTHING[name] for name in left_out})  # type: ignore[arg-type]  # by name
            note: Headers = ((LEFT_OUT, ",".join(left_out).encode()),) if left_out else ()
            rest = replace(rest, headers=(*said, *note, *rest.headers))
            if self._why_not(self.topic, rest, rules) is None:
                break
        return rest


_NO_KEY: Final = "topic {topic!r} is compacted, and takes no record without a key"


def can_be_topic(name: str) -> bool:
    """Return whether a topic can have a name."""
    try:
        check_topic_name(name, "")
    except UsageError:
        return False
    return True


def _why_unnamed(topic: str | None) -> str | None:
    if topic is None:
        return "the column topic is null"
    return None if can_be_topic(topic) else f"the column topic has {topic[:_SHOWN_MAX]!r}, which no topic can have"


def _without_topic(batch: pa.RecordBatch, topic: str | None) -> list[int]:
    """Return the rows without a topic, or with a name that no topic can have."""
    if topic is not None:
        return []
    names = batch.column("topic")
    bad = {each for each in names.unique().to_pylist() if each is None or not can_be_topic(each)}
    return [row for row, each in enumerate(names.to_pylist()) if each in bad] if bad else []


def _without_key(batch: pa.RecordBatch, topic: str | None, rules: Mapping[str, TopicRules | None]) -> list[int]:
    """Return the rows without a key for topics that are compacted."""
    compacted = {name for name, found in rules.items() if found is not None and found.needs_key}
    if not compacted:
        return []
    keyless = _nulls(batch.column("key")) if "key" in batch.schema.names else list(range(batch.num_rows))
    if topic is not None or not keyless:
        return keyless
    names = batch.column("topic").to_pylist()
    return [row for row in keyless if names[row] in compacted]


def _nulls(column: pa.Array) -> list[int]:
    return [row for row, is_null in enumerate(column.is_null().to_pylist()) if is_null] if column.null_count else []


def _json(value: object) -> bytes | None:
    """Return a value that could not be encoded in a form that a person can read."""
    return None if value is None else json.dumps(value, default=_shown, ensure_ascii=False).encode()


def _shown(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


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


class KnownRules:
    """What topics demand of their records, not older than a minute.

    Args:
        settings: of the client, as text.
    """

    def __init__(self, settings: Settings) -> None:
        self._admin = Admin(runtime=None, **typed_settings(AdminConfig, settings_for(AdminConfig, settings)))
        self._known: dict[str, tuple[float, TopicRules]] = {}

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def __call__(self, topic: str) -> TopicRules | None:
        """Return what a topic demands; None if the topic does not exist.

        Raises:
            KafkaError: the configuration cannot be read; that needs the permission DESCRIBE_CONFIGS on the topic.
        """
        known = self._known.get(topic)
        if known is not None and time.monotonic() - known[0] < _RULES_AGE_MAX_S:
            return known[1]
        resource = ConfigResource.topic(topic)
        try:
            entries = self._admin.describe_configs([resource], names=[_MAX_MESSAGE_BYTES, _CLEANUP_POLICY])[resource]
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise
        policy = (entries[_CLEANUP_POLICY].value or "") if _CLEANUP_POLICY in entries else ""
        found = TopicRules(int(entries[_MAX_MESSAGE_BYTES].value or 0), _COMPACT in policy.split(","))
        self._known[topic] = time.monotonic(), found
        return found


rules_pool: Final[ClientPool[KnownRules]] = ClientPool(KnownRules)
"""Kept in this process between tasks."""
