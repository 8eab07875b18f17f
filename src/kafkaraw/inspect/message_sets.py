"""Open message sets, the formats before Kafka 0.11 (magic 0 and 1), for the annotated view.

A message set is messages one after the other. A compressed message holds a message set in its value; offsets of nodes
below it count in the decompressed data. Start at `annotate_message_set`.

Source: KIP-31, KIP-32; org.apache.kafka.common.record.LegacyRecord.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from kafkaraw.errors import BatchTooLargeError, KafkaError
from kafkaraw.inspect.records_within import NOT_OPENED, Budget, Stop
from kafkaraw.protocol.annotate import Node
from kafkaraw.records.compression import CODECS
from kafkaraw.records.header import CODEC_MASK, LENGTH_PREFIX_SIZE, TIMESTAMP_TYPE_BIT
from kafkaraw.records.legacy import with_right_lz4_checksum

LZ4: Final = 3
ZSTD: Final = 4
CRC_FROM: Final = 16  # the magic byte: the checksum covers all that follows it
HEADER: Final = (
    ("offset", "q", "offset of the message; within a compressed one, counted from the first"),
    ("message_size", "i", "bytes of the message that follow this field"),
    ("crc", "I", ""),
    ("magic", "b", "version of the format"),
    ("attributes", "b", ""),
)
MESSAGE_SIZE_MIN: Final = 14


def annotate_message_set(message: Node, buffer: memoryview, at: int, budget: Budget, *, nested: bool = False) -> int:
    """Read one message into its node.

    Returns:
        The position after it.

    Raises:
        Stop: it is invalid, or cut short.
    """
    left = len(buffer) - at
    if left < LENGTH_PREFIX_SIZE:
        raise Stop(f"cut short: {left} bytes of a message; readers ignore such a tail", harmless=not nested)
    size = int.from_bytes(buffer[at + 8 : at + LENGTH_PREFIX_SIZE], signed=True)
    end = at + LENGTH_PREFIX_SIZE + size
    if size < MESSAGE_SIZE_MIN:
        raise Stop(f"message_size {size} is shorter than a message")
    if end > len(buffer):
        raise Stop(f"cut short: the message has {end - at} bytes, {left} are here", harmless=not nested)
    if budget.records_left == 0:
        raise Stop("this and all that follows is not shown", harmless=True)
    budget.records_left -= 1
    _Message(message, buffer[:end], at, budget, nested).read()
    message.end = end
    return end


class _Message:
    def __init__(self, node: Node, buffer: memoryview, at: int, budget: Budget, nested: bool) -> None:
        self.node = node
        self.buffer = buffer
        self.start = at
        self.at = at
        self.budget = budget
        self.nested = nested

    def read(self) -> None:
        for name, fmt, words in HEADER:
            self.number(name, fmt, words)
        offset, _, crc, magic, attributes = self.node.children
        self.node.value = f"offset {offset.value}"
        computed = zlib.crc32(self.buffer[self.start + CRC_FROM :])
        if computed == crc.value:
            crc.notes.append("CRC-32 of all that follows: right")
        else:
            crc.problem = f"CRC-32 of all that follows is wrong: the bytes give {computed}"
        flags = attributes.value
        assert isinstance(flags, int)
        codec = flags & CODEC_MASK
        attributes.notes.append(f"compression {CODECS[codec].name if codec < ZSTD else f'unknown ({codec})'}")
        if magic.value == 1:
            attributes.notes.append("LogAppendTime" if flags & TIMESTAMP_TYPE_BIT else "CreateTime")
            self.number("timestamp", "q", "")
        self.blob("key")
        value = self.blob("value")
        if self.at != len(self.buffer):
            raise Stop(f"{len(self.buffer) - self.at} bytes are left over in the message")
        if codec and isinstance(value.value, bytes):
            right = with_right_lz4_checksum(value.value) if (codec, magic.value) == (LZ4, 0) else value.value
            self.open(value, right, codec)

    def number(self, name: str, fmt: str, words: str) -> None:
        size = struct.calcsize(">" + fmt)
        if size > len(self.buffer) - self.at:
            raise Stop(f"the message ends within {name}")
        (value,) = struct.unpack_from(">" + fmt, self.buffer, self.at)
        kind = f"{'u' if fmt == 'I' else ''}int{8 * size}"
        self.node.children.append(Node(name, kind, self.at, self.at + size, value, [words] if words else []))
        self.at += size

    def blob(self, name: str) -> Node:
        start = self.at
        left = len(self.buffer) - self.at - 4
        size = int.from_bytes(self.buffer[self.at : self.at + 4], signed=True)
        if left < 0 or size < -1 or size > left:
            raise Stop(f"{name} declared {size} bytes, {max(left, 0)} are left")
        self.at += 4
        node = Node(name, "bytes", start, self.at + max(size, 0))
        node.notes.append("length -1 means null" if size < 0 else f"length {size}")
        if size >= 0:
            node.value = bytes(self.buffer[self.at : self.at + size])
            self.at += size
        self.node.children.append(node)
        return node

    def open(self, value: Node, compressed: bytes, number: int) -> None:
        """Read the message set inside a compressed message; there is one level of it, never more."""
        if self.nested or number >= ZSTD:
            value.problem = (
                "compressed within a compressed message" if self.nested else f"codec {number} does not exist"
            )
            return
        try:
            inner = memoryview(CODECS[number].decompress(compressed, self.budget.bytes_left))
        except BatchTooLargeError:
            value.notes.append(NOT_OPENED)
            return
        except KafkaError as error:
            value.problem = f"cannot be decompressed: {error}"
            return
        self.budget.bytes_left -= len(inner)
        value.inner = inner
        value.notes.append(f"{len(compressed)} bytes of {CODECS[number].name} hold {len(inner)}; ~ counts in those")
        at = 0
        while at < len(inner):
            message = Node(f"message [{len(value.children)}]", "message", at, len(inner))
            value.children.append(message)
            try:
                at = annotate_message_set(message, inner, at, self.budget, nested=True)
            except Stop as stop:
                stop.put_on(message)
                return
