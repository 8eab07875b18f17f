"""The guide to mirroring: its sessions print what it shows, on two clusters with the mirror that it describes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.mirror.settings import read_mirror_settings
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "mirroring.md"
TIMEOUT = 60.0


def blocks(language: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [block for kind, block in found if kind == language]


class Guide:
    """The guide with the addresses of two brokers, in a folder of its own."""

    def __init__(self, east: str, west: str, folder: Path) -> None:
        self.east, self.west, self.folder = east, west, folder
        self._sessions = iter([block for block in blocks() if block.startswith("$ ")])
        (folder / "mirror.properties").write_text(self.with_servers(blocks("properties")[0]))

    def with_servers(self, text: str) -> str:
        return text.replace("localhost:9092", self.east).replace("localhost:9093", self.west)

    def session(self) -> tuple[list[str], list[str]]:
        """Run the next session; return what the page shows and what is printed, as lines; pipes change their order."""
        shown = self.with_servers(next(self._sessions))
        printed = ""
        for command in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
            result = CliRunner().invoke(main, shlex.split(command)[1:])
            printed += f"$ {command}\n{result.output}"
        return sorted(shown.splitlines()), sorted(printed.splitlines())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the command of the page that copies, and end it as Ctrl-C does."""
        (line,) = [block for block in blocks() if block.startswith("kafkaraw mirror run")]
        command = [sys.executable, "-m", *line.split()]
        environment = {**os.environ, "KAFKARAW_MIRROR": ""}
        with subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                _, complaints = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, complaints

    def copied(self, count: int) -> None:
        """Wait until the copy has so many records in each partition."""
        copies = [TopicPartition("east.flights", number) for number in range(2)]
        group_id = "kafkaraw-mirror.east->west"
        with Admin(bootstrap_servers=self.west) as admin:

            def is_copied() -> bool:
                committed = admin.list_group_offsets([group_id])[group_id]
                return all(of in committed and committed[of].offset == count for of in copies)

            assert wait_until(is_copied, TIMEOUT)

    def fill(self, count: int) -> None:
        with Producer(bootstrap_servers=self.east) as producer:
            for number in range(2 * count):
                producer.send("flights", b"%d" % number, partition=number % 2)


def test_the_guide_goes_from_two_clusters_to_a_mirror_to_failover_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with EmbeddedBroker(properties=few) as east, EmbeddedBroker(properties=few) as west:
        guide = Guide(east.bootstrap_servers, west.bootstrap_servers, tmp_path)
        with Admin(bootstrap_servers=guide.east) as admin:
            admin.create_topics([NewTopic("flights", partitions=2)])
        shown, printed = guide.session()
        assert printed == shown
        guide.fill(10)
        with guide.running():
            guide.copied(10)
            shown, printed = guide.session()
        pattern = r"east->west +2 +3 +[23] +\d+ +(\d+\.\ds +\d{4}-\S+Z|- +-)"
        assert printed[0] == shown[0]
        assert any(re.fullmatch(pattern, line) for line in printed), printed
        guide.fill(10)
        with guide.running():
            guide.copied(20)
        with Admin(bootstrap_servers=guide.east) as admin:
            admin.alter_group_offsets("billing", {TopicPartition("flights", 0): 15, TopicPartition("flights", 1): 20})
        for _ in range(2):
            shown, printed = guide.session()
            assert printed == shown
        with Admin(bootstrap_servers=guide.west) as admin:
            admin.alter_group_offsets("billing", {TopicPartition("east.flights", 0): 18})
        for _ in range(2):
            shown, printed = guide.session()
            assert printed == shown


@pytest.mark.parametrize("language", ["properties", "yaml"])
def test_both_forms_of_the_configuration_are_the_same(language: str, tmp_path: Path) -> None:
    path = tmp_path / {"properties": "mirror.properties", "yaml": "mirror.yml"}[language]
    path.write_text(blocks(language)[0])
    (flow,) = read_mirror_settings(path).flows
    assert flow.name == "east->west"
    assert [flow.route.selects(name) for name in ("flights", "payments-a", "else")] == [True, True, False]
    assert flow.offsets.groups.selects("billing")
