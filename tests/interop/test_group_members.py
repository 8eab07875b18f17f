"""Members of other makes in groups of our broker, and Apache Kafka's tools about them and about what is on disk."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import why_missing
from tests.interop.java_tools import run_tool
from tests.kafka_python import closing_client

TOPIC = "members"
PARTITIONS = 4
WAIT_SECONDS = 30
POLL_MS = 200
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
AT_ONCE = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("groups")
    with EmbeddedBroker(properties={**AT_ONCE, "log.dirs": str(folder)}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(40):
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            producer.flush(30)
        yield broker


@pytest.fixture
def group_id() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


class Confluent:
    """A member that is confluent-kafka's."""

    def __init__(self, servers: str, group_id: str, **settings: Any) -> None:
        ours = {"bootstrap.servers": servers, "group.id": group_id, "auto.offset.reset": "earliest"}
        self.consumer = confluent_kafka.Consumer({**ours, **settings})
        self.consumer.subscribe([TOPIC])

    def partitions(self) -> set[int]:
        self.consumer.poll(0.05)
        return {part.partition for part in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    """A member that is kafka-python's, which a thread of its own polls and closes.

    If one thread polls two of its consumers in turns, a poll may end between the JoinGroup and the SyncGroup of a
    consumer. The leader then joins anew every 50 ms, and the group rebalances for 30 to 135 seconds.
    """

    def __init__(self, servers: str, group_id: str) -> None:
        self._settings = {"bootstrap_servers": servers, "group_id": group_id}
        self._assigned: set[int] = set()
        self._is_over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._poll_until_closed, name="kafka-python member")
        self._thread.start()

    def _poll_until_closed(self) -> None:
        try:
            consumer = kafka.KafkaConsumer(TOPIC, **self._settings, session_timeout_ms=6000, heartbeat_interval_ms=300)
            with closing_client(consumer):
                while not self._is_over.is_set():
                    consumer.poll(POLL_MS)
                    self._assigned = {part.partition for part in consumer.assignment()}
        except Exception as error:  # noqa: BLE001  # raised in the thread of the test
            self._error = error

    def partitions(self) -> set[int]:
        if self._error is not None:
            raise self._error
        return self._assigned

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), f"kafka-python's consumer does not end within {WAIT_SECONDS} s"
        if self._error is not None:
            raise self._error


CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
MAKES: dict[str, Callable[[str, str], Any]] = {
    "confluent range": lambda servers, group: Confluent(
        servers, group, **CLASSIC, **{"partition.assignment.strategy": "range"}
    ),
    "confluent cooperative-sticky": lambda servers, group: Confluent(
        servers, group, **CLASSIC, **{"partition.assignment.strategy": "cooperative-sticky"}
    ),
    "confluent KIP-848": lambda servers, group: Confluent(servers, group, **{"group.protocol": "consumer"}),
    "kafka-python": KafkaPython,
}


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {WAIT_SECONDS} s: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("make", MAKES)
def test_two_members_share_the_partitions_and_one_takes_over_from_the_other(
    make: str, broker: EmbeddedBroker, group_id: str
) -> None:
    with ExitStack() as members:
        one, two = (members.enter_context(closing(MAKES[make](broker.bootstrap_servers, group_id))) for _ in range(2))

        def shared() -> bool:
            first, second = one.partitions(), two.partitions()
            return len(first) == len(second) == PARTITIONS / 2 and not first & second

        until(shared, "each has half")
        one.close()
        until(lambda: two.partitions() == set(range(PARTITIONS)), "the second has all")


def test_aiokafka_shares_partitions_and_takes_over(broker: EmbeddedBroker, group_id: str) -> None:
    asyncio.run(_share_by_aiokafka(broker, group_id))


async def _share_by_aiokafka(broker: EmbeddedBroker, group_id: str) -> None:
    @asynccontextmanager
    async def member() -> AsyncIterator[Any]:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group_id,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    async with asyncio.timeout(WAIT_SECONDS), member() as two:
        async with member() as one:
            while not len(one.assignment()) == len(two.assignment()) == PARTITIONS / 2:
                await one.getmany(timeout_ms=50)
                await two.getmany(timeout_ms=50)
        while len(two.assignment()) != PARTITIONS:
            await two.getmany(timeout_ms=50)


def groups_tool(broker: EmbeddedBroker, *arguments: str) -> str:
    return run_tool(GROUPS_TOOL, "--bootstrap-server", broker.bootstrap_servers, *arguments)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_javas_consumer_and_tools_work_with_groups(broker: EmbeddedBroker, group_id: str, protocol: str) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    read = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC, "--group", group_id),
        *("--max-messages", "40", "--timeout-ms", "20000", "--command-property", "auto.offset.reset=earliest"),
        *("--command-property", f"group.protocol={protocol}"),
    )
    assert sorted(map(int, read.split())) == list(range(40))
    assert group_id in groups_tool(broker, "--list", "--type", protocol).split()
    described = groups_tool(broker, "--describe", "--group", group_id)
    rows = [line.split() for line in described.splitlines() if line.startswith(group_id)]
    assert sorted(row[2] for row in rows) == ["0", "1", "2", "3"]
    assert "Empty" in groups_tool(broker, "--describe", "--state", "--group", group_id)
    reset = ("--reset-offsets", "--group", group_id, "--topic", TOPIC, "--to-earliest", "--execute")
    assert len([line for line in groups_tool(broker, *reset).splitlines() if line.startswith(group_id)]) == PARTITIONS
    assert "Successful" in groups_tool(broker, "--delete-offsets", "--group", group_id, "--topic", TOPIC)
    assert "successful" in groups_tool(broker, "--delete", "--group", group_id)
    assert group_id not in groups_tool(broker, "--list").split()


def test_apaches_tool_reads_what_coordinators_wrote(tmp_path: Path, group_id: str) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with EmbeddedBroker(properties={**AT_ONCE, "log.dirs": str(tmp_path)}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        for protocol in ("classic", "consumer"):
            servers, group = broker.bootstrap_servers, f"{group_id}-{protocol}"
            with closing(Confluent(servers, group, **{"group.protocol": protocol})) as member:
                until(lambda: len(member.partitions()) == PARTITIONS, "it has all")
                member.consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    (segment,) = tmp_path.rglob("__consumer_offsets-0/*.log")
    dumped = run_tool(DUMP_TOOL, "--files", str(segment), "--offsets-decoder")
    assert '"isvalid": false' not in dumped
    for kind in ("1", "2", "3", "5", "6", "7", "8"):  # offsets, classic groups, and everything of KIP-848's
        assert f'key: {{"type":"{kind}"' in dumped, kind
    assert f'"group":"{group_id}-classic","topic":"{TOPIC}","partition":0' in dumped
