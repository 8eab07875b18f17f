"""Ctrl-C and SIGTERM for commands that must end gracefully: leave a group, deliver messages.

The first signal asks the command to end; a second one ends the process at once. Before there is anything to end, and
wherever `Stop` knows that an exception does no harm, the first signal raises `KeyboardInterrupt`. Elsewhere it is only
noted, and the command's loop checks `asked`. Start at `Stop`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
TURN_S: Final = 0.2
"""The longest time until a loop that checks `Stop.asked` should check it again."""
_ECHO_S: Final = 0.3
"""A second signal within this time is the same one: `timeout` and other parents signal a process and its group."""
_AT_ONCE: Final = b"% Stopped at once.\n"


class Stop:
    """The requests of signals. As a context it handles the signals, and catches `KeyboardInterrupt` at its end.

    Enter it before slow imports: an exception that a signal raises inside of them may get lost.

    Attributes:
        signal: the first signal received; None if there was none.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._came_at = 0.0
        self._raises = True
        self._before: dict[int, signal.Handlers | object] = {}

    @property
    def asked(self) -> bool:
        """Whether a signal has asked the command to end."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code that shells report for a process that was ended by this signal."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # other threads must not, and get no signals either
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as of a process in a script's background
                    self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave
        return self.asked and isinstance(error, KeyboardInterrupt)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Inside this context, the first signal raises nothing; outside, it raises."""
        self._raises = False
        try:
            yield
        finally:
            self._raises = True

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if time.monotonic() - self._came_at < _ECHO_S:
                return
            with contextlib.suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _AT_ONCE)
            os._exit(128 + number)  # atexit would wait for connections and deliveries
        self.signal, self._came_at = signal.Signals(number), time.monotonic()
        if self._raises:
            raise KeyboardInterrupt
