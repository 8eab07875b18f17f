"""Locks of log directories: one broker writes in a directory at a time, of this package or Apache Kafka.

Kafka locks the file `.lock` with a POSIX lock of fcntl. Such a lock belongs to a process: it ends when the process
closes any descriptor of the file, for example after a refused second lock or a copy of the directory. Linux has locks
that conflict with them and belong to one open file (F_OFD_SETLK). Other systems get a POSIX lock, and one of flock
between the brokers of this package. Start at `DirectoryLock`.
Source: org.apache.kafka.server.util.FileLock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

_FLOCK: Final = "hhqqi4x"
"""Linux's struct flock: type, whence, start, length (0: to the end), process id (0 for locks of an open file)."""

_REFUSED: Final = (errno.EACCES, errno.EAGAIN)


class DirectoryLock:
    """The lock of a log directory, held until `release`.

    A forked child inherits it, and may keep its descriptor; `release` ends the lock in all processes.

    Args:
        path: the lock file.
        is_shared: conflict only with locks that are not shared; the file must exist. Without it, the file is created.

    Raises:
        BlockingIOError: another process, or another lock of this one, holds it.
        OSError: the file cannot be opened, or its file system has no locks.
    """

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        flags = os.O_RDONLY if is_shared else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            _lock(self._descriptor, is_shared=is_shared)
        except OSError as error:
            self._close()
            if error.errno in _REFUSED:
                raise BlockingIOError(errno.EAGAIN, "another process holds the lock", str(path)) from error
            raise

    def release(self) -> None:
        """Release the lock; a second call has no effect."""
        if self._descriptor >= 0:
            _unlock(self._descriptor)
            self._close()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


if sys.platform == "linux":

    def _lock(descriptor: int, *, is_shared: bool) -> None:
        _set(descriptor, fcntl.F_RDLCK if is_shared else fcntl.F_WRLCK)

    def _unlock(descriptor: int) -> None:
        _set(descriptor, fcntl.F_UNLCK)

    def _set(descriptor: int, kind: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0))

else:

    def _lock(descriptor: int, *, is_shared: bool) -> None:
        operation = (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        fcntl.flock(descriptor, operation)
        fcntl.lockf(descriptor, operation)

    def _unlock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
