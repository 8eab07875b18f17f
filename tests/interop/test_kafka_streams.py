"""Java's Kafka Streams against the embedded broker: a word count and a join, with restarts of both.

The application uses the streams group protocol (KIP-1071), where the broker assigns tasks and creates internal topics,
or the classic protocol with Java's own assignor; with and without transactions.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from kafkaraw import Admin, Consumer, GroupType, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import SINGLE_NODE, compile_java, fetch_dependencies, free_ports
from tests.interop.java_tools import why_no_java_client
from tests.java_options import QUICK_JVM
from tests.rotation import rotating
from tests.waiting import wait_until

FOLDER = Path(__file__).with_name("kafka_streams")
READY_SECONDS_MAX = 60.0
LIKE_APACHES = {
    name: value for name, value in SINGLE_NODE.items() if name.startswith(("group.", "offsets.", "transaction.state"))
}
PROTOCOLS = [("streams", "at_least_once"), ("streams", "exactly_once_v2"), ("classic", "exactly_once_v2")]

pytestmark = pytest.mark.skipif(why_no_java_client() is not None, reason=str(why_no_java_client()))


@contextlib.contextmanager
def application(servers: str, name: str, state_dir: Path, protocol: str, guarantee: str) -> Iterator[None]:
    """Run the application until the end of the block, which begins when it is ready."""
    jars = (f"{fetch_dependencies(FOLDER / 'pom.xml', 'kafka-streams')}/*",)
    classes = compile_java(FOLDER / "WordsAndRegions.java", jars)
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = ["java", "-Xmx192M", *QUICK_JVM, logging, "-cp", f"{jars[0]}:{classes}", "WordsAndRegions"]
    errors = (state_dir / "errors.txt").open("a")
    with (
        errors,
        subprocess.Popen(
            [*command, servers, name, name, str(state_dir), protocol, guarantee],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None and process.stdin is not None
            watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
            watchdog.start()
            _expect(process.stdout, "READY", state_dir)
            watchdog.cancel()
            yield
            process.stdin.close()
            watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
            watchdog.start()
            _expect(process.stdout, "CLOSED", state_dir)
            process.wait(READY_SECONDS_MAX)
        finally:
            watchdog.cancel()
            process.kill()


def _expect(output: IO[str], word: str, state_dir: Path) -> None:
    line = output.readline().strip()
    assert line == word, (state_dir / "errors.txt").read_text()[-4000:]


def counts_of(servers: str, topic: str) -> dict[str, int]:
    """The last count of each word."""
    return {key: int.from_bytes(value, "big") for key, value in _read(servers, topic)}


def _read(servers: str, topic: str) -> list[tuple[str, bytes]]:
    """The records of a topic, without those of aborted transactions."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends, found = consumer.end_offsets(partitions), list[tuple[str, bytes]]()
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for batch in consumer.poll(1.0).values():
                found += [(bytes(each.key or b"").decode(), bytes(each.value or b"")) for each in batch]
        return found


@pytest.mark.parametrize(("protocol", "guarantee"), rotating(PROTOCOLS, 1))
def test_counts_and_joins_survive_restarts_of_application_and_broker(
    protocol: str, guarantee: str, tmp_path: Path
) -> None:
    name, state_dir = f"app-{protocol}", tmp_path / "state"
    state_dir.mkdir()
    (port,) = free_ports(1)

    def broker() -> EmbeddedBroker:
        return EmbeddedBroker(data_dir=tmp_path / "broker", port=port, properties=LIKE_APACHES)

    def send(*lines: str) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            for line in lines:
                producer.send(f"{name}-lines", line.encode())
            producer.send(f"{name}-clicks", b"page", key=b"ada")

    def settled(counts: dict[str, int], joined: int) -> bool:
        return counts_of(servers, f"{name}-counts") == counts and len(_read(servers, f"{name}-joined")) == joined

    with broker() as started:
        servers = started.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            topics = ("lines", "regions", "clicks", "counts", "joined")
            admin.create_topics([NewTopic(f"{name}-{topic}", 3) for topic in topics])
        with Producer(bootstrap_servers=servers) as producer:
            producer.send(f"{name}-regions", b"north", key=b"ada")
        with application(servers, name, state_dir, protocol, guarantee):
            send("to be or", "not to be")
            expected = {"to": 2, "be": 2, "or": 1, "not": 1}
            assert wait_until(lambda: settled(expected, 1), READY_SECONDS_MAX, 0.2), _errors(state_dir)
            with Admin(bootstrap_servers=servers) as admin:
                assert {group.group_id: group.group_type for group in admin.list_groups()}[name] is GroupType(protocol)
                (group,) = admin.describe_groups([name]).values()
                running = [task for member in group.members for task in member.active_tasks]
                assert (len(running) == len(set(running)) == 9) is (protocol == "streams"), group
                made = {topic.name for topic in admin.list_topics()}
            assert f"{name}-by-word-repartition" in made
            assert f"{name}-counts-changelog" in made
        # The application ends before the second broker: a commit would wait for it for a minute.
        with contextlib.ExitStack() as second, application(servers, name, state_dir, protocol, guarantee):
            send("be")
            expected = {**expected, "be": 3}
            assert wait_until(lambda: settled(expected, 2), READY_SECONDS_MAX, 0.2), _errors(state_dir)
            started.stop()
            second.enter_context(broker())
            send("or not")
            expected = {**expected, "or": 2, "not": 2}
            assert wait_until(lambda: settled(expected, 3), READY_SECONDS_MAX, 0.2), _errors(state_dir)


def _errors(state_dir: Path) -> str:
    return (state_dir / "errors.txt").read_text()[-4000:]
