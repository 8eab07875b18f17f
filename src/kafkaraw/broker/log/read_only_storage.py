"""A storage that shows a directory and changes nothing in it: what a broker writes stays in memory (copy on write).

So a broker starts on a copy of a data directory as on any other, with the recovery of its logs, and the copy keeps
every byte. The directory must not change meanwhile: its names are read once. Start at `ReadOnlyStorage`.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkaraw.broker.log.folders import Folders
from kafkaraw.broker.log.storage import ROOT, Buffer
from kafkaraw.core.log.names import LOCK_FILE
from kafkaraw.errors import ConfigError
from kafkaraw.net.directory_locks import DirectoryLock

_MAPPED_BYTES_MIN: Final = 256 * 1024
"""Smaller files are read: a process may map a limited number of files."""


class CopyOnWriteFile:
    """A file of the directory, with what was written to it since.

    Args:
        path: the file in the directory; None for a new file.
        size_bytes: its size there.
    """

    def __init__(self, path: Path | None, size_bytes: int) -> None:
        self._path = path
        self._kept_bytes = size_bytes
        self._content: memoryview | None = None
        self._written = bytearray()

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._kept_bytes + len(self._written)

    def append(self, data: Buffer) -> None:
        """Add `data` at the end, in memory."""
        self._written += data

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        end = min(position + size, self.size_bytes)
        if end <= self._kept_bytes:
            return self.content(position, size)
        kept = bytes(self._kept()[position : self._kept_bytes])
        start = max(position - self._kept_bytes, 0)
        return memoryview(kept + bytes(self._written[start : end - self._kept_bytes]))

    def content(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on, up to those that were written since."""
        if position >= self._kept_bytes:
            start = position - self._kept_bytes
            return memoryview(bytes(self._written[start : start + size]))
        return self._kept()[position : min(position + size, self._kept_bytes)]

    def _kept(self) -> memoryview:
        """Return the content of the file in the directory."""
        if self._content is None:
            if self._path is None or not self._kept_bytes:
                self._content = memoryview(b"")
            elif self._kept_bytes < _MAPPED_BYTES_MIN:
                self._content = memoryview(self._path.read_bytes())
            else:
                with open(self._path, "rb") as file:
                    self._content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return self._content

    def write_at(self, position: int, data: Buffer) -> None:
        """Write `data` over the bytes from `position` on; what was there before is copied to memory."""
        if position < self._kept_bytes:
            self._written = bytearray(self._kept()[position : self._kept_bytes]) + self._written
            self._kept_bytes = position
        start = position - self._kept_bytes
        self._written.extend(bytes(max(start - len(self._written), 0)))
        self._written[start : start + len(data)] = data

    def allocate(self, size: int) -> None:
        """Memory needs no reservation."""

    def truncate(self, size: int) -> None:
        """Hide everything from byte `size` on."""
        del self._written[max(size - self._kept_bytes, 0) :]
        self._kept_bytes = min(self._kept_bytes, size)

    def sync(self) -> None:
        """Nothing is to survive."""

    def close(self) -> None:
        """The storage keeps what was written."""


class ReadOnlyStorage(Folders[CopyOnWriteFile]):
    """A directory of partition folders, with the changes of a broker in memory.

    Args:
        path: the directory.

    Raises:
        ConfigError: there is no such directory, or a broker that may change it uses it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._lock: DirectoryLock | None = None
        try:
            entries = list(os.scandir(self.path))
            self._lock_shared()
            inner = {entry.name: _files_of(Path(entry.path)) for entry in entries if entry.is_dir()}
            super().__init__({ROOT: _files_of(self.path), **inner})
        except OSError as error:
            self.close()
            raise ConfigError(f"log.dirs: {error.filename or self.path} cannot be read: {error.strerror}") from error

    def _lock_shared(self) -> None:
        """Take the lock of the directory, if it has the file, together with other readers only."""
        try:
            with suppress(FileNotFoundError):
                self._lock = DirectoryLock(self.path / LOCK_FILE, is_shared=True)
        except BlockingIOError as error:
            raise ConfigError(
                f"log.dirs: {self.path} is in use by a broker, which changes it: stop it, or copy the directory"
            ) from error

    def _new_file(self) -> CopyOnWriteFile:
        return CopyOnWriteFile(None, 0)

    def close(self) -> None:
        """Release the lock of the directory."""
        if self._lock is not None:
            self._lock.release()


def _files_of(folder: Path) -> dict[str, CopyOnWriteFile]:
    return {
        entry.name: CopyOnWriteFile(Path(entry.path), entry.stat().st_size)
        for entry in os.scandir(folder)
        if entry.is_file()
    }
