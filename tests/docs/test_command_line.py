"""What the page about the command line shows is what the commands print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-command-line.md"
TIMEOUT = 60.0


def sessions() -> list[str]:
    """The terminal sessions of the page: lines that begin with $, and what follows them."""
    blocks = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [block for block in blocks if block.startswith("$ ")]


def printed(session: str) -> str:
    """The session as it goes."""
    shown = ""
    for command in re.findall(r"^\$ (.*)$", session, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", f'kafkaraw() {{ "{sys.executable}" -m kafkaraw "$@" 2>&1; }}\n{command}'],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        shown += f"$ {command}\n{done.stdout}"
    return shown


def test_what_is_sent_comes_out_as_the_page_says() -> None:
    with EmbeddedBroker() as broker:
        session = sessions()[0].replace("localhost:9092", broker.bootstrap_servers)
        assert printed(session) == session


def test_groups_look_as_the_page_says() -> None:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("flights", partitions=1)])
            with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for _ in range(10):
                    producer.send("flights", b"x")
            admin.alter_group_offsets("billing", {TopicPartition("flights", 0): 3})
        session = sessions()[1].replace("localhost:9092", broker.bootstrap_servers)
        assert sorted(printed(session).split("\n")) == sorted(session.split("\n"))
