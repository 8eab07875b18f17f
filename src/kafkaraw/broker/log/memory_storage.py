"""A storage in memory: for tests and temporary brokers, and for simulations of a machine that crashes.

The storage outlives its broker: a new broker with the same storage object finds the files of the previous one, all of
them after a clean stop, or without their unsynced bytes after `lose_unsynced()`.
"""

from __future__ import annotations

import errno
import os

from kafkaraw.broker.log.memory_chunks import Chunk, ChunkPool
from kafkaraw.broker.log.storage import ROOT, Buffer, LogFile


class MemoryFile:
    """An append-only file in memory, in chunks that grow with it. No append is ever split over two chunks.

    Args:
        pool: where chunks come from.
    """

    def __init__(self, pool: ChunkPool) -> None:
        self._pool = pool
        self._chunks: list[Chunk] = []
        self._size_bytes = 0
        self._synced_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._size_bytes

    def append(self, data: Buffer) -> None:
        """Write `data` at the end."""
        size = len(data)
        chunk = self._chunks[-1] if self._chunks else None
        if chunk is None or len(chunk.memory) - chunk.used < size:
            chunk = self._grow(size)
        chunk.memory[chunk.used : chunk.used + size] = data
        chunk.used += size
        self._size_bytes += size

    def _grow(self, size: int) -> Chunk:
        chunk = self._pool.take(size, self._size_bytes)
        self._chunks.append(chunk)
        return chunk

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        end = min(position + size, self._size_bytes)
        first = self.content(position, size)
        if len(first) >= end - position:
            return first
        joined = bytearray(first)
        while position + len(joined) < end:
            joined += self.content(position + len(joined), end - position - len(joined))
        return memoryview(joined)

    def content(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on, to the end of their chunk at most: a view, no copy."""
        if position >= self._size_bytes:
            return memoryview(b"")
        chunk = self._chunks[self._chunk_of(position)]
        start = position - chunk.position
        return chunk.memory[start : min(start + size, chunk.used)].toreadonly()

    def _chunk_of(self, position: int) -> int:
        low, high = 0, len(self._chunks)
        while high - low > 1:
            middle = (low + high) // 2
            if self._chunks[middle].position <= position:
                low = middle
            else:
                high = middle
        return low

    def write_at(self, position: int, data: Buffer) -> None:
        """Write `data` over the bytes from `position` on. Views handed out keep what they show: the rest is copied."""
        old = bytes(self.read(0, self._size_bytes))
        new = bytearray(old[:position].ljust(position, b"\0"))
        new += data
        new += old[len(new) :]
        self.drop()
        self.append(new)

    def allocate(self, size: int) -> None:
        """Memory needs no reservation."""

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on. Views handed out keep what they show: none is written to again."""
        if size >= self._size_bytes:
            return
        kept = bytes(self.read(0, size))
        self.drop()
        if kept:
            self.append(kept)
        self._synced_bytes = min(self._synced_bytes, size)

    def drop(self) -> None:
        """Drop all bytes; the file is not used again."""
        self._pool.give_back(self._chunks)
        self._chunks = []
        self._size_bytes = 0

    def sync(self) -> None:
        """Mark all bytes as synced."""
        self._synced_bytes = self._size_bytes

    def close(self) -> None:
        """Nothing to let go of: the memory belongs to the storage."""

    def lose_unsynced(self) -> None:
        """Forget what was appended after the last `sync()`, as a machine does that loses its power."""
        self.truncate(self._synced_bytes)


class MemoryStorage:
    """Folders of files in memory. Files that are written whole count as synced immediately."""

    def __init__(self) -> None:
        self._pool = ChunkPool()
        self._folders: dict[str, dict[str, MemoryFile]] = {ROOT: {}}

    def folders(self) -> list[str]:
        """Names of all folders, sorted."""
        return sorted(name for name in self._folders if name != ROOT)

    def make_folder(self, folder: str) -> None:
        """Create a folder; one that exists is left alone."""
        self._folders.setdefault(folder, {})

    def rename_folder(self, folder: str, new_name: str) -> None:
        """Rename a folder with all that is in it."""
        if folder not in self._folders:
            raise _not_found(folder)
        self._folders[new_name] = self._folders.pop(folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it."""
        for file in self._folders.pop(folder, {}).values():
            file.drop()

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        return sorted(self._folders[folder])

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file; it is created when absent."""
        return self._folders[folder].setdefault(name, MemoryFile(self._pool))

    def file_size(self, folder: str, name: str) -> int | None:
        """The size of a file in bytes; None when there is none."""
        file = self._folders[folder].get(name)
        return None if file is None else file.size_bytes

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        """Rename a file in one step; a file that has the new name is replaced."""
        files = self._folders[folder]
        if name not in files:
            raise _not_found(f"{folder}/{name}")
        files[new_name] = files.pop(name)

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        file = self._folders[folder].pop(name, None)
        if file is not None:
            file.drop()

    def sync_folder(self, folder: str) -> None:
        """Names are durable at once."""

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        """The whole of a small file; None when there is none."""
        file = self._folders[folder].get(name)
        return None if file is None else bytes(file.read(0, file.size_bytes))

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small file."""
        file = MemoryFile(self._pool)
        file.append(data)
        file.sync()
        self._folders[folder][name] = file

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        data = self.read_bytes(folder, name)
        return None if data is None else data.decode()

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file."""
        self.write_bytes(folder, name, text.encode(), durable=durable, private=private)

    def close(self) -> None:
        """Nothing to let go of."""

    def lose_unsynced(self) -> None:
        """Forget every appended byte that was not synced, in all files."""
        for files in self._folders.values():
            for file in files.values():
                file.lose_unsynced()


def _not_found(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
