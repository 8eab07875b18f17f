"""A storage in memory: files without names (`memfd_create`), for brokers whose topics end with the process.

The kernel's page cache takes new pages for a file faster than a process touches new memory of its own, and sends
slices of a file without a copy; so topics in memory are files, too, read and written by the same code as those on
disk. Small files, and those for which there is no descriptor, keep their bytes in the process: a topic of thousands
of partitions would need more descriptors than a process may have. The storage outlives its broker: a new broker with
the same storage object finds the files of the previous one. What a crash of a machine does to files is in
`kafkaraw.testing.simulated_disk`.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from kafkaraw.broker.log.descriptor_file import DescriptorFile
from kafkaraw.broker.log.folders import Folders
from kafkaraw.broker.log.storage import ROOT, Buffer, Content
from kafkaraw.net.shared_files import SharedFile

INLINE_BYTES_MAX: Final = 32 * 1024
"""Up to this size a file has no descriptor: a consumer group or an idle partition has a few hundred bytes."""
DESCRIPTORS_MAX: Final = 1024
_SHARE: Final = 4


class Descriptors:
    """How many descriptors the files in memory may have: a quarter of what the process may have, for all nodes."""

    def __init__(self, limit: int | None = None) -> None:
        self._left = _descriptors_max() if limit is None else limit

    def take(self) -> bool:
        """Take one; return False if there is none."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """Give one back."""
        self._left += 1


def _descriptors_max() -> int:
    import resource  # here, because most programs that import this module never have a broker in memory

    return max(16, min(DESCRIPTORS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))


class MemoryFile(DescriptorFile):
    """A file in memory: its bytes are in the process while it is small, and in a file without a name afterwards.

    Args:
        descriptors: where a descriptor is taken when the file has grown.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        super().__init__(0)
        self._descriptors = descriptors
        self._inline = bytearray()
        self._file: SharedFile | None = None

    def _descriptor(self) -> int:
        if self._file is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._file.fileno()

    def _is_inline(self, size: int) -> bool:
        """Return whether the file keeps its bytes in the process, when it grows to `size`."""
        if self._file is None and size > INLINE_BYTES_MAX:
            self._move_out()
        return self._file is None

    def _move_out(self) -> None:
        """Move the bytes to a file without a name, if there is a descriptor for it."""
        if not self._descriptors.take():
            return
        try:
            file = SharedFile.share(_file_without_name())
            if self._inline:
                os.pwrite(file.fileno(), self._inline, 0)
        except OSError:
            self._descriptors.give_back()
            return
        self._file, self._inline = file, bytearray()

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing."""
        if not self._is_inline(self._size_bytes + len(data)):
            super().append(data)
            return
        self._inline += data
        self._size_bytes = len(self._inline)

    def write_at(self, position: int, data: Buffer) -> None:
        """Write `data` over the bytes from `position` on; the file grows if `data` reaches beyond its end."""
        if not self._is_inline(position + len(data)):
            super().write_at(position, data)
            return
        self._inline += bytes(max(0, position - len(self._inline)))
        self._inline[position : position + len(data)] = data
        self._size_bytes = len(self._inline)

    def allocate(self, size: int) -> None:
        """Memory is taken when it is written."""

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        if self._file is None:
            return memoryview(bytes(self._inline[position : position + size]))
        return super().read(position, size)

    def content(self, position: int, size: int) -> Content:
        """The bytes from `position` on, as a slice that can be sent without being read; of a small file, a copy."""
        return self.read(position, size) if self._file is None else super().content(position, size)

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on."""
        if self._file is None:
            del self._inline[size:]
            self._size_bytes = len(self._inline)
        else:
            super().truncate(size)

    def sync(self) -> None:
        """Memory has nothing to sync to; what a failed write has left is dropped."""
        if self._is_torn:
            self.truncate(self._size_bytes)

    def close(self) -> None:
        """Nothing to let go of: the memory belongs to the storage."""

    def drop(self) -> None:
        """Let go of the memory of a removed file; responses in progress keep it until they are sent."""
        if self._file is not None:
            self._file = None
            self._descriptors.give_back()
        self._inline = bytearray()
        self._size_bytes = 0


def _file_without_name() -> int:
    """Open a new file that has no name, so that nothing of it is left when the process ends."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kafkaraw-log", os.MFD_CLOEXEC)
    import tempfile  # here, because Linux needs none of it

    descriptor, path = tempfile.mkstemp(prefix="kafkaraw-log-")
    os.unlink(path)
    return descriptor


class MemoryStorage(Folders[MemoryFile]):
    """Folders of files in memory.

    Args:
        descriptors: those that its files may have; None for those of a process with one node.
    """

    def __init__(self, descriptors: Descriptors | None = None) -> None:
        super().__init__({ROOT: {}})
        self._descriptors = descriptors or Descriptors()

    def _new_file(self) -> MemoryFile:
        return MemoryFile(self._descriptors)

    def _drop(self, file: MemoryFile) -> None:
        file.drop()

    def close(self) -> None:
        """Nothing to let go of: the files stay for the next broker."""
