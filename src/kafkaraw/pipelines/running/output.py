"""What a run shows, written by a thread of its own: a pipe without a reader, or Ctrl-S, must not stop the run.

The run adds texts to a queue of limited size. If the reader is slow, progress is left out, but never an error and never
the end. If the reader is gone, nothing is written any more, and `is_broken` tells the run. Must not know what is shown.
Start at `Output`.
"""

from __future__ import annotations

import io
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PENDING_MAX: Final = 256 << 10
"""Bytes of progress that wait for the reader; about 1,000 lines."""
_CLOSE_TIMEOUT_S: Final = 5.0
_PIECE: Final = 4096
"""Bytes of one write: a pipe takes them whole."""


class Output(io.TextIOBase):
    """A text file that never blocks its writers.

    Args:
        descriptor: where texts go; closed by `close`, unless a write is blocked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_terminal = os.isatty(descriptor)
        self._pending: deque[bytes] = deque()
        self._pending_size = 0
        self._keeps = threading.local()
        self._changed = threading.Condition()
        self._closing = False
        self._broken = False
        self._thread = threading.Thread(target=self._follow, name="kafkaraw-output", daemon=True)
        self._thread.start()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant
        """The encoding of what is written."""
        return "utf-8"

    @property
    def is_broken(self) -> bool:
        """Whether the reader has closed its end."""
        return self._broken

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        return self._is_terminal

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within this context, what the calling thread writes is never left out."""
        self._keeps.all = True
        try:
            yield
        finally:
            self._keeps.all = False

    def write(self, text: str) -> int:
        """Add a text; it is left out if too much waits for the reader."""
        content = text.encode("utf-8", "replace")
        with self._changed:
            is_left_out = self._pending_size + len(content) > _PENDING_MAX and not getattr(self._keeps, "all", False)
            if not (is_left_out or self._broken or self._closing):
                self._pending.append(content)
                self._pending_size += len(content)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def close(self) -> None:
        """Wait until everything is written, for some seconds at most: the reader may have stopped reading."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_TIMEOUT_S)
        if not self._thread.is_alive() and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _follow(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._closing:
                    self._changed.wait()
                if not self._pending:
                    return
                content = self._pending.popleft()
            try:
                self._write_whole(content)
            except OSError:  # EPIPE, or EIO of a terminal that was closed
                with self._changed:
                    self._broken = True
                    self._pending.clear()
                return
            with self._changed:
                self._pending_size -= len(content)

    def _write_whole(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            try:
                left = left[os.write(self._descriptor, left[:_PIECE]) :]
            except BlockingIOError:  # another process has made the file non-blocking
                select.select([], [self._descriptor], [])
