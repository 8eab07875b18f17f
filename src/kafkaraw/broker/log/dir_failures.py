"""Failures of log directories: the first error of a directory takes it offline until the broker starts again.

`LogDirFailureChannel.guard` wraps the storage of a directory. If an operation of a guarded storage fails, the channel
logs it, refuses all further operations, and notifies the broker, which takes the replicas in the directory out of
service. As in Kafka, one error is enough: after a failed sync, for example, the bytes on the disk are unknown.
A process that has no free descriptor is not a failure of its directory. In-memory topics cannot fail in this way.
Source: org.apache.kafka.storage.internals.log.LogDirFailureChannel, LocalLog.maybeHandleIOException.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final, Never, ParamSpec, TypeAlias, TypeVar

from kafkaraw.broker.log.storage import Buffer, Content, LogFile, LogStorage

_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)

_FailingOperation: TypeAlias = Callable[..., Never]

P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger("kafkaraw.broker")


class LogDirOfflineError(OSError):
    """An operation in a log directory that is offline because an earlier operation has failed."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EIO, f"the log directory {path} is offline")


class FailedStorage:
    """The storage of a directory that could not be opened: every operation fails in the same way.

    Args:
        error: why.
    """

    def __init__(self, error: OSError) -> None:
        self._error = error

    def _fail(self, *_args: object, **_kwargs: object) -> Never:
        raise OSError(self._error.errno, self._error.strerror)

    folders: _FailingOperation = _fail
    make_folder: _FailingOperation = _fail
    rename_folder: _FailingOperation = _fail
    remove_folder: _FailingOperation = _fail
    files: _FailingOperation = _fail
    sync_folder: _FailingOperation = _fail
    open_file: _FailingOperation = _fail
    file_size: _FailingOperation = _fail
    rename_file: _FailingOperation = _fail
    remove_file: _FailingOperation = _fail
    read_bytes: _FailingOperation = _fail
    write_bytes: _FailingOperation = _fail
    read_text: _FailingOperation = _fail
    write_text: _FailingOperation = _fail

    def close(self) -> None:
        """Nothing is open."""


class LogDirFailureChannel:
    """Collects the failures of a broker's log directories.

    Args:
        on_failure: called with the path of a directory and its error, once for each directory, in the middle of the
            operation that failed: it must not use the directory, or change replicas before that operation has ended.
    """

    def __init__(self, on_failure: Callable[[str, OSError], None]) -> None:
        self._on_failure = on_failure
        self._offline: dict[str, OSError] = {}

    def guard(self, storage: LogStorage, path: str) -> LogStorage:
        """Return the storage of a directory, guarded.

        Args:
            storage: its files.
            path: names the directory in the log and in errors.
        """
        return _GuardedStorage(self, storage, path)

    @property
    def offline(self) -> dict[str, OSError]:
        """The directories that are offline, each with the error that took it offline."""
        return dict(self._offline)

    def is_offline(self, path: str) -> bool:
        """Return whether a directory is offline."""
        return path in self._offline

    def failed(self, path: str, action: str, error: OSError) -> None:
        """Take a directory offline, because an operation in it has failed.

        Args:
            path: the directory.
            action: what failed, such as "appending to t-0/00000000000000000000.log".
            error: its error.
        """
        if error.errno in _NO_DESCRIPTOR or path in self._offline:
            return
        self._offline[path] = error
        _logger.error("Error while %s in dir %s: %s", action, path, error)
        self._on_failure(path, error)


class _Guard:
    """What guarded storages and files have in common."""

    __slots__ = ("_channel", "_path")

    def __init__(self, channel: LogDirFailureChannel, path: str) -> None:
        self._channel = channel
        self._path = path

    def _run(self, action: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation, unless the directory is offline; if it fails, the directory is."""
        if self._channel.is_offline(self._path):
            raise LogDirOfflineError(self._path)
        try:
            return call(*args, **kwargs)
        except OSError as error:
            self._channel.failed(self._path, action, error)
            raise

    def _rename(self, action: str, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a renaming: callers ask for names that may not exist, which is no failure."""
        if self._channel.is_offline(self._path):
            raise LogDirOfflineError(self._path)
        try:
            call(*args, **kwargs)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._channel.failed(self._path, action, error)
            raise


class _GuardedStorage(_Guard):
    """A storage whose failures take its directory offline; see `LogStorage`."""

    __slots__ = ("_inner",)

    def __init__(self, channel: LogDirFailureChannel, inner: LogStorage, path: str) -> None:
        super().__init__(channel, path)
        self._inner = inner

    def folders(self) -> list[str]:
        return self._run("listing the folders", self._inner.folders)

    def make_folder(self, folder: str) -> None:
        self._run(f"creating {folder}", self._inner.make_folder, folder)

    def rename_folder(self, folder: str, new_name: str) -> None:
        self._rename(f"renaming {folder} to {new_name}", self._inner.rename_folder, folder, new_name)

    def remove_folder(self, folder: str) -> None:
        self._run(f"deleting {folder}", self._inner.remove_folder, folder)

    def files(self, folder: str) -> list[str]:
        return self._run(f"listing {folder}", self._inner.files, folder)

    def open_file(self, folder: str, name: str) -> LogFile:
        file = self._run(f"opening {folder}/{name}", self._inner.open_file, folder, name)
        return _GuardedFile(self._channel, file, self._path, f"{folder}/{name}")

    def file_size(self, folder: str, name: str) -> int | None:
        return self._run(f"looking up {folder}/{name}", self._inner.file_size, folder, name)

    def rename_file(self, folder: str, name: str, new_name: str) -> None:
        self._rename(f"renaming {folder}/{name} to {new_name}", self._inner.rename_file, folder, name, new_name)

    def remove_file(self, folder: str, name: str) -> None:
        self._run(f"deleting {folder}/{name}", self._inner.remove_file, folder, name)

    def sync_folder(self, folder: str) -> None:
        self._run(f"flushing {folder or 'the directory'}", self._inner.sync_folder, folder)

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        return self._run(f"reading {folder}/{name}", self._inner.read_bytes, folder, name)

    def write_bytes(self, folder: str, name: str, data: Buffer, *, durable: bool = True, private: bool = False) -> None:
        write = self._inner.write_bytes
        self._run(f"writing {folder}/{name}", write, folder, name, data, durable=durable, private=private)

    def read_text(self, folder: str, name: str) -> str | None:
        return self._run(f"reading {folder}/{name}", self._inner.read_text, folder, name)

    def write_text(self, folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
        write = self._inner.write_text
        self._run(f"writing {folder}/{name}", write, folder, name, text, durable=durable, private=private)

    def close(self) -> None:
        self._inner.close()


class _GuardedFile(_Guard):
    """A log file whose failures take its directory offline; see `LogFile`."""

    __slots__ = ("_inner", "_name")

    def __init__(self, channel: LogDirFailureChannel, inner: LogFile, path: str, name: str) -> None:
        super().__init__(channel, path)
        self._inner = inner
        self._name = name

    @property
    def size_bytes(self) -> int:
        return self._inner.size_bytes

    def append(self, data: Buffer) -> None:
        self._run(f"appending to {self._name}", self._inner.append, data)

    def write_at(self, position: int, data: Buffer) -> None:
        self._run(f"writing {self._name}", self._inner.write_at, position, data)

    def allocate(self, size: int) -> None:
        self._run(f"allocating {self._name}", self._inner.allocate, size)

    def read(self, position: int, size: int) -> memoryview:
        return self._run(f"reading {self._name}", self._inner.read, position, size)

    def content(self, position: int, size: int) -> Content:
        return self._run(f"reading {self._name}", self._inner.content, position, size)

    def truncate(self, size: int) -> None:
        self._run(f"truncating {self._name}", self._inner.truncate, size)

    def sync(self) -> None:
        self._run(f"flushing {self._name}", self._inner.sync)

    def close(self) -> None:
        self._inner.close()
