"""A storage in a directory, laid out as Kafka lays out one of its `log.dirs`.

Files are read by `FileSlice`, so that the network layer can send them without reading them. They are shared with it: a
file that is closed here stays open until its last answer is sent. So this module works by position (pread, pwrite).
Only files that are used are open, and a bounded number of them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import shutil
from pathlib import Path

from kafkaraw.broker.log.storage import Buffer, Content, LogFile
from kafkaraw.core.log.names import LOCK_FILE
from kafkaraw.errors import ConfigError
from kafkaraw.net.shared_files import SharedFile
from kafkaraw.protocol import FileSlice

OPEN_FILES_MAX = 1024
"""Log files that a storage has open at most; partitions may be more, and cost a descriptor only while they are used."""


def _open_files_max() -> int:
    """How many log files are open at most: a quarter of what the process may have, the rest is for connections."""
    return max(16, min(OPEN_FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class OpenFiles:
    """The log files of a storage that are open: those used last, up to a limit.

    Args:
        limit: how many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: dict[DiskFile, None] = {}  # the one used least recently comes first

    @property
    def is_full(self) -> bool:
        """Whether one has to be closed before another one is opened."""
        return len(self._files) >= self._limit

    def make_room(self) -> None:
        """Close the files used least recently. Slices of them must not be waiting to be sent."""
        while self.is_full:
            next(iter(self._files)).let_go()

    def used(self, file: DiskFile) -> None:
        """A file is open and was used just now."""
        self._files.pop(file, None)
        self._files[file] = None

    def closed(self, file: DiskFile) -> None:
        """A file is no longer open."""
        self._files.pop(file, None)


class DiskFile:
    """An append-only file on disk, opened when it is used and closed when many others are.

    Args:
        path: where; the file is created when absent.
        open_files: those of its storage.
    """

    def __init__(self, path: Path, open_files: OpenFiles) -> None:
        self._path = path
        self._open_files = open_files
        self._fd = -1
        self._file: SharedFile | None = None
        self._is_torn = False  # bytes of a failed write follow the last whole one
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def _descriptor(self) -> int:
        """The open file's descriptor; other files may be closed for it."""
        if self._fd < 0:
            self._open_files.make_room()
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            self._file = SharedFile.share(self._fd)
        self._open_files.used(self)
        return self._fd

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._size_bytes

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing."""
        if self._is_torn:  # a shorter write would leave the rest of the failed one behind it
            self.truncate(self._size_bytes)
        descriptor = self._descriptor()
        view = memoryview(data)
        written = 0
        try:
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], self._size_bytes + written)
        except OSError:
            self._is_torn = True
            with contextlib.suppress(OSError):
                self.truncate(self._size_bytes)
            raise
        self._size_bytes += written

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as there are."""
        return _read(self._descriptor(), position, size)

    def content(self, position: int, size: int) -> Content:
        """The bytes from `position` on, as a slice that can be sent without being read.

        No file is closed for it, because slices of others may be waiting to be sent in the same answer: when as many
        are open as may be, the bytes are read.
        """
        size = min(size, self._size_bytes - position)
        if self._fd < 0 and self._open_files.is_full:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _read(descriptor, position, size)
            finally:
                os.close(descriptor)
        return FileSlice(self._descriptor(), position, size)

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on."""
        os.ftruncate(self._descriptor(), size)
        self._size_bytes = size
        self._is_torn = False

    def sync(self) -> None:
        """Make what was written survive a crash of the machine, and nothing else."""
        if self._is_torn:  # the next segment comes after this: what is left of a failed write would count as damage
            self.truncate(self._size_bytes)
        os.fsync(self._descriptor())

    def let_go(self) -> None:
        """Close the file until it is used again; responses in progress keep their own descriptor."""
        self._file = None
        self._fd = -1
        self._open_files.closed(self)

    def close(self) -> None:
        """Close the file for good."""
        self.let_go()


def _read(descriptor: int, position: int, size: int) -> memoryview:
    parts = bytearray()
    while len(parts) < size:
        part = os.pread(descriptor, size - len(parts), position + len(parts))
        if not part:
            break
        parts += part
    return memoryview(parts)


class FileStorage:
    """A directory of partition folders.

    Args:
        path: the directory; it is created when absent.

    Raises:
        ConfigError: the path cannot be a directory, or another broker uses it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._open_files = OpenFiles(_open_files_max())
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"log.dirs: {self.path} cannot be used as a data directory: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(f"log.dirs: {self.path} is in use by another broker; stop it first") from error

    def folders(self) -> list[str]:
        """Names of all folders, sorted."""
        return sorted(entry.name for entry in self.path.iterdir() if entry.is_dir())

    def make_folder(self, folder: str) -> None:
        """Create a folder; one that exists is left alone."""
        (self.path / folder).mkdir(exist_ok=True)

    def rename_folder(self, folder: str, new_name: str) -> None:
        """Rename a folder with all that is in it."""
        (self.path / folder).rename(self.path / new_name)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it; one that does not exist is no error."""
        with contextlib.suppress(FileNotFoundError):
            # With one free descriptor, where rmtree takes two: a creation that ran out of them must be able to go back.
            for name in os.listdir(self.path / folder):
                with contextlib.suppress(IsADirectoryError, PermissionError):
                    (self.path / folder / name).unlink()
            try:
                (self.path / folder).rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                shutil.rmtree(self.path / folder)  # it contains folders, which the broker did not create

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        return sorted(entry.name for entry in (self.path / folder).iterdir() if entry.is_file())

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file for reading and appending; it is created when absent."""
        return DiskFile(self.path / folder / name, self._open_files)

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        (self.path / folder / name).unlink(missing_ok=True)

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        try:
            return (self.path / folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file in one step: written aside, synced, renamed."""
        target = self.path / folder / name
        aside = target.with_name(f"{name}.tmp")
        aside.unlink(missing_ok=True)  # one left by a crash may have other permissions
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(target)
        if durable:
            sync_folder(target.parent)

    def close(self) -> None:
        """Release the lock of the directory."""
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child may still have the descriptor, and so the lock
            os.close(self._lock)
            self._lock = -1


def sync_folder(path: Path) -> None:
    """Make renames in a folder survive a crash of the machine."""
    folder_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
