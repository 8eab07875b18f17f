"""One segment: a log file of consecutive wire batches, and the index of where they are.

The file is named after the first offset that it may hold. It holds what producers sent, byte for byte, apart from base
offset and leader epoch, which lie outside the checksum; so `kafka-dump-log.sh` reads it. Messages
of magic 0 and 1, as an old broker's directory may hold them, are served as they are.
Source: org.apache.kafka.storage.internals.log.LogSegment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kafkaraw.broker.log.batch_index import BatchIndex
from kafkaraw.broker.log.storage import Content, LogFile, LogStorage
from kafkaraw.core.log.names import FileKind, OffsetFile
from kafkaraw.errors import CorruptBatchError
from kafkaraw.records import HEADER_SIZE, BatchHeader, OldFormatError, parse_header, verify_crc
from kafkaraw.records.header import MAGIC
from kafkaraw.records.legacy import old_header, verify_message

WINDOW_BYTES = 1 << 20  # how much is read at once when a segment is opened

_logger = logging.getLogger("kafkaraw.broker")


class Segment:
    """One log file.

    Args:
        storage: where the file is.
        folder: the partition's folder.
        base_offset: the first offset that the segment may hold.
    """

    def __init__(self, storage: LogStorage, folder: str, base_offset: int) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.name = OffsetFile(base_offset, FileKind.LOG).name
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

    def content(self, offset: int, size_max: int, *, at_least_one: bool, end_offset: int) -> Content | None:
        """Whole batches from the one that holds `offset` on; None when none fits (or there is none).

        Args:
            offset: the first offset wanted.
            size_max: limit in bytes.
            at_least_one: give the first batch even when it alone is above the limit.
            end_offset: give no batch that reaches this offset.
        """
        row, end_row = self.index.row_of_offset(offset), self._row_at(end_offset)
        if row >= end_row:
            return None
        start, end = self.index.start_of(row), self.index.end_within(row, size_max)
        if end == start:
            if not at_least_one:
                return None
            end = self.index.end_of(row)
        return self._file.content(start, min(end, self.index.start_of(end_row)) - start)

    def copy(self, offset: int, size_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one of them, as bytes of their own."""
        row = self.index.row_of_offset(offset)
        start = self.index.start_of(row)
        end = max(self.index.end_within(row, size_max), self.index.end_of(row))
        return bytes(self._file.read(start, end - start))

    def bytes_before(self, offset: int) -> int:
        """How many bytes there are up to the batch that holds `offset`."""
        return self.index.start_of(self._row_at(offset))

    def _row_at(self, offset: int) -> int:
        """Return the row of the batch with `offset`; the number of rows if the offset is behind the last batch."""
        return len(self.index) if offset >= self.next_offset else self.index.row_of_offset(offset)

    def cut(self, offset: int) -> None:
        """Drop the batch that holds `offset`, and all that follow.

        Raises:
            OSError: the storage is broken.
        """
        row = self._row_at(offset)
        if row == len(self.index):
            return
        self._file.truncate(self.index.start_of(row))
        self.index.cut(row)
        self.next_offset = self.index.last_offset(row - 1) + 1 if row else self.base_offset

    def empty_file(self) -> None:
        """Drop what the file of a new segment holds already.

        Raises:
            OSError: the storage is broken.
        """
        if self._file.size_bytes:
            self._file.truncate(0)

    def headers(self) -> Iterator[BatchHeader]:
        """The header of every batch, oldest first."""
        window = _Window(self._file)
        next_offset = self.base_offset
        for row in range(len(self.index)):
            start, end = self.index.start_of(row), self.index.end_of(row)
            header = _header(window.read(start, min(end - start, HEADER_SIZE)), next_offset)
            next_offset = header.next_offset
            yield header

    def batch(self, row: int) -> memoryview:
        """The bytes of one batch."""
        start = self.index.start_of(row)
        return self._file.read(start, self.index.end_of(row) - start)

    def recover(self, *, check_crcs: bool) -> Iterator[BatchHeader]:
        """Read the file's batches into the index, and cut the file at the first byte that is not one.

        Args:
            check_crcs: verify the checksums too (only the segment that was written last can be torn).
        """
        window = _Window(self._file)
        position = 0
        while position < self._file.size_bytes:
            found = self._batch_at(window, position, check_crcs=check_crcs)
            if isinstance(found, str):
                lost = self._file.size_bytes - position
                _logger.warning("%s/%s: cut %d bytes at %d: %s", self.folder, self.name, lost, position, found)
                self._file.truncate(position)
                return
            self._note(found)
            position += found.size
            yield found

    def _batch_at(self, window: _Window, position: int, *, check_crcs: bool) -> BatchHeader | str:
        """Return the header of the batch at a position, or its error."""
        left = self._file.size_bytes - position
        try:
            header = _header(window.read(position, min(left, HEADER_SIZE)), self.next_offset)
            if header.size > left:
                return f"a batch of {header.size} bytes, of which {left} are there"
            if header.base_offset < self.next_offset:
                return f"offset {header.base_offset} comes after {self.next_offset - 1}"
            if check_crcs:
                verify = verify_message if header.magic < MAGIC else verify_crc
                verify(window.read(position, header.size))
        except CorruptBatchError as error:
            return str(error)
        return header

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _header(start: memoryview, next_offset: int) -> BatchHeader:
    """The header of what is in a log, a batch or a message of a broker from before Kafka 0.11.

    Raises:
        CorruptBatchError: it is neither.
    """
    try:
        return parse_header(start)
    except OldFormatError:
        return old_header(start, next_offset)


class _Window:
    """Reads a file in large pieces; the caller reads small ones in order."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._position = 0
        self._piece = memoryview(b"")

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on."""
        start = position - self._position
        if start < 0 or start + size > len(self._piece):
            self._piece = self._file.read(position, max(size, WINDOW_BYTES))
            self._position, start = position, 0
        return self._piece[start : start + size]
