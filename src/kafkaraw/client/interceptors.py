"""What an interceptor is, and what it sees. Who calls them: `pipeline.py`.  Source: KIP-42."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kafkaraw.records import Headers, RecordMetadata

_METHODS: Final = ("on_send", "on_acknowledgement")


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`; interceptors make another one with `_replace`."""

    topic: str
    value: object
    key: object
    headers: Headers | None
    partition: int | None
    timestamp_ms: int | None


class ProducerInterceptor(Protocol):
    """Sees the records of a producer come and go. One of the two methods is enough; there may be a `close()`, too."""

    def on_send(self, record: ProducerRecord, /) -> ProducerRecord:
        """Give the record to send: the same, or another one. Runs where `send` was called."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, /) -> None:
        """Hear what became of a record; the offset is -1 when it failed. Runs on the producer's loop."""


def is_interceptor(given: object) -> bool:
    """Whether it has one of the methods that are called."""
    return any(callable(getattr(given, name, None)) for name in _METHODS)
