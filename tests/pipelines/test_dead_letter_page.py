"""The commands of docs/pipelines/dead-letters.md work as they are written there, in this order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from tests.pipelines.letters import Topics, letter

PAGE = Path(__file__).parents[2] / "docs/pipelines/dead-letters.md"
COMMANDS = re.findall(r"^kafkaraw (pipelines dead-letters .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
EXPECTED = {
    "list": "0:0",
    "list --reason decode --since -PT24H --json": '"at": "0:1"',
    'list --flow orders --expectation "amount is positive"': "amount is positive",
    "show 0:0": '"reason": "expectation"',
    "show 0:0 --value": "0",
    "replay --flow orders --dry-run": "2 dead letters would be replayed, to replays",
    "replay --flow orders": "2 dead letters replayed, to replays",
    "replay --topic orders --to-origin --limit 1": "1 dead letter replayed, to orders",
    "discard --reason expectation --dry-run": "1 dead letter would be discarded",
    "discard --reason expectation": "1 dead letter discarded",
    "discard --all": "1 dead letter discarded",
}


def test_the_commands_of_the_page_do_what_it_says(kafka, tmp_path, monkeypatch: pytest.MonkeyPatch):
    import time

    topics = Topics(kafka)
    now = int(time.time() * 1000)
    topics.add(
        letter(0, reason="expectation", expectation="amount is positive", time_ms=now),
        letter(1, time_ms=now),
        letter(2, dataset="clean", topic="orders", time_ms=now),
        letter(3, dataset="clean", reason="expectation", expectation="small", time_ms=now),
        letter(4, dataset="clean", time_ms=now),
    )
    (tmp_path / "flows.py").touch()
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: {topics.name}\nstorage: storage\nlibraries:\n  - glob:\n      include: flows.py\n"
        f"configuration:\n  kafkaraw.kafka.bootstrap.servers: {kafka.servers}\n"
        f"  kafkaraw.dead.letter.topic: {topics.dead}\n  kafkaraw.replay.topic: {topics.replays}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert [each.removeprefix("pipelines dead-letters ") for each in COMMANDS] == list(EXPECTED)
    for command in COMMANDS:
        result = CliRunner().invoke(main, shlex.split(command))
        assert result.exit_code == 0, (command, result.output)
        assert EXPECTED[command.removeprefix("pipelines dead-letters ")] in result.output, command
