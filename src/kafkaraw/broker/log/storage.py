"""The interface of the storage for the broker's files: the `LogStorage` and `LogFile` protocols.

A storage holds folders (one per partition, and the root, named "") of append-only log files and small text files.
Two implementations: `file_storage.FileStorage` (a directory) and `memory_storage.MemoryStorage` (for tests, and for
simulations that lose unsynced bytes). All calls are synchronous: a write goes to the page cache, never to a thread.
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

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on."""
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

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        ...

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        ...

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file in one step: after a crash it holds the old text or the new one.

        Args:
            folder: where.
            name: of the file.
            text: its new content.
            durable: after the call, a crash of the machine leaves the new text.
            private: only the broker's own user may read it.
        """
        ...

    def close(self) -> None:
        """Close the storage, so that another broker may use it."""
        ...
