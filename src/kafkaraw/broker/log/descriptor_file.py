"""`DescriptorFile`: a log file that is read and written by position on a descriptor, on disk or in memory.

Both storages use it: `file_storage` opens descriptors by name and closes those that are not used, `memory_storage`
makes files without names. Content is handed out as slices of the descriptor (`FileSlice`), which the network layer
sends without reading them. The descriptors are shared with it (`net.shared_files`): a file that is closed here stays
open until its last response is sent. Start at `DescriptorFile.append`.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod

from kafkaraw.broker.log.storage import Buffer, Content
from kafkaraw.protocol import FileSlice


class DescriptorFile(ABC):
    """An append-only file.

    Args:
        size_bytes: bytes that are in the file already.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._is_torn = False  # bytes of a failed write follow the last whole one

    @abstractmethod
    def _descriptor(self) -> int:
        """Return the file's descriptor, open for reading and writing.

        Raises:
            OSError: it cannot be opened.
        """

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._size_bytes

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing."""
        if self._is_torn:  # a shorter write would leave the rest of the failed one behind it
            self.truncate(self._size_bytes)
        try:
            self._write(self._size_bytes, data)
        except OSError:
            self._is_torn = True
            with contextlib.suppress(OSError):
                self.truncate(self._size_bytes)
            raise
        self._size_bytes += len(data)

    def write_at(self, position: int, data: Buffer) -> None:
        """Write `data` over the bytes from `position` on; the file grows if `data` reaches beyond its end."""
        if self._is_torn:
            self.truncate(self._size_bytes)
        end = position + len(data)
        try:
            self._write(position, data)
        except OSError:
            self._is_torn = end > self._size_bytes
            raise
        self._size_bytes = max(self._size_bytes, end)

    def _write(self, position: int, data: Buffer) -> None:
        descriptor = self._descriptor()
        written = os.pwrite(descriptor, data, position)
        if written < len(data):
            view = memoryview(data)
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], position + written)

    def allocate(self, size: int) -> None:
        """Reserve space for a file of `size` bytes; it has that size until `truncate` cuts it."""
        descriptor = self._descriptor()
        if size <= os.fstat(descriptor).st_size:
            return
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
        except OSError:
            with contextlib.suppress(OSError):  # a part may be reserved
                self.truncate(self._size_bytes)
            raise

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        return read_at(self._descriptor(), position, min(size, self._size_bytes - position))

    def content(self, position: int, size: int) -> Content:
        """The bytes from `position` on, as a slice that can be sent without being read."""
        return FileSlice(self._descriptor(), position, min(size, self._size_bytes - position))

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on, and space that was allocated behind it."""
        os.ftruncate(self._descriptor(), size)
        self._size_bytes = size
        self._is_torn = False

    def sync(self) -> None:
        """Make what was written survive a crash of the machine, and nothing else."""
        if self._is_torn:  # the next segment comes after this: what is left of a failed write would count as damage
            self.truncate(self._size_bytes)
        os.fsync(self._descriptor())


def read_at(descriptor: int, position: int, size: int) -> memoryview:
    """Return the bytes of a file from `position` on: `size` of them, or as many as there are."""
    part = os.pread(descriptor, max(size, 0), position)
    if len(part) >= size or not part:
        return memoryview(part)
    parts = bytearray(part)
    while len(parts) < size:
        part = os.pread(descriptor, size - len(parts), position + len(parts))
        if not part:
            break
        parts += part
    return memoryview(parts)
