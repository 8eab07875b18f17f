"""The copies of a record in a retry topic or dead-letter topic: their headers, and what they are copies of. Pure.

The names of headers are those of the dead letters of pipelines, where they mean the same. Start at `retry_copy`,
`dead_letter` and `original_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.light_classes import NamedTuple
from kafkaraw.worker.failures import Failure

if TYPE_CHECKING:
    from kafkaraw.client.sharing.batch import ShareRecord
    from kafkaraw.records import Record
    from kafkaraw.worker.schedule import WorkItem

TOPIC: Final = "kafkaraw.topic"
PARTITION: Final = "kafkaraw.partition"
OFFSET: Final = "kafkaraw.offset"
TIMESTAMP: Final = "kafkaraw.timestamp"
ATTEMPTS: Final = "kafkaraw.attempts"
ERROR: Final = "kafkaraw.error"
REASON: Final = "kafkaraw.reason"
GROUP: Final = "kafkaraw.group"
HANDLER: Final = "kafkaraw.handler"
TIME: Final = "kafkaraw.time"
NOT_BEFORE: Final = "kafkaraw.not_before"
OWN: Final = frozenset({TOPIC, PARTITION, OFFSET, TIMESTAMP, ATTEMPTS, ERROR, REASON, GROUP, HANDLER, TIME, NOT_BEFORE})
"""The headers of copies, after those of the record."""
ERROR_BYTES_MAX: Final = 2_000
"""The longest error in a header, in bytes: a copy of a record must not become much larger than the record."""


class Original(NamedTuple):
    """The record that was read first, and what its copy in a retry topic adds.

    Attributes:
        record: with its own topic, partition, offset, timestamp and headers, and the bytes of key and value.
        attempts: how often the handler was called.
        not_before_ms: the time of the next call, in milliseconds since 1970; 0 for at once.
    """

    record: Record | ShareRecord
    attempts: int
    not_before_ms: int


def original_of(copy: Record | ShareRecord) -> Original:
    """Return the record that was read first, from its copy in a retry topic; the copy itself if it is none.

    A header that is missing or no number counts as its default, so that any record can be written into a retry topic.
    """
    headers, own = list(copy.headers), dict[str, bytes | None]()
    while headers and headers[-1][0] in OWN and headers[-1][0] not in own:  # the record may have others of that name
        name, value = headers.pop()
        own[name] = value
    if TOPIC not in own:
        return Original(copy, 0, 0)
    first = copy._replace(
        topic=(own[TOPIC] or b"").decode("utf-8", "replace"),
        partition=_number(own.get(PARTITION), -1),
        offset=_number(own.get(OFFSET), -1),
        timestamp_ms=_number(own.get(TIMESTAMP), copy.timestamp_ms),
        headers=headers,
    )
    return Original(first, max(_number(own.get(ATTEMPTS), 0), 0), _number(own.get(NOT_BEFORE), 0))


def _number(value: bytes | None, default: int) -> int:
    try:
        return int(value or b"")
    except ValueError:
        return default


def retry_copy(item: WorkItem, failure: Failure, group: str, now_ms: int, not_before_ms: int) -> ProducerRecord:
    """Return the copy of a record for the retry topic of its handler.

    Args:
        item: the record, with the calls so far.
        failure: of the last call.
        group: the worker's.
        now_ms: the time, in milliseconds since 1970.
        not_before_ms: the time of the next call.
    """
    topic = item.handler.retries.topic
    assert topic is not None
    copy = _copy(item, failure, group, now_ms, topic)
    return copy._replace(headers=[*(copy.headers or ()), (NOT_BEFORE, str(not_before_ms).encode())])


def dead_letter(item: WorkItem, failure: Failure, group: str, now_ms: int) -> ProducerRecord:
    """Return the dead letter of a record; the arguments are those of `retry_copy`."""
    topic = item.handler.dead_letter_topic
    assert topic is not None
    return _copy(item, failure, group, now_ms, topic)


def _copy(item: WorkItem, failure: Failure, group: str, now_ms: int, topic: str) -> ProducerRecord:
    first = item.original
    error = f"{type(failure.error).__name__}: {failure.error}".encode("utf-8", "replace")[:ERROR_BYTES_MAX]
    said = {
        TOPIC: first.topic,
        PARTITION: first.partition,
        OFFSET: first.offset,
        TIMESTAMP: first.timestamp_ms,
        ATTEMPTS: item.attempts,
        ERROR: error.decode("utf-8", "ignore"),
        REASON: failure.reason.value,
        GROUP: group,
        HANDLER: item.handler.name,
        TIME: now_ms,
    }
    own = [(name, str(value).encode()) for name, value in said.items()]
    return ProducerRecord(topic, first.value, first.key, [*first.headers, *own])
