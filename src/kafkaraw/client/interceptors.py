"""What interceptors are, and what they see. Source: KIP-42.

Who calls them: `sending/pipeline.py` and `fetching/interception.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import Headers, Record, RecordMetadata, TopicPartition

log = logging.getLogger(__name__)

OF_PRODUCERS: Final = ("on_send", "on_acknowledgement")
OF_CONSUMERS: Final = ("on_consume", "on_commit")


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`; interceptors make another one with `_replace`."""

    topic: str
    value: object
    key: object
    headers: Headers | None
    partition: int | None
    timestamp_ms: int | None


class ProducerInterceptor(Protocol):
    """Sees the records of a producer come and go. One of the two methods is enough; there may be a `close()`, too.

    The rows of `send_arrow` are no records, and do not come here.
    """

    def on_send(self, record: ProducerRecord, /) -> ProducerRecord:
        """Give the record to send: the same, or another one. Runs where `send` was called."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, /) -> None:
        """Hear what became of a record; the offset is -1 when it failed. Runs on the producer's loop."""


class ConsumerInterceptor(Protocol):
    """Sees what a consumer is given, and commits. One of the two methods is enough; there may be a `close()`, too."""

    def on_consume(self, records: list[Record], /) -> Iterable[Record]:
        """Give what the user is to see of a batch: the same records, fewer, or others.

        Called once for each batch that is given, with its deserialized records, when it is first looked at and where
        that is. Columns have no records and do not come here.
        """

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], /) -> None:
        """Hear of positions that were stored in the group. Runs on the consumer's loop; must not block."""


def is_interceptor(given: object, methods: Iterable[str]) -> bool:
    """Whether it has one of the methods that are called."""
    return any(callable(getattr(given, name, None)) for name in methods)


def methods_of(interceptors: Sequence[object], name: str) -> list[Callable[..., object]]:
    """The methods of that name, of those that have one."""
    found = (getattr(interceptor, name, None) for interceptor in interceptors)
    return [method for method in found if callable(method)]


def guarded(method: Callable[..., object], *arguments: object) -> object:
    """Call the user's code, which must hurt neither a record nor the loop; None when it fails."""
    try:
        return method(*arguments)
    except Exception:
        log.exception("%s failed", name_of_method(method))
        return None


def name_of_method(method: Callable[..., object]) -> str:
    """What to call it in the log."""
    return f"the interceptor's {getattr(method, '__qualname__', method)}"
