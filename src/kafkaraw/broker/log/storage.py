"""The interface of the storage for the broker's files: the `LogStorage` and `LogFile` protocols.

A storage holds folders (one per partition, and the root, named "") of append-only log files and small text files.
Two implementations: `file_storage.FileStorage` (a directory) and `memory_storage.MemoryStorage` (files without names),
both over `descriptor_file.DescriptorFile`. `kafkaraw.testing.simulated_disk` models a disk that crashes and fails.
All calls are synchronous: a write goes to the page cache, never to a thread.
"""

from __future__ import annotations

from typing import Protocol

from kafkaraw.protocol import FileSlice

Buffer = bytes | bytearray | memoryview
"""Bytes to write."""

Content = memoryview | FileSlice
"""Bytes to send: from memory as they are, or from a file without reading them."""

ROOT = ""
"""The folder name of the storage itself."""


class LogFile(Protocol):
    """One append-only file."""

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        ...

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing.

        Raises:
            OSError: the storage is full or broken; the file is as it was.
        """
        ...

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        ...

    def content(self, position: int, size: int) -> Content:
        """The bytes from `position` on, ready to be sent without a copy.

        It may be shorter than `size`, but holds whole appends: bytes appended in one call are never torn apart.
        """
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write `data` over the bytes from `position` on; the file grows if `data` reaches beyond its end.

        Between the end of the file and a later `position`, the file has zeros.

        Raises:
            OSError: the storage is full or broken; some of the bytes may have been written, the size is as it was.
        """
        ...

    def allocate(self, size: int) -> None:
        """Reserve space for a file of `size` bytes, so that a disk that becomes full does not stop its appends.

        `size_bytes` stays as it is, and appends go on there. On disk, the file has `size` bytes, the last of them
        zeros, until `truncate` cuts it; a file that is opened again before that has all of them.

        Raises:
            OSError: the storage is full or broken; the file is as it was.
        """
        ...

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on, and space that was allocated behind it."""
        ...

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        ...

    def close(self) -> None:
        """Close the file. Slices that are not sent yet become invalid."""
        ...


class LogStorage(Protocol):
    """Folders of log files and small text files."""

    def folders(self) -> list[str]:
        """Names of all folders, sorted."""
        ...

    def make_folder(self, folder: str) -> None:
        """Create a folder; one that exists is left alone."""
        ...

    def rename_folder(self, folder: str, new_name: str) -> None:
        """Rename a folder with all that is in it.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it; one that does not exist is no error.

        Raises:
            OSError: the storage is broken, or there is no free descriptor.
        """
        ...

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        ...

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file for reading and appending; it is created when absent."""
        ...

    def file_size(self, folder: str, name: str) -> int | None:
        """The size of a file in bytes; None when there is none."""
        ...

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        """Rename a file in one step; a file that has the new name is replaced, and must not be open.

        A file that is open stays usable under its new name. After a crash of the machine the file has the old name or
        the new one; `sync_folder` makes the new one durable.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable: files that were created, renamed and removed in it."""
        ...

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        """The whole of a small file; None when there is none."""
        ...

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small file in one step: after a crash of the process it holds the old bytes or the new ones.

        Args:
            folder: where.
            name: of the file.
            data: its new content.
            durable: after the call, a crash of the machine leaves the new content. Without it, a crash may also leave a
                damaged file: empty, or with zeros in it.
            private: only the broker's own user may read it.
        """
        ...

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        ...

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file, as `write_bytes` does."""
        ...

    def close(self) -> None:
        """Close the storage, so that another broker may use it."""
        ...
