"""One segment: a log file of consecutive wire batches, and the index of where they are.

The file is named after the first offset that it may hold. It holds what producers sent, byte for byte, apart from base
offset and leader epoch, which lie outside the checksum; so `kafka-dump-log.sh` reads it.
Source: org.apache.kafka.storage.internals.log.LogSegment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from kafkaraw.broker.log.batch_index import BatchIndex
from kafkaraw.broker.log.storage import Content, LogFile, LogStorage
from kafkaraw.errors import CorruptBatch
from kafkaraw.records import HEADER_SIZE, BatchHeader, parse_header, verify_crc

SUFFIX = ".log"
MAGIC = 2
OVERHEAD_BYTES = 12  # base offset and length, which a batch's length does not count

_logger = logging.getLogger("kafkaraw.broker")


def file_name(base_offset: int) -> str:
    """Kafka's name for the segment that starts at `base_offset`."""
    return f"{base_offset:020d}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class BadTail:
    """Where a segment stops making sense, and why."""

    position: int
    reason: str


class Segment:
    """One log file.

    Args:
        storage: where the file is.
        folder: the partition's folder.
        base_offset: the first offset that the segment may hold.
    """

    def __init__(self, storage: LogStorage, folder: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.name = file_name(base_offset)
        self.index = BatchIndex()
        self.next_offset = base_offset
        self._file: LogFile = storage.open_file(folder, self.name)

    @property
    def size_bytes(self) -> int:
        """Bytes in whole batches."""
        return self.index.end_position

    @property
    def file_size_bytes(self) -> int:
        """Bytes in the file, recovered or not."""
        return self._file.size_bytes

    def append(self, batch: memoryview, header: BatchHeader) -> None:
        """Write one whole batch, header already patched.

        Raises:
            OSError: the storage is full or broken.
        """
        self._file.append(batch)
        self._note(header)

    def _note(self, header: BatchHeader) -> None:
        self.index.add(header.size, header.last_offset, header.max_timestamp)
        self.next_offset = header.next_offset

    def content(self, offset: int, size_max: int, *, at_least_one: bool) -> Content | None:
        """Whole batches from the one that holds `offset` on; None when none fits (or there is none).

        Args:
            offset: the first offset wanted.
            size_max: limit in bytes.
            at_least_one: give the first batch even when it alone is above the limit.
        """
        row = self.index.row_of_offset(offset)
        if row == len(self.index):
            return None
        start, end = self.index.start_of(row), self.index.end_within(row, size_max)
        if end == start:
            if not at_least_one:
                return None
            end = self.index.end_of(row)
        return self._file.content(start, end - start)

    def bytes_from(self, offset: int) -> int:
        """How many bytes there are from the batch that holds `offset` to the end."""
        row = self.index.row_of_offset(offset)
        return 0 if row == len(self.index) else self.size_bytes - self.index.start_of(row)

    def batch(self, row: int) -> memoryview:
        """The bytes of one batch."""
        start = self.index.start_of(row)
        return self._file.read(start, self.index.end_of(row) - start)

    def recover(self, *, check_crcs: bool) -> Iterator[BatchHeader]:
        """Read the file's batches into the index, and cut the file at the first byte that is not one.

        Args:
            check_crcs: verify the checksums too (only the segment that was written last can be torn).
        """
        position = 0
        while position < self._file.size_bytes:
            found = self._batch_at(position, check_crcs=check_crcs)
            if isinstance(found, BadTail):
                lost = self._file.size_bytes - position
                _logger.warning("%s: cut %d bytes at position %d: %s", self.name, lost, position, found.reason)
                self._file.truncate(position)
                return
            self._note(found)
            position += found.size
            yield found

    def _batch_at(self, position: int, *, check_crcs: bool) -> BatchHeader | BadTail:
        left = self._file.size_bytes - position
        if left < HEADER_SIZE:
            return BadTail(position, f"{left} bytes are not a batch header")
        try:
            header = parse_header(self._file.read(position, HEADER_SIZE))
        except CorruptBatch as error:
            return BadTail(position, str(error))
        if header.magic != MAGIC or header.size < HEADER_SIZE or header.last_offset_delta < 0:
            return BadTail(position, "not the header of a batch")
        if header.size > left:
            return BadTail(position, f"a batch of {header.size} bytes, of which {left} are there")
        if header.base_offset < self.next_offset:
            return BadTail(position, f"offset {header.base_offset} comes after {self.next_offset - 1}")
        if check_crcs:
            try:
                verify_crc(self._file.read(position, header.size))
            except CorruptBatch as error:
                return BadTail(position, str(error))
        return header

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
