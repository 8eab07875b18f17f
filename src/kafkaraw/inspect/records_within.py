"""Read the records within a batch for the annotated view: zigzag varints throughout, -1 for null.

This module must not read batch headers or decompress. Start at `RecordReader.read_all`.

Source: KIP-98; org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkaraw.errors import CorruptBatchError
from kafkaraw.inspect.embedded import annotate_control, annotate_internal
from kafkaraw.inspect.meaning import timestamp_words
from kafkaraw.protocol.annotate import Node
from kafkaraw.records.header import CONTROL_BIT, TIMESTAMP_TYPE_BIT
from kafkaraw.records.varint import encode_varint, read_raw_varint

DECOMPRESSED_SIZE_MAX: Final = 64 * 1024 * 1024
RECORDS_SHOWN_MAX: Final = 50_000
NOT_OPENED: Final = f"not opened: all batches of a frame together may hold {DECOMPRESSED_SIZE_MAX} bytes"


class Stop(Exception):  # not an error: it ends the walk of one batch
    """The bytes of a batch are invalid from here on, or end.

    Args:
        words: why.
        harmless: whether this is no error, as in a batch that a broker cut short on purpose.
    """

    def __init__(self, words: str, *, harmless: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.harmless = harmless

    def put_on(self, node: Node) -> None:
        """Put the words on a node."""
        if self.harmless:
            node.notes.append(self.words)
        else:
            node.problem = self.words


@dataclass(slots=True)
class Budget:
    """Limits on decompression and reading in one frame: hostile batches hold far more bytes than they take."""

    bytes_left: int = DECOMPRESSED_SIZE_MAX
    records_left: int = RECORDS_SHOWN_MAX


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """The facts of a batch that its records depend on."""

    base_offset: int
    base_timestamp: int
    max_timestamp: int
    attributes: int

    @classmethod
    def of(cls, values: dict[str, int]) -> BatchFacts:
        """Take the facts from the header's values by name."""
        return cls(*(values[name] for name in ("base_offset", "base_timestamp", "max_timestamp", "attributes")))

    def timestamp(self, delta: int) -> int:
        """Return the timestamp of a record: the batch's own under LogAppendTime."""
        return self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else self.base_timestamp + delta


class RecordReader:
    """Reads records.

    Args:
        data: the records, not compressed.
        start: what to add to positions in `data` for the offsets of nodes.
        facts: about the batch.
        topic: the topic of the records.
    """

    def __init__(self, data: memoryview, start: int, facts: BatchFacts, topic: str) -> None:
        self.data = data
        self.start = start
        self.facts = facts
        self.topic = topic
        self.at: int = 0

    def read_all(self, section: Node, count: int, budget: Budget, *, is_whole: bool) -> None:
        """Read `count` records into a section, as far as the budget allows.

        Raises:
            Stop: they are invalid, or there are more than the budget allows.
        """
        for index in range(count):
            if budget.records_left == 0:
                raise Stop(f"{count - index} more records are not shown", harmless=True)
            if self.at == len(self.data):
                raise Stop(f"{count} records were declared, {index} are here", harmless=not is_whole)
            budget.records_left -= 1
            record = self.open(section, f"record [{index}]", "record")
            try:
                self.record(record)
            except Stop as stop:
                self.close(record)
                stop.harmless = not is_whole
                stop.put_on(record)
                return
            record.end = self.start + self.at
        if self.at != len(self.data):
            raise Stop(f"{len(self.data) - self.at} bytes are left over behind the last record")

    def open(self, parent: Node, name: str, kind: str) -> Node:
        """Begin a node at the current byte."""
        node = Node(name, kind, self.start + self.at, self.start + self.at)
        parent.children.append(node)
        return node

    def close(self, record: Node) -> None:
        """After a stop, end every open node where the reading did."""
        node: Node | None = record
        while node is not None:
            node.end = max(node.end, self.start + self.at)
            node = node.children[-1] if node.children else None

    def record(self, record: Node) -> None:
        """Read one record."""
        length = self.varint(record, "length", "bytes of this record that follow")
        end = self.at + length
        if length < 1 or end > len(self.data):
            raise Stop(f"the record declared {length} bytes, {len(self.data) - self.at} are left")
        attributes = self.open(record, "attributes", "int8")
        attributes.value = self.data[self.at]
        attributes.notes.append("not used so far")
        self.at += 1
        attributes.end = self.start + self.at
        time_ms = self.facts.timestamp(self.varint(record, "timestamp_delta"))
        record.children[-1].notes.append(f"timestamp {time_ms} {timestamp_words(time_ms)}".rstrip())
        offset = self.facts.base_offset + self.varint(record, "offset_delta")
        record.children[-1].notes.append(f"offset {offset}")
        record.value = f"offset {offset}"
        key = self.blob(record, "key", "bytes")
        value = self.blob(record, "value", "bytes")
        self.headers(record)
        if self.at != end:
            raise Stop(f"the record declared {length} bytes, its fields have {length + self.at - end}")
        if self.facts.attributes & CONTROL_BIT:
            annotate_control(key, value)
        elif self.topic:
            annotate_internal(self.topic, key, value)

    def headers(self, record: Node) -> None:
        """Read the headers of a record."""
        count = self.varint(record, "headers_count", "headers of this record")
        if count < 0:
            raise Stop(f"headers_count is {count}")
        for index in range(count):
            node = self.open(record, f"header [{index}]", "record header")
            self.blob(node, "key", "string")
            self.blob(node, "value", "bytes")
            node.end = self.start + self.at

    def varint(self, parent: Node, name: str, words: str = "") -> int:
        """Read a zigzag varint."""
        node = self.open(parent, name, "varint")
        value = self.number(node, name)
        if words:
            node.notes.append(words)
        node.value = value
        node.end = self.start + self.at
        return value

    def number(self, node: Node, name: str) -> int:
        """Read a varint without a node of its own; note on `node` if it is longer than necessary."""
        before = self.at
        try:
            raw, self.at = read_raw_varint(self.data, self.at)  # type: ignore[arg-type] # indexing is all it does
        except IndexError:
            raise Stop(f"the bytes end within {name}") from None
        except CorruptBatchError as error:
            raise Stop(f"{name}: {error.message}") from None
        value = (raw >> 1) ^ -(raw & 1)
        if self.at - before > len(encode_varint(value)):
            node.notes.append(f"not canonical: {self.at - before} bytes, {len(encode_varint(value))} do")
        return value

    def blob(self, parent: Node, name: str, kind: str) -> Node:
        """Read a length and that many bytes."""
        node = self.open(parent, name, kind)
        size = self.number(node, f"the length of {name}")
        left = len(self.data) - self.at
        if size < -1 or size > left:
            raise Stop(f"{name} declared {size} bytes, {left} are left")
        if size < 0:
            node.notes.append("length -1 means null")
        else:
            node.notes.append(f"length {size}")
            piece = bytes(self.data[self.at : self.at + size])
            node.value = piece.decode("utf-8", "replace") if kind == "string" else piece
            self.at += size
        node.end = self.start + self.at
        return node
