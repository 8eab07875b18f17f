"""Every command of the page about pipelines runs, in an empty folder, and does what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from tests.pipelines.conftest import session_of_all, spark  # noqa: F401  # fixtures
from tests.spark.conftest import broker, kafka, what_tasks_keep_is_closed  # noqa: F401  # fixtures

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"
BROKER = "localhost:9092"
TIMEOUT_S = 300
OLD = '@kp.expect_or_quarantine("amount is positive", "amount > 0")'
NEW = '@kp.expect_or_quarantine("amount is not 0", "amount <> 0")'

EXPECTED = {
    "kafkaraw pipelines test": ["2 passed, 0 failed"],
    "kafkaraw pipelines status": ["completed"],
    "kafkaraw pipelines dead-letters show --reason expectation": ['"offset": 3', "-2.5"],
    "kafkaraw pipelines dead-letters replay --reason expectation --dry-run": ["1 dead letter would be replayed"],
    "kafkaraw pipelines dead-letters replay --reason expectation": ["1 dead letter replayed"],
    "kafkaraw pipelines dead-letters discard --reason decode": ["1 dead letter discarded"],
}
"""What commands print; those that occur twice print it twice."""


def steps() -> Iterator[tuple[str, str]]:
    """The page's commands with what they print, and its Python, as ("", text)."""
    for kind, content in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if kind == "python":
            yield "", content
        else:
            yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, re.MULTILINE)


def test_page_shows_the_definitions_that_init_writes(tmp_path):
    assert CliRunner().invoke(main, ["pipelines", "init", str(tmp_path / "shop")]).exit_code == 0
    definitions = (tmp_path / "shop/transformations/orders.py").read_text()
    shown = next(text for command, text in steps() if not command)
    assert shown in definitions
    assert OLD in definitions


@pytest.mark.timeout(TIMEOUT_S)
def test_page_runs_from_an_empty_folder(tmp_path, monkeypatch, kafka, spark):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kafkaraw.pipelines.testing.session", lambda: spark)
    monkeypatch.setattr("kafkaraw.pipelines.running.command.started_session", lambda *_: spark)
    monkeypatch.setattr("kafkaraw.pipelines.running.command._stop", lambda _: None)
    left = {command: list(texts) for command, texts in EXPECTED.items()}
    lists = []
    for command, printed in steps():
        if not command:
            correct(printed)
            continue
        output = run(command, kafka.servers)
        assert printed in output, command
        for text in left.pop(command, []) if EXPECTED.get(command) else []:
            assert text in output, (command, output)
        if command == "kafkaraw pipelines dead-letters list":
            lists.append([line.split()[0] for line in output.splitlines()[1:]])
    assert left == {}
    assert lists == [["0:0", "0:1"], []]
    revenue = run(f"kafkaraw consume -b {BROKER} shop.revenue -e", kafka.servers).splitlines()
    assert '{"hour":"2026-01-01T11:00:00.000000Z","amount":3.0,"orders":3}' in revenue


def correct(definition: str) -> None:
    """Make the correction that the page asks for, in the definition and in its test."""
    if definition.strip() != NEW:
        return
    path = Path("transformations/orders.py")
    path.write_text(path.read_text().replace(OLD, NEW))
    path = Path("tests/orders.yml")
    text = path.read_text().replace("amount: -3.5", "amount: 0")
    path.write_text(text.replace("amount is positive", "amount is not 0"))


def run(command: str, servers: str) -> str:
    """Run a command of the page with the broker and the Spark session of the tests; return its standard output."""
    words = shlex.split(command.replace(BROKER, servers))
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    if words[:2] == ["kafkaraw", "broker"]:
        return ""  # the broker of the tests
    if words[0] == "python":
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    given = None
    if "<" in words:
        given = Path(words[-1]).read_text()
        words = words[: words.index("<")]
    if words[:3] == ["kafkaraw", "pipelines", "init"]:
        words += ["-b", servers]
    result = CliRunner().invoke(main, words[1:], input=given)
    assert result.exit_code == 0, (command, result.output, result.exception)
    return result.stdout
