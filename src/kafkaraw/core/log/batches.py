"""The batches of a `.log` file: where each starts, its header, and what is wrong with it.

Start at `iter_batches`, which finds the same batches as Kafka's FileLogInputStream, and `problem_of`. Records are not
decoded here. Messages of magic 0 and 1 have the header that `records.legacy.old_header` makes of them.

Source: org.apache.kafka.common.record.internal.{FileLogInputStream, DefaultRecordBatch, AbstractLegacyRecordBatch}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.errors import CorruptBatchError
from kafkaraw.records import HEADER_SIZE, BatchHeader, parse_header
from kafkaraw.records.header import ATTRIBUTES_AT, LAYOUT, LENGTH_PREFIX_SIZE, MAGIC
from kafkaraw.records.legacy import old_header, verify_message

_PREFIX: Final = struct.Struct(">qi")
_HEADER_SIZE_UP_TO_MAGIC: Final = 17
_SIZE_MIN: Final = 14  # of a message of magic 0; stricter checks come later
REMEDY: Final = "stop the broker, then run `kafkaraw log repair DIR --yes`, which truncates the log here"


def iter_batches(
    data: memoryview, file: str, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the whole batches of a log file; one that is cut short at the end is left out.

    The content of the batches is not verified.

    Args:
        data: the bytes of the file.
        file: its name, for errors.
        start: position of the first batch.
        end: position at which reading ends, as if the file did; None for the end of the file.

    Raises:
        DamagedFileError: an impossible length, or a header that is cut short.
    """
    end = len(data) if end is None else min(end, len(data))
    unpack, make = LAYOUT.unpack_from, BatchHeader._make
    at = start
    while at < end - _HEADER_SIZE_UP_TO_MAGIC:
        if end - at >= HEADER_SIZE:
            header = make(unpack(data, at))
            size = header.batch_length
            if size < HEADER_SIZE or header.magic < MAGIC:
                size = _size_at(data, at, file)
                if at > end - LENGTH_PREFIX_SIZE - size:
                    return
                header = _odd_header(data, at, size, file)
            elif at > end - LENGTH_PREFIX_SIZE - size:
                return
        else:
            size = _size_at(data, at, file)
            if at > end - LENGTH_PREFIX_SIZE - size:
                return
            header = _odd_header(data, at, size, file)
        yield at, header
        at += size + LENGTH_PREFIX_SIZE


def _size_at(data: memoryview, at: int, file: str) -> int:
    size: int = _PREFIX.unpack_from(data, at)[1]
    if size < _SIZE_MIN:
        problem = f"record size {size} is smaller than the minimum record overhead ({_SIZE_MIN})"
        raise DamagedFileError(file, at, problem, REMEDY)
    return size


def _odd_header(data: memoryview, at: int, size: int, file: str) -> BatchHeader:
    """Read the header of a message of magic 0 or 1, or of a batch that is shorter than its header."""
    magic = data[at + _HEADER_SIZE_UP_TO_MAGIC - 1]
    if magic >= MAGIC:
        if len(data) - at < HEADER_SIZE:
            raise DamagedFileError(
                file, at, f"a batch header has {HEADER_SIZE} bytes, {len(data) - at} are left", REMEDY
            )
        return BatchHeader._make(LAYOUT.unpack_from(data, at))
    wire = data[at : at + size + LENGTH_PREFIX_SIZE]
    offset: int = _PREFIX.unpack_from(wire)[0]
    try:
        return old_header(wire, offset)
    except CorruptBatchError as error:
        raise DamagedFileError(file, at, str(error), REMEDY) from None


def is_valid(data: memoryview, at: int, header: BatchHeader) -> bool:
    """Return whether a whole batch has its least size and the right checksum: Kafka's `isValid`."""
    if header.magic < MAGIC:
        try:
            verify_message(data[at : at + header.size])
        except CorruptBatchError:
            return False
        return True
    from crc32c import crc32c  # at the first batch, as in `records.header`

    matches: bool = header.size >= HEADER_SIZE and header.crc == crc32c(data[at + ATTRIBUTES_AT : at + header.size])
    return matches


def problem_of(data: memoryview, at: int, header: BatchHeader, next_offset: int) -> str:
    """Say what is wrong with a whole batch; empty if nothing is.

    Args:
        data: the bytes of the file.
        at: where the batch starts.
        header: its header.
        next_offset: the lowest base offset that it may have.
    """
    try:
        if header.magic >= MAGIC:
            parse_header(data, at)
    except CorruptBatchError as error:
        return str(error)
    if not is_valid(data, at, header):
        return f"the checksum of the batch at offset {header.base_offset} does not match its content"
    if header.base_offset < next_offset:
        return f"base offset {header.base_offset} is below {next_offset}, where the batch before it ends"
    return ""
