"""What a record's key and value are in a dump: text, or the records of Kafka's own topics as JSON.

Start at `decoder_named`. Source: org.apache.kafka.tools.DumpLogSegments and its message parsers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

from kafkaraw.core.log.framed_records import decode_framed, metadata_classes, remote_log_classes
from kafkaraw.errors import KafkaError, ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.logs.kafka_json import base64_text, render, render_floats, to_json
from kafkaraw.logs.remote_log_text import remote_log_text
from kafkaraw.protocol import decode_message
from kafkaraw.protocol.declare import FieldSpec, header_of
from kafkaraw.records import Record

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TOMBSTONE: Final = "<DELETE>"


class DecoderName(StrEnum):
    """The decoders, by the option that chooses them."""

    TEXT = "text"
    OFFSETS = "offsets-decoder"
    TRANSACTIONS = "transaction-log-decoder"
    SHARE_STATE = "share-group-state-decoder"
    METADATA = "cluster-metadata-decoder"
    REMOTE_LOG = "remote-log-metadata-decoder"


class Decoded(NamedTuple):
    """What is shown of a record; None for nothing."""

    key: str | None
    value: str | None


Decoder: TypeAlias = Callable[[Record], Decoded]

_TOPICS: Final = {
    DecoderName.OFFSETS: "__consumer_offsets",
    DecoderName.TRANSACTIONS: "__transaction_state",
    DecoderName.SHARE_STATE: "__share_group_state",
}


def decoder_named(name: DecoderName) -> Decoder:
    """Return the decoder of a name."""
    if name is DecoderName.TEXT:
        return as_text
    if name is DecoderName.METADATA:
        return _metadata_record
    if name is DecoderName.REMOTE_LOG:
        return _remote_log_record
    topic = _TOPICS[name]
    return lambda record: _coordinator_record(record, topic)


def as_text(record: Record) -> Decoded:
    """Return key and value as text; `records.render_records` does the same for a whole batch."""
    key, value = record.key, record.value
    return Decoded(None if key is None else java_text(key), None if value is None else java_text(value))


def java_text(data: bytes) -> str:
    """Return bytes as text, with the replacement characters that Java's decoder makes: one for half a surrogate."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")


@cache
def _classes(topic: str) -> dict[int, tuple[type[object], type[object]]]:
    """Return key and value class of each record type of one of Kafka's own topics."""
    from kafkaraw.inspect.embedded import INTERNAL_TOPICS  # they take longer to import than a log file to dump
    from kafkaraw.protocol.describe import embedded_messages

    keys: dict[int, type[object]] = {}
    values: dict[int, type[object]] = {}
    for module in INTERNAL_TOPICS[topic]:
        for cls in embedded_messages(module):
            kinds = keys if cls.__name__.endswith("Key") else values
            kinds[header_of(cls).api_key] = cls
    return {kind: (key, values[kind]) for kind, key in keys.items()}


def _coordinator_record(record: Record, topic: str) -> Decoded:
    if record.key is None:
        raise ProtocolError(
            f"the record at offset {record.offset} has no key, so it is none of {topic}; use another decoder"
        )
    try:
        (kind,) = _INT16.unpack_from(record.key)
        known = _classes(topic).get(kind)
        if known is None:
            return Decoded(f"Unknown record type {kind} at offset {record.offset}, skipping.", None)
        key = decode_message(known[0], 0, record.key, _INT16.size, allow_trailing_bytes=True)
        shown = render({"type": str(kind), "data": to_json(key, 0)})
        if record.value is None:
            return Decoded(shown, _TOMBSTONE)
        (version,) = _INT16.unpack_from(record.value)
        value = decode_message(known[1], version, record.value, _INT16.size, allow_trailing_bytes=True)
    except (KafkaError, struct.error) as error:
        return Decoded(f"Error at offset {record.offset}, skipping. {error}", None)
    is_consumer_group = getattr(value, "protocol_type", None) == "consumer"
    data = to_json(value, version, _group_bytes if is_consumer_group else None)
    return Decoded(shown, render({"version": str(version), "data": data}))


def _metadata_record(record: Record) -> Decoded:
    try:
        message, version = decode_framed(record.value or b"", metadata_classes())
    except KafkaError as error:
        return Decoded(None, f"Error at {record.offset}, skipping. {error}")
    name = type(message).__name__.removesuffix("Record")
    kind = f"{_WORD_START.sub('_', name).upper()}_RECORD"
    return Decoded(None, render_floats({"type": kind, "version": version, "data": to_json(message, version)}))


def _remote_log_record(record: Record) -> Decoded:
    try:
        message, _ = decode_framed(record.value or b"", remote_log_classes())
        return Decoded(None, remote_log_text(message))
    except KafkaError as error:
        return Decoded(None, f"Error at offset {record.offset}, skipping. {error}")


@cache
def _group_classes() -> dict[str, type[object]]:
    """Return what the bytes fields of a classic group's member hold, if it is a group of consumers."""
    from kafkaraw.protocol.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    return {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}


def _group_bytes(field: FieldSpec, data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the subscription or assignment of a classic group's member; base64 if it is neither."""
    cls = _group_classes().get(field.name)
    if cls is not None and len(data) >= _INT16.size:
        (version,) = _INT16.unpack_from(data)
        try:
            return to_json(decode_message(cls, version, data, _INT16.size, allow_trailing_bytes=True), version)
        except ProtocolError:
            pass
    return base64_text(data)


_MARKERS: Final = {0: "ABORT", 1: "COMMIT"}


@cache
def _control_classes() -> dict[int, tuple[str, type[object]]]:
    """Return title and class of the control records of the metadata log, by their type."""
    from kafkaraw.protocol.embedded import control_records

    return {
        2: ("LeaderChange:", control_records.LeaderChangeMessage),
        3: ("SnapshotHeader", control_records.SnapshotHeaderRecord),
        4: ("SnapshotFooter", control_records.SnapshotFooterRecord),
        5: ("KRaftVersion", control_records.KRaftVersionRecord),
        6: ("KRaftVoters", control_records.VotersRecord),
    }


def control_text(record: Record) -> str:
    """Return what a dump says of a control record, such as `endTxnMarker: COMMIT coordinatorEpoch: 0`.

    Raises:
        ProtocolError: the record cannot be decoded.
    """
    key, value = record.key or b"", record.value or b""
    try:
        (kind,) = _INT16.unpack_from(key, _INT16.size)
        if kind in _MARKERS:
            (epoch,) = _INT32.unpack_from(value, _INT16.size)
            return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"
        if kind not in _control_classes():
            return f"controlType: UNKNOWN({kind})"
        (version,) = _INT16.unpack_from(value)
    except struct.error:
        raise ProtocolError(f"the control record at offset {record.offset} is cut short") from None
    title, cls = _control_classes()[kind]
    message = decode_message(cls, min(version, header_of(cls).versions.max), value, allow_trailing_bytes=True)
    return f"{title} {render(to_json(message, version))}"
