"""How large a record is by the measure of `max_request_size`: before compression, and at most.

Source: Kafka's AbstractRecords.estimateSizeInBytesUpperBound.
"""

from __future__ import annotations

from kafkaraw.client.config import ProducerConfig
from kafkaraw.errors import RecordTooLargeError
from kafkaraw.records import Headers

RECORD_OVERHEAD_BYTES = 61 + 21
"""Batch header, and the most that lengths, timestamp and offset of a record take (Kafka's upper bound)."""


def check_record_size(topic: str, value: object, key: object, headers: Headers | None, config: ProducerConfig) -> None:
    """Refuse a record that is too large, before anything is compressed.

    Raises:
        RecordTooLargeError: over `max_request_size` or `buffer_memory`.
    """
    if headers is None and key is None and type(value) is bytes:  # most records
        size = RECORD_OVERHEAD_BYTES + len(value)
        if size <= config.max_request_size and size <= config.buffer_memory:
            return
    size = RECORD_OVERHEAD_BYTES + _size(value) + _size(key)
    size += sum(10 + len(name.encode()) + _size(content) for name, content in headers or ())
    for name in ("max_request_size", "buffer_memory"):
        limit = getattr(config, name)
        if size > limit:
            raise RecordTooLargeError(
                f"a record for topic {topic!r} takes {size} bytes uncompressed, {name} is {limit}; raise it (the "
                f"topic's max.message.bytes counts, too) or send less in one record"
            )


def _size(field: object) -> int:
    """Length of a field; what is not bytes is refused elsewhere, with a better message."""
    if field is None:
        return 0
    return getattr(field, "nbytes", 0) or (len(field) if hasattr(field, "__len__") else 0)
