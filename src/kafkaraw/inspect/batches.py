"""Open record batches for the annotated view: header, checksum, compression, and what `records_within` reads.

Offsets of the header are those of the frame. Records of a compressed batch are in other bytes, so their offsets count
in the decompressed data, which the node keeps as `inner`. Must not decode messages. Start at `annotate_records`.

Source: KIP-98; org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from kafkaraw.errors import BatchTooLargeError, KafkaError
from kafkaraw.inspect.message_sets import annotate_message_set
from kafkaraw.inspect.records_within import NOT_OPENED, BatchFacts, Budget, RecordReader, Stop
from kafkaraw.protocol.annotate import Node
from kafkaraw.records.compression import CODECS
from kafkaraw.records.header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True)
class HeaderField:
    """One field of a batch header, with its explanation."""

    name: str
    format: str
    words: str

    @property
    def kind(self) -> str:
        """Its type, as in messages."""
        return f"{'u' if self.format == 'I' else ''}int{8 * self.size}"

    @property
    def size(self) -> int:
        """Its bytes."""
        return struct.calcsize(self.format)


HEADER_FIELDS: Final = (
    HeaderField("base_offset", "q", "offset of the first record"),
    HeaderField("batch_length", "i", "bytes of the batch that follow this field"),
    HeaderField(
        "partition_leader_epoch", "i", "epoch of the leader that appended it; -1 when it comes from a producer"
    ),
    HeaderField("magic", "b", "version of the batch format"),
    HeaderField("crc", "I", ""),
    HeaderField("attributes", "h", ""),
    HeaderField("last_offset_delta", "i", "offset of the last record, counted from base_offset"),
    HeaderField("base_timestamp", "q", "the records' timestamps count from here"),
    HeaderField("max_timestamp", "q", "the latest timestamp of its records"),
    HeaderField("producer_id", "q", "-1 when the producer is not idempotent"),
    HeaderField("producer_epoch", "h", "-1 when the producer is not idempotent"),
    HeaderField("base_sequence", "i", "sequence number of the first record; -1 when the producer is not idempotent"),
    HeaderField("records_count", "i", "number of records"),
)


def annotate_records(node: Node, buffer: memoryview, budget: Budget, topic: str = "") -> None:
    """Add the batches of a records field to its node.

    Args:
        node: the field; its value is a view of the batches; the last one may be cut short.
        buffer: the whole frame.
        budget: the remaining limits on decompression and reading in this frame.
        topic: the topic of the records, to recognise Kafka's own topics.
    """
    if not isinstance(node.value, memoryview):
        return
    end = node.end
    at = end - node.value.nbytes
    while at < end:
        batch = Node(f"batch [{len(node.children)}]", "record batch", at, end)
        node.children.append(batch)
        try:
            at = _batch(batch, buffer[:end], at, budget, topic)
        except Stop as stop:
            stop.put_on(batch)
            return
        batch.end = at


def _batch(batch: Node, buffer: memoryview, at: int, budget: Budget, topic: str) -> int:
    left = len(buffer) - at
    if left <= MAGIC_AT:
        raise Stop(f"cut short: {left} bytes of a batch header; readers ignore such a tail", harmless=True)
    length = int.from_bytes(buffer[at + 8 : at + LENGTH_PREFIX_SIZE], signed=True)
    if buffer[at + MAGIC_AT] < 2:
        batch.kind = f"message set, magic {buffer[at + MAGIC_AT]}"
        return annotate_message_set(batch, buffer, at, budget)
    if length < HEADER_SIZE - LENGTH_PREFIX_SIZE:
        raise Stop(f"batch_length {length} is shorter than a header")
    if buffer[at + MAGIC_AT] > 2:
        raise Stop(f"magic {buffer[at + MAGIC_AT]} is no version of the format: 0, 1 and 2 are")
    end = at + LENGTH_PREFIX_SIZE + length
    whole = buffer[at:end]
    values = _header(batch, whole, at, is_whole=end <= len(buffer))
    if len(whole) >= HEADER_SIZE:
        _records(batch, whole[HEADER_SIZE:], at + HEADER_SIZE, values, budget, topic, is_whole=end <= len(buffer))
    if end > len(buffer):
        raise Stop(
            f"cut short: the batch has {end - at} bytes, {left} are here; readers ignore such a tail", harmless=True
        )
    return end


def _header(batch: Node, data: memoryview, at: int, *, is_whole: bool) -> dict[str, int]:
    values: dict[str, int] = {}
    position = 0
    for declared in HEADER_FIELDS:
        if position + declared.size > len(data):
            break
        (value,) = struct.unpack_from(">" + declared.format, data, position)
        values[declared.name] = value
        node = Node(declared.name, declared.kind, at + position, at + position + declared.size, value)
        node.notes.extend([declared.words] if declared.words else [])
        batch.children.append(node)
        position += declared.size
        if declared.name == "crc":
            _check(node, data, is_whole)
        elif declared.name == "attributes":
            node.notes.append(", ".join(_attribute_words(value)))
    if values.get("attributes", 0) & DELETE_HORIZON_BIT and "base_timestamp" in values:
        batch.children[7].notes.append("when its tombstones may go (delete horizon)")
    return values


def _check(node: Node, data: memoryview, is_whole: bool) -> None:
    if not is_whole:
        node.notes.append("CRC-32C, cannot be checked: the batch is cut short")
        return
    computed = crc32c.crc32c(data[ATTRIBUTES_AT:])
    if computed == node.value:
        node.notes.append("CRC-32C of all that follows: right")
    else:
        node.problem = f"CRC-32C of all that follows is wrong: the bytes give {computed}"


def _attribute_words(attributes: int) -> Iterator[str]:
    yield f"compression {_codec_name(attributes)}"
    yield (
        "LogAppendTime (the broker's clock)" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime (the producer's clock)"
    )
    yield "part of a transaction" if attributes & TRANSACTIONAL_BIT else "not transactional"
    if attributes & CONTROL_BIT:
        yield "control batch: markers, not data"
    if attributes & DELETE_HORIZON_BIT:
        yield "with a delete horizon"


def _codec_name(attributes: int) -> str:
    number = attributes & CODEC_MASK
    return CODECS[number].name if number < len(CODECS) else f"unknown ({number})"


def _records(
    batch: Node,
    data: memoryview,
    start: int,
    values: dict[str, int],
    budget: Budget,
    topic: str,
    *,
    is_whole: bool,
) -> None:
    number = values["attributes"] & CODEC_MASK
    count = values["records_count"]
    section = Node("records", "records", start, start + len(data), count)
    batch.children.append(section)
    if number >= len(CODECS):
        section.problem = f"compressed with codec {number}, which does not exist"
        return
    if number and not is_whole:
        section.notes.append(f"{CODECS[number].name} data that is cut short cannot be read")
        return
    if number:
        try:
            data = memoryview(CODECS[number].decompress(data, budget.bytes_left))
        except BatchTooLargeError:
            section.notes.append(NOT_OPENED)
            return
        except KafkaError as error:
            section.problem = f"cannot be decompressed: {error}"
            return
        budget.bytes_left -= len(data)
        section.inner = data
        section.notes.append(
            f"{section.end - section.start} bytes of {CODECS[number].name} hold {len(data)}; ~ counts in those"
        )
        start = 0
    try:
        RecordReader(data, start, BatchFacts.of(values), topic).read_all(section, count, budget, is_whole=is_whole)
    except Stop as stop:
        stop.put_on(section)
