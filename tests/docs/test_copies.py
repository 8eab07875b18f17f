"""The commands of the guides about snapshots and backups do what the guides say, one after the other."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"


def blocks_of(page: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (FOLDER / page).read_text(), re.DOTALL | re.MULTILINE)
    return [block for found, block in blocks if found == language]


def commands_of(page: str) -> list[str]:
    """The commands of a page that end by themselves."""
    lines = [line for block in blocks_of(page, "") for line in block.splitlines() if line.startswith("kafkaraw ")]
    return [line for line in lines if not line.startswith("kafkaraw broker ")]


def run(command: str, source: EmbeddedBroker, target: EmbeddedBroker) -> str:
    words = command.replace("production:9092", source.bootstrap_servers).replace(
        "localhost:9092", target.bootstrap_servers
    )
    result = CliRunner().invoke(main, shlex.split(words)[1:])
    assert result.exit_code == 0, f"{command}: {result.output}"
    return result.output


@pytest.fixture
def brokers(kafka_broker_factory) -> tuple[EmbeddedBroker, EmbeddedBroker]:
    """Production, with topics and a group; and another broker."""
    source, target = (kafka_broker_factory(properties={"offsets.topic.num.partitions": 1}) for _ in range(2))
    with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=1) for name in ("orders", "payments")])
        with Producer(bootstrap_servers=source.bootstrap_servers) as producer:
            for topic in ("orders", "payments"):
                for number in range(20):
                    producer.send(topic, b"value %d" % number, b"key")
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 7})
    return source, target


def test_the_commands_about_snapshots_run(brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = [block for block in blocks_of("take-snapshots.md", "") if block.startswith("from hashlib")]
    (tmp_path / "masks.py").write_text(code)
    first, second, masked = commands_of("take-snapshots.md")
    run(first, *brokers)
    (program,) = blocks_of("take-snapshots.md", "python")
    names: dict[str, object] = {}
    exec(program, names)
    assert getattr(names["first"], "offset") == 7  # noqa: B009 - a name of the page's program
    run(second, *brokers)
    run(masked, *brokers)
    sys.modules.pop("masks")
    with (
        EmbeddedBroker(data_dir=str(tmp_path / "masked")) as broker,
        Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign(consumer.partitions_for("orders"))
        record = next(iter(consumer))
    assert (len(record.key or b""), len(record.value or b"")) == (32, 32)


def test_the_commands_about_backups_run(brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = commands_of("back-up-topics.md")
    prunes = [command for command in commands if "prune" in command]
    create, listed, verify, dry_run, restore, renamed, appended = (each for each in commands if each not in prunes)
    for command in (create, listed, verify, *prunes):
        run(command, *brokers)
    assert len(prunes) == 2
    assert "40 records would be restored" in run(dry_run, *brokers)
    assert "restored 40 records, and committed offsets of 1 groups" in run(restore, *brokers)
    assert "restored 0 records" in run(renamed, *brokers)
    assert "restored 20 records" in run(appended, *brokers)
    run(create, *brokers)
    assert len(list((tmp_path / "backups" / "manifests").iterdir())) == 2
    stored = sorted(path.relative_to(tmp_path) for path in (tmp_path / "backups").rglob("*.log"))
    assert re.fullmatch(r"backups/runs/000001-[0-9a-f]{8}/orders/0/0{20}\.log", str(stored[0]))
