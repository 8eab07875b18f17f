"""Log compaction, compiled: `OffsetMap`, the last offset of each key, and the choice of the records that it retains.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is
`_fallback/compaction.py`. This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it.
Never import it uncompiled. Start at `OffsetMap.add_batch` and `OffsetMap.retain`.

The map is a table with linear probing: 16 bytes of a keyed hash and 8 bytes of an offset for each key, keys are not
kept. Memory for all slots is reserved at the start, and used only as far as it is needed: the table begins small and
grows in place. Records are handled in groups, so that the table's memory is fetched for several keys at once.

Source: org.apache.kafka.storage.internals.log.SkimpyOffsetMap, MemoryRecords.filterTo.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.kafkaraw.records._encoding import put_varint, varint_size, zigzag
from cython.cimports.kafkaraw.records._key_hash import Hash, key_hash, little_endian, prefetch
from cython.cimports.kafkaraw.records._reader import Body
from cython.cimports.kafkaraw.records._wire import Fields, next_record, varint
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset

from kafkaraw.errors import UsageError
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES
from kafkaraw.records.interface import Retained

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_DELETE_HORIZON_BIT = cython.declare(cython.int, 0x40)
_SLOTS_MIN = cython.declare(cython.longlong, 1024)
_SLOTS_MAX = cython.declare(cython.longlong, 2**31 - 1)
_GROUP = cython.declare(cython.int, 64)
# Set in entries that have not been moved yet, while the table grows.
_UNMOVED = cython.declare(cython.ulonglong, 1 << 63)
# How much longer a record becomes at most with another timestamp delta: that varint, and the one of its length.
_GROWTH_MAX = cython.declare(cython.Py_ssize_t, 14)

_Entry = cython.struct(
    low=cython.ulonglong,
    high=cython.ulonglong,
    next_offset=cython.ulonglong,  # one more than the offset: 0 is an empty slot
)
_Found = cython.struct(
    start=cython.p_uchar,
    end=cython.p_uchar,
    offset=cython.longlong,
    timestamp=cython.longlong,
    key=Hash,
    has_key=cython.bint,
    has_value=cython.bint,
)
_Kept = cython.struct(start=cython.p_uchar, end=cython.p_uchar, timestamp=cython.longlong)


@cython.final
@cython.cclass
class OffsetMap:
    """The last offset of each key. See `interface.OffsetMap`."""

    slots = cython.declare(cython.longlong, visibility="readonly")
    keys_max = cython.declare(cython.longlong, visibility="readonly")
    keys_count = cython.declare(cython.longlong, visibility="readonly")
    latest_offset = cython.declare(cython.longlong, visibility="public")
    _entries: cython.pointer(_Entry)
    _used_slots: cython.longlong
    _seed0: cython.ulonglong
    _seed1: cython.ulonglong
    _group: _Found[64]
    _kept: cython.pointer(_Kept)
    _kept_room: cython.Py_ssize_t

    def __cinit__(self, slots: cython.longlong, keys_max: cython.longlong, seed: bytes):
        if PyBytes_GET_SIZE(seed) != 16 or not 0 < keys_max < slots <= _SLOTS_MAX:
            raise UsageError(
                f"an offset map cannot have {slots} slots for {keys_max} keys and {len(seed)} bytes of seed"
            )
        self.slots = slots
        self.keys_max = keys_max
        self._seed0 = little_endian(cython.cast(cython.p_uchar, PyBytes_AS_STRING(seed)), 8)
        self._seed1 = little_endian(cython.cast(cython.p_uchar, PyBytes_AS_STRING(seed)) + 8, 8)
        self._entries = cython.cast(cython.pointer(_Entry), calloc(slots, cython.sizeof(_Entry)))
        if self._entries is cython.NULL:
            raise MemoryError
        self._used_slots = min(_SLOTS_MIN, slots)
        self.latest_offset = -1

    def __init__(self, slots: int, keys_max: int, seed: bytes) -> None:
        pass

    def __dealloc__(self):
        free(self._entries)
        free(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory of the slots in use so far."""
        return self._used_slots * cython.sizeof(_Entry)

    def put(self, key: bytes, offset: int) -> None:
        """Set the last offset of a key. See `interface.OffsetMap`."""
        if self.keys_count >= self.keys_max:
            raise UsageError(f"the offset map has the {self.keys_max} keys that it has room for")
        self._put(self._hash_of(key), offset)

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, or -1."""
        return self._get(self._hash_of(key))

    def clear(self) -> None:
        """Remove all keys; the memory stays in use."""
        memset(self._entries, 0, self._used_slots * cython.sizeof(_Entry))
        self.keys_count = 0
        self.latest_offset = -1

    def add_batch(
        self,
        batch: memoryview,
        header: object,
        start_offset: cython.longlong,
        size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    ) -> bool:
        """Set the last offsets of the keys of a batch; False if the map is full. See `interface.OffsetMap`."""
        body: Body = Body()
        body.begin(batch, header, 0, None, size_max_bytes)
        index: cython.int
        count: cython.int
        found: cython.pointer(_Found)
        while body.walk.index < body.walk.count:
            count = self._read_group(body)
            for index in range(count):
                found = cython.address(self._group[index])
                if not found.has_key or found.offset < start_offset:
                    continue
                if self.keys_count >= self.keys_max:
                    return False
                self._put(found.key, found.offset)
        if body.walk.at != body.walk.end:
            raise body.left_over()
        return True

    def retain(
        self,
        batch: memoryview,
        header: object,
        *,
        everything: cython.bint = False,
        tombstones: cython.bint = True,
        horizon_ms: cython.longlong = -1,
        size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    ) -> Retained:
        """Choose the records of a batch that compaction retains. See `interface.OffsetMap`."""
        body: Body = Body()
        body.begin(batch, header, 0, None, size_max_bytes)
        self._reserve(body.walk.count)
        kept: cython.Py_ssize_t = 0
        without_key: cython.Py_ssize_t = 0
        has_tombstones: cython.bint = False
        max_timestamp: cython.longlong = -1
        latest: cython.longlong = self.latest_offset
        index: cython.int
        count: cython.int
        found: cython.pointer(_Found)
        while body.walk.index < body.walk.count:
            count = self._read_group(body)
            for index in range(count):
                found = cython.address(self._group[index])
                if not everything and found.offset <= latest:
                    if not found.has_key:
                        without_key += 1
                        continue
                    if not (found.has_value or tombstones) or found.offset < self._get(found.key):
                        continue
                self._kept[kept].start = found.start
                self._kept[kept].end = found.end
                self._kept[kept].timestamp = found.timestamp
                kept += 1
                has_tombstones |= not found.has_value
                max_timestamp = max(max_timestamp, found.timestamp)
        if body.walk.at != body.walk.end:
            raise body.left_over()
        sets_horizon: cython.bint = horizon_ms >= 0 and (everything or has_tombstones)
        if not kept or (kept == body.walk.count and not sets_horizon):
            return Retained(kept, without_key, None)
        base: cython.longlong
        if sets_horizon:
            base = horizon_ms
        elif header.attributes & _DELETE_HORIZON_BIT:
            base = body.walk.base_timestamp
        else:
            base = self._kept[0].timestamp
        return Retained(kept, without_key, self._written(kept, base), base, max_timestamp, bool(sets_horizon))

    @cython.cfunc
    @cython.exceptval(-1)
    def _reserve(self, count: cython.Py_ssize_t) -> cython.int:
        """Make room for the records of a batch, which are fewer than its bytes."""
        if count > self._kept_room:
            grown: cython.p_void = realloc(self._kept, count * cython.sizeof(_Kept))
            if grown is cython.NULL:
                raise MemoryError
            self._kept = cython.cast(cython.pointer(_Kept), grown)
            self._kept_room = count
        return 0

    @cython.cfunc
    def _written(self, count: cython.Py_ssize_t, base: cython.longlong) -> bytearray:
        """The records that are kept, behind room for a header."""
        size: cython.Py_ssize_t = _HEADER_SIZE
        index: cython.Py_ssize_t
        kept: cython.pointer(_Kept) = self._kept
        for index in range(count):
            size += kept[index].end - kept[index].start + _GROWTH_MAX
        batch: bytearray = PyByteArray_FromStringAndSize(cython.NULL, size)
        begin: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(batch))
        memset(begin, 0, _HEADER_SIZE)
        at: cython.p_uchar = begin + _HEADER_SIZE
        for index in range(count):
            at = _put_record(at, cython.address(kept[index]), base)
        PyByteArray_Resize(batch, at - begin)
        return batch

    @cython.cfunc
    @cython.exceptval(-1)
    def _read_group(self, body: Body) -> cython.int:
        """Read up to 64 records, and begin to fetch the slots of their keys."""
        fields: Fields
        count: cython.int = 0
        found: cython.pointer(_Found)
        while count < _GROUP and body.walk.index < body.walk.count:
            found = cython.address(self._group[count])
            found.start = body.walk.at
            if not next_record(cython.address(body.walk), cython.address(fields)):
                raise body.bad_record()
            found.end = body.walk.at
            found.offset = fields.offset
            found.timestamp = fields.timestamp
            found.has_value = fields.value.size >= 0
            found.has_key = fields.key.size >= 0
            if found.has_key:
                found.key = key_hash(self._seed0, self._seed1, fields.key.data, fields.key.size)
                prefetch(cython.address(self._entries[self._slot_of(found.key)]))
            count += 1
        return count

    # -- the table

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _slot_of(self, key: Hash) -> cython.longlong:
        """The slot where the search for a key begins."""
        return cython.cast(cython.longlong, ((key.low >> 32) * cython.cast(cython.ulonglong, self._used_slots)) >> 32)

    @cython.cfunc
    def _hash_of(self, key: bytes) -> Hash:
        return key_hash(
            self._seed0, self._seed1, cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)), PyBytes_GET_SIZE(key)
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _get(self, key: Hash) -> cython.longlong:
        slot: cython.longlong = self._slot_of(key)
        entry: cython.pointer(_Entry)
        while True:
            entry = cython.address(self._entries[slot])
            if (entry.low == key.low and entry.high == key.high) or not entry.next_offset:
                return cython.cast(cython.longlong, entry.next_offset) - 1
            slot += 1
            if slot == self._used_slots:
                slot = 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put(self, key: Hash, offset: cython.longlong) -> cython.void:
        """Set an offset. There is a free slot: fewer keys than slots are allowed."""
        self.latest_offset = offset
        slot: cython.longlong = self._slot_of(key)
        entry: cython.pointer(_Entry)
        while True:
            entry = cython.address(self._entries[slot])
            if not entry.next_offset:
                break
            if entry.low == key.low and entry.high == key.high:
                entry.next_offset = cython.cast(cython.ulonglong, offset) + 1
                return
            slot += 1
            if slot == self._used_slots:
                slot = 0
        entry.low = key.low
        entry.high = key.high
        entry.next_offset = cython.cast(cython.ulonglong, offset) + 1
        self.keys_count += 1
        if self._used_slots < self.slots and self.keys_count * 6 > self._used_slots * 5:
            self._grow()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grow(self) -> cython.void:
        """Use half as many slots more, and move each key to its new one.

        A key that is moved takes the next slot whose entry has been moved not yet, and that entry is moved next. So a
        slot becomes empty only where no key that has been moved was looked for.
        """
        slot: cython.longlong
        old_slots: cython.longlong = self._used_slots
        for slot in range(old_slots):
            if self._entries[slot].next_offset:
                self._entries[slot].next_offset |= _UNMOVED
        self._used_slots = min(old_slots + old_slots // 2, self.slots)
        for slot in range(old_slots):
            if self._entries[slot].next_offset & _UNMOVED:
                self._move(slot)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _move(self, slot: cython.longlong) -> cython.void:
        key: Hash
        at: cython.longlong
        displaced: _Entry
        carried: _Entry = self._entries[slot]
        self._entries[slot].low = self._entries[slot].high = self._entries[slot].next_offset = 0
        while True:
            carried.next_offset &= ~_UNMOVED
            key.low = carried.low
            key.high = carried.high
            at = self._slot_of(key)
            while self._entries[at].next_offset and not self._entries[at].next_offset & _UNMOVED:
                at += 1
                if at == self._used_slots:
                    at = 0
            displaced = self._entries[at]
            self._entries[at] = carried
            if not displaced.next_offset:
                return
            carried = displaced


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_record(at: cython.p_uchar, kept: cython.pointer(_Kept), base: cython.longlong) -> cython.p_uchar:
    """Copy a record, with its timestamp as the difference from another base; return where it ends."""
    raw: cython.ulonglong = 0
    rest: cython.p_uchar = varint(kept.start, kept.end, cython.address(raw)) + 1  # behind the attributes
    old_delta: cython.ulonglong = 0
    rest = varint(rest, kept.end, cython.address(old_delta))
    delta: cython.ulonglong = zigzag(
        cython.cast(
            cython.longlong, cython.cast(cython.ulonglong, kept.timestamp) - cython.cast(cython.ulonglong, base)
        )
    )
    size: cython.Py_ssize_t
    if delta == old_delta:
        size = kept.end - kept.start
        memcpy(at, kept.start, size)
        return at + size
    size = kept.end - rest
    at = put_varint(at, cython.cast(cython.ulonglong, 1 + varint_size(delta) + size) << 1)
    at[0] = 0
    at = put_varint(at + 1, delta)
    memcpy(at, rest, size)
    return at + size
