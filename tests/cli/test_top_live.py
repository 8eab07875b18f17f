"""The live screen of `kafkaraw top`, in a terminal of its own: keys, signals, clusters that come and go."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.top_live import pause_after, pause_after_failures
from kafkaraw.cli.top_terminal import KeyReader
from tests.cli.running import make_group_behind, make_topic
from tests.waiting import wait_until

TIMEOUT_S = 30.0
PASSWORD = "opensesame-4711"


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    """A broker with two topics and a group that is behind."""
    make_group_behind(servers)
    return servers


class Live:
    """`kafkaraw top` in a terminal of its own."""

    def __init__(self, arguments: Sequence[str], width: int = 100, height: int = 24, **environment: str) -> None:
        self.terminal, self._side = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(self._side)
        self.written = bytearray()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafkaraw", "top", *arguments],
            stdin=self._side,
            stdout=self._side,
            stderr=self._side,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
            preexec_fn=self._own_terminal,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _own_terminal(self) -> None:
        os.setsid()
        fcntl.ioctl(self._side, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.terminal, 65_536):
                self.written += data

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    @property
    def screen(self) -> list[str]:
        """The lines that are on the screen now."""
        return drawn(bytes(self.written))

    def wait_for(self, pattern: str, timeout_s: float = TIMEOUT_S) -> str:
        """Wait until a pattern is on the screen."""
        found = wait_until(lambda: re.search(pattern, "\n".join(self.screen), re.MULTILINE) is not None, timeout_s)
        assert found, f"no {pattern!r} within {timeout_s:g} s on\n" + "\n".join(self.screen)
        return "\n".join(self.screen)

    def end(self, timeout_s: float = TIMEOUT_S) -> int:
        """Wait for the process; the terminal must be as before."""
        code = self.process.wait(timeout_s)
        assert termios.tcgetattr(self._side) == self.before
        assert wait_until(lambda: self.written.endswith(b"\x1b[?25h\x1b[?1049l") or b"\x1b[?1049l" in self.written, 5)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT_S)
        os.close(self._side)
        self._reader.join(TIMEOUT_S)
        os.close(self.terminal)


def drawn(written: bytes) -> list[str]:
    """What a terminal shows of the escape sequences that `kafkaraw top` writes; others are shown as they are."""
    text = written.decode("utf-8", "ignore")
    lines: dict[int, str] = {}
    row = 1
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", text.rpartition("\x1b[?1049h")[2]):
        if found := re.fullmatch(r"\x1b\[(\d+);1H", piece):
            row = int(found[1])
        elif piece == "\x1b[2J":
            lines = {}
        elif piece == "\x1b[K":
            lines[row] = ""
        elif piece and not re.fullmatch(r"\x1b\[([0-9;]*m|\?25[lh]|\?1049[lh])", piece):
            lines[row] = lines.get(row, "") + piece
    return [lines.get(number, "").rstrip() for number in range(1, max(lines, default=0) + 1)]


@contextmanager
def live(*arguments: str, **more: object) -> Iterator[Live]:
    running = Live(arguments, **more)  # type: ignore[arg-type]
    try:
        yield running
    finally:
        running.close()


def test_the_screen_shows_views_follows_keys_and_quits(filled: str) -> None:
    with live("-b", filled, "-d", "0.5") as top:
        top.wait_for(r"^orders +2 +0")
        top.type("g")
        top.wait_for(r"^billing +classic +Empty +0 +1")
        top.type("\r")
        top.wait_for(r"> partitions of group billing")
        top.wait_for(r"^orders +0 +5 +20 +15 ")
        top.type("\x1b")
        top.wait_for(r"^GROUP ")
        top.type("t/fli\r")
        top.wait_for(r"/fli$")
        assert wait_until(lambda: not any("orders " in line for line in top.screen), TIMEOUT_S)
        top.wait_for(r"^flights ")
        top.type("\x1b[B\r")
        top.wait_for(r"> partitions of flights")
        top.resize(50, 12)
        os.kill(top.process.pid, signal.SIGWINCH)
        top.wait_for(r"> partitions of fl")
        assert wait_until(lambda: len(top.screen) <= 12, TIMEOUT_S)
        top.type("q")
        assert top.end() == 0


@pytest.mark.parametrize(
    ("end", "code"), [("\x03", 130), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "SIGINT", "SIGTERM"]
)
def test_a_signal_ends_the_screen_at_once_and_restores_the_terminal(filled: str, end: str | int, code: int) -> None:
    with live("-b", filled) as top:
        top.wait_for(r"^orders ")
        began = time.monotonic()
        if isinstance(end, str):
            top.type(end)
        else:
            os.kill(top.process.pid, end)
        assert top.end() == code
        assert time.monotonic() - began < 3
        assert b"Traceback" not in top.written


def test_ctrl_c_ends_the_screen_while_the_cluster_does_not_answer() -> None:
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
    with live("-b", address) as top:
        top.wait_for(r"^Not connected; trying again in ")
        began = time.monotonic()
        top.type("\x03")
        assert top.end() == 130
        assert time.monotonic() - began < 3


def test_ctrl_z_gives_the_terminal_back_until_the_process_continues(filled: str) -> None:
    with live("-b", filled) as top:
        top.wait_for(r"^orders ")
        os.kill(top.process.pid, signal.SIGTSTP)
        assert wait_until(lambda: top.written.endswith(b"\x1b[?1049l"), TIMEOUT_S)
        assert termios.tcgetattr(top._side) == top.before
        os.kill(top.process.pid, signal.SIGCONT)
        top.wait_for(r"^orders ")
        top.type("q")
        assert top.end() == 0


def test_a_cluster_that_is_away_at_the_start_and_later_is_shown_when_it_comes(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        servers, port = broker.bootstrap_servers, int(broker.bootstrap_servers.rpartition(":")[2])
        make_topic(servers, "orders")
    with live("-b", servers, "-d", "0.5") as top:
        top.wait_for(r"^Not connected; trying again in ")
        with EmbeddedBroker(port, tmp_path):
            top.wait_for(r"^orders ", timeout_s=60)
        screen = top.wait_for(r"^No answer for .*; trying again in ", timeout_s=60)
        assert "orders " in screen, "the last numbers stay"
        with EmbeddedBroker(port, tmp_path):
            top.wait_for(r"^Nothing is wrong", timeout_s=60)
            top.type("q")
            assert top.end() == 0


def test_a_topic_that_is_deleted_while_it_is_shown_is_said(servers: str) -> None:
    make_topic(servers, "passing")
    with live("-b", servers, "-d", "0.5", "--view", "topics", "--filter", "passing") as top:
        top.wait_for(r"^passing ")
        top.type("\r")
        top.wait_for(r"> partitions of passing")
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics(["passing"])
        top.wait_for(r"^The topic passing does not exist any more")
        top.type("q")
        assert top.end() == 0


def test_credentials_that_are_refused_end_the_screen_with_one_line(servers: str) -> None:
    with live("-b", servers, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN",
              "-X", "sasl.username=ada", "-X", f"sasl.password={PASSWORD}") as top:  # fmt: skip
        top.wait_for(r"^(Not connected|Error)|^$")
        with contextlib.suppress(subprocess.TimeoutExpired):
            top.process.wait(5)
        if top.process.poll() is None:  # a listener without SASL closes the connection: that may pass
            top.type("q")
        top.end()
        assert b"Traceback" not in top.written and PASSWORD.encode() not in top.written


def test_colours_are_left_out_where_they_are_not_wanted(filled: str) -> None:
    with live("-b", filled, "-d", "0.5", NO_COLOR="1") as top:
        top.wait_for(r"^orders ")
        top.type("q")
        assert top.end() == 0
    assert re.search(rb"\x1b\[[0-9;]*3[1-6]m", top.written) is None


def test_a_refresh_writes_only_the_lines_that_have_changed(filled: str) -> None:
    with live("-b", filled, "-d", "0.5") as top:
        top.wait_for(r"^orders ")
        before = len(top.written)
        frames = top.written.count(b"\x1b[1;1H")
        assert wait_until(lambda: top.written.count(b"\x1b[1;1H") >= frames + 4, TIMEOUT_S)
        assert (len(top.written) - before) / 4 < 400, "bytes of a refresh in which only the time has changed"
        top.type("q")
        top.end()


def test_a_terminal_without_unicode_gets_ascii(filled: str) -> None:
    with live("-b", filled, PYTHONIOENCODING="ascii", LC_ALL="C") as top:
        top.wait_for(r"RECORDS/Sv")
        top.type("q")
        assert top.end() == 0
    assert top.written.isascii()


# -- pace


@given(st.floats(0, 1000), st.floats(0.5, 3600))
def test_the_cluster_is_asked_for_at_most_a_quarter_of_the_time(took_s: float, interval_s: float) -> None:
    pause_s = pause_after(took_s, interval_s)
    assert took_s <= (took_s + pause_s) / 4 + 1e-9
    if took_s <= interval_s / 4:
        assert took_s + pause_s == pytest.approx(interval_s)


def test_attempts_after_failures_become_rarer() -> None:
    assert [pause_after_failures(count) for count in (1, 2, 3, 4, 5, 6, 10_000)] == [2, 4, 8, 16, 30, 30, 30]


# -- keys


def read(*pieces: bytes) -> list[str]:
    reader = KeyReader()
    found = [key for piece in pieces for key in reader.feed(piece)]
    return found + (reader.flush() if reader.is_waiting else [])


def test_keys_are_read_from_the_bytes_of_terminals() -> None:
    assert read(b"q\x1b[A\x1bOB\x1b[5~\x1b[1~\r\t\x7f\xc3\xbc") == [
        "q", "up", "down", "pageup", "home", "enter", "tab", "backspace", "ü"
    ]  # fmt: skip


def test_sequences_may_come_in_pieces_and_a_lone_escape_is_a_key() -> None:
    assert read(b"\x1b", b"[", b"B") == ["down"]
    assert read(b"\x1b") == ["escape"]
    assert read(b"\x1b\x1b[A") == ["escape", "up"]
    assert read(b"\x1bq") == ["escape", "q"]
    assert read(b"\xc3", b"\xbc") == ["ü"]


@pytest.mark.parametrize("data", [b"\x1b[200~", b"\x1b[<35;20;10M", b"\x1b[1;5C", b"\x1b[" + b"9" * 100])
def test_sequences_that_mean_nothing_here_are_dropped(data: bytes) -> None:
    assert "escape" not in read(data)
    assert read(data + b"q")[-1] == "q"
