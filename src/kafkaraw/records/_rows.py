"""Columns into batches, compiled: `Rows`. Start at `Rows.append_to`.

The interface is in `records/interface.py`; the twin in plain Python is `_fallback/rows.py`. This is Cython in its
pure-Python mode, as `_builder.py` is.

One pass over the rows reads Arrow's buffers and appends records to open batches, without the GIL, so that full batches
are sent meanwhile. No other code may change such a batch: it is `busy` from the time when its memory is looked up
(`_enter`) until its new records count (`_leave`). A thread that tries to add a record to a busy batch finds no room,
seals it and opens another; then the records written here do not count, and are written again into the new batch, with
the GIL held (`_again`).

Source: KIP-98; Kafka's DefaultRecord (layout).
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.kafkaraw.records._batch_table import BatchTable, OpenBatch, TopicBatches
from cython.cimports.kafkaraw.records._builder import Block
from cython.cimports.kafkaraw.records._checksum import hash_bytes, hash_number
from cython.cimports.kafkaraw.records._encoding import crc32_of, fnv1a_of, murmur2_of, put_varint, varint_size
from cython.cimports.kafkaraw.records._row_columns import (
    Bytes,
    Field,
    Numbers,
    Record,
    body_size,
    delta_of,
    end_at,
    field_at,
    field_size,
    is_valid,
    largest,
    number_at,
    put_field,
)
from cython.cimports.libc.stdlib import calloc, free

from kafkaraw.errors import StaleMetadataError, UsageError
from kafkaraw.records._fallback.checksum import HEADERS, PARTITION, TIMESTAMP
from kafkaraw.records._fallback.rows import ROWS_AT_ONCE, topic_seeds
from kafkaraw.records._fallback.rows import Rows as PlainRows
from kafkaraw.records.interface import AppendStatus
from kafkaraw.records.partitioning import KeyHash
from kafkaraw.records.rows import UNSOUND, BadRow, Fault, RowColumns, SentPart

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_FIXED_SIZE = cython.declare(cython.longlong, 61 + 21)
_ROWS_AT_ONCE = cython.declare(cython.Py_ssize_t, ROWS_AT_ONCE)
_BYTES_AT_ONCE = cython.declare(cython.longlong, 1024 * 1024)

_ALL = cython.declare(cython.longlong, 2**62)
_TIMESTAMP = cython.declare(cython.ulonglong, TIMESTAMP)
_PARTITION = cython.declare(cython.ulonglong, PARTITION)
_HEADERS = cython.declare(cython.ulonglong, HEADERS)

_NO_HASH = cython.declare(cython.int, KeyHash.NONE)
_MURMUR2 = cython.declare(cython.int, KeyHash.MURMUR2)
_CRC32 = cython.declare(cython.int, KeyHash.CRC32)

_OPENED = cython.declare(object, AppendStatus.OPENED)
_SEALED = cython.declare(object, AppendStatus.SEALED)
_FULL = cython.declare(object, AppendStatus.FULL)
_UNKNOWN_TOPIC = cython.declare(object, AppendStatus.UNKNOWN_TOPIC)


# -- where rows go


_Place = cython.struct(
    # One for each partition. `at` is NULL while its batch is not entered.
    at=cython.p_uchar,
    end=cython.p_uchar,
    base_timestamp=cython.longlong,
    max_timestamp=cython.longlong,
    count=cython.longlong,
    first_count=cython.longlong,
    first_row=cython.longlong,
)
_Target = cython.struct(first=cython.Py_ssize_t, count=cython.Py_ssize_t, sticky=cython.Py_ssize_t)  # one per topic


@cython.final
@cython.cclass
class Rows:
    """Columns to send. See `_fallback.rows.Rows`."""

    count = cython.declare(cython.longlong, visibility="readonly")
    _columns: object
    _views: list
    _key: Bytes
    _value: Bytes
    _header_names: Bytes
    _header_values: Bytes
    _headers: Bytes
    _timestamp: Numbers
    _partition: Numbers
    _topic: Numbers
    # While rows are added:
    _start: cython.longlong
    _now: cython.longlong
    _key_hash: cython.int
    _null_is_a_key: cython.bint
    _empty_is_a_key: cython.bint
    _topics: list
    _targets: cython.pointer(_Target)
    _places: cython.pointer(_Place)
    _places_count: cython.Py_ssize_t
    _entered: dict
    _batches: list
    _blocks: list
    _place_of_row: cython.p_int
    _parts: list

    def __cinit__(self, columns: object):
        self._targets = cython.NULL
        self._places = cython.NULL
        self._place_of_row = cython.cast(cython.p_int, calloc(_ROWS_AT_ONCE, cython.sizeof(cython.int)))
        if self._place_of_row is cython.NULL:
            raise MemoryError

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._views = []
        self.count = columns.count
        self._take_bytes(cython.address(self._key), columns.key)
        self._take_bytes(cython.address(self._value), columns.value)
        self._take_numbers(cython.address(self._timestamp), columns.timestamp)
        self._take_numbers(cython.address(self._partition), columns.partition)
        self._take_numbers(cython.address(self._topic), columns.topic)
        headers = columns.headers
        self._take_ends(cython.address(self._headers), headers)
        self._take_bytes(cython.address(self._header_names), None if headers is None else headers.names)
        self._take_bytes(cython.address(self._header_values), None if headers is None else headers.values)

    def __dealloc__(self):
        free(self._targets)
        free(self._places)
        free(self._place_of_row)

    @cython.cfunc
    def _address(self, buffer: object) -> cython.p_uchar:
        """Where a buffer lies; it stays there as long as these rows."""
        if buffer is None:
            return cython.NULL
        view = memoryview(buffer)
        self._views.append(view)
        found: Py_buffer
        PyObject_GetBuffer(view, cython.address(found), PyBUF_SIMPLE)
        address: cython.p_uchar = cython.cast(cython.p_uchar, found.buf)
        PyBuffer_Release(cython.address(found))
        return address

    @cython.cfunc
    def _take_bytes(self, to: cython.pointer(Bytes), column: object) -> cython.int:
        self._take_ends(to, column)
        if column is not None:
            to.data = self._address(column.data)
            to.data_size = column.data.nbytes
        return 0

    @cython.cfunc
    def _take_ends(self, to: cython.pointer(Bytes), column: object) -> cython.int:
        to.there = column is not None
        if column is not None:
            to.first = column.first
            to.wide = column.wide
            to.validity = self._address(column.validity)
            to.marked = _marked(column)
            to.ends = self._address(column.ends)
            to.ended = column.ends.nbytes // (8 if to.wide else 4) - 1 - to.first
        return 0

    @cython.cfunc
    def _take_numbers(self, to: cython.pointer(Numbers), column: object) -> cython.int:
        to.there = column is not None
        to.marked = to.numbered = self.count
        if column is not None:
            to.first = column.first
            to.validity = self._address(column.validity)
            to.marked = _marked(column)
            to.numbers = cython.cast(cython.p_longlong, self._address(column.numbers))
            to.numbered = column.numbers.nbytes // 8 - to.first
        return 0

    # ---- before anything is sent

    def check(self, partition_counts: object, size_max: cython.longlong) -> object:
        """Find the first row that cannot be sent. See `_fallback.rows.Rows.check`."""
        largest_key: cython.longlong = largest(cython.address(self._key), self.count, self._key.data_size)
        largest_value: cython.longlong = largest(cython.address(self._value), self.count, self._value.data_size)
        if largest_key < 0 or largest_value < 0 or not self._others_are_sound():
            return BadRow(Fault.LAYOUT, 0, 0)
        more: cython.bint = self._headers.there or self._timestamp.there or self._partition.there or self._topic.there
        if not more and _FIXED_SIZE + largest_key + largest_value <= size_max and partition_counts:
            return None
        counts: list = list(partition_counts)
        row: cython.longlong
        number: cython.longlong
        topic: cython.longlong
        record: Record
        for row in range(self.count):
            record = self._record(row)
            number = _FIXED_SIZE + max(record.key.size, 0) + max(record.value.size, 0)
            number += self._headers_bytes(cython.address(record))
            if number > size_max:
                return BadRow(Fault.SIZE, row, number)
            if self._timestamp.there:
                number = number_at(cython.address(self._timestamp), row, 0)
                if number < 0:
                    return BadRow(Fault.TIMESTAMP, row, number)
            topic = number_at(cython.address(self._topic), row, -1) if self._topic.there else 0
            if not 0 <= topic < len(counts):
                return BadRow(Fault.TOPIC, row, topic)
            if self._partition.there and is_valid(self._partition.validity, self._partition.first + row):
                number = number_at(cython.address(self._partition), row, 0)
                if not 0 <= number < counts[topic]:
                    return BadRow(Fault.PARTITION, row, number)
        return None

    @cython.cfunc
    def _others_are_sound(self) -> cython.bint:
        """Whether headers lie within their data, and there are as many numbers as rows."""
        headers: cython.longlong = min(self._header_names.ended, self._header_values.ended)
        if self._headers.there and (
            largest(cython.address(self._headers), self.count, headers) < 0
            or largest(cython.address(self._header_names), headers, self._header_names.data_size) < 0
            or largest(cython.address(self._header_values), headers, self._header_values.data_size) < 0
        ):
            return False
        return (
            min(self._timestamp.marked, self._partition.marked, self._topic.marked) >= self.count
            and min(self._timestamp.numbered, self._partition.numbered, self._topic.numbered) >= self.count
        )

    @cython.cfunc
    def _headers_bytes(self, record: cython.pointer(Record)) -> cython.longlong:
        """What headers count when the size of a record is limited."""
        size: cython.longlong = 0
        at: cython.longlong
        for at in range(record.headers, record.headers + record.headers_count):
            size += 10 + field_at(cython.address(self._header_names), at).size
            size += max(field_at(cython.address(self._header_values), at).size, 0)
        return size

    def checksum(self) -> object:
        """Sum up the checksums of all rows. See `_fallback.rows.Rows.checksum`."""
        seeds: cython.p_ulonglong
        total: cython.ulonglong = 0
        row: cython.longlong
        topic: cython.longlong
        names: list = topic_seeds(self._columns.topics)
        count: cython.longlong = len(names)
        if (
            largest(cython.address(self._key), self.count, self._key.data_size) < 0
            or largest(cython.address(self._value), self.count, self._value.data_size) < 0
            or not self._others_are_sound()
        ):
            raise UsageError(UNSOUND)
        seeds = cython.cast(cython.p_ulonglong, calloc(count + 1, cython.sizeof(cython.ulonglong)))
        if seeds is cython.NULL:
            raise MemoryError
        try:
            for row in range(count):
                seeds[row] = names[row]
            with cython.nogil:
                for row in range(self.count):
                    topic = number_at(cython.address(self._topic), row, -1) if self._topic.there else 0
                    if topic < 0 or topic >= count:
                        break
                    total += self._checksum_of(row, seeds[topic])
                else:
                    row = self.count
        finally:
            free(seeds)
        if row < self.count:
            raise UsageError(UNSOUND)
        return total

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _checksum_of(self, row: cython.longlong, seed: cython.ulonglong) -> cython.ulonglong:
        value: cython.ulonglong = hash_bytes(seed, field_at(cython.address(self._key), row))
        value = hash_bytes(value, field_at(cython.address(self._value), row))
        if self._timestamp.there and is_valid(self._timestamp.validity, self._timestamp.first + row):
            value = hash_number(value, _TIMESTAMP, number_at(cython.address(self._timestamp), row, 0))
        if self._partition.there and is_valid(self._partition.validity, self._partition.first + row):
            value = hash_number(value, _PARTITION, number_at(cython.address(self._partition), row, 0))
        if not self._headers.there or not is_valid(self._headers.validity, self._headers.first + row):
            return value
        first: cython.longlong = end_at(cython.address(self._headers), self._headers.first + row)
        last: cython.longlong = end_at(cython.address(self._headers), self._headers.first + row + 1)
        if last > first:
            value = hash_number(value, _HEADERS, last - first)
        at: cython.longlong
        for at in range(first, last):
            value = hash_bytes(value, field_at(cython.address(self._header_names), at))
            value = hash_bytes(value, field_at(cython.address(self._header_values), at))
        return value

    # ---- one record

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _record(self, row: cython.longlong) -> Record:
        """Where the parts of a row lie."""
        record: Record
        record.key = field_at(cython.address(self._key), row)
        record.value = field_at(cython.address(self._value), row)
        record.timestamp = number_at(cython.address(self._timestamp), row, self._now)
        record.headers = record.headers_count = 0
        record.headers_size = 1
        if self._headers.there and is_valid(self._headers.validity, self._headers.first + row):
            record.headers = end_at(cython.address(self._headers), self._headers.first + row)
            record.headers_count = end_at(cython.address(self._headers), self._headers.first + row + 1) - record.headers
            record.headers_size = varint_size(cython.cast(cython.ulonglong, record.headers_count) << 1)
            at: cython.longlong
            for at in range(record.headers, record.headers + record.headers_count):
                record.headers_size += field_size(field_at(cython.address(self._header_names), at).size)
                record.headers_size += field_size(field_at(cython.address(self._header_values), at).size)
        return record

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _put(
        self,
        at: cython.p_uchar,
        end: cython.p_uchar,
        record: cython.pointer(Record),
        index: cython.longlong,
        base_timestamp: cython.longlong,
    ) -> cython.p_uchar:
        """Encode a record; gives where the next one goes, or NULL when this one ends behind `end`."""
        delta: cython.ulonglong = delta_of(record.timestamp, base_timestamp)
        number: cython.ulonglong = cython.cast(cython.ulonglong, index) << 1
        size: cython.Py_ssize_t = body_size(record, index, base_timestamp)
        length: cython.ulonglong = cython.cast(cython.ulonglong, size) << 1
        if size + varint_size(length) > end - at:
            return cython.NULL
        at = put_varint(at, length)
        at[0] = 0
        at = put_varint(put_varint(at + 1, delta), number)
        at = put_field(put_field(at, record.key), record.value)
        at = put_varint(at, cython.cast(cython.ulonglong, record.headers_count) << 1)
        header: cython.longlong
        for header in range(record.headers, record.headers + record.headers_count):
            at = put_field(at, field_at(cython.address(self._header_names), header))
            at = put_field(at, field_at(cython.address(self._header_values), header))
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _place(self, row: cython.longlong, key: Field) -> cython.Py_ssize_t:
        """The place of a row, or -1 when its topic has no such partition (any more)."""
        target: cython.pointer(_Target) = self._targets + number_at(cython.address(self._topic), row, 0)
        number: cython.longlong = number_at(cython.address(self._partition), row, -1)
        if number >= 0:
            return target.first + cython.cast(cython.Py_ssize_t, number) if number < target.count else -1
        if self._key_hash == _NO_HASH or (key.size < 0 and not self._null_is_a_key):
            return target.first + target.sticky
        if key.size == 0 and not self._empty_is_a_key:
            return target.first + target.sticky
        hashed: cython.uint
        if self._key_hash == _MURMUR2:
            hashed = murmur2_of(key.data, max(key.size, 0)) & 0x7FFFFFFF
        elif self._key_hash == _CRC32:
            hashed = crc32_of(key.data, cython.cast(cython.Py_ssize_t, max(key.size, 0)))
        else:
            hashed = fnv1a_of(key.data, max(key.size, 0))
        return target.first + cython.cast(cython.Py_ssize_t, hashed % cython.cast(cython.uint, target.count))

    # ---- many rows

    def append_to(self, batches: object, start: cython.longlong) -> tuple:
        """Add rows from `start` on to open batches. See `_fallback.rows.Rows.append_to`."""
        table: BatchTable = batches.table
        batches.check_refusal()
        if table.decides_each:
            return PlainRows(self._columns).append_to(batches, start)
        if table._used >= table._buffer_memory:
            batches.seal_open()
            return (_FULL, start, [])
        if not self._aim(table):
            return (_UNKNOWN_TOPIC, start, [])
        self._start = start
        self._now = table._now()
        self._parts = []
        stop: cython.longlong = min(self.count, start + _ROWS_AT_ONCE)
        room: cython.longlong = min(_BYTES_AT_ONCE, table._buffer_memory - table._used)
        row: cython.longlong = start
        place: cython.Py_ssize_t = 0
        known: cython.bint = True
        try:
            while True:
                with cython.nogil:
                    row = self._fill(row, stop, cython.address(room), cython.address(place))
                if place < 0:
                    known = row == stop or room <= 0
                    break
                if self._places[place].at is cython.NULL:
                    self._enter(batches, place, row)
                else:
                    row = self._make_room(batches, place, row)
        finally:
            for place in list(self._entered):
                self._leave(batches, place, row)
        if not known:
            return (_UNKNOWN_TOPIC, row, self._parts)
        return (_SEALED if table._sealed else _OPENED, row, self._parts)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill(
        self,
        row: cython.longlong,
        stop: cython.longlong,
        room: cython.p_longlong,
        stopped_at: cython.pointer(cython.Py_ssize_t),
    ) -> cython.longlong:
        """Write rows; gives the first that was not written, and the place that has to be seen to, or -1."""
        place: cython.Py_ssize_t
        to: cython.pointer(_Place)
        after: cython.p_uchar
        record: Record
        stopped_at[0] = -1
        while row < stop and room[0] > 0:
            record = self._record(row)
            place = self._place(row, record.key)
            if place < 0:
                break
            to = self._places + place
            after = cython.NULL
            if to.at is not cython.NULL:
                if to.count == 0:
                    to.base_timestamp = record.timestamp
                after = self._put(to.at, to.end, cython.address(record), to.count, to.base_timestamp)
            if after is cython.NULL:
                stopped_at[0] = place
                break
            room[0] -= after - to.at
            to.at = after
            to.count += 1
            if record.timestamp > to.max_timestamp:
                to.max_timestamp = record.timestamp
            self._place_of_row[row - self._start] = cython.cast(cython.int, place)
            row += 1
        return row

    @cython.cfunc
    def _aim(self, table: BatchTable) -> cython.bint:
        """Take over what there is to choose from; False when a topic is not known."""
        names: tuple = tuple(self._columns.topics)
        self._topics = [table.topics.get(name) for name in names]
        if self._targets is cython.NULL:
            self._targets = cython.cast(cython.pointer(_Target), calloc(len(names) + 1, cython.sizeof(_Target)))
            if self._targets is cython.NULL:
                raise MemoryError
        count: cython.Py_ssize_t = 0
        number: cython.Py_ssize_t = 0
        topic: TopicBatches
        for topic in self._topics:
            if topic is None or not topic.batches:
                return False
            self._targets[number].first = count
            self._targets[number].count = len(topic.batches)
            self._targets[number].sticky = topic.sticky_partition % self._targets[number].count
            count += len(topic.batches)
            number += 1
        self._key_hash = table._key_hash
        self._null_is_a_key = table._null_is_a_key
        self._empty_is_a_key = table._empty_is_a_key
        self._entered = {}
        if self._places is cython.NULL or self._places_count != count:
            free(self._places)
            self._places = cython.cast(cython.pointer(_Place), calloc(count, cython.sizeof(_Place)))
            if self._places is cython.NULL:
                raise MemoryError
            self._places_count = count
            self._batches = [None] * count
            self._blocks = [None] * count
        return True

    @cython.cfunc
    def _topic_number(self, place: cython.Py_ssize_t) -> cython.Py_ssize_t:
        number: cython.Py_ssize_t = 0
        while place >= self._targets[number].first + self._targets[number].count:
            number += 1
        return number

    @cython.cfunc
    def _open(self, batches: object, place: cython.Py_ssize_t) -> OpenBatch:
        """Return the open batch of a place, to which no other thread writes rows; open one if necessary."""
        number: cython.Py_ssize_t = self._topic_number(place)
        topic: TopicBatches = self._topics[number]
        table: BatchTable = batches.table
        partition: cython.Py_ssize_t = place - self._targets[number].first
        batch: OpenBatch
        while partition < len(topic.batches):
            batch = topic.batches[partition]
            if batch is None:
                batches.check_refusal()
                table.insert(batches.new_batch(topic, partition))  # or another thread has; the batch is looked up again
            elif batch.busy:
                batches.seal(batch)
            else:
                return batch
        raise StaleMetadataError(f"{topic.name}-{partition} was deleted while rows were sent to it")

    @cython.cfunc
    def _enter(self, batches: object, place: cython.Py_ssize_t, row: cython.longlong) -> cython.int:
        """Begin to write to the open batch of a place, from a row on."""
        batch: OpenBatch = self._open(batches, place)
        to: cython.pointer(_Place) = self._places + place
        self._entered[place] = None
        # In one go.
        batch.busy = True
        self._batches[place] = batch
        self._blocks[place] = batch._block
        to.at = batch._block.data + batch.size_bytes
        to.end = batch._block.data + min(batch._block.capacity, batch._limit)
        to.base_timestamp = batch._base_timestamp
        to.max_timestamp = batch._max_timestamp
        to.count = to.first_count = batch.records_count
        to.first_row = row
        return 0

    @cython.cfunc
    def _leave(self, batches: object, place: cython.Py_ssize_t, row: cython.longlong) -> OpenBatch | None:
        """Let what was written to a batch count; gives the batch, or None when it was sealed meanwhile."""
        to: cython.pointer(_Place) = self._places + place
        table: BatchTable = batches.table
        batch: OpenBatch = self._batches[place]
        block: Block = self._blocks[place]
        added: cython.longlong = to.count - to.first_count
        size: cython.Py_ssize_t = to.at - block.data
        part: object = SentPart(batch.promise, to.first_count, added, to.first_row) if added else None
        del self._entered[place]
        # In one go.
        to.at = cython.NULL
        self._batches[place] = self._blocks[place] = None
        batch.busy = False
        if batch.topic is None:
            self._again(batches, place, to.first_row, row)
            return None
        if added:
            table._used += size - batch.size_bytes
            batch.size_bytes = size
            batch.records_count = cython.cast(cython.int, to.count)
            batch._base_timestamp = to.base_timestamp
            batch._max_timestamp = to.max_timestamp
            self._parts.append(part)
        return batch

    @cython.cfunc
    def _again(
        self, batches: object, place: cython.Py_ssize_t, row: cython.longlong, stop: cython.longlong
    ) -> cython.int:
        """Write the rows of a place once more: the batch that they were written to was sealed without them."""
        while row < stop:
            if self._place_of_row[row - self._start] != place or self._put_now(batches, place, row):
                row += 1
        return 0

    @cython.cfunc
    def _make_room(self, batches: object, place: cython.Py_ssize_t, row: cython.longlong) -> cython.longlong:
        """See to a place where a row did not fit; gives the row to go on with."""
        batch: OpenBatch = self._leave(batches, place, row)
        if batch is None:
            return row
        record: Record = self._record(row)
        size: cython.Py_ssize_t = batch.size_bytes + self._size_in(batch, cython.address(record))
        if size <= batch._limit:
            batch._block.reserve(size, batch._usual_size)
        elif self._put_now(batches, place, row):
            row += 1
        number: cython.Py_ssize_t = self._topic_number(place)
        topic: TopicBatches = self._topics[number]
        if topic.sticky_partition < self._targets[number].count:
            self._targets[number].sticky = topic.sticky_partition
        return row

    @cython.cfunc
    def _put_now(self, batches: object, place: cython.Py_ssize_t, row: cython.longlong) -> cython.bint:
        """Add a row to the open batch of a place, with the GIL held; False when that batch was full and is sealed."""
        batch: OpenBatch = self._open(batches, place)
        part: object = SentPart(batch.promise, batch.records_count, 1, row)
        record: Record = self._record(row)
        block: Block = batch._block
        table: BatchTable = batches.table
        # In one go.
        size: cython.Py_ssize_t = batch.size_bytes + self._size_in(batch, cython.address(record))
        if batch.topic is None or batch.busy:
            return False
        if size > batch._limit and batch.records_count:
            batches.seal(batch)
            return False
        if size > block.capacity:
            block.reserve(size, batch._usual_size)
        if not batch.records_count:
            batch._base_timestamp = record.timestamp
        self._put(
            block.data + batch.size_bytes,
            block.data + size,
            cython.address(record),
            batch.records_count,
            batch._base_timestamp,
        )
        table._used += size - batch.size_bytes
        batch.size_bytes = size
        batch.records_count += 1
        batch._max_timestamp = max(batch._max_timestamp, record.timestamp)
        self._parts.append(part)
        if size > batch._limit:
            batches.seal(batch)
        return True

    @cython.cfunc
    def _size_in(self, batch: OpenBatch, record: cython.pointer(Record)) -> cython.Py_ssize_t:
        """What a record takes as the next one of a batch."""
        base: cython.longlong = batch._base_timestamp if batch.records_count else record.timestamp
        size: cython.Py_ssize_t = body_size(record, batch.records_count, base)
        return size + varint_size(cython.cast(cython.ulonglong, size) << 1)


@cython.cfunc
def _marked(column: object) -> cython.longlong:
    """How many rows of a column are known to be null or not."""
    return _ALL if column.validity is None else column.validity.nbytes * 8 - column.first
