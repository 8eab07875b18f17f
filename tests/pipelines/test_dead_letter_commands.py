"""`kafkaraw pipelines dead-letters`: what the commands print and do."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kafkaraw.cli.pipelines_dead_letters import dead_letters
from tests.pipelines.letters import Topics, letter


@pytest.fixture
def topics(kafka) -> Topics:
    topics = Topics(kafka)
    topics.add(
        letter(0, error="no\nJSON " + "x" * 80, key=b"\xff"),
        letter(1, reason="expectation", expectation="positive", dataset="clean", headers=(("trace", b"1"),)),
        letter(2, dataset="clean"),
    )
    return topics


@pytest.fixture
def call(topics, tmp_path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").touch()
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: {topics.name}\nstorage: storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
        f"configuration:\n  kafkaraw.kafka.bootstrap.servers: {topics.kafka.servers}\n"
        f"  kafkaraw.dead.letter.topic: {topics.dead}\n  kafkaraw.replay.topic: {topics.replays}\n"
    )

    def call(command: str, *arguments: str, code: int = 0) -> str:
        place = ["--pipeline", str(tmp_path)]
        result = CliRunner().invoke(dead_letters, [command, *place, *arguments], standalone_mode=False)
        if code == 0 and result.exception is not None:
            raise result.exception
        assert code == 0 or result.exception is not None
        return result.output if code == 0 else str(result.exception)

    return call


def test_list_shows_open_letters_in_lines(call):
    lines = call("list").splitlines()
    assert lines[0].split() == ["AT", "TIME", "STATE", "FLOW", "REASON", "EXPECTATION", "ORIGIN", "ERROR"]
    assert lines[1].split()[:8] == [
        "0:0",
        "1970-01-01T00:00:01.000Z",
        "open",
        "orders",
        "decode",
        "-",
        "orders-in-0:0",
        "no",
    ]
    assert lines[1].endswith("…") and len(lines) == 4
    assert [each["at"] for each in json.loads(call("list", "--flow", "clean", "--json"))] == ["0:1", "0:2"]
    assert [each["at"] for each in json.loads(call("list", "--limit", "1", "--json"))] == ["0:0"]


def test_show_has_headers_key_and_value_whole(call):
    shown = json.loads(call("show", "--expectation", "positive"))
    assert (shown["at"], shown["headers"], shown["key"], shown["value"]) == ("0:1", [["trace", "1"]], "k", "1")
    assert shown["origin"] == {"topic": "orders-in", "partition": 0, "offset": 1}
    assert json.loads(call("show", "--at", "0:0"))["key"] == {"base64": "/w=="}
    assert json.loads(call("show", "0:0")) == json.loads(call("show", "--at", "0:0"))
    assert call("show", "--at", "2", "--value") == call("show", "2", "--value") == "2"
    assert call("show", "0:1", "0:2", "--value") == call("show", "1", "--at", "0:2", "--value") == "12"
    assert call("show", "0:1", "0:2", "--limit", "1", "--value") == "1"
    assert "no dead letter meets these conditions" in call("show", "--at", "9", code=2)


def test_replay_and_discard_count_first_then_act_once(call, topics):
    assert call("replay", "--reason", "decode", "--dry-run").startswith("2 dead letters would be replayed")
    assert topics.replayed() == []
    said = call("replay", "--reason", "decode").splitlines()
    assert said == [f"2 dead letters replayed, to {topics.replays}", "  clean, decode: 1", "  orders, decode: 1"]
    assert call("replay", "--reason", "decode").splitlines() == ["0 dead letters replayed"]
    assert topics.replayed() == [0, 2]
    assert "give a condition" in call("discard", code=2)
    assert call("discard", "--all").splitlines() == ["1 dead letter discarded", "  clean, expectation: 1"]
    assert [each["state"] for each in json.loads(call("list", "--state", "discarded", "--json"))] == ["discarded"]
    assert json.loads(call("list", "--json")) == []


def test_wrong_times_and_places_name_the_option(call):
    assert "--since" in call("list", "--since", "yesterday", code=2)
    assert "x:y: must be PARTITION:OFFSET" in call("list", "--at", "x:y", code=2)
    assert "x:y: must be PARTITION:OFFSET" in call("show", "x:y", code=2)
