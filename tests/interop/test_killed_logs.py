"""A broker process that is killed (`kill -9`) under load, again and again: its log is whole after each restart.

After each kill, a copy of the directory is opened by another broker of ours, as the next start of the killed one opens
the original; then `kafkaraw log verify` reads every file of the copy, and Apache Kafka's dump tool every segment that
has changed since it was read last. In the end, all acknowledged records are there, in order, and none twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.errors import TransactionAbortableError
from kafkaraw.records import Ticket
from tests.interop.apache_kafka import free_ports
from tests.interop.java_tools import first_offsets, shared_tools

DUMP = "org.apache.kafka.tools.DumpLogSegments"
PARTITIONS = 3
PATIENCE_S = 60.0
CODECS = ("none", "lz4", "zstd")
BUSY_WAIT_S, SLOW_WAIT_S = 0.01, 0.2
"""Time between two writes of a producer: under load, and while a broker starts and a copy is checked."""
DUMPED_BYTES_MAX = 4_000_000
"""Bytes of the files that the dump tool reads at once: it prints several times as many, which are kept in memory."""
SEGMENTS = {"internal.segment.bytes": "20000", "segment.index.bytes": "400", "index.interval.bytes": "500"}


class Load:
    """Producers that write until they are stopped, whether the broker is there or not.

    Args:
        servers: address of the broker, which stays the same.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._over = threading.Event()
        self._wait_s = BUSY_WAIT_S
        self.sent: dict[tuple[str, int], list[tuple[bytes, Ticket]]] = defaultdict(list)
        self.committed: list[bytes] = []
        self.undecided: set[bytes] = set()
        self._transactions_ended = 0
        self._threads = [threading.Thread(target=self._write, args=(codec,)) for codec in CODECS]
        self._threads.append(threading.Thread(target=self._transact))
        for thread in self._threads:
            thread.start()

    def wait_for_progress(self) -> None:
        """Wait until the broker has acknowledged something new of each producer, so that a kill hits their load."""
        before = self._acknowledged()
        deadline = time.monotonic() + PATIENCE_S
        while any(now <= then for now, then in zip(self._acknowledged(), before, strict=True)):
            assert time.monotonic() < deadline, "a producer cannot write"
            time.sleep(0.02)  # the producers are threads: there is nothing else to wait on

    def _acknowledged(self) -> list[int]:
        """Return how many records or transactions of each producer have a result."""
        counts = [self._transactions_ended]
        for codec in CODECS:
            known = (list(self.sent.get((codec, number), ())) for number in range(PARTITIONS))
            counts.append(sum(ticket.done for sent in known for _, ticket in sent))
        return counts

    @contextlib.contextmanager
    def slowly(self) -> Iterator[None]:
        """Write less for a time: otherwise a start or a check that takes longer would make all later ones longer."""
        self._wait_s = SLOW_WAIT_S
        try:
            yield
        finally:
            self._wait_s = BUSY_WAIT_S

    def stop(self) -> None:
        """Stop, and wait until every record has its result."""
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a producer hangs"

    def _write(self, codec: str) -> None:
        rng = random.Random(codec)
        settings = {"linger_ms": 1, "batch_size": 2_000, "retry_backoff_ms": 20}
        with Producer(bootstrap_servers=self._servers, compression_type=codec, **settings) as producer:
            number = 0
            while not self._over.wait(self._wait_s):
                for _ in range(10):
                    partition = number % PARTITIONS
                    value = b"%06d " % number + rng.randbytes(rng.randrange(200))
                    self.sent[codec, partition].append((value, producer.send(codec, value, partition=partition)))
                    number += 1
            producer.flush(PATIENCE_S)

    def _transact(self) -> None:
        settings = {"transactional_id": "t", "linger_ms": 1, "retry_backoff_ms": 20}
        with Producer(bootstrap_servers=self._servers, **settings) as producer:
            producer.init_transactions(PATIENCE_S)
            number = 0
            while not self._over.wait(self._wait_s):
                values = [b"%06d-%d" % (number, each) for each in range(5)]
                number += 1
                producer.begin_transaction()
                for value in values:
                    producer.send("transactions", value, partition=0)
                try:
                    if number % 4:
                        self.undecided.update(values)
                        producer.commit_transaction(PATIENCE_S)
                        self.committed += values
                        self._transactions_ended += 1
                        continue
                except TransactionAbortableError:
                    pass
                producer.abort_transaction(PATIENCE_S)
                self.undecided.difference_update(values)


def read(servers: str, topic: str, partition: int) -> list[bytes | None]:
    """Return the committed records of a partition."""
    tp = TopicPartition(topic, partition)
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        end = consumer.end_offsets([tp])[tp]
        consumer.assign([tp])
        values: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(tp) < end:
            assert time.monotonic() < deadline, f"{len(values)} records of {tp}"
            for batch in consumer.poll(timeout=0.5).values():
                values += batch.values()
    return values


class Checker:
    """Checks the files of directories whose brokers have stopped, as we and as Apache Kafka do."""

    def __init__(self) -> None:
        self._accepted: set[bytes] = set()  # digests of the segments that the dump tool has read

    def check_copy(self, copy: Path) -> None:
        """Open a copy of a killed broker's directory, close it, check it, and remove it."""
        with EmbeddedBroker(data_dir=copy):
            pass
        self.check(copy)
        shutil.rmtree(copy)

    def check(self, directory: Path) -> None:
        """Check every file of a directory."""
        verified = CliRunner().invoke(main, ["log", "verify", str(directory)])
        assert verified.exit_code == 0, verified.output
        group: list[Path] = []
        for files in self._changed_segments(directory):
            group += files
            if sum(file.stat().st_size for file in group) > DUMPED_BYTES_MAX:
                self._dump(group)
                group = []
        self._dump(group)

    def _changed_segments(self, directory: Path) -> Iterator[list[Path]]:
        """Yield the files of each segment or producer snapshot that the dump tool has not read with these bytes."""
        segments = defaultdict(list)
        for file in directory.glob("*-*/*.*"):
            if file.stem.isdigit():
                segments[file.with_suffix("")].append(file)
        for files in segments.values():
            digest = hashlib.blake2b()
            for file in sorted(files):
                digest.update(f"{file.parent.name}/{file.name}:{file.stat().st_size}:".encode() + file.read_bytes())
            if digest.digest() not in self._accepted:
                self._accepted.add(digest.digest())
                yield files

    @staticmethod
    def _dump(group: list[Path]) -> None:
        tools = shared_tools()
        for kinds, argument, expected in (
            ({".log", ".snapshot", ".txnindex"}, "--deep-iteration", "Dumping"),
            ({".index", ".timeindex"}, "--index-sanity-check", "passed sanity check"),
        ):
            files = [str(file) for file in group if file.suffix in kinds]
            if files:
                complaints: list[str] = []
                said = tools.run(DUMP, argument, "--files", ",".join(files), complaints=complaints)
                assert expected in said, said
                assert set(complaints) <= first_offsets(files), complaints


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])])
def test_a_broker_that_is_killed_under_load_has_all_acknowledged_records_once(kills: int, tmp_path: Path):
    rng, (port,) = random.Random(kills), free_ports(1)
    directory = tmp_path / "data"

    def start() -> EmbeddedBroker:
        return EmbeddedBroker(port, directory, process=True).start()

    broker = start()
    servers = broker.bootstrap_servers
    try:
        with Admin(bootstrap_servers=servers) as admin:
            topics = [NewTopic(codec, PARTITIONS, configs=SEGMENTS) for codec in CODECS]
            admin.create_topics([*topics, NewTopic("transactions", 1, configs=SEGMENTS)])
        load, checker = Load(servers), Checker()
        try:
            for number in range(1, kills + 1):
                load.wait_for_progress()
                time.sleep(rng.uniform(0.0, 0.5))  # the load goes on meanwhile
                os.kill(broker.process_id, signal.SIGKILL)
                broker.kill()  # collect the process
                with load.slowly():
                    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
                    broker = start()  # soon: the producers do not wait for ever
                    began = time.monotonic()
                    checker.check_copy(copy)
                    print(f"kill {number}: the copy was checked in {time.monotonic() - began:.1f} s", flush=True)
        finally:
            load.stop()
        for (topic, partition), sent in load.sent.items():
            stored = read(servers, topic, partition)
            assert len(stored) == len(set(stored)), f"duplicates in {topic}-{partition}"
            acknowledged = [value for value, ticket in sent if ticket.exception() is None]
            expected = set(acknowledged)
            assert [value for value in stored if value in expected] == acknowledged
            assert acknowledged, "nothing was written: nothing was tested"
        stored = read(servers, "transactions", 0)
        assert load.committed, "no transaction was committed: nothing was tested"
        assert len(stored) == len(set(stored))
        assert set(load.committed) <= set(stored) <= load.undecided | set(load.committed)
    finally:
        broker.stop()
    checker.check(directory)
