"""Log compaction in plain Python: `OffsetMap`, twin of `_compaction.py`. Start at `OffsetMap.retain`.

The interface and its documentation are in `records/interface.py`. The map is a dict of digests, so it takes several
times the 24 bytes a key of the compiled map; it is bounded by the same number of keys.

Source: org.apache.kafka.storage.internals.log.SkimpyOffsetMap, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records._fallback.reader import decompressed, scan_body
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES
from kafkaraw.records.header import HEADER_SIZE, BatchHeader
from kafkaraw.records.interface import Retained
from kafkaraw.records.varint import as_int64, encode_varint, read_raw_varint

_SEED_SIZE: Final = 16
_HASH_SIZE: Final = 16
_ENTRY_SIZE: Final = 24
_KEYS_MAX: Final = 2**31 - 1


class _Found(NamedTuple):
    start: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


class OffsetMap:
    """The last offset of each key. See `interface.OffsetMap`."""

    def __init__(self, keys_max: int, seed: bytes) -> None:
        if len(seed) != _SEED_SIZE or not 0 < keys_max <= _KEYS_MAX:
            raise UsageError(f"an offset map cannot have {keys_max} keys and {len(seed)} bytes of seed")
        self.keys_max = keys_max
        self.latest_offset: int = -1
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    @property
    def keys_count(self) -> int:
        """Number of keys."""
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        """Memory of the keys in the compiled map."""
        return len(self._offsets) * _ENTRY_SIZE

    def put(self, key: bytes, offset: int) -> None:
        """Set the last offset of a key. See `interface.OffsetMap`."""
        if len(self._offsets) >= self.keys_max:
            raise UsageError(f"the offset map has the {self.keys_max} keys that it has room for")
        self._offsets[self._hash_of(key)] = self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, or -1."""
        return self._offsets.get(self._hash_of(key), -1)

    def clear(self) -> None:
        """Remove all keys."""
        self._offsets.clear()
        self.latest_offset = -1

    def add_batch(
        self,
        batch: memoryview,
        header: BatchHeader,
        start_offset: int,
        size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    ) -> bool:
        """Set the last offsets of the keys of a batch; False if the map is full. See `interface.OffsetMap`."""
        body = decompressed(batch, header, size_max_bytes)
        for found in _records(body, header):
            if found.key is None or found.offset < start_offset:
                continue
            if len(self._offsets) >= self.keys_max:
                return False
            self.put(found.key, found.offset)
        return True

    def retain(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        everything: bool = False,
        tombstones: bool = True,
        horizon_ms: int = -1,
        size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    ) -> Retained:
        """Choose the records of a batch that compaction retains. See `interface.OffsetMap`."""
        body = decompressed(batch, header, size_max_bytes)
        kept: list[_Found] = []
        without_key = 0
        for found in _records(body, header):
            if not everything and found.offset <= self.latest_offset:
                if found.key is None:
                    without_key += 1
                    continue
                if not (found.has_value or tombstones) or found.offset < self.get(found.key):
                    continue
            kept.append(found)
        sets_horizon = horizon_ms >= 0 and (everything or not all(found.has_value for found in kept))
        if not kept or (len(kept) == header.records_count and not sets_horizon):
            return Retained(len(kept), without_key, None)
        base = horizon_ms
        if not sets_horizon:
            base = header.base_timestamp if header.has_delete_horizon else kept[0].timestamp
        written = bytearray(HEADER_SIZE)
        for found in kept:
            written += _record(body, found, base)
        max_timestamp = max(-1, *(found.timestamp for found in kept))
        return Retained(len(kept), without_key, written, base, max_timestamp, sets_horizon)

    def _hash_of(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=_HASH_SIZE, key=self._seed).digest()


def _records(body: bytes, header: BatchHeader) -> Iterator[_Found]:
    """Find the records of a batch, which is checked before the first of them is returned."""
    scanned = scan_body(body, header)
    at = 0
    for index in range(header.records_count):
        start = at
        raw, at = read_raw_varint(body, at)
        at += raw >> 1
        yield _Found(
            start,
            at,
            scanned.offsets[index],
            scanned.timestamps[index],
            scanned.keys[index],
            scanned.values[index] is not None,
        )


def _record(body: bytes, found: _Found, base: int) -> bytes:
    """Return a record with its timestamp as the difference from another base."""
    _, at = read_raw_varint(body, found.start)
    raw, rest = read_raw_varint(body, at + 1)  # behind the attributes
    delta = encode_varint(as_int64(found.timestamp - base))
    if read_raw_varint(delta, 0)[0] == raw:
        return body[found.start : found.end]
    content = b"\0" + delta + body[rest : found.end]
    return encode_varint(len(content)) + content
