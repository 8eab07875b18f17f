"""The problems of `docs/how-to/debug-with-the-tap.md` are found by the commands that stand there."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "debug-with-the-tap.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTION = re.compile(r"### (.+?)\n.*?```python\n(.*?)```.*?```\n\$ kafkaraw (.*?)\n(.*?)```", re.DOTALL)
PROBLEMS = SECTION.findall(TEXT[: TEXT.index("## What else stands out")])
TIMEOUT = 30.0


def as_pattern(line: str) -> str:
    """The line, with any numbers."""
    return re.sub(r"\d+(\\.\d+)?", r"\\d+(\\.\\d+)?", re.escape(line))


def test_the_page_has_three_problems():
    assert len(PROBLEMS) == 3


@pytest.mark.parametrize(("title", "program", "command", "shown"), PROBLEMS, ids=[title for title, *_ in PROBLEMS])
def test_the_tap_finds_the_problem(title: str, program: str, command: str, shown: str):
    properties = {"advertised.listeners": "PLAINTEXT://kafka.internal:9092"} if "nothing works" in title else {}
    with EmbeddedBroker() as first:  # finds a free port
        port = int(first.bootstrap_servers.rpartition(":")[2])
    properties |= {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with EmbeddedBroker(properties=properties):
        arguments = shlex.split(command.replace("localhost:9092", f"127.0.0.1:{port}"))
        tap = subprocess.Popen(
            [sys.executable, "-m", "kafkaraw", *arguments, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            servers = re.search(r"bootstrap.servers=(\S+);", tap.stderr.readline())
            assert servers is not None
            exec(compile(program.replace("localhost:19092", servers[1]), str(PAGE), "exec"), {})
            tap.send_signal(signal.SIGINT)
            output, _ = tap.communicate(timeout=TIMEOUT)
        finally:
            tap.kill()
            tap.wait(TIMEOUT)
            tap.stdout.close()
            tap.stderr.close()
    remarks = [line for line in shown.splitlines() if line.startswith("- ")]
    assert remarks
    for line in remarks:
        assert re.search(as_pattern(line), output), (line, output)
    names = {found[1] for line in shown.splitlines() if (found := re.search(r"  (\w+ v)\d+ ", line))}
    assert names
    assert all(name in output for name in names)
