"""Batches that no sane producer sends, and some that it does: what two brokers are asked to append, to be compared.

A `Question` is a few Produce requests to a partition of its own, in a topic with certain settings; start at
`QUESTIONS`. Batches are made in plain view: `record` makes the payload, `batch` the header around it, with any field as
one likes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crc32c import crc32c

from kafkaraw.records import codec_by_name

VERSION: Final = 12
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "both": {"cleanup.policy": "compact,delete"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recent": {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"},
    "small": {"max.message.bytes": "500"},
    "gzip": {"compression.type": "gzip"},
    "lz4": {"compression.type": "lz4"},
    "snappy": {"compression.type": "snappy"},
    "zstd": {"compression.type": "zstd", "compression.zstd.level": "7"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip-stamped": {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
    "gzip-recent": {"compression.type": "gzip", "message.timestamp.after.max.ms": "60000"},
    "gzip-compacted": {"compression.type": "gzip", "cleanup.policy": "compact"},
    "small-uncompressed": {"compression.type": "uncompressed", "max.message.bytes": "500"},
}
"""Settings by topic."""
STAMPED: Final = frozenset(name for name, configs in TOPICS.items() if "message.timestamp.type" in configs)
RECOMPRESSED: Final = frozenset(name for name, configs in TOPICS.items() if "compression.type" in configs)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of both brokers.

    Attributes:
        name: what is odd about it.
        topic: one of `TOPICS`.
        sent: the `records` of each request, in order; made from the wall clock's time in milliseconds.
        version: of Produce.
        by_records: whether only reading the records tells, which a broker does that was asked to.
    """

    name: str
    topic: str
    sent: Callable[[int], Sequence[bytes]]
    version: int = VERSION
    by_records: bool = False


def varint(number: int) -> bytes:
    """A number as a zigzag varint."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(data: bytes | None) -> bytes:
    """Bytes with their length before them."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    at: int = 0,
    *,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    time: int = 0,
    headers: bytes = b"\0",
    attributes: int = 0,
    tail: bytes = b"",
    length: int | None = None,
) -> bytes:
    """One record; `length` says another one than it has."""
    body = bytes([attributes]) + varint(time) + varint(at) + field(key) + field(value) + headers + tail
    return varint(len(body) if length is None else length) + body


THREE: Final = record(0) + record(1) + record(2)


def batch(payload: bytes = THREE, now: int = 0, *, count: int = 3, codec: str = "none", **fields: Any) -> bytes:
    """A batch with the right length and checksum, unless `length` or `crc` says another.

    Args:
        payload: the records, uncompressed.
        now: base and highest timestamp.
        count: of the records.
        codec: name of the compression.
        fields: of the header, by name.
    """
    coded = codec_by_name(codec)
    packed = payload if coded.id == 0 else bytes(coded.compress(memoryview(payload), None))
    values: dict[str, int] = {
        "base_offset": 0,
        "length": len(packed) + HEADER.size - 12,
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": coded.id,
        "last_offset_delta": count - 1,
        "base_timestamp": now,
        "max_timestamp": now,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": count,
    }
    values.update(fields)
    whole = bytearray(HEADER.pack(*values.values()) + packed)
    if "crc" not in fields:
        struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def old_message(magic: int, now: int) -> bytes:
    """A message from before Kafka 0.11, whole and right."""
    import zlib

    time = struct.pack(">q", now) if magic else b""
    body = struct.pack(">bb", magic, 0) + time + struct.pack(">i3si5s", 3, b"key", 5, b"value")
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def _one(make: Callable[[int], bytes]) -> Callable[[int], Sequence[bytes]]:
    return lambda now: (make(now),)


def _fields(**fields: Any) -> Callable[[int], Sequence[bytes]]:
    """One batch of three records with these fields."""
    return lambda now: (batch(now=now, **fields),)


def _payload(payload: bytes, count: int = 3, **fields: Any) -> Callable[[int], Sequence[bytes]]:
    return lambda now: (batch(payload, now, count=count, **fields),)


def _sequences(*sent: tuple[int, int] | tuple[int, int, int], producer_id: int) -> Callable[[int], Sequence[bytes]]:
    """Batches of one producer: epoch, first sequence, and how many records when not three."""

    def make(now: int) -> Sequence[bytes]:
        made = []
        for epoch, sequence, *rest in sent:
            count = rest[0] if rest else 3
            payload = b"".join(record(at) for at in range(count))
            identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
            made.append(batch(payload, now, count=count, **identity))
        return made

    return make


LONG_AGO: Final = -86_400_000
KEYLESS: Final = record(0) + record(1, key=None) + record(2)
ALL_KEYLESS: Final = b"".join(record(at, key=None) for at in range(5))
LARGEST: Final = 2**31 - 1

_FRAMES: Final = (
    Question("empty", "plain", _one(lambda now: b"")),
    Question("one byte", "plain", _one(lambda now: b"\0")),
    Question("the length and no more", "plain", _one(lambda now: batch(now=now)[:12])),
    Question("up to the magic", "plain", _one(lambda now: batch(now=now)[:16])),
    Question("half a header", "plain", _one(lambda now: batch(now=now)[:40])),
    Question("a header without records", "plain", _one(lambda now: batch(now=now)[:61])),
    Question("a batch cut short", "plain", _one(lambda now: batch(now=now)[:-1])),
    Question("a batch and rubbish", "plain", _one(lambda now: batch(now=now) + b"rubbish")),
    Question("a batch and more rubbish", "plain", _one(lambda now: batch(now=now) + b"rubbish" * 10)),
    Question("a batch and zeros", "plain", _one(lambda now: batch(now=now) + bytes(100))),
    Question("a batch and half of one", "plain", _one(lambda now: batch(now=now) + batch(now=now)[:70])),
    Question("a batch and one of magic 1", "plain", _one(lambda now: batch(now=now) + old_message(1, now))),
    Question("two batches", "plain", _one(lambda now: batch(now=now) * 2)),
    Question("length 0", "plain", _fields(length=0)),
    Question("length 13", "plain", _fields(length=13)),
    Question("length 14", "plain", _fields(length=14)),
    Question("length 48", "plain", _fields(length=48)),
    Question("length 49", "plain", _fields(length=49)),
    Question("length -1", "plain", _fields(length=-1)),
    Question("length of 2 GiB", "plain", _fields(length=LARGEST)),
    Question("magic 0", "plain", _one(lambda now: old_message(0, now))),
    Question("magic 1", "plain", _one(lambda now: old_message(1, now))),
    Question("magic 1 said of magic 2", "plain", _fields(magic=1)),
    Question("magic 3", "plain", _fields(magic=3)),
    Question("magic -1", "plain", _fields(magic=-1)),
)
_HEADERS: Final = (
    Question("nothing odd", "plain", _fields()),
    Question("nothing odd, Produce 3", "plain", _fields(), 3),
    Question("nothing odd, Produce 7", "plain", _fields(), 7),
    Question("wrong checksum", "plain", _fields(crc=1)),
    Question("base offset 5", "plain", _fields(base_offset=5)),
    Question("base offset -1", "plain", _fields(base_offset=-1)),
    Question("a leader epoch of its own", "plain", _fields(leader_epoch=77)),
    Question("last offset too far", "plain", _fields(last_offset_delta=3)),
    Question("last offset too near", "plain", _fields(last_offset_delta=1)),
    Question("last offset -1", "plain", _fields(last_offset_delta=-1)),
    Question("last offset -2", "plain", _fields(last_offset_delta=-2)),
    Question("no records", "plain", _payload(b"", 0)),
    Question("no records, last offset 0", "plain", _payload(b"", 0, last_offset_delta=0)),
    Question("count -1", "plain", _fields(count=-1)),
    Question("count -1, last offset 2", "plain", _payload(THREE, -1, last_offset_delta=2)),
    Question("a control batch", "plain", _fields(attributes=0x20)),
    Question("a control batch of a transaction", "plain", _fields(attributes=0x30)),
    Question("of a transaction, without producer", "plain", _fields(attributes=0x10)),
    Question("delete horizon", "plain", _fields(attributes=0x40)),
    Question("attributes nobody knows", "plain", _fields(attributes=0x80)),
    Question("all high attributes", "plain", _fields(attributes=-256)),
    Question("stamped by the producer", "plain", _fields(attributes=0x08)),
    Question("stamped by the producer, stamped topic", "stamped", _fields(attributes=0x08)),
    Question("stamped by the producer, compressed", "plain", _fields(attributes=0x09, codec="gzip")),
    Question("stamped by the producer, other codec", "gzip", _fields(attributes=0x08)),
    Question("stamped by the producer, stamped topic, compressed", "stamped", _fields(attributes=0x09, codec="gzip")),
    Question("stamped by the producer at -1", "plain", _fields(attributes=0x08, base_timestamp=-1, max_timestamp=-1)),
    Question("codec 5", "plain", _fields(attributes=5)),
    Question("codec 7", "plain", _fields(attributes=7)),
    Question("codec 7, Produce 3", "plain", _fields(attributes=7), 3),
    Question("codec 5 and wrong checksum", "plain", _fields(attributes=5, crc=1)),
    Question("zstd, Produce 6", "plain", _fields(codec="zstd"), 6),
    Question("zstd, Produce 7", "plain", _fields(codec="zstd"), 7),
    Question("zstd, Produce 3, two batches", "plain", _one(lambda now: batch(now=now, codec="zstd") * 2), 3),
    Question("base timestamp -1", "plain", _fields(base_timestamp=-1, max_timestamp=-1)),
    Question("no sequence", "plain", _fields(producer_id=501, producer_epoch=0)),
    Question("producer epoch -1", "plain", _fields(producer_id=502, base_sequence=0)),
    Question("sequence without producer", "plain", _fields(base_sequence=5)),
    Question("epoch without producer", "plain", _fields(producer_epoch=5)),
    Question("producer -2", "plain", _fields(producer_id=-2, producer_epoch=0, base_sequence=0)),
    Question("base offset and checksum, base offset first", "plain", _fields(base_offset=5, crc=1)),
    Question("too large and wrong checksum", "small", _payload(record(value=bytes(500)), 1, crc=1)),
)
_SIZES: Final = (
    Question("499 bytes", "small", _payload(record(value=bytes(425)), 1)),
    Question("500 bytes", "small", _payload(record(value=bytes(426)), 1)),
    Question("501 bytes", "small", _payload(record(value=bytes(427)), 1)),
    Question("large, compressed to little", "small", _payload(record(value=bytes(5000)), 1, codec="gzip")),
    Question(
        "large once it is uncompressed", "small-uncompressed", _payload(record(value=bytes(5000)), 1, codec="gzip")
    ),
)
_RECORDS: Final = (
    Question("a record without key", "compacted", _payload(KEYLESS)),
    Question("a record without key, Produce 7", "compacted", _payload(KEYLESS), 7),
    Question("a record without key, compacted and deleted", "both", _payload(KEYLESS)),
    Question("a record without key, compressed", "compacted", _payload(KEYLESS, codec="lz4")),
    Question("a record without key, recompressed", "gzip-compacted", _payload(KEYLESS)),
    Question("five records without key", "compacted", _payload(ALL_KEYLESS, 5)),
    Question("an empty key", "compacted", _payload(record(key=b""), 1)),
    Question("a tombstone", "compacted", _payload(record(value=None), 1)),
    Question("rubbish in a compacted topic", "compacted", _payload(b"rubbish" * 3)),
    Question("too few records in a compacted topic", "compacted", _payload(record(0) + record(1))),
    Question("too many records in a compacted topic", "compacted", _payload(THREE + record(3))),
    Question("rubbish as gzip in a compacted topic", "compacted", _fields(attributes=1)),
    Question("a record too old", "recent", _payload(record(0) + record(1, time=LONG_AGO) + record(2))),
    Question(
        "a record too new", "plain", _payload(record(0) + record(1) + record(2, time=10_000_000)), by_records=True
    ),
    Question(
        "a record too new, as the header says",
        "plain",
        lambda now: (batch(record(0) + record(1) + record(2, time=10**7), now, max_timestamp=now + 10**7),),
    ),
    Question("all records too old", "recent", lambda now: (batch(now=now + LONG_AGO),)),
    Question("all records too new", "recent", lambda now: (batch(now=now - LONG_AGO),)),
    Question("all records too new, compressed", "recent", lambda now: (batch(now=now - LONG_AGO, codec="zstd"),)),
    Question("all records too new, recompressed", "gzip-recent", lambda now: (batch(now=now - LONG_AGO),)),
    Question("too new, stamped topic", "stamped", lambda now: (batch(now=now - LONG_AGO),)),
    Question("too new and without key", "gzip-compacted", lambda now: (batch(KEYLESS, now - LONG_AGO),)),
    Question(
        "one too new, one without key", "compacted", _payload(record(0, key=None) + record(1, time=10**7) + record(2))
    ),
    Question("records without timestamp", "recent", _fields(base_timestamp=-1, max_timestamp=-1)),
    Question("an old record, no bound", "plain", lambda now: (batch(now=1000),)),
    Question("highest timestamp told too low", "recent", _payload(record(0) + record(1, time=900) + record(2))),
    Question(
        "highest timestamp told too high",
        "recent",
        lambda now: (batch(record(0), now, count=1, max_timestamp=now + 5),),
    ),
    Question(
        "highest timestamp told too high, no bound",
        "plain",
        lambda now: (batch(record(0), now, count=1, max_timestamp=now + 5),),
        by_records=True,
    ),
    Question(
        "highest timestamp told too high, compressed",
        "recent",
        lambda now: (batch(record(0), now, count=1, max_timestamp=now + 5, codec="gzip"),),
    ),
)
_INNER: Final = (
    Question("rubbish", "plain", _payload(b"rubbish" * 3), by_records=True),
    Question("rubbish as gzip", "plain", _fields(attributes=1), by_records=True),
    Question("rubbish as snappy", "plain", _fields(attributes=2), by_records=True),
    Question("rubbish as lz4", "plain", _fields(attributes=3), by_records=True),
    Question("rubbish as zstd", "plain", _fields(attributes=4), by_records=True),
    Question("rubbish to be recompressed", "gzip", _payload(b"rubbish" * 3)),
    Question("rubbish as zstd to be recompressed", "gzip", _fields(attributes=4)),
    Question("rubbish in gzip", "plain", _payload(b"rubbish" * 3, codec="gzip"), by_records=True),
    Question("too few records", "plain", _payload(record(0) + record(1)), by_records=True),
    Question("too many records", "plain", _payload(THREE + record(3)), by_records=True),
    Question("too few records, compressed", "plain", _payload(record(0) + record(1), codec="lz4"), by_records=True),
    Question("too many records, compressed", "plain", _payload(THREE + record(3), codec="lz4"), by_records=True),
    Question("a record that is too long", "plain", _payload(record(length=100), 1), by_records=True),
    Question("a record that is too short", "plain", _payload(record(length=5), 1), by_records=True),
    Question("a record of length -1", "plain", _payload(record(length=-1), 1), by_records=True),
    Question("a record of 2 GiB", "plain", _payload(record(length=LARGEST), 1), by_records=True),
    Question("bytes after a record", "plain", _payload(record(tail=b"tail"), 1), by_records=True),
    Question("bytes after the records", "plain", _payload(record() + b"\0", 1), by_records=True),
    Question("attributes of a record", "plain", _payload(record(attributes=0x41), 1), by_records=True),
    Question("offset deltas that repeat", "plain", _payload(record(0) + record(0) + record(0)), by_records=True),
    Question("offset deltas with a gap", "plain", _payload(record(0) + record(5) + record(2)), by_records=True),
    Question("an offset delta below 0", "plain", _payload(record(-1), 1), by_records=True),
    Question(
        "offset deltas that repeat, compressed",
        "plain",
        _payload(record(0) + record(0) + record(0), codec="gzip"),
        by_records=True,
    ),
    Question(
        "offset deltas from 7, compressed",
        "plain",
        _payload(record(7) + record(8) + record(9), codec="gzip"),
        by_records=True,
    ),
    Question("headers -1", "plain", _payload(record(headers=varint(-1)), 1), by_records=True),
    Question("more headers than there are", "plain", _payload(record(headers=varint(9)), 1), by_records=True),
    Question("a header without key", "plain", _payload(record(headers=varint(1) + b"\x01\x01"), 1), by_records=True),
    Question(
        "a header with an empty key", "plain", _payload(record(headers=varint(1) + b"\0\x01"), 1), by_records=True
    ),
    Question(
        "a header key that is not UTF-8",
        "plain",
        _payload(record(headers=varint(1) + field(b"\xff") + field(b"")), 1),
        by_records=True,
    ),
)
_RECODED: Final = tuple(
    Question(f"{source} into {topic}", topic, _fields(codec=source))
    for topic in ("gzip", "lz4", "snappy", "zstd", "uncompressed")
    for source in ("none", "gzip", "lz4", "snappy", "zstd")
)
_CODECS: Final = (
    Question("into zstd, Produce 3", "zstd", _fields(), 3),
    Question("recompressed and stamped", "gzip-stamped", _payload(record(0) + record(1, time=5) + record(2))),
    Question("kept and stamped", "gzip-stamped", _payload(record(0) + record(1, time=5), 2, codec="gzip")),
    Question(
        "recompressed with the times they have", "gzip", _payload(record(0, time=9) + record(1, time=-5) + record(2))
    ),
    Question(
        "recompressed with headers",
        "gzip",
        _payload(record(headers=varint(2) + field(b"a") + field(None) + field(b"a") + field(b"\xff")), 1),
    ),
    Question("recompressed with offset deltas that repeat", "gzip", _payload(record(0) + record(0) + record(0))),
    Question("recompressed, idempotent", "gzip", _sequences((3, 0), (3, 3), (3, 3), producer_id=601)),
    Question("timestamps before 1970", "plain", lambda now: (batch(now=-17),), by_records=True),
    Question(
        "timestamps before 1970, compressed", "plain", lambda now: (batch(now=-17, codec="lz4"),), by_records=True
    ),
    Question("timestamps before 1970, recompressed", "gzip", lambda now: (batch(now=-17),)),
    Question("some timestamps before 1970", "plain", _payload(record(0) + record(1, time=-(2**42)) + record(2))),
    Question("recompressed, delete horizon", "gzip", _fields(attributes=0x40)),
    Question("recompressed, unknown attributes", "gzip", _fields(attributes=0x80)),
)
_SEQUENCES: Final = (
    Question("a producer that starts at 5", "plain", _sequences((0, 5), (0, 8), producer_id=701)),
    Question("a batch sent twice", "plain", _sequences((0, 0), (0, 0), (0, 3), producer_id=702)),
    Question(
        "the fifth batch back", "plain", _sequences((0, 0), (0, 3), (0, 6), (0, 9), (0, 12), (0, 0), producer_id=703)
    ),
    Question(
        "the sixth batch back",
        "plain",
        _sequences((0, 0), (0, 3), (0, 6), (0, 9), (0, 12), (0, 15), (0, 0), producer_id=704),
    ),
    Question("a gap", "plain", _sequences((0, 0), (0, 4), (0, 3), producer_id=705)),
    Question("fewer records the second time", "plain", _sequences((0, 0), (0, 0, 2), producer_id=706)),
    Question("more records the second time", "plain", _sequences((0, 0), (0, 0, 5), producer_id=707)),
    Question("a new epoch", "plain", _sequences((0, 0), (1, 0), (1, 3), (0, 3), producer_id=708)),
    Question("a new epoch that starts at 3", "plain", _sequences((0, 0), (1, 3), producer_id=709)),
    Question("a repetition of the last epoch", "plain", _sequences((0, 0), (1, 0), (0, 0), producer_id=710)),
    Question(
        "sequences that wrap",
        "plain",
        _sequences((0, LARGEST - 4), (0, LARGEST - 1), (0, 1), (0, LARGEST - 1), producer_id=711),
    ),
    Question(
        "sequences that wrap after a batch", "plain", _sequences((0, LARGEST - 2), (0, 0), (0, 0), producer_id=712)
    ),
    Question("stamped, sent twice", "stamped", _sequences((0, 0), (0, 0), producer_id=713)),
    Question("epoch -1, then 0", "plain", _sequences((-1, 0), (0, 0), (0, 3), producer_id=714)),
)

QUESTIONS: Final = (*_FRAMES, *_HEADERS, *_SIZES, *_RECORDS, *_INNER, *_RECODED, *_CODECS, *_SEQUENCES)
