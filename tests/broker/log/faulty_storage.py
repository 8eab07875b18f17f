"""A storage of which one operation fails: the n-th that writes or takes a descriptor, counted from `fail_at`.

What fails is chosen by number, so that a test can go through all of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from kafkaraw.broker.log.storage import Buffer, Content, LogFile, LogStorage


class FaultyStorage:
    """Delegates to a storage, apart from the operation that fails.

    Args:
        inner: where the files are.

    Attributes:
        operations: how many operations that can fail were asked for.
        failures: the names of the operations that failed since `fail_at`.
        open_files: how many are open.
        on_attempt: told the name of every operation.
    """

    def __init__(self, inner: LogStorage) -> None:
        self._inner = inner
        self._fails: range = range(0)
        self._number = errno.EIO
        self.operations = 0
        self.failures: list[str] = []
        self.open_files = 0
        self.on_attempt: Callable[[str], object] = lambda name: None

    def fail_at(self, operation: int, number: int = errno.EIO, *, times: int = 1) -> None:
        """Let operations fail with an error number, the first of them that one (the next is 1)."""
        first = self.operations + operation
        self._fails, self._number = range(first, first + times), number
        self.failures = []

    def attempt(self, name: str) -> None:
        """Count an operation, and fail when it is its turn."""
        self.operations += 1
        self.on_attempt(name)
        if self.operations in self._fails:
            self.failures.append(name)
            raise OSError(self._number, os.strerror(self._number))

    def make_folder(self, folder: str) -> None:
        self.attempt("make_folder")
        self._inner.make_folder(folder)

    def open_file(self, folder: str, name: str) -> LogFile:
        self.attempt("open_file")
        self.open_files += 1
        return _FaultyFile(self._inner.open_file(folder, name), self)

    def files(self, folder: str) -> list[str]:
        self.attempt("files")
        return self._inner.files(folder)

    def remove_folder(self, folder: str) -> None:
        self.attempt("remove_folder")
        self._inner.remove_folder(folder)

    def remove_file(self, folder: str, name: str) -> None:
        self.attempt("remove_file")
        self._inner.remove_file(folder, name)

    def rename_folder(self, folder: str, new_name: str) -> None:
        self.attempt("rename_folder")
        self._inner.rename_folder(folder, new_name)

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        self.attempt("rename_file")
        self._inner.rename_file(folder, name, new_name)

    def sync_folder(self, folder: str) -> None:
        self.attempt("sync_folder")
        self._inner.sync_folder(folder)

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        self.attempt("write_bytes")
        self._inner.write_bytes(folder, name, data, durable=durable, private=private)

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        self.attempt("write_text")
        self._inner.write_text(folder, name, text, durable=durable, private=private)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # what only reads


class _FaultyFile:
    def __init__(self, inner: LogFile, storage: FaultyStorage) -> None:
        self._inner = inner
        self._storage = storage
        self._attempt = storage.attempt

    @property
    def size_bytes(self) -> int:
        return self._inner.size_bytes

    def append(self, data: Buffer) -> None:
        self._attempt("append")
        self._inner.append(data)

    def write_at(self, position: int, data: Buffer) -> None:
        self._attempt("write_at")
        self._inner.write_at(position, data)

    def allocate(self, size: int) -> None:
        self._attempt("allocate")
        self._inner.allocate(size)

    def truncate(self, size: int) -> None:
        self._attempt("truncate")
        self._inner.truncate(size)

    def sync(self) -> None:
        self._attempt("sync")
        self._inner.sync()

    def read(self, position: int, size: int) -> memoryview:
        return self._inner.read(position, size)

    def content(self, position: int, size: int) -> Content:
        return self._inner.content(position, size)

    def close(self) -> None:
        self._storage.open_files -= 1
        self._inner.close()
