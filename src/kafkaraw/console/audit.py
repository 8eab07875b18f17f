"""The audit log: one JSON object per line for each change that was asked for, before and after it is made.

Must not log contents of records or passwords: callers give names and numbers. Start at `Audit.change`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kafkaraw.errors import ConfigError

log: logging.Logger = logging.getLogger("kafkaraw.console.audit")


class Audit:
    """The audit log.

    Args:
        path: a file to append to; None logs to the logger `kafkaraw.console.audit` only.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        if path is not None:
            try:
                os.close(self._open(path))
            except OSError as error:
                raise ConfigError(f"--audit-file {path}: {error.strerror}") from error

    @contextlib.contextmanager
    def change(self, user: str, cluster: str, action: str, **facts: object) -> Iterator[None]:
        """Log a change that is made inside of this context, and how it ends.

        Raises:
            OSError: the file cannot be written; then nothing is changed.
        """
        start = time.monotonic()
        given = {"user": user, "cluster": cluster, "action": action, **facts}
        self._write({**given, "result": "begun"})
        try:
            yield
        except BaseException as error:
            self._write({**given, "result": "failed", "error": f"{type(error).__name__}: {error}"[:500]})
            raise
        self._write({**given, "result": "done", "seconds": round(time.monotonic() - start, 3)})

    def _write(self, entry: dict[str, object]) -> None:
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}, default=str)
        log.info("%s", line)
        if self._path is not None:
            file = self._open(self._path)
            try:
                os.write(file, line.encode() + b"\n")
            finally:
                os.close(file)

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
