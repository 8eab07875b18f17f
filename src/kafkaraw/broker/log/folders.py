"""`Folders`: a storage whose folders and files are objects by name; `MemoryStorage` and `ReadOnlyStorage` are such.

It must not decide what a file is: its subclasses make files, and let go of those that are removed.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kafkaraw.broker.log.storage import ROOT, Buffer, LogFile

File = TypeVar("File", bound=LogFile)


class Folders(ABC, Generic[File]):
    """Folders of files. See `storage.LogStorage`.

    Args:
        folders: the files of each folder by name; the storage changes it.
    """

    def __init__(self, folders: dict[str, dict[str, File]]) -> None:
        self._folders = folders

    @abstractmethod
    def _new_file(self) -> File:
        """Return an empty file."""

    def _drop(self, file: File) -> None:
        """Let go of a file that was removed."""

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
        """Remove a folder with all that is in it; one that does not exist is no error."""
        for file in self._folders.pop(folder, {}).values():
            self._drop(file)

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        return sorted(self._folders[folder])

    def open_file(self, folder: str, name: str) -> LogFile:
        """Open a log file; it is created when absent."""
        files = self._folders[folder]
        if name not in files:
            files[name] = self._new_file()
        return files[name]

    def file_size(self, folder: str, name: str) -> int | None:
        """The size of a file in bytes; None when there is none."""
        file = self._folders.get(folder, {}).get(name)
        return None if file is None else file.size_bytes

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        """Rename a file in one step; a file that has the new name is replaced."""
        files = self._folders.get(folder, {})
        if name not in files:
            raise _not_found(f"{folder}/{name}")
        self._replace(files, new_name, files.pop(name))

    def _replace(self, files: dict[str, File], name: str, file: File) -> None:
        replaced = files.get(name)
        files[name] = file
        if replaced is not None:
            self._drop(replaced)

    def remove_file(self, folder: str, name: str) -> None:
        """Remove a file; one that does not exist is no error."""
        file = self._folders.get(folder, {}).pop(name, None)
        if file is not None:
            self._drop(file)

    def sync_folder(self, folder: str) -> None:
        """There is nothing to sync to."""

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        """The whole of a small file; None when there is none."""
        file = self._folders.get(folder, {}).get(name)
        return None if file is None else bytes(file.read(0, file.size_bytes))

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small file."""
        file = self._new_file()
        file.append(data)
        self._replace(self._folders[folder], name, file)

    def read_text(self, folder: str, name: str) -> str | None:
        """The whole of a small text file; None when there is none."""
        data = self.read_bytes(folder, name)
        return None if data is None else data.decode()

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        """Replace a small text file, as `write_bytes` does."""
        self.write_bytes(folder, name, text.encode(), durable=durable, private=private)


def _not_found(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
