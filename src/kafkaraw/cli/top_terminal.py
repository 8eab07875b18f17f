"""The terminal of `kafkaraw top`: keys from it, changed lines to it, and its state restored however the command ends.

Only lines that have changed are written, so that a slow connection carries little. It knows nothing of what is shown.
Start at `Terminal`.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.cli.top_screen import Line
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

_ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = b"\x1b[0m\x1b[?25h\x1b[?1049l"
ESCAPE_S: Final = 0.1
"""How long the rest of an escape sequence may take; then the Esc key was pressed."""
_SEQUENCES: Final = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[H": "home", "[F": "end", "OH": "home", "OF": "end", "[1~": "home", "[4~": "end", "[7~": "home", "[8~": "end",
    "[5~": "pageup", "[6~": "pagedown", "[Z": "backtab",
}  # fmt: skip
_CHARACTERS: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}
_SEQUENCE_LENGTH_MAX: Final = 16
_ASCII: Final = str.maketrans({"…": "~", "↓": "v", "↑": "^"})
"""What stands for the characters of the screen in terminals without Unicode."""
STYLES: Final = {
    "bold": "bold", "dim": "dim", "bad": "bold red", "warn": "yellow", "good": "green", "heading": "bold",
    "sorted": "bold reverse", "selected": "reverse", "key": "cyan",
}  # fmt: skip
"""The styles of lines, as rich has them."""


class KeyReader:
    """Turns the bytes of a terminal into keys; sequences may come in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it has the beginning of a sequence, or the Esc key."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete: characters, and names such as "up"."""
        self._pending += self._decoder.decode(data)
        return list(self._complete())

    def flush(self) -> list[str]:
        """Return the Esc key, if it was pressed; the rest of an unknown sequence is dropped."""
        pending, self._pending = self._pending, ""
        return ["escape"] if pending == "\x1b" else []

    def _complete(self) -> Iterator[str]:
        while self._pending:
            if self._pending[0] != "\x1b":
                character, self._pending = self._pending[0], self._pending[1:]
                yield _CHARACTERS.get(character, character)
                continue
            length = _sequence_length(self._pending)
            if length == 0:
                return
            sequence, self._pending = self._pending[1:length], self._pending[length:]
            if not sequence:
                yield "escape"
            elif sequence in _SEQUENCES:
                yield _SEQUENCES[sequence]


def _sequence_length(text: str) -> int:
    """Return how many characters at the beginning are one sequence; 0 if more must come first."""
    if len(text) == 1:
        return 0
    if text[1] not in "[O":
        return 1  # Esc, then another key
    for at, character in enumerate(text[2:_SEQUENCE_LENGTH_MAX], 2):
        if "@" <= character <= "~":
            return at + 1
    return _SEQUENCE_LENGTH_MAX if len(text) >= _SEQUENCE_LENGTH_MAX else 0


class LineWriter:
    """Turns lines into texts with the codes of their colours, as the terminal and NO_COLOR allow.

    Args:
        width: of the terminal, in cells; lines are cut at its edge.
    """

    def __init__(self, width: int) -> None:
        from rich.console import Console

        self._console: Console = Console(
            file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False, highlight=False
        )

    def text(self, line: Line) -> str:
        """Return the text of a line."""
        from rich.text import Text

        text = Text(end="", no_wrap=True, overflow="crop")
        for words, style in line:
            text.append(words, STYLES.get(style, ""))
        with self._console.capture() as captured:
            self._console.print(text, end="", no_wrap=True, overflow="crop", crop=True)
        return captured.get()


def changed_lines(before: Sequence[str], after: Sequence[str]) -> str:
    """Return what a terminal must get in order to show other lines."""
    return "".join(
        f"\x1b[{at};1H\x1b[K{text}" for at, text in enumerate(after, 1) if at > len(before) or before[at - 1] != text
    )


class Terminal:
    """The terminal of this process: between `open` and `close` it shows nothing else.

    Ctrl-Z gives it back until the process continues.

    Raises:
        UsageError: standard input or output is no terminal that can be controlled.
    """

    def __init__(self) -> None:
        try:
            import termios
        except ImportError:
            raise UsageError("the screen needs a terminal of Linux or macOS; --once prints the tables") from None
        self._termios: Any = termios
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "utf-8"
        self._keys = KeyReader()
        self._before: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wakeup: tuple[int, int] | None = None
        self._shown: list[str] = []
        self._size = (0, 0)
        self._writer: LineWriter | None = None

    def open(self) -> None:
        """Take the screen."""
        self._wakeup = os.pipe()
        for end in self._wakeup:
            os.set_blocking(end, False)
        self._take()
        self._handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._resized),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._suspended),
        }

    def close(self) -> None:
        """Restore the terminal; may be called twice, and without `open`."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._give_back()

    def _take(self) -> None:
        """Switch to a screen of our own; keys come at once and are not echoed."""
        termios = self._termios
        self._before = termios.tcgetattr(self._in)
        own = termios.tcgetattr(self._in)
        own[0] &= ~(termios.IXON | termios.ICRNL)
        own[3] &= ~(termios.ECHO | termios.ICANON)
        own[6][termios.VMIN], own[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSADRAIN, own)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        if self._before is not None:
            with contextlib.suppress(self._termios.error):  # a terminal that is closed has nothing to restore
                self._termios.tcsetattr(self._in, self._termios.TCSANOW, self._before)
            self._before = None
            with contextlib.suppress(OSError):
                self._write(_LEAVE)

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self.wake()

    def _suspended(self, number: int, frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)  # until the shell continues the process
        self._take()
        self.wake()

    def wake(self) -> None:
        """End the wait of `keys`, from any thread."""
        if self._wakeup is not None:
            with contextlib.suppress(BlockingIOError):  # it is full: it wakes in any case
                os.write(self._wakeup[1], b"\0")

    def keys(self, timeout_s: float) -> list[str]:
        """Wait for keys, a call of `wake`, or a time, and return the keys.

        Raises:
            EOFError: the terminal is gone.
        """
        assert self._wakeup is not None
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            wait_s = min(ESCAPE_S, left_s) if self._keys.is_waiting else left_s
            ready, _, _ = select.select([self._in, self._wakeup[0]], [], [], wait_s)
            if self._wakeup[0] in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup[0], 4096)
            if self._in in ready:
                data = os.read(self._in, 4096)
                if not data:
                    raise EOFError
                keys = self._keys.feed(data)
                if keys or not self._keys.is_waiting:
                    return keys
                continue
            if self._keys.is_waiting and not ready:
                return self._keys.flush()
            return []

    @property
    def size(self) -> tuple[int, int]:
        """Width in cells and height in lines."""
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self._out)
            if found.columns and found.lines:
                return found.columns, found.lines
        return 80, 24

    def redraw(self) -> None:
        """Write all lines the next time, whatever is on the screen."""
        self._shown = []

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines; those that are on the screen already are not written."""
        size = self.size
        text = ""
        if size != self._size or self._writer is None or not self._shown:
            self._size, self._shown, self._writer = size, [], LineWriter(size[0])
            text = "\x1b[0m\x1b[2J"
        written = [self._writer.text(line) for line in lines[: size[1]]]
        text += changed_lines(self._shown, written)
        self._shown = written
        if not self._encoding.lower().startswith("utf"):
            text = text.translate(_ASCII)
        if text:
            self._write(text.encode(self._encoding, "replace"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]
