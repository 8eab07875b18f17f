"""Values of records in __cluster_metadata and __remote_log_metadata: a frame with type and version, then the message.

This module must not interpret the messages; `metadata_image` does. Start at `decode_framed`.

Source: org.apache.kafka.server.common.serialization.AbstractApiMessageSerde (KIP-631).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.declare import declared_classes, header_of

FRAME_VERSION: Final = 1
_SEVEN_BITS: Final = 0x7F
_INT16_MAX: Final = 2**15 - 1


class Framed(NamedTuple):
    """A message with its version, as Kafka's ApiMessageAndVersion."""

    message: object
    version: int


@cache
def metadata_classes() -> Mapping[int, type[object]]:
    """Return the records of __cluster_metadata by their type."""
    from kafkaraw.protocol.embedded import metadata_records  # only for metadata logs

    return _classes_of(metadata_records.__name__)


@cache
def remote_log_classes() -> Mapping[int, type[object]]:
    """Return the records of __remote_log_metadata by their type."""
    from kafkaraw.protocol.embedded import remote_log_records  # only for that topic

    return _classes_of(remote_log_records.__name__)


def _classes_of(module: str) -> Mapping[int, type[object]]:
    found = [(header_of(cls).api_key, cls) for cls in declared_classes() if cls.__module__ == module]
    return {kind: cls for kind, cls in found if kind >= 0}


def decode_framed(value: bytes, classes: Mapping[int, type[object]]) -> Framed:
    """Decode the value of a record.

    Args:
        value: of the record.
        classes: `metadata_classes()` or `remote_log_classes()`.

    Raises:
        ProtocolError: the frame is damaged, or its type or version is not known, as in records of a newer release.
    """
    frame, at = _unsigned_int16(value, 0, "frame version")
    if frame != FRAME_VERSION:
        raise ProtocolError(f"frame version {frame} is unknown, only {FRAME_VERSION} is")
    kind, at = _unsigned_int16(value, at, "record type")
    version, at = _unsigned_int16(value, at, "record version")
    cls = classes.get(kind)
    if cls is None:
        raise ProtocolError(f"record type {kind} is unknown, the last one is {max(classes)}")
    if not header_of(cls).versions.includes(version):
        raise ProtocolError(f"version {version} of {cls.__name__} is unknown, only {header_of(cls).versions} are")
    return Framed(decode_message(cls, version, value, at), version)


def encode_framed(message: object, version: int) -> bytes:
    """Encode the value of a record."""
    kind = header_of(type(message)).api_key
    return bytes((*_varint(FRAME_VERSION), *_varint(kind), *_varint(version))) + bytes(encode_message(message, version))


def _unsigned_int16(value: bytes, at: int, what: str) -> tuple[int, int]:
    number = 0
    for size in range(3):
        if at + size >= len(value):
            raise ProtocolError(f"the value has {len(value)} bytes, which end in the {what}")
        byte = value[at + size]
        number |= (byte & _SEVEN_BITS) << (7 * size)
        if byte <= _SEVEN_BITS:
            if number > _INT16_MAX:
                break
            return number, at + size + 1
    raise ProtocolError(f"the {what} exceeds {_INT16_MAX}")


def _varint(number: int) -> tuple[int, ...]:
    return (number,) if number <= _SEVEN_BITS else (number & _SEVEN_BITS | _SEVEN_BITS + 1, *_varint(number >> 7))
