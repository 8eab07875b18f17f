"""The prompt of `kafkaraw sql` in a terminal: lines, Tab, Ctrl-C, progress, and its history."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kafkaraw import Producer
from tests.cli.running import fill, make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)
WAIT_S = 30
ROWS = 400_000
# In a session of its own whose terminal is the standard input, as in a terminal window: Ctrl-C reaches it alone.
IN_A_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'kafkaraw', *sys.argv[1:]])\n"
)


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *arguments: str, state: Path) -> None:
        self._terminal, side = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL, *arguments],
            stdin=side, stdout=side, stderr=side, start_new_session=True,
            env={**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
        os.close(side)
        self.shown = ""
        self._seen = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 65_536):
                self.shown += data.decode(errors="replace")
        except OSError:  # the other end is closed
            return

    def type(self, text: str) -> None:
        """Type text, and forget what was shown before."""
        self._seen = len(self.shown)
        os.write(self._terminal, text.encode())

    def expect(self, pattern: str) -> None:
        """Wait until something is shown since the last text was typed."""
        found = wait_until(lambda: re.search(pattern, self.since()) is not None, WAIT_S)
        assert found, f"{pattern!r} is not in {self.since()!r}"

    def since(self) -> str:
        """What was shown since the last text was typed, without colors and movements of the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown[self._seen :])

    def close(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        os.close(self._terminal)


@pytest.fixture(scope="module")
def topics(servers: str) -> str:
    make_topic(servers, "prompt-orders")
    fill(servers, "prompt-orders", [b'{"id": 1, "status": "paid"}', b'{"id": 2, "status": "\\u001b[31mred"}'])
    make_topic(servers, "plenty")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_arrow("plenty", pa.record_batch({"value": pa.array([b"%d" % n for n in range(ROWS)])}))
    return servers


@pytest.fixture
def terminal(topics: str, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal("sql", "-b", topics, state=tmp_path)
    yield opened
    opened.close()


def test_statements_are_read_line_by_line_and_errors_do_not_end_the_prompt(terminal: Terminal, tmp_path: Path):
    terminal.expect("kafkaraw> ")
    terminal.type("SELECT max(id) AS last\n")
    terminal.expect(r"\.\.\.> ")
    terminal.type("FROM \"prompt-orders\"; SELECT ';' AS a; SELECT\n")
    terminal.expect(r"last\s+2\s[\s\S]*a\s+;\s[\s\S]*\.\.\.> ")
    terminal.type("2 AS two;\n")
    terminal.expect(r"two\s+2\s[\s\S]*kafkaraw> ")
    terminal.type("SELECT * FROM nowhere;\n")
    terminal.expect(r"Error: there is no topic and no table 'nowhere'[\s\S]*kafkaraw> ")
    terminal.type("COPY (SELECT 1) TO TOPIC 'nowhere';\n")
    terminal.expect(r"Error: [\s\S]*nothing was written[\s\S]*kafkaraw> ")
    terminal.type('SELECT status FROM "prompt-orders" WHERE id = 2;\n')
    terminal.expect(r"\\x1b\[31mred")
    terminal.type("\x04")
    assert terminal.process.wait(WAIT_S) == 0
    history = tmp_path / "kafkaraw" / "sql_history"
    assert "SELECT * FROM nowhere;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_tab_completes_topics_and_their_columns(terminal: Terminal):
    terminal.expect("kafkaraw> ")
    terminal.type("SELECT 1 FROM ple\t")
    terminal.expect("plenty")
    terminal.type(" WHERE timestamp_t\t")
    terminal.expect("timestamp_type")


def test_ctrl_c_ends_the_query_and_not_the_prompt(terminal: Terminal):
    terminal.expect("kafkaraw> ")
    terminal.type("SELECT count(*) FROM plenty a, plenty b WHERE a.value || b.value LIKE '%x%';\n")
    terminal.expect("plenty")
    wait_until(lambda: False, 2)
    terminal.type("\x03")
    terminal.expect(r"% Interrupted\.[\s\S]*kafkaraw> ")
    terminal.type("SELECT count(*) AS n FROM plenty;\n")
    terminal.expect(rf"n\s+{ROWS}\s[\s\S]*kafkaraw> ")
    terminal.type("SELECT 1 AS\n")
    terminal.expect(r"\.\.\.> ")
    terminal.type("\x03")
    terminal.expect("kafkaraw> ")
    terminal.type("SELECT 5 AS five;\n")
    terminal.expect(r"five\s+5\s")
    terminal.type("\\q\n")
    assert terminal.process.wait(WAIT_S) == 0


def test_a_bar_shows_the_progress_of_a_query(terminal: Terminal):
    terminal.expect("kafkaraw> ")
    terminal.type("SELECT count(*) AS n FROM plenty WHERE value LIKE '%9%';\n")
    terminal.expect(r"plenty .*\d+%")
    terminal.expect(r"n\s+\d+\s")
