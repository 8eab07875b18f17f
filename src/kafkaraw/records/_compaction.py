"""Log compaction, compiled: `OffsetMap`, the last offset of each key, and the choice of the records that it retains.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is
`_fallback/compaction.py`. This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it.
Never import it uncompiled. Start at `OffsetMap.add_batch` and `OffsetMap.retain`.

The map is a table with linear probing, ordered by hash: 12 bytes of a keyed hash and 8 bytes of an offset for each key;
keys are not kept. A key is at its home, the slot that its hash names, or behind it. The order makes a search for a key
that is absent as short as one for a key that is present, also in a table that is nearly full, and the table can grow
in place, in one pass in the order of memory. So it grows by 7 % at a time, and needs at most 24 bytes for each key at
every size. Address space for all keys is reserved at the start; the system makes it memory as far as it is used.
Records are handled in groups, so that the table's memory is fetched for several keys at once.

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
from cython.cimports.libc.string import memcpy, memmove, memset

from kafkaraw.errors import UsageError
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES
from kafkaraw.records.interface import Retained

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_DELETE_HORIZON_BIT = cython.declare(cython.int, 0x40)
_HOMES_MIN = cython.declare(cython.longlong, 1024)
_KEYS_MAX = cython.declare(cython.longlong, 2**31 - 1)
# Slots behind the last home: with 0.9 keys for each home, one key in 10**11 needs more of them.
_TAIL = cython.declare(cython.longlong, 128)
_GROUP = cython.declare(cython.int, 64)
# How much longer a record becomes at most with another timestamp delta: that varint, and the one of its length.
_GROWTH_MAX = cython.declare(cython.Py_ssize_t, 14)

# 20 bytes: fields of 4 bytes, because a field of 8 bytes would make them 24.
_Entry = cython.struct(
    first=cython.uint,  # the upper half of the low word of the hash: it names the home, and the table is ordered by it
    second=cython.uint,
    third=cython.uint,  # the lower half of the high word of the hash
    low=cython.uint,
    high=cython.uint,  # with `low`, one more than the offset: 0 is an empty slot
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

    keys_max = cython.declare(cython.longlong, visibility="readonly")
    keys_count = cython.declare(cython.longlong, visibility="readonly")
    latest_offset = cython.declare(cython.longlong, visibility="public")
    _entries: cython.pointer(_Entry)
    _homes: cython.longlong
    _homes_max: cython.longlong
    _tail: cython.longlong
    _seed0: cython.ulonglong
    _seed1: cython.ulonglong
    _group: _Found[64]
    _kept: cython.pointer(_Kept)
    _kept_room: cython.Py_ssize_t

    def __cinit__(self, keys_max: cython.longlong, seed: bytes):
        if PyBytes_GET_SIZE(seed) != 16 or not 0 < keys_max <= _KEYS_MAX:
            raise UsageError(f"an offset map cannot have {keys_max} keys and {len(seed)} bytes of seed")
        self.keys_max = keys_max
        self._seed0 = little_endian(cython.cast(cython.p_uchar, PyBytes_AS_STRING(seed)), 8)
        self._seed1 = little_endian(cython.cast(cython.p_uchar, PyBytes_AS_STRING(seed)) + 8, 8)
        self._tail = min(_TAIL, keys_max)
        self._homes_max = max(keys_max + keys_max // 5 - self._tail, min(_HOMES_MIN, keys_max))
        self._entries = cython.cast(
            cython.pointer(_Entry), calloc(self._homes_max + self._tail + 1, cython.sizeof(_Entry))
        )  # the slot behind the last one stays empty, so that every search ends
        if self._entries is cython.NULL:
            raise MemoryError
        self._homes = min(_HOMES_MIN, self._homes_max)
        self.latest_offset = -1

    def __init__(self, keys_max: int, seed: bytes) -> None:
        pass

    def __dealloc__(self):
        free(self._entries)
        free(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory of the slots in use so far."""
        return (self._homes + self._tail) * cython.sizeof(_Entry)

    def put(self, key: bytes, offset: int) -> None:
        """Set the last offset of a key. See `interface.OffsetMap`."""
        if self.keys_count >= self.keys_max or not self._put(self._hash_of(key), offset):
            raise UsageError(f"the offset map has the {self.keys_max} keys that it has room for")

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, or -1."""
        return self._get(self._hash_of(key))

    def clear(self) -> None:
        """Remove all keys; the memory stays in use."""
        memset(self._entries, 0, (self._homes + self._tail) * cython.sizeof(_Entry))
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
                if self.keys_count >= self.keys_max or not self._put(found.key, found.offset):
                    return False
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
                prefetch(cython.address(self._entries[self._home_of(_first_of(found.key))]))
            count += 1
        return count

    # -- the table

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _home_of(self, first: cython.uint) -> cython.longlong:
        """The slot where the search for a key begins; it grows with the hash."""
        return cython.cast(
            cython.longlong,
            (cython.cast(cython.ulonglong, first) * cython.cast(cython.ulonglong, self._homes)) >> 32,
        )

    @cython.cfunc
    def _hash_of(self, key: bytes) -> Hash:
        return key_hash(
            self._seed0, self._seed1, cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)), PyBytes_GET_SIZE(key)
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _find(self, key: Hash) -> cython.pointer(_Entry):
        """The entry of a key; if it is absent, the first one behind it in the order, or an empty one."""
        first: cython.uint = _first_of(key)
        second: cython.uint = cython.cast(cython.uint, key.low)
        third: cython.uint = cython.cast(cython.uint, key.high)
        entry: cython.pointer(_Entry) = cython.address(self._entries[self._home_of(first)])
        while entry.first < first and _is_used(entry):
            entry += 1
        while entry.first == first and _is_used(entry) and (entry.second != second or entry.third != third):
            entry += 1
        return entry

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _get(self, key: Hash) -> cython.longlong:
        entry: cython.pointer(_Entry) = self._find(key)
        return _offset_of(entry) if _is_key(entry, key) else -1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put(self, key: Hash, offset: cython.longlong) -> cython.bint:
        """Set an offset; False if there is no slot for the key, which needs very unlikely hashes."""
        entry: cython.pointer(_Entry) = self._find(key)
        if not _is_key(entry, key):
            entry = self._insert(key, entry)
            if entry is cython.NULL:
                return False
        entry.low = cython.cast(cython.uint, offset + 1)
        entry.high = cython.cast(cython.uint, (offset + 1) >> 32)
        self.latest_offset = offset
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _insert(self, key: Hash, entry: cython.pointer(_Entry)) -> cython.pointer(_Entry):
        """Make room for a key where its search has ended; NULL if there is none.

        The entries from there up to the next empty slot move by one slot, and stay in order.
        """
        if self._homes < self._homes_max and (self.keys_count + 1) * 10 > self._homes * 9:
            self._grow()
            entry = self._find(key)
        empty: cython.pointer(_Entry) = self._empty_from(entry)
        while empty is cython.NULL:
            if self._homes == self._homes_max:
                return cython.NULL
            self._grow()
            entry = self._find(key)
            empty = self._empty_from(entry)
        memmove(entry + 1, entry, (empty - entry) * cython.sizeof(_Entry))
        entry.first = _first_of(key)
        entry.second = cython.cast(cython.uint, key.low)
        entry.third = cython.cast(cython.uint, key.high)
        self.keys_count += 1
        return entry

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _empty_from(self, entry: cython.pointer(_Entry)) -> cython.pointer(_Entry):
        """The first empty slot from an entry on; NULL if there is none in the table."""
        end: cython.pointer(_Entry) = self._entries + (self._homes + self._tail)
        while _is_used(entry):
            entry += 1
        return cython.NULL if entry == end else entry

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grow(self) -> cython.void:
        """Use 7 % more slots, and move each key to its new place.

        The entries go to the end of the new table, without the empty slots between them, and from there, in their
        order, each to its new home or behind the one before. None is overwritten before it is read: if the entries
        from a home on fit behind it, no entry is placed behind the slot from which it is read; and they fit, because
        they did in the smaller table.
        """
        slots: cython.longlong = self._homes + self._tail
        self._homes = min(self._homes + self._homes * 7 // 100 + 1, self._homes_max)
        end: cython.longlong = self._homes + self._tail
        entries: cython.pointer(_Entry) = self._entries
        source: cython.longlong = slots
        target: cython.longlong = end
        while source:
            source -= 1
            if _is_used(entries + source):
                target -= 1
                entries[target] = entries[source]
        at: cython.longlong = 0
        home: cython.longlong
        for source in range(target, end):
            home = self._home_of(entries[source].first)
            if home > at:
                memset(entries + at, 0, (home - at) * cython.sizeof(_Entry))
                at = home
            entries[at] = entries[source]
            at += 1
        memset(entries + at, 0, (end - at) * cython.sizeof(_Entry))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _first_of(key: Hash) -> cython.uint:
    return cython.cast(cython.uint, key.low >> 32)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_used(entry: cython.pointer(_Entry)) -> cython.bint:
    return (entry.low | entry.high) != 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_key(entry: cython.pointer(_Entry), key: Hash) -> cython.bint:
    return (
        entry.first == _first_of(key)
        and entry.second == cython.cast(cython.uint, key.low)
        and entry.third == cython.cast(cython.uint, key.high)
        and _is_used(entry)
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _offset_of(entry: cython.pointer(_Entry)) -> cython.longlong:
    return cython.cast(cython.longlong, (cython.cast(cython.ulonglong, entry.high) << 32) | entry.low) - 1


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
