"""The three index files of a segment: `.index`, `.timeindex`, `.txnindex`. Big-endian entries without checksums.

    .index      relative_offset int32, position int32: a batch starts at `position`, and ends with this offset
    .timeindex  timestamp int64, relative_offset int32: the highest timestamp so far, in the batch that ends with this
                offset
    .txnindex   version int16, producer_id int64, first_offset int64, last_offset int64, last_stable_offset int64

The first two files of an active segment are allocated in advance: after a crash, zeros follow the last entry.
`offset_entries` and `time_entries` read every entry as it is; `decode_offset_index` and `decode_time_index` check them.

Source: org.apache.kafka.storage.internals.log.{OffsetIndex, TimeIndex, TransactionIndex, AbortedTxn}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.header import Buffer

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_TRANSACTION: Final = struct.Struct(">hqqqq")
OFFSET_ENTRY_SIZE: Final = _OFFSET_ENTRY.size
TIME_ENTRY_SIZE: Final = _TIME_ENTRY.size
TRANSACTION_ENTRY_SIZE: Final = _TRANSACTION.size
TRANSACTION_VERSION: Final = 0
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_REMEDY: Final = "stop the broker, then run `kafkaraw log repair DIR --yes`, which rebuilds it from the log"


class OffsetEntry(NamedTuple):
    """The batch that ends with `offset` starts at byte `position` of the log."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """`timestamp_ms` is the highest timestamp up to the batch that ends with `offset`."""

    timestamp_ms: int
    offset: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    Attributes:
        producer_id: its producer.
        first_offset: offset of its first record in the partition.
        last_offset: offset of the marker that ended it.
        last_stable_offset: the partition's last stable offset when it ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def offset_entries(data: Buffer, base_offset: int) -> list[OffsetEntry]:
    """Return the entries of an `.index` file as they are; bytes behind the last whole one are left out."""
    whole = memoryview(data)[: len(data) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE]
    return [OffsetEntry(base_offset + offset, position) for offset, position in _OFFSET_ENTRY.iter_unpack(whole)]


def time_entries(data: Buffer, base_offset: int) -> list[TimeEntry]:
    """Return the entries of a `.timeindex` file as they are; bytes behind the last whole one are left out."""
    whole = memoryview(data)[: len(data) // TIME_ENTRY_SIZE * TIME_ENTRY_SIZE]
    return [TimeEntry(timestamp, base_offset + offset) for timestamp, offset in _TIME_ENTRY.iter_unpack(whole)]


def used_size(data: Buffer, entry_size: int) -> int:
    """Return the number of bytes before the zeros at the end, whole entries; the first entry may be all zeros."""
    used = len(bytes(data).rstrip(b"\0"))
    return min(-(-used // entry_size) * entry_size, len(data))


def decode_offset_index(data: Buffer, base_offset: int, file: str) -> list[OffsetEntry]:
    """Return the entries of an `.index` file, without zeros at its end.

    Args:
        data: its bytes.
        base_offset: the segment's.
        file: its name, for errors.

    Raises:
        DamagedFileError: half an entry at the end, or offsets or positions that do not increase.
    """
    _check_size(data, OFFSET_ENTRY_SIZE, file)
    entries = offset_entries(memoryview(data)[: used_size(data, OFFSET_ENTRY_SIZE)], base_offset)
    last = OffsetEntry(base_offset - 1, 0)
    for number, entry in enumerate(entries):
        if entry.offset <= last.offset or entry.position <= last.position:
            problem = f"offset {entry.offset} at position {entry.position} follows {last.offset} at {last.position}"
            raise DamagedFileError(file, number * OFFSET_ENTRY_SIZE, problem, _REMEDY)
        last = entry
    return entries


def decode_time_index(data: Buffer, base_offset: int, file: str) -> list[TimeEntry]:
    """Return the entries of a `.timeindex` file, without zeros at its end; arguments as for `decode_offset_index`.

    Raises:
        DamagedFileError: half an entry at the end, timestamps that do not increase, or offsets that decrease.
    """
    _check_size(data, TIME_ENTRY_SIZE, file)
    entries = time_entries(memoryview(data)[: used_size(data, TIME_ENTRY_SIZE)], base_offset)
    last = TimeEntry(-1, base_offset)
    for number, entry in enumerate(entries):
        if entry.timestamp_ms <= last.timestamp_ms or entry.offset < last.offset:
            problem = (
                f"timestamp {entry.timestamp_ms} of offset {entry.offset} follows {last.timestamp_ms} of {last.offset}"
            )
            raise DamagedFileError(file, number * TIME_ENTRY_SIZE, problem, _REMEDY)
        last = entry
    return entries


def decode_transaction_index(data: Buffer, base_offset: int, file: str) -> list[AbortedTransaction]:
    """Return the entries of a `.txnindex` file; arguments as for `decode_offset_index`.

    Raises:
        DamagedFileError: half an entry at the end, an unknown version, or offsets that do not fit the segment or each
            other.
    """
    _check_size(data, TRANSACTION_ENTRY_SIZE, file)
    entries = []
    last = base_offset - 1
    for number, (version, *fields) in enumerate(_TRANSACTION.iter_unpack(data)):
        entry = AbortedTransaction(*fields)
        problem = ""
        if version != TRANSACTION_VERSION:
            problem = f"version {version} is unknown, only {TRANSACTION_VERSION} is"
        elif not last < entry.last_offset or not 0 <= entry.first_offset <= entry.last_offset:
            problem = f"offsets {entry.first_offset} to {entry.last_offset} follow a last offset of {last}"
        if problem:
            raise DamagedFileError(file, number * TRANSACTION_ENTRY_SIZE, problem, _REMEDY)
        last = entry.last_offset
        entries.append(entry)
    return entries


def _check_size(data: Buffer, entry_size: int, file: str) -> None:
    rest = len(data) % entry_size
    if rest:
        problem = f"{rest} bytes are behind the last whole entry; an entry has {entry_size}"
        raise DamagedFileError(file, len(data) - rest, problem, _REMEDY)


def encode_offset_index(entries: Iterable[OffsetEntry], base_offset: int) -> bytes:
    """The bytes of an `.index` file.

    Raises:
        struct.error: an offset is more than 2,147,483,647 above the base offset.
    """
    return b"".join(_OFFSET_ENTRY.pack(offset - base_offset, position) for offset, position in entries)


def encode_time_index(entries: Iterable[TimeEntry], base_offset: int) -> bytes:
    """The bytes of a `.timeindex` file; the error of `encode_offset_index`."""
    return b"".join(_TIME_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a `.txnindex` file."""
    return b"".join(_TRANSACTION.pack(TRANSACTION_VERSION, *entry) for entry in entries)
