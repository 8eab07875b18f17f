"""A disk in memory that crashes, tears writes and fails, driven by a seed: the `LogStorage` of simulations.

It keeps what a program sees apart from what a crash leaves. A crash keeps, as POSIX allows:

- of a file: what was synced, and any subset of the writes after that, each of them whole or torn at any byte; zeros
  where a write is missing between two that arrived;
- of a folder: the names at its last `sync_folder`, and the first few of the changes after that;
- of a file replaced by `write_bytes` with `durable`: the old bytes or the new ones; without it, a damaged mixture, too.

A sync that fails loses the writes that it should have made durable, and later syncs succeed, as on Linux. Each call
counts as one operation; `crash_at` cuts the power in the middle of one, `fail_at` and `refuse` let operations fail.
No real file is touched. Start at `SimulatedDisk`.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from kafkaraw.broker.log.storage import ROOT, Buffer, LogFile
from kafkaraw.light_classes import dataclass

T = TypeVar("T")
TEAR_PROBABILITY: Final = 0.3


@dataclass(frozen=True, slots=True)
class _Write:
    """Bytes that were written and are not synced; `data` of None is a truncation to `position`."""

    position: int
    data: bytes | None


class _Content:
    """The bytes of one file: those that the program sees, those that are synced, and the writes between the two."""

    __slots__ = ("durable", "pending", "seen")

    def __init__(self, seen: bytes = b"") -> None:
        self.seen: bytearray = bytearray(seen)
        self.durable: bytearray = bytearray(seen)
        self.pending: list[_Write] = []

    def write(self, position: int, data: Buffer) -> None:
        self._apply(self.seen, _Write(position, bytes(data)))
        self.pending.append(_Write(position, bytes(data)))

    def truncate(self, size: int) -> None:
        del self.seen[size:]
        self.pending.append(_Write(size, None))

    def sync(self) -> None:
        for write in self.pending:  # not all that is seen: what a failed sync has lost stays lost
            self._apply(self.durable, write)
        self.pending.clear()

    def sync_lost(self, rng: random.Random, kept_share: float) -> None:
        """Fail to sync: the writes count as clean, and only some of them are durable."""
        self.durable = self.after_crash(rng, kept_share)
        self.pending.clear()

    def after_crash(self, rng: random.Random, kept_share: float) -> bytearray:
        """Return what a crash leaves."""
        left = bytearray(self.durable)
        for write in self.pending:
            if rng.random() < kept_share:
                self._apply(left, _torn(write, rng))
        return left

    @staticmethod
    def _apply(content: bytearray, write: _Write) -> None:
        if write.data is None:
            del content[write.position :]
            return
        content += bytes(max(0, write.position - len(content)))
        content[write.position : write.position + len(write.data)] = write.data


def _torn(write: _Write, rng: random.Random) -> _Write:
    """Return what arrives of a write: all, or a part of it, with the file's new size or without it."""
    if not write.data or rng.random() >= TEAR_PROBABILITY:
        return write
    at = rng.randrange(len(write.data))
    kept = write.data[:at] if rng.random() < 0.5 else bytes(at) + write.data[at:]
    return _Write(write.position, kept.ljust(len(write.data), b"\0") if rng.random() < 0.5 else kept)


_Names = dict[str, _Content]


class _Folder:
    """The names in a folder: those that the program sees, and all versions since the last sync."""

    __slots__ = ("names", "versions")

    def __init__(self) -> None:
        self.names: _Names = {}
        self.versions: list[_Names] = [{}]

    def changed(self) -> None:
        self.versions.append(dict(self.names))

    def sync(self) -> None:
        self.versions = [dict(self.names)]


class SimulatedDisk:
    """A `LogStorage` whose machine can crash.

    Args:
        rng: decides what a crash keeps.
        kept_share: the share of the unsynced writes that survive a crash, whole or torn.
        keeps_names: a crash keeps all names, as file systems that write them to their journal mostly do.

    Attributes:
        operations: how many operations there were.
        on_operation: called with the name of each operation before it happens; it may raise an `OSError`.
        on_crash: called when `crash_at` has cut the power; a broker on it must be killed.
        is_crashed: the power is off: every operation fails until `restart`.
        has_lost_writes: a sync has failed since the last crash, so what the program sees is not what is on the disk.
    """

    def __init__(self, rng: random.Random, *, kept_share: float = 0.5, keeps_names: bool = False) -> None:
        self._rng = rng
        self._kept_share = kept_share
        self._keeps_names = keeps_names
        self._folders: dict[str, _Folder] = {ROOT: _Folder()}
        self._folder_versions: list[dict[str, _Folder]] = [dict(self._folders)]
        self._crash_in: int | None = None
        self._failures: dict[str, int] = {}
        self._fails_in: tuple[int, int] | None = None
        self.operations: int = 0
        self.is_crashed: bool = False
        self.has_lost_writes: bool = False
        self.on_operation: Callable[[str], object] = lambda name: None
        self.on_crash: Callable[[str], object] = lambda name: None

    # -- faults ------------------------------------------------------------------------------------------------------

    def crash_at(self, operation: int) -> None:
        """Cut the power in the middle of an operation: 1 is the next one."""
        self._crash_in = operation

    def fail_at(self, operation: int, number: int = errno.EIO) -> None:
        """Let one operation fail with an error number: 1 is the next one."""
        self._fails_in = (operation, number)

    def refuse(self, number: int | None, *names: str) -> None:
        """Let all operations of these names fail with an error number until it is None: a full or read-only disk.

        Without names, all that change something fail.
        """
        for name in names or CHANGES:
            if number is None:
                self._failures.pop(name, None)
            else:
                self._failures[name] = number

    def lose_unsynced(self) -> None:
        """Crash between two operations, and start again."""
        self.crash()
        self.restart()

    def crash(self) -> None:
        """Cut the power: keep what is synced, and a part of the rest."""
        survivors: dict[str, _Folder] = {}
        for name, folder in self._surviving(self._folder_versions).items():
            survivors[name] = fresh = _Folder()
            for file, content in self._surviving(folder.versions).items():
                fresh.names[file] = _Content(bytes(content.after_crash(self._rng, self._kept_share)))
            fresh.sync()
        survivors.setdefault(ROOT, _Folder())
        self._folders = survivors
        self._folder_versions = [dict(survivors)]
        self._crash_in = self._fails_in = None
        self._failures.clear()
        self.is_crashed = True
        self.has_lost_writes = False

    def _surviving(self, versions: list[dict[str, T]]) -> dict[str, T]:
        """Return one of the versions since the last sync."""
        if self._keeps_names:
            return versions[-1]
        changes_max = len(versions) - 1 if self._kept_share else 0
        return versions[self._rng.randint(0, changes_max)]

    def restart(self) -> None:
        """Switch the power on again, and end all faults."""
        self._crash_in = self._fails_in = None
        self._failures.clear()
        self.is_crashed = False

    def operation(self, name: str, *, tear: Callable[[], object] | None = None) -> None:
        """Count an operation, and let it fail if it is its turn.

        Args:
            name: of the method.
            tear: does a part of the operation, for the crash in the middle of it, and for a disk that becomes full.

        Raises:
            OSError: it fails.
        """
        if self.is_crashed:
            raise _error(errno.EIO)
        self.operations += 1
        self.on_operation(name)
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in <= 0:
                if tear is not None:
                    tear()
                self.crash()
                self.on_crash(name)
                raise _error(errno.EIO)
        number = self._failures.get(name)
        if self._fails_in is not None:
            left, fails_with = self._fails_in
            self._fails_in = (left - 1, fails_with) if left > 1 else None
            number = fails_with if left <= 1 else number
        if number is not None:
            if tear is not None:
                tear()
            raise _error(number)

    @property
    def rng(self) -> random.Random:
        """Random numbers of this disk."""
        return self._rng

    @property
    def kept_share(self) -> float:
        """The share of the unsynced writes that survive a crash."""
        return self._kept_share

    # -- a LogStorage ------------------------------------------------------------------------------------------------

    def folders(self) -> list[str]:
        """Names of all folders, sorted."""
        self.operation("folders")
        return sorted(name for name in self._folders if name != ROOT)

    def make_folder(self, folder: str) -> None:
        """Create a folder; one that exists is left alone."""
        if folder not in self._folders:
            self.operation("make_folder")
            self._folders[folder] = _Folder()
            self._folders_changed()

    def rename_folder(self, folder: str, new_name: str) -> None:
        """Rename a folder with all that is in it."""
        if folder not in self._folders:
            raise _not_found(folder)
        self.operation("rename_folder")
        self._folders[new_name] = self._folders.pop(folder)
        self._folders_changed()

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it."""
        if folder in self._folders:
            self.operation("remove_folder", tear=lambda: self._remove_some(folder))
            del self._folders[folder]
            self._folders_changed()

    def _remove_some(self, folder: str) -> None:
        names = self._folders[folder].names
        for name in sorted(names):
            if self._rng.random() < 0.5:
                del names[name]
                self._folders[folder].changed()

    def _folders_changed(self) -> None:
        self._folder_versions.append(dict(self._folders))

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        self.operation("files")
        return sorted(self._names(folder))

    def _names(self, folder: str) -> _Names:
        if folder not in self._folders:
            raise _not_found(folder)
        return self._folders[folder].names

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file for reading and appending; it is created when absent."""
        self.operation("open_file")
        names = self._names(folder)
        content = names.get(name)
        if content is None:
            content = names[name] = _Content()
            self._folders[folder].changed()
        return SimulatedFile(self, content)

    def file_size(self, folder: str, name: str) -> int | None:
        """The size of a file in bytes; None when there is none."""
        content = self._names(folder).get(name)
        return None if content is None else len(content.seen)

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        """Rename a file in one step; a file that has the new name is replaced."""
        names = self._names(folder)
        if name not in names:
            raise _not_found(f"{folder}/{name}")
        self.operation("rename_file")
        names[new_name] = names.pop(name)
        self._folders[folder].changed()

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        names = self._names(folder)
        if name in names:
            self.operation("remove_file")
            del names[name]
            self._folders[folder].changed()

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable."""
        names = self._names(folder)
        self.operation("sync_folder")
        assert names is not None
        self._sync_names(folder)

    def _sync_names(self, folder: str) -> None:
        self._folders[folder].sync()
        if folder == ROOT:
            self._folder_versions = [dict(self._folders)]

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        """The whole of a small file; None when there is none."""
        self.operation("read_bytes")
        content = self._names(folder).get(name)
        return None if content is None else bytes(content.seen)

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small file in one step."""
        names = self._names(folder)
        aside = f"{name}.tmp"

        def write_aside() -> _Content:
            content = names[aside] = _Content()
            self._folders[folder].changed()
            content.write(0, data)
            return content

        self.operation("write_bytes", tear=write_aside)
        content = write_aside()
        if durable:
            content.sync()
        names[name] = names.pop(aside)
        self._folders[folder].changed()
        if durable:
            self._sync_names(folder)

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        data = self.read_bytes(folder, name)
        return None if data is None else data.decode()

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file, as `write_bytes` does."""
        self.write_bytes(folder, name, text.encode(), durable=durable, private=private)

    def close(self) -> None:
        """Nothing to let go of: the files stay for the next broker."""

    # -- for tests ---------------------------------------------------------------------------------------------------

    def contents(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield folder, name and bytes of every file that the program sees; this is no operation."""
        for folder, each in sorted(self._folders.items()):
            for name, content in sorted(each.names.items()):
                yield folder, name, bytes(content.seen)

    def copy_to(self, path: Path) -> None:
        """Write all files into a real directory, for tools that read one."""
        for folder in self._folders:
            (path / folder).mkdir(parents=True, exist_ok=True)
        for folder, name, data in self.contents():
            (path / folder / name).write_bytes(data)


CHANGES: Final = (
    "make_folder",
    "rename_folder",
    "remove_folder",
    "open_file",
    "rename_file",
    "remove_file",
    "write_bytes",
    "append",
    "write_at",
    "allocate",
    "truncate",
)
"""The operations that change something."""


class SimulatedFile:
    """An open file of a `SimulatedDisk`."""

    def __init__(self, disk: SimulatedDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self._size_bytes = len(content.seen)

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._size_bytes

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing; a failed write leaves bytes until the next call removes them."""
        self.write_at(self._size_bytes, data, "append")

    def write_at(self, position: int, data: Buffer, name: str = "write_at") -> None:
        """Write `data` over the bytes from `position` on; the file grows if `data` reaches beyond its end."""
        content = self._content

        def part() -> None:
            content.write(position, bytes(data)[: self._disk.rng.randrange(len(data) + 1)])

        self._disk.operation(name, tear=part)
        if name == "append" and len(content.seen) > position and any(content.seen[position:]):
            content.truncate(position)  # what a failed write has left
        content.write(position, data)
        self._size_bytes = max(self._size_bytes, position + len(data))

    def allocate(self, size: int) -> None:
        """Reserve space for a file of `size` bytes."""
        self._disk.operation("allocate")
        if size > len(self._content.seen):
            self._content.write(len(self._content.seen), bytes(size - len(self._content.seen)))

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        self._disk.operation("read")
        return memoryview(bytes(self._content.seen[position : min(position + size, self._size_bytes)]))

    def content(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on."""
        return self.read(position, size)

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on."""
        self._disk.operation("truncate")
        self._content.truncate(size)
        self._size_bytes = size

    def sync(self) -> None:
        """Make what was written survive a crash; a sync that fails loses it."""
        self._disk.operation("sync", tear=self._lose_sync)
        if len(self._content.seen) > self._size_bytes and any(self._content.seen[self._size_bytes :]):
            self._content.truncate(self._size_bytes)
        self._content.sync()

    def _lose_sync(self) -> None:
        self._disk.has_lost_writes = True
        self._content.sync_lost(self._disk.rng, self._disk.kept_share)

    def close(self) -> None:
        """Nothing to let go of."""


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _not_found(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
