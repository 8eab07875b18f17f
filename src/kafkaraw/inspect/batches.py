"""Open record batches for the annotated view: header, checksum, compression, every record.

Offsets of the header are the frame's. Records of a compressed batch lie in other bytes, so theirs count from the start
of the decompressed data and are marked so. This module must not decode messages. Start at `annotate_records`.

Source: KIP-98; org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import crc32c

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.embedded import annotate_control, annotate_internal
from kafkaraw.inspect.meaning import timestamp_words
from kafkaraw.protocol.annotate import Node
from kafkaraw.records.compression import CODECS

HEADER_FIELDS: Final = (
    ("base_offset", "q", "offset of the first record"),
    ("batch_length", "i", "bytes that follow this field"),
    ("partition_leader_epoch", "i", "epoch of the leader that appended it; -1 when it comes from a producer"),
    ("magic", "b", "version of the format"),
    ("crc", "I", ""),
    ("attributes", "h", ""),
    ("last_offset_delta", "i", "offset of the last record, from base_offset on"),
    ("base_timestamp", "q", ""),
    ("max_timestamp", "q", ""),
    ("producer_id", "q", "-1 when the producer is not idempotent"),
    ("producer_epoch", "h", ""),
    ("base_sequence", "i", "sequence number of the first record; -1 when the producer is not idempotent"),
    ("records_count", "i", "number of records"),
)
HEADER_SIZE: Final = struct.calcsize(">" + "".join(fmt for _, fmt, _ in HEADER_FIELDS))
CRC_FROM: Final = 21
LENGTH_END: Final = 12
SIZE_MAX_BYTES: Final = 64 * 1024 * 1024
RECORDS_SHOWN_MAX: Final = 100_000
CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 7, 8, 16, 32, 64


class _Stop(Exception):  # not an error: it ends the walk of one batch
    """The bytes make no sense from here on."""


def annotate_records(node: Node, buffer: memoryview, topic: str = "") -> None:
    """Add the batches of a records field to its node.

    Args:
        node: the field; its value is a view of the batches.
        buffer: the whole frame.
        topic: whose records they are, to recognise Kafka's own topics.
    """
    if node.value is None:
        return
    assert isinstance(node.value, memoryview)
    at = node.end - node.value.nbytes
    index = 0
    while at < node.end:
        batch = Node(f"batch [{index}]", "record batch", at, node.end)
        node.children.append(batch)
        try:
            at = _batch(batch, buffer[: node.end], at, topic)
        except _Stop as stop:
            batch.notes.append(str(stop))
            return
        batch.end = at
        index += 1


def _batch(batch: Node, buffer: memoryview, at: int, topic: str) -> int:
    if len(buffer) - at < LENGTH_END:
        raise _Stop(f"cut short: {len(buffer) - at} bytes of a batch header; readers ignore such a tail")
    length = int.from_bytes(buffer[at + 8 : at + LENGTH_END], signed=True)
    end = at + LENGTH_END + length
    if len(buffer) - at >= CRC_FROM and buffer[at + 16] < 2:
        raise _Stop(f"old format, magic {buffer[at + 16]}: a message set of Kafka before 0.11, not opened here")
    if length < HEADER_SIZE - LENGTH_END:
        raise _Stop(f"batch_length {length} is shorter than a header")
    if end > len(buffer):
        have = len(buffer) - at
        raise _Stop(f"cut short: the batch has {end - at} bytes, {have} are here; readers ignore such a tail")
    values: dict[str, int] = {}
    position = at
    for name, fmt, words in HEADER_FIELDS:
        size = struct.calcsize(">" + fmt)
        (values[name],) = struct.unpack_from(">" + fmt, buffer, position)
        child = Node(name, f"{'u' if fmt == 'I' else ''}int{8 * size}", position, position + size, values[name])
        child.notes.extend(note for note in (words, *_header_notes(name, values, buffer[at:end])) if note)
        batch.children.append(child)
        position += size
    _body(batch, buffer[position:end], position, values, topic)
    return end


def _header_notes(name: str, values: dict[str, int], batch: memoryview) -> Iterator[str]:
    value = values[name]
    if name == "crc":
        computed = crc32c.crc32c(batch[CRC_FROM:])
        yield "CRC-32C is right" if computed == value else f"CRC-32C is WRONG: the bytes give {computed:#010x}"
    elif name == "attributes":
        yield from _attribute_words(value)
    elif name.endswith("timestamp"):
        horizon = name == "base_timestamp" and values["attributes"] & DELETE_HORIZON
        yield f"{timestamp_words(value)}{' (when tombstones may go)' if horizon else ''}"


def _attribute_words(attributes: int) -> Iterator[str]:
    yield f"compression {_codec_name(attributes)}"
    yield "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime"
    for bit, words in ((TRANSACTIONAL, "transactional"), (CONTROL, "control"), (DELETE_HORIZON, "delete horizon")):
        if attributes & bit:
            yield words


def _codec_name(attributes: int) -> str:
    known = {codec.id: codec.name for codec in CODECS}
    return known.get(attributes & CODEC_BITS, f"unknown ({attributes & CODEC_BITS})")


def _body(batch: Node, data: memoryview, start: int, values: dict[str, int], topic: str) -> None:
    codec = next((codec for codec in CODECS if codec.id == values["attributes"] & CODEC_BITS), None)
    section = Node("records", "records", start, start + len(data), values["records_count"])
    batch.children.append(section)
    if codec is None:
        section.notes.append("compressed with an unknown codec")
        return
    if codec.name != "none":
        try:
            data = memoryview(codec.decompress(data, SIZE_MAX_BYTES))
        except KafkaError as error:
            section.notes.append(f"cannot be decompressed: {error}")
            return
        section.notes.append(
            f"{codec.name}: {section.end - start} bytes hold {len(data)}; offsets below count in those"
        )
        start = 0
    reader = _RecordReader(data, start, values, topic)
    try:
        reader.read_all(section)
    except _Stop as stop:
        section.notes.append(str(stop))


class _RecordReader:
    """Reads records: zigzag varints throughout, -1 for null."""

    def __init__(self, data: memoryview, start: int, values: dict[str, int], topic: str) -> None:
        self.data = data
        self.start = start
        self.values = values
        self.topic = topic
        self.at = 0

    def read_all(self, section: Node) -> None:
        for index in range(min(self.values["records_count"], RECORDS_SHOWN_MAX)):
            record = Node(f"record [{index}]", "record", self.start + self.at, self.start + self.at)
            section.children.append(record)
            try:
                self.record(record)
            finally:
                record.end = self.start + self.at
        if self.values["records_count"] > RECORDS_SHOWN_MAX:
            raise _Stop(f"only the first {RECORDS_SHOWN_MAX} of {self.values['records_count']} records are shown")
        if self.at != len(self.data):
            raise _Stop(f"{len(self.data) - self.at} bytes are left over behind the last record")

    def record(self, record: Node) -> None:
        length = self.varint(record, "length", "bytes of this record")
        end = self.at + length
        if length < 0 or end > len(self.data):
            raise _Stop(f"record declared {length} bytes, {len(self.data) - self.at} are left")
        attributes = Node("attributes", "int8", self.start + self.at, self.start + self.at + 1, self.data[self.at])
        record.children.append(attributes)
        self.at += 1
        stamp = self.varint(record, "timestamp_delta", "")
        time_ms = self.values["base_timestamp"] + stamp
        if self.values["attributes"] & LOG_APPEND_TIME:
            time_ms = self.values["max_timestamp"]
        record.children[-1].notes.append(f"timestamp {time_ms} {timestamp_words(time_ms)}".rstrip())
        offset = self.varint(record, "offset_delta", "")
        record.children[-1].notes.append(f"offset {self.values['base_offset'] + offset}")
        record.value = f"offset {self.values['base_offset'] + offset}"
        key = self.blob(record, "key")
        value = self.blob(record, "value")
        count = self.varint(record, "headers_count", "")
        for index in range(count):
            self.header(record, index)
        if self.at != end:
            raise _Stop(f"record says {length} bytes, its fields have {length + self.at - end}")
        self.open_known(record, key, value)

    def header(self, record: Node, index: int) -> None:
        node = Node(f"header [{index}]", "record header", self.start + self.at, self.start + self.at)
        record.children.append(node)
        self.blob(node, "key", text=True)
        self.blob(node, "value")
        node.end = self.start + self.at

    def open_known(self, record: Node, key: Node, value: Node) -> None:
        if self.values["attributes"] & CONTROL:
            annotate_control(key, value, self.data, self.start)
        elif self.topic:
            annotate_internal(self.topic, key, value, self.data, self.start)

    def varint(self, parent: Node, name: str, words: str) -> int:
        start, shift, raw = self.at, 0, 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise _Stop(f"the data ends within {name}")
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        value = (raw >> 1) ^ -(raw & 1)
        node = Node(name, "varint", self.start + start, self.start + self.at, value, [words] if words else [])
        parent.children.append(node)
        return value

    def blob(self, parent: Node, name: str, *, text: bool = False) -> Node:
        start = self.at
        holder = Node("", "", 0, 0)
        size = self.varint(holder, f"the length of {name}", "")
        if size > len(self.data) - self.at:
            raise _Stop(f"{name} declared {size} bytes, {len(self.data) - self.at} are left")
        node = Node(name, "string" if text else "bytes", self.start + start, self.start + self.at + max(size, 0))
        node.notes.append("length -1 means null" if size < 0 else f"length {size}")
        if size >= 0:
            piece = bytes(self.data[self.at : self.at + size])
            node.value = piece.decode("utf-8", "replace") if text else piece
            self.at += size
        parent.children.append(node)
        return node
