"""`EmbeddedBroker` on real sockets, with clients that other people wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import ConfigError, KafkaError, NetworkError, UsageError
from kafkaraw.records import IMPLEMENTATION
from tests.kafka_python import closing_client
from tests.rotation import rotating

TIMEOUT = 20.0


@pytest.fixture(scope="module", params=["memory", "files", "process"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    data_dir = None if request.param == "memory" else tmp_path_factory.mktemp("data")
    with EmbeddedBroker(data_dir=data_dir, process=request.param == "process") as made:
        yield made


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 2, 1)], request_timeout=TIMEOUT).values():
        future.result(TIMEOUT)
    return name


def confluent_produce(broker: EmbeddedBroker, topic: str, values: list[bytes], **settings: object) -> list[int]:
    """Produce to partition 1 and give the offsets."""
    offsets: list[int] = []

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, b"key", partition=1, headers=[("h", b"x")], on_delivery=delivered)
    assert producer.flush(TIMEOUT) == 0
    return offsets


def confluent_consume(broker: EmbeddedBroker, topic: str, count: int, offset: int = 0) -> list[tuple[int, bytes]]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 1, offset)])
    got: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + TIMEOUT
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(got), 1.0):
            assert message.error() is None
            got.append((message.offset(), message.value()))
    consumer.close()
    return got


def kafka_python_consume(broker: EmbeddedBroker, topic: str, count: int) -> list[tuple[int, bytes]]:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    got: list[tuple[int, bytes]] = []
    with closing_client(kafka.KafkaConsumer(**settings)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 1)])
        deadline = time.monotonic() + TIMEOUT
        while len(got) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                got += [(record.offset, record.value) for record in records]
    return got


@pytest.mark.parametrize("codec", rotating(["none", "gzip", "snappy", "lz4", "zstd"], 2))
def test_confluent_kafka_and_kafka_python_read_what_confluent_kafka_wrote(
    broker: EmbeddedBroker, topic: str, codec: str
):
    values = [b"value %d" % at for at in range(2000)]
    settings = {"compression.type": codec, "enable.idempotence": True}
    assert confluent_produce(broker, topic, values, **settings) == list(range(2000))
    assert confluent_consume(broker, topic, 2000) == list(enumerate(values))
    assert kafka_python_consume(broker, topic, 2000) == list(enumerate(values))


def test_both_read_what_kafka_python_wrote(broker: EmbeddedBroker, topic: str):
    values = [b"value %d" % at for at in range(500)]
    settings = {"bootstrap_servers": broker.bootstrap_servers, "acks": "all", "linger_ms": 5}
    with closing_client(kafka.KafkaProducer(**settings)) as producer:
        futures = [producer.send(topic, value, partition=1) for value in values]
        assert [future.get(TIMEOUT).offset for future in futures] == list(range(500))
    assert confluent_consume(broker, topic, 500) == list(enumerate(values))
    assert kafka_python_consume(broker, topic, 500) == list(enumerate(values))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acks_appends(broker: EmbeddedBroker, topic: str, acks: str):
    confluent_produce(broker, topic, [b"a", b"b"], acks=acks)
    assert confluent_consume(broker, topic, 2) == [(0, b"a"), (1, b"b")]


def test_large_records_go_through_whole(broker: EmbeddedBroker, topic: str):
    values = [os.urandom(900_000) for _ in range(12)]
    confluent_produce(broker, topic, values, **{"message.max.bytes": 1_000_000})
    assert confluent_consume(broker, topic, 12) == list(enumerate(values))


def test_a_record_above_the_brokers_limit_is_refused_by_name(broker: EmbeddedBroker, topic: str):
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 3_000_000})
    errors: list[confluent_kafka.KafkaError] = []
    producer.produce(topic, b"x" * 2_000_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert errors[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE


def test_a_consumer_without_membership_keeps_its_place(broker: EmbeddedBroker, topic: str):
    confluent_produce(broker, topic, [b"a", b"b", b"c"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    position = confluent_kafka.TopicPartition(topic, 1, 2)
    assert consumer.commit(offsets=[position], asynchronous=False)[0].error is None
    consumer.close()
    consumer = confluent_kafka.Consumer(settings)
    assert consumer.committed([position], TIMEOUT)[0].offset == 2
    consumer.assign([confluent_kafka.TopicPartition(topic, 1, confluent_kafka.OFFSET_STORED)])
    message = consumer.poll(TIMEOUT)
    assert (message.offset(), message.value()) == (2, b"c")
    consumer.close()


def test_offsets_are_found_by_time(broker: EmbeddedBroker, topic: str):
    now_ms = time.time_ns() // 1_000_000
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for back in (3000, 2000, 1000):
        producer.produce(topic, b"v", partition=1, timestamp=now_ms - back)
    assert producer.flush(TIMEOUT) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    asked = [confluent_kafka.TopicPartition(topic, 1, now_ms - back) for back in (9000, 2500, 1000)]
    assert [consumer.offsets_for_times([one], TIMEOUT)[0].offset for one in asked] == [0, 1, 2]
    assert consumer.get_watermark_offsets(asked[0], TIMEOUT) == (0, 3)
    consumer.close()


def test_topics_are_listed_and_deleted(broker: EmbeddedBroker, topic: str):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert len(admin.list_topics(timeout=TIMEOUT).topics[topic].partitions) == 2
    admin.delete_topics([topic], request_timeout=TIMEOUT)[topic].result(TIMEOUT)
    assert topic not in admin.list_topics(timeout=TIMEOUT).topics


def test_transactions_of_kafka_python_are_committed_and_aborted(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    with closing_client(kafka.KafkaProducer(bootstrap_servers=servers, transactional_id="tx")) as producer:
        producer.init_transactions()
        for value, commit in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
            producer.begin_transaction()
            producer.send("tx-topic", value, partition=0)
            producer.flush(TIMEOUT)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    made = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=2000,
    )
    with closing_client(made) as consumer:
        consumer.assign([kafka.TopicPartition("tx-topic", 0)])
        assert [consumer.__next__().value for _ in range(2)] == [b"kept", b"kept too"]


def test_a_client_that_does_not_read_is_not_read_from_and_others_are_served():
    with EmbeddedBroker(properties={"num.partitions": 2}) as broker:
        settings = {"message.max.bytes": 2_000_000}
        confluent_produce(broker, "t", [os.urandom(1_000_000) for _ in range(16)], **settings)
        assert broker._node is not None
        others = set(broker._node._connections)
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT) as stuck:
            # Fetch v4: up to 2 GiB of t-1 from offset 0, again and again, without ever reading an answer.
            body = bytes.fromhex("ffffffff 00000000 00000001 7fffffff 00 00000001 0001") + b"t"
            body += bytes.fromhex("00000001 00000001 0000000000000000 7fffffff")
            frame = bytes.fromhex("0001 0004 00000001 ffff") + body
            stuck.sendall((len(frame).to_bytes(4) + frame) * 100)
            deadline = time.monotonic() + TIMEOUT
            paused = False
            while not paused and time.monotonic() < deadline:
                paused = any(connection._reading_paused for connection in set(broker._node._connections) - others)
            assert paused
            assert confluent_consume(broker, "t", 1)[0][0] == 0


def test_starting_a_running_broker_and_asking_a_stopped_one_are_refused():
    broker = EmbeddedBroker()
    with pytest.raises(UsageError, match="not running"):
        _ = broker.bootstrap_servers
    with broker, pytest.raises(UsageError, match="running already"):
        broker.start()
    broker.stop()
    with pytest.raises(UsageError, match="not running"):
        _ = broker.bootstrap_servers


@pytest.mark.parametrize("process", [False, True])
def test_a_port_that_is_taken_is_named(process: bool):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(KafkaError if process else NetworkError, match=str(port)):
            EmbeddedBroker(port, process=process).start()


@pytest.mark.parametrize("process", [False, True])
def test_a_broker_starts_again_on_its_data(process: bool, tmp_path: Path):
    for run in range(3):
        properties = {"num.partitions": 2}
        with EmbeddedBroker(data_dir=tmp_path, process=process, properties=properties) as broker:
            assert confluent_produce(broker, "t", [b"%d" % run]) == [run]
            assert len(confluent_consume(broker, "t", run + 1)) == run + 1


@pytest.mark.parametrize("process", [False, True])
def test_a_killed_broker_leaves_files_that_open(process: bool, tmp_path: Path):
    broker = EmbeddedBroker(data_dir=tmp_path, process=process, properties={"num.partitions": 2}).start()
    offsets = confluent_produce(broker, "t", [b"v"] * 100)
    broker.kill()
    assert len(offsets) == 100
    with EmbeddedBroker(data_dir=tmp_path) as again:
        assert len(confluent_consume(again, "t", 100)) == 100


def test_two_brokers_cannot_share_a_directory(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path):
        with pytest.raises(ConfigError, match="in use by another broker"):
            EmbeddedBroker(data_dir=tmp_path).start()
        with pytest.raises(KafkaError, match="in use by another broker"):
            EmbeddedBroker(data_dir=tmp_path, process=True).start()


def test_it_works_in_async_with():
    async def main() -> str:
        async with EmbeddedBroker() as broker:
            return broker.bootstrap_servers

    assert asyncio.run(main()).startswith("127.0.0.1:")


def test_a_broker_has_a_thread_of_its_own_and_takes_it_along():
    before = threading.active_count()
    with EmbeddedBroker():
        assert "kafkaraw-broker" in [thread.name for thread in threading.enumerate()]
    assert threading.active_count() == before


def test_a_forked_child_that_leaves_the_block_does_not_stop_its_parents_broker():
    with EmbeddedBroker() as broker, EmbeddedBroker(process=True) as other:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks with threads
            child = os.fork()
        if child == 0:
            try:
                broker.stop()
                other.stop()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for one in (broker, other):
            assert AdminClient({"bootstrap.servers": one.bootstrap_servers}).list_topics(timeout=TIMEOUT).topics == {}


def test_a_stranger_on_the_port_is_explained_in_the_log(caplog: pytest.LogCaptureFixture):
    with EmbeddedBroker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        for hello in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
            b"\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff",
        ):
            with socket.create_connection((host, int(port)), TIMEOUT) as stranger:
                stranger.sendall(hello)
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1) == b""
    for explained in ("HTTP", "TLS", "-1", "2147483647"):
        assert explained in caplog.text


def test_a_misspelt_property_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        EmbeddedBroker(process=True, properties={"num.partition": 1})


def test_a_port_and_listeners_are_not_given_together():
    with pytest.raises(ConfigError, match="not both"):
        EmbeddedBroker(9092, properties={"listeners": "PLAINTEXT://127.0.0.1:9093"})


def test_the_child_dies_with_a_parent_that_is_killed():
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom kafkaraw.broker import EmbeddedBroker\n"
            "with EmbeddedBroker(process=True) as broker:\n"
            "    print(broker.bootstrap_servers, flush=True)\n    sys.stdin.read()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAFKARAW_IMPL": IMPLEMENTATION},
    )
    assert parent.stdout is not None
    host, _, port = parent.stdout.readline().strip().rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as link:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        link.settimeout(TIMEOUT)
        assert link.recv(1) == b""
