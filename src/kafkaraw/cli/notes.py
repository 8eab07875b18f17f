"""Messages of commands that move records: on stderr, after `% ` as in kcat, to distinguish them from data.

Notes are printed unless `-q` is given; progress and the summary at the end only on a terminal. As a context, `Notes`
prints the client's log messages, too.
"""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Final

_PROGRESS_EVERY_S: Final = 0.5
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_RAISED: Final = "kafkaraw.core.group."
"""The next call raises the errors of these loggers, and the command ends with them, so they are not printed twice."""
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


class Notes:
    """Prints messages on stderr; as a context also the client's log messages.

    Args:
        quiet: print only errors.
        verbose: 0 for warnings of the client, 1 for information, 2 for everything.
        shares_terminal: data goes to the same terminal, so no line of progress may be drawn.
    """

    def __init__(self, *, quiet: bool, verbose: int = 0, shares_terminal: bool) -> None:
        self.quiet = quiet
        self._is_terminal = sys.stderr.isatty()
        self._draws = self._is_terminal and not quiet and not shares_terminal
        self._drawn = 0
        self._begun = self._last = time.monotonic()
        self._level = logging.ERROR if quiet else _LEVELS[min(verbose, len(_LEVELS) - 1)]
        self._level_before = logging.NOTSET
        self._handler = _Handler(self)

    def __enter__(self) -> Notes:
        log = logging.getLogger("kafkaraw")
        self._level_before = log.level
        log.setLevel(self._level)
        log.addHandler(self._handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        log = logging.getLogger("kafkaraw")
        log.removeHandler(self._handler)
        log.setLevel(self._level_before)

    def say(self, text: str) -> None:
        """Print a message, unless `quiet` is set."""
        if not self.quiet:
            self.print(text)

    def print(self, text: str) -> None:
        """Print a message, always."""
        self._clear()
        sys.stderr.write(f"% {text}\n")
        sys.stderr.flush()

    def progress(self, records: int, size_bytes: int) -> None:
        """Print the progress, at most twice a second, so it may be called often."""
        if not self._draws:
            return
        now = time.monotonic()
        if now - self._last >= _PROGRESS_EVERY_S:
            self._last = now
            text = f"% {_amount(records, size_bytes)}, {records / (now - self._begun):,.0f} a second"
            sys.stderr.write(f"\r{text:{self._drawn}}")
            sys.stderr.flush()
            self._drawn = len(text)

    def summary(self, what: str, records: int, size_bytes: int) -> None:
        """Print the totals, on a terminal."""
        if self._is_terminal:
            self.say(f"{what} {_amount(records, size_bytes)} in {time.monotonic() - self._begun:.1f} s")

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(f"\r{'':{self._drawn}}\r")
            self._drawn = 0


def _amount(records: int, size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{records:,} record{'' if records == 1 else 's'} ({size:.{1 if unit else 0}f} {_UNITS[unit]})"


class _Handler(logging.Handler):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.name.startswith(_RAISED):
            return
        self._notes.print(f"{record.levelname}: {record.getMessage()}")
