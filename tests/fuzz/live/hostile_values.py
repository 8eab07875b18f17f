"""Messages that are valid in form and hostile in what they say, made from the declarations.

`plausible` fills in a message as a client would, by the names of its fields; `mutate` replaces some of its values with
hostile ones, in place: long and empty arrays, the same element many times, long and odd strings, NaN, the ends of
integers, damaged and bomb batches. `spoiled` damages the encoded bytes. All of it from a `random.Random`.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, StructOf, spec_of
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, ZERO_UUID, Primitive, Uuid
from kafkaraw.records import codec_by_name, encode_batch
from kafkaraw.records.header import HEADER_SIZE, stamp_crc
from tests.records.test_legacy import message as old_message
from tests.records.test_legacy import wrapper as old_wrapper

FORGED = "FORGED-LINE"
"""No line of a log may begin with it: it follows a line break in hostile strings."""
ODD_STRINGS = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b\\c:d*?",
    f"x\n{FORGED} ERROR \x1b[31mred\x1b[0m",
    f"x\r\n{FORGED}",
    "nul\0nul",
    "\u202eevil",
    "\ufeff",
    "💥" * 60,
    "e\u0301" * 50,
    "__consumer_offsets",
    "__transaction_state",
    "%s%n{0}{self}",
    "a" * 249,
    "a" * 250,
    "a.b_c",
    "a_b.c",
    "-1",
    "*",
)
REGEXES = (
    ".*",
    "(.|.)*,",
    "(a+)+$",
    "(.*)*x",
    "(?:(?:.|.)*)*,",
    "[",
    "(?P<n>.)(?P=n)",
    "((((((.*)*)*)*)*)*)*z",
    "(" * 500 + ")" * 500,
    "x{1000}{1000}",
    "\\p{Greek}*",
    "evil.*|" * 300,
)
FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, -1.0)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LENGTHS = (300, 300, 300, 1_000, 2_000)
"""Of long arrays. Longer ones are `very-long-arrays`, which is not among the attacks of a session (broker_attacks)."""
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_NAMES_OF_TOPICS = {"topic", "name", "topic_name", "topic_names", "topics", "resource_name", "subscribed_topic_names"}
_NAMES_OF_GROUPS = {"group_id", "group", "groups", "groups_names", "group_ids", "key", "coordinator_keys"}
_SMALL = {
    "replica_id": (-1,),
    "timeout_ms": (0, 50, 500),
    "max_wait_ms": (0, 10, 200),
    "session_timeout_ms": (6_000, 10_000),
    "rebalance_timeout_ms": (1_000, 6_000),
    "transaction_timeout_ms": (1_000, 60_000),
    "replication_factor": (1, -1),
    "num_partitions": (1, 2, -1),
    "count": (2, 3),
    "acks": (1, -1, 0),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20,),
    "partition_max_bytes": (1 << 16, 1 << 20),
    "member_epoch": (0, -1, -2, 1),
    "generation_id": (-1, 0, 1),
    "producer_epoch": (0, 1, -1),
    "resource_type": (2, 3, 4),
    "current_leader_epoch": (-1, 0),
    "leader_epoch": (-1, 0),
    "timestamp": (-1, -2, -3, 0),
}  # fmt: skip


@dataclass
class Names:
    """What a hostile client knows of the cluster: it puts these into its requests, and learns more."""

    topics: list[str] = field(default_factory=lambda: ["evil-0"])
    topic_ids: list[bytes] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: ["evil-group"])
    transactional_ids: list[str] = field(default_factory=lambda: ["evil-id"])
    members: list[str] = field(default_factory=lambda: [""])
    producer_ids: list[int] = field(default_factory=lambda: [-1])

    def new_topic(self, rng: random.Random) -> str:
        return f"evil-{rng.randrange(1 << 30):x}"


class Hostile:
    """Makes hostile messages and batches.

    Args:
        rng: decides everything.
        names: what may stand in the fields.
        size_max_bytes: about how large a message may get.
        spares_internal_topics: never name `__consumer_offsets` and other internal topics: without an authorizer each
            client may delete them, and the committed offsets with them.
    """

    def __init__(
        self,
        rng: random.Random,
        names: Names | None = None,
        *,
        size_max_bytes: int = 1 << 20,
        spares_internal_topics: bool = False,
    ) -> None:
        self.rng = rng
        self._odd_strings = [one for one in ODD_STRINGS if not (spares_internal_topics and one.startswith("__"))]
        self.names = names if names is not None else Names()
        self._size_max_bytes = size_max_bytes
        self._left = size_max_bytes

    def message(self, cls: type[Any], version: int) -> Any:
        """A message that is plausible, with up to a handful of hostile values."""
        made = self.plausible(cls, version)
        return self.mutate(made, version, self.rng.choice((0, 1, 1, 2, 4)))

    def plausible(self, cls: type[Any], version: int) -> Any:
        """A message as a client would send it."""
        values = {
            one.name: self._plausible_field(one, version) if one.versions.includes(version) else _zero(one)
            for one in spec_of(cls).fields
        }
        return cls(**values)

    def _plausible_field(self, one: FieldSpec, version: int) -> object:
        if one.nullable.includes(version) and one.default is None and self.rng.random() < 0.3:
            return None
        return self._plausible(one.kind, one.name, version)

    def _plausible(self, kind: Kind, name: str, version: int) -> object:
        if isinstance(kind, StructOf):
            return self.plausible(kind.cls, version)
        if isinstance(kind, ArrayOf):
            return [self._plausible(kind.element, name, version) for _ in range(self.rng.choice((0, 1, 1, 1, 2)))]
        return self._plausible_primitive(kind, name)

    def _plausible_primitive(self, kind: Primitive, name: str) -> object:
        rng, names = self.rng, self.names
        if kind is STRING:
            return self._plausible_string(name)
        if kind is UUID:
            return Uuid(rng.choice([*names.topic_ids, ZERO_UUID, rng.randbytes(16)]))
        if kind is RECORDS:
            return self.batch()
        if kind is BYTES:
            return rng.choice((b"", rng.randbytes(20)))
        if kind is FLOAT64:
            return rng.choice((1.0, 1e6))
        if kind is BOOLEAN:
            return rng.random() < 0.5
        if name == "producer_id":
            return rng.choice(names.producer_ids)
        return rng.choice(_SMALL.get(name, (0, 0, 0, 1, 2)))

    def _plausible_string(self, name: str) -> str:
        rng, names = self.rng, self.names
        if name in _NAMES_OF_TOPICS:
            return rng.choice(names.topics)
        if name in _NAMES_OF_GROUPS:
            return rng.choice(names.groups)
        if name.endswith("transactional_id") or name == "transactional_ids":
            return rng.choice(names.transactional_ids)
        if name == "member_id":
            return rng.choice(names.members)
        if name == "subscribed_topic_regex":
            return "evil-.*"
        return {"protocol_type": "consumer", "mechanism": "PLAIN", "server_assignor": "uniform"}.get(name, "range")

    def mutate(self, message: Any, version: int, count: int) -> Any:
        """Replace that many values of the message, in place, with hostile ones; returns the message."""
        self._left = self._size_max_bytes
        for _ in range(count):
            slots = list(_slots(message, version))
            if not slots:
                break
            owner, one = self.rng.choice(slots)
            before = getattr(owner, one.name)
            setattr(owner, one.name, self._hostile(one, before, version))
            if _size(message) > 2 * self._size_max_bytes:  # the owner may be in an array very many times
                setattr(owner, one.name, before)
        return message

    def _hostile(self, one: FieldSpec, now: object, version: int) -> object:
        if one.nullable.includes(version) and self.rng.random() < 0.15:
            return None
        if isinstance(one.kind, ArrayOf):
            return self._hostile_array(one.kind, one.name, now if isinstance(now, list) else [], version)
        if isinstance(one.kind, StructOf):
            return self.mutate(self.plausible(one.kind.cls, version), version, 1)
        return self.primitive(one.kind, one.name)

    def _hostile_array(self, kind: ArrayOf, name: str, now: list[Any], version: int) -> list[Any]:
        element = now[0] if now else self._plausible(kind.element, name, version)
        way = self.rng.randrange(5)
        if way == 0:
            return []
        if way == 1:  # the same, several times
            return [element] * self.rng.choice((2, 3, 50))
        if way == 2 and isinstance(kind.element, Primitive):
            return [self.primitive(kind.element, name) for _ in range(self.rng.choice((1, 3, 20)))]
        if way == 3:
            return [self._plausible(kind.element, name, version) for _ in range(self.rng.choice((3, 30, 300)))]
        if _size(element) > 200:
            return [element] * 20
        return [element] * self._room_for(self.rng.choice(LENGTHS))

    def _room_for(self, count: int) -> int:
        count = max(1, min(count, self._left // 10))
        self._left -= 10 * count
        return count

    def primitive(self, kind: Primitive, name: str = "") -> object:
        """A hostile value of a primitive type."""
        rng = self.rng
        if kind is STRING:
            return self.string(name)
        if kind in (BYTES, RECORDS):
            return rng.choice((b"", rng.randbytes(rng.choice((1, 40, 5_000))), self.batch(), self.bomb()))
        if kind is UUID:
            return Uuid(rng.choice((ZERO_UUID, bytes(15) + b"\1", b"\xff" * 16, rng.randbytes(16))))
        if kind is FLOAT64:
            return rng.choice(FLOATS)
        if kind.name in _BITS:
            half = 1 << _BITS[kind.name] - 1
            return rng.choice((-1, -2, 0, 1, half - 1, -half, rng.randrange(-half, half), rng.randrange(100) % half))
        if kind.name in _UNSIGNED_BITS:
            return rng.choice((0, 1, (1 << _UNSIGNED_BITS[kind.name]) - 1))
        return rng.random() < 0.5

    def string(self, name: str = "") -> str:
        """An odd or a long string."""
        if "regex" in name or self.rng.random() < 0.05:
            return self.rng.choice(REGEXES)
        if self.rng.random() < 0.2:
            return self.rng.choice("aé\n\x1b") * self._room_for(self.rng.choice((255, 5_000, 16_000)))
        return self.rng.choice(self._odd_strings)

    def batch(self, *, codec: str | None = None, **fields: Any) -> bytes:
        """A good batch."""
        rng = self.rng
        records = [
            (1_700_000_000_000 + at, rng.choice((None, b"k")), rng.choice((None, b"", rng.randbytes(30))), None)
            for at in range(rng.choice((1, 1, 3, 20)))
        ]
        return encode_batch(records, codec=codec or rng.choice(CODECS), **fields)

    def damaged_batch(self) -> bytes:
        """A batch with wrong bytes; half of them have a checksum that fits."""
        wire = bytearray(
            self.batch(producer_id=self.rng.choice((-1, 0, 1 << 40)), base_sequence=self.rng.choice((-1, 0)))
        )
        for _ in range(self.rng.choice((1, 1, 3, 8))):
            wire[self.rng.randrange(len(wire))] = self.rng.choice((0, 1, 0x7F, 0x80, 0xFF, self.rng.randrange(256)))
        if self.rng.random() < 0.3:
            at = self.rng.choice((8, 23, 57))  # length, last offset delta, count of records
            wire[at : at + 4] = struct.pack(">i", self.rng.choice((-1, 0, 1, 2**31 - 1, -(2**31), 100_000)))
        if self.rng.random() < 0.7:
            if self.rng.random() < 0.8:
                wire[8:12] = struct.pack(">i", len(wire) - 12)
                wire[16] = 2
            stamp_crc(wire)
        return bytes(
            wire[: self.rng.choice((len(wire), len(wire), len(wire), self.rng.randrange(HEADER_SIZE, len(wire) + 1)))]
        )

    def bomb(self, size_bytes: int = 32 << 20) -> bytes:
        """A batch that decompresses to that many bytes, by any codec or in an old format."""
        kind = self.rng.choice((*CODECS[1:], "old", "many", "records"))
        if kind == "records":
            return _record_bomb(self.rng.choice(CODECS[1:]), size_bytes // len(_SHORTEST_RECORD))
        if kind == "old":
            inner = old_message(0, bytes(min(size_bytes, 4 << 20)))
            return b"".join([old_wrapper(0, inner, "gzip")] * 16)
        if kind == "many":
            one = encode_batch([(0, None, bytes(4 << 20), None)], codec="zstd")
            return b"".join(struct.pack(">q", at) + one[8:] for at in range(8))
        return _bomb(kind, size_bytes)

    def claims(self) -> bytes:
        """A batch of a few bytes that claims to hold very many records."""
        wire = bytearray(encode_batch([(0, None, b"x", None)], codec=self.rng.choice(CODECS)))
        count = self.rng.choice((2_000_000, 200_000_000, 2**31 - 1, -1))
        struct.pack_into(">i", wire, 57, count)
        struct.pack_into(">i", wire, 23, max(-1, count - 1))
        stamp_crc(wire)
        return bytes(wire)

    def spoiled(self, data: bytes) -> bytes:
        """The bytes with some changed, cut off or added."""
        rng = self.rng
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            way = rng.randrange(4)
            at = rng.randrange(len(changed) + 1)
            if way == 0:
                del changed[at:]
            elif way == 1:
                changed[at:at] = rng.choice((b"\xff\xff\xff\xff\x0f", struct.pack(">i", 2**31 - 1), rng.randbytes(9)))
            elif changed:
                changed[at % len(changed)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        return bytes(changed)


_BOMBS: dict[tuple[str, int], bytes] = {}


def _bomb(codec: str, size_bytes: int) -> bytes:
    made = _BOMBS.get((codec, size_bytes))
    if made is None:
        made = _BOMBS[codec, size_bytes] = encode_batch([(0, None, bytes(size_bytes), None)], codec=codec)
    return made


_SHORTEST_RECORD = b"\x0c\0\0\0\x01\0\0"  # six bytes: no key, an empty value


def _record_bomb(codec: str, count: int) -> bytes:
    """A batch of very many records of seven bytes, all at fault: their time lies in the future."""
    made = _BOMBS.get((codec, -count))
    if made is None:
        data = codec_by_name(codec).compress(_SHORTEST_RECORD * count, None)
        wire = bytearray(encode_batch([(1 << 42, None, b"", None)], codec=codec)[:HEADER_SIZE]) + data
        struct.pack_into(">i", wire, 8, len(wire) - 12)
        struct.pack_into(">i", wire, 23, count - 1)
        struct.pack_into(">i", wire, 57, count)
        stamp_crc(wire)
        made = _BOMBS[codec, -count] = bytes(wire)
    return made


def encoded(message: object, encode: Callable[[object], bytes]) -> bytes | None:
    """The message as bytes; None when a value cannot be written, such as a string too long for its length field."""
    try:
        return encode(message)
    except (ProtocolError, UnicodeEncodeError):
        return None


def _slots(message: Any, version: int) -> Iterator[tuple[Any, FieldSpec]]:
    """Every field of the message that is there in a version, those of nested structures too."""
    for one in spec_of(type(message)).fields:
        if not one.versions.includes(version):
            continue
        yield message, one
        value = getattr(message, one.name)
        if isinstance(one.kind, StructOf) and value is not None:
            yield from _slots(value, version)
        elif isinstance(one.kind, ArrayOf) and isinstance(one.kind.element, StructOf) and value:
            for element in value[:10]:
                yield from _slots(element, version)


def _size(value: Any) -> int:
    """About how many bytes a value takes on the wire."""
    if value is None or isinstance(value, bool | int | float):
        return 4
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value) + 2
    if isinstance(value, list):
        if value and value[0] is value[-1]:  # one element, many times
            return len(value) * _size(value[0])
        return sum(_size(element) for element in value)
    return sum(_size(getattr(value, one.name)) for one in spec_of(type(value)).fields)


def _zero(one: FieldSpec) -> object:
    if one.default is None:
        return None
    if isinstance(one.kind, ArrayOf):
        return []
    return one.kind.cls() if isinstance(one.kind, StructOf) else one.default


def old_bomb(count: int = 25, size_bytes: int = 4_000_000) -> bytes:
    """Wrappers of magic 1, each of which decompresses to that many bytes."""
    packer = zlib.compressobj(9, 8, 31)
    packed = packer.compress(old_message(0, bytes(size_bytes))) + packer.flush()
    return b"".join(old_message(at, packed, attributes=1) for at in range(count))
