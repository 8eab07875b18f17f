"""A storage in a directory, laid out as Kafka lays out one of its `log.dirs`.

Only files that are used are open, and a bounded number of them. How they are read and written is in `descriptor_file`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
from pathlib import Path
from weakref import WeakValueDictionary

from kafkaraw.broker.log.descriptor_file import DescriptorFile, read_at
from kafkaraw.broker.log.storage import Buffer, Content, LogFile
from kafkaraw.core.log.names import LOCK_FILE
from kafkaraw.errors import ConfigError
from kafkaraw.net.directory_locks import DirectoryLock
from kafkaraw.net.shared_files import SharedFile

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


class _Folder:
    """Where a folder is; the files that are open in it share this object, so that they follow when it is renamed."""

    __slots__ = ("__weakref__", "path")

    def __init__(self, path: str) -> None:
        self.path: str = path


class _Place:
    """Where a file is; everything that has it open shares this object."""

    __slots__ = ("__weakref__", "folder", "name")

    def __init__(self, folder: _Folder, name: str) -> None:
        self.folder: _Folder = folder
        self.name: str = name

    @property
    def path(self) -> str:
        """The path of today."""
        return f"{self.folder.path}/{self.name}"


class DiskFile(DescriptorFile):
    """An append-only file on disk, opened when it is used and closed when many others are.

    Args:
        place: where; the file is created when absent.
        open_files: those of its storage.
    """

    def __init__(self, place: _Place, open_files: OpenFiles) -> None:
        self._place = place
        self._open_files = open_files
        self._fd = -1
        self._file: SharedFile | None = None
        try:
            size_bytes = os.stat(place.path).st_size
        except FileNotFoundError:
            os.close(os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            size_bytes = 0
        super().__init__(size_bytes)

    def _descriptor(self) -> int:
        """The open file's descriptor; other files may be closed for it."""
        if self._fd < 0:
            self._open_files.make_room()
            self._fd = os.open(self._place.path, os.O_RDWR | os.O_CLOEXEC)
            self._file = SharedFile.share(self._fd)
        self._open_files.used(self)
        return self._fd

    def content(self, position: int, size: int) -> Content:
        """The bytes from `position` on, as a slice that can be sent without being read.

        No file is closed for it, because slices of others may be waiting to be sent in the same answer: when as many
        are open as may be, the bytes are read.
        """
        if self._fd >= 0 or not self._open_files.is_full:
            return super().content(position, size)
        descriptor = os.open(self._place.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_at(descriptor, position, min(size, self._size_bytes - position))
        finally:
            os.close(descriptor)

    def let_go(self) -> None:
        """Close the file until it is used again; responses in progress keep their own descriptor."""
        self._file = None
        self._fd = -1
        self._open_files.closed(self)

    def close(self) -> None:
        """Close the file for good."""
        self.let_go()


class UnusableDirectoryError(ConfigError):
    """A directory cannot be opened or read.

    Args:
        path: the directory.
        error: the error of the operating system.
    """

    def __init__(self, path: str | os.PathLike[str], error: OSError) -> None:
        super().__init__(f"log.dirs: {path} cannot be used as a data directory: {error.strerror}")
        self.error = error


class FileStorage:
    """A directory of partition folders.

    Args:
        path: the directory; it is created when absent.

    Raises:
        ConfigError: another broker uses the directory.
        UnusableDirectoryError: the path cannot be a directory, or its file system is broken or read-only.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._root = str(self.path)  # paths are joined as text: a start with many partitions does so 100,000 times
        self._open_files = OpenFiles(_open_files_max())
        self._folders: WeakValueDictionary[str, _Folder] = WeakValueDictionary()
        self._places: WeakValueDictionary[tuple[_Folder, str], _Place] = WeakValueDictionary()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = DirectoryLock(self.path / LOCK_FILE)
        except BlockingIOError as error:
            raise ConfigError(f"log.dirs: {self.path} is in use by another broker; stop it first") from error
        except OSError as error:
            raise UnusableDirectoryError(self.path, error) from error

    def _folder_path(self, folder: str) -> str:
        return f"{self._root}/{folder}" if folder else self._root

    def _file_path(self, folder: str, name: str) -> str:
        return f"{self._root}/{folder}/{name}" if folder else f"{self._root}/{name}"

    def folders(self) -> list[str]:
        """Names of all folders, sorted."""
        with os.scandir(self._root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_folder(self, folder: str) -> None:
        """Create a folder; one that exists is left alone."""
        try:
            os.mkdir(self._folder_path(folder))
        except FileExistsError:
            if not os.path.isdir(self._folder_path(folder)):
                raise

    def rename_folder(self, folder: str, new_name: str) -> None:
        """Rename a folder with all that is in it."""
        os.rename(self._folder_path(folder), self._folder_path(new_name))
        moved = self._folders.pop(folder, None)
        if moved is not None:
            moved.path = self._folder_path(new_name)
            self._folders[new_name] = moved

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it; one that does not exist is no error."""
        with contextlib.suppress(FileNotFoundError):
            # With one free descriptor, where rmtree takes two: a creation that ran out of them must be able to go back.
            for name in os.listdir(self._folder_path(folder)):
                with contextlib.suppress(IsADirectoryError, PermissionError):
                    os.unlink(self._file_path(folder, name))
            try:
                os.rmdir(self._folder_path(folder))
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                shutil.rmtree(self._folder_path(folder))  # it contains folders, which the broker did not create

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        with os.scandir(self._folder_path(folder)) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file for reading and appending; it is created when absent."""
        return DiskFile(self._place(folder, name), self._open_files)

    def _place(self, folder: str, name: str) -> _Place:
        within = self._folders.get(folder)
        if within is None:
            within = self._folders[folder] = _Folder(self._folder_path(folder))
        place = self._places.get((within, name))
        if place is None:
            place = self._places[within, name] = _Place(within, name)
        return place

    def file_size(self, folder: str, name: str) -> int | None:
        """The size of a file in bytes; None when there is none."""
        try:
            return os.stat(self._file_path(folder, name)).st_size
        except FileNotFoundError:
            return None

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        """Rename a file in one step; a file that has the new name is replaced. Open files follow their new name."""
        os.replace(self._file_path(folder, name), self._file_path(folder, new_name))
        known = self._folders.get(folder)
        moved = None if known is None else self._places.pop((known, name), None)
        if known is not None and moved is not None:
            moved.name = new_name
            self._places[known, new_name] = moved

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._file_path(folder, name))

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable."""
        sync_folder(self._folder_path(folder))

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        """The whole of a small file; None when there is none."""
        try:
            descriptor = os.open(self._file_path(folder, name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return bytes(read_at(descriptor, 0, os.fstat(descriptor).st_size))
        finally:
            os.close(descriptor)

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small file in one step: written aside, synced, renamed."""
        target, aside = self._file_path(folder, name), self._file_path(folder, f"{name}.tmp")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)  # one left by a crash may have other permissions
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
        with open(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, target)
        if durable:
            sync_folder(self._folder_path(folder))

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        data = self.read_bytes(folder, name)
        return None if data is None else data.decode()

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file, as `write_bytes` does."""
        self.write_bytes(folder, name, text.encode(), durable=durable, private=private)

    def close(self) -> None:
        """Release the lock of the directory."""
        self._lock.release()


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Make renames in a folder survive a crash of the machine."""
    folder_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
