"""Two mirrors copy between two clusters whose coordinators and leaders move, and whose nodes and mirrors are killed.

One mirror copies exactly once, the other one at least once. The auditor of simulations
(`kafkaraw.testing.audit_mirror`) compares the copies with the source, record by record, and every translated offset.
Both on clusters of Apache Kafka and on embedded ones. Node 1 of a cluster, which is the controller of Apache Kafka, is
not killed. Start at `attack`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafkaraw import Admin, Consumer, ElectionType, KafkaError, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.mirror.clients import FlowClients
from kafkaraw.mirror.interfaces import Delivery
from kafkaraw.mirror.offset_service import load_mappings
from kafkaraw.mirror.settings import read_mirror_settings
from kafkaraw.testing.audit_mirror import audit_mirror
from kafkaraw.testing.history import Outcome, Transaction
from kafkaraw.testing.mirror_history import MirrorHistory, Translated
from tests.interop.apache_kafka import SINGLE_NODE, SOON_BACK, ApacheKafka, why_missing
from tests.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

ORDERS = "orders"
PARTITIONS = 3
INTERNAL = ("__consumer_offsets", "__transaction_state")
SECONDS = 60.0
"""How long nodes are moved and killed."""
COMPLETE_S = 180.0
"""The time within which the copies are complete, after the last move and kill."""
SEEDS = [int(text) for text in os.environ.get("KAFKARAW_MIRROR_MOVES", "1,2").split(",")]
OF_THE_CONTROLLER = ("process.roles", "node.id", "controller.listener.names", "listener.security.protocol.map")
NEVER = ("are lost", "has lost records", "ends at offset", "has records up to offset", "another process copies")
"""Parts of messages that no event of this test may cause."""


# -- clusters


@dataclass(frozen=True)
class Nodes:
    """A cluster whose nodes are stopped, killed and started.

    Attributes:
        servers: the addresses of all nodes.
        ids: their ids; the first one is not stopped.
        stop: stops a node gracefully.
        kill: stops it as `kill -9` does.
        start: starts it again.
    """

    servers: str
    ids: tuple[int, ...]
    stop: Callable[[int], object]
    kill: Callable[[int], object]
    start: Callable[[int], object]


def properties_of(nodes: int) -> dict[str, str]:
    """Return properties of a cluster in which each partition is on all nodes."""
    factors = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        **SOON_BACK,
        **{f"{each}.replication.factor": str(nodes) for each in factors},
        "default.replication.factor": str(nodes),
        "min.insync.replicas": str(nodes - 1),
        "transaction.state.log.min.isr": str(nodes - 1),
        "auto.leader.rebalance.enable": "false",
    }


@contextmanager
def apache_nodes(count: int) -> Iterator[Nodes]:
    properties = properties_of(count)
    with ExitStack() as stack:
        first = stack.enter_context(ApacheKafka(properties=properties))
        nodes = {1: first}
        for number in range(2, count + 1):
            nodes[number] = stack.enter_context(ApacheKafka(properties=properties, joins=first, node_id=number))
        yield Nodes(
            ",".join(each.bootstrap_servers for each in nodes.values()),
            tuple(nodes),
            lambda node: nodes[node].stop(),
            lambda node: nodes[node].kill(),
            lambda node: nodes[node].start(),
        )


@contextmanager
def embedded_nodes(count: int) -> Iterator[Nodes]:
    properties = {
        name: value
        for name, value in (SINGLE_NODE | properties_of(count)).items()
        if name not in OF_THE_CONTROLLER and not name.startswith("share.")
    }
    with EmbeddedCluster(node_ids=range(1, count + 1), properties=properties) as cluster:
        ids = tuple(cluster.node_ids)
        yield Nodes(cluster.bootstrap_servers, ids, cluster.stop_node, cluster.kill_node, cluster.start_node)


KINDS: Mapping[str, Callable[[int], AbstractContextManager[Nodes]]] = {
    "apache": apache_nodes,
    "embedded": embedded_nodes,
}


# -- writers


@dataclass
class Writers:
    """Write unique values to the source, plainly and in transactions, from threads, until they are told to stop.

    Attributes:
        transactions: by name.
    """

    servers: str
    transactions: dict[str, Transaction] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Writers:
        self._threads = [threading.Thread(target=target) for target in (self._write, self._transact)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        number = 0
        with Producer(bootstrap_servers=self.servers, compression_type="lz4", linger_ms=5) as producer:
            while not self._stop.wait(0.02):
                for _ in range(20):
                    producer.send(ORDERS, b"plain %d" % number, partition=number % PARTITIONS)
                    number += 1

    def _transact(self) -> None:
        number = 0
        while not self._stop.is_set():
            with suppress(KafkaError), self._transactional() as producer:
                producer.init_transactions()
                while not self._stop.wait(0.05):
                    number += 1
                    self._write_transaction(producer, number)

    def _transactional(self) -> Producer:
        return Producer(bootstrap_servers=self.servers, transactional_id="writer", linger_ms=2)

    def _write_transaction(self, producer: Producer, number: int) -> None:
        transaction = self.transactions[f"t{number}"] = Transaction()
        producer.begin_transaction()
        for index in range(6):
            value = b"%d of transaction %d" % (index, number)
            transaction.values.append(value)
            producer.send(ORDERS, value, partition=index % PARTITIONS)
        if number % 3:
            producer.commit_transaction()
            transaction.outcome = Outcome.COMMITTED
        else:
            producer.abort_transaction()
            transaction.outcome = Outcome.ABORTED


def contents(servers: str, topic: str) -> dict[TopicPartition, list[tuple[int, bytes | None]]]:
    """Return offsets and values of all committed records, by partition of the topic of the source."""
    found: dict[TopicPartition, list[tuple[int, bytes | None]]] = {}
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.assign(partitions)
        for of in partitions:
            found[TopicPartition(ORDERS, of.partition)] = []
            consumer.seek(of, starts[of])
        while any(consumer.position(of) < ends[of] for of in partitions):
            for of, batch in consumer.poll(1).items():
                found[TopicPartition(ORDERS, of.partition)] += [(record.offset, record.value) for record in batch]
    return found


# -- mirrors


class Mirror:
    """A mirror that is killed and started again, as by a service manager.

    Args:
        folder: for its files.
        alias: of the source.
        clusters: the addresses of source and target.
        delivery: of its flow.
        replicas: of its topics.

    Attributes:
        alias: as given.
        delivery: as given.
        starts_count: how many processes there were.
    """

    def __init__(self, folder: Path, alias: str, clusters: tuple[str, str], delivery: Delivery, replicas: int) -> None:
        self.alias, self.delivery, self.starts_count = alias, delivery, 0
        self._file, self._log = folder / f"{alias}.properties", folder / f"{alias}.log"
        lines = [
            f"clusters = {alias}, b",
            f"{alias}.bootstrap.servers = {clusters[0]}",
            f"b.bootstrap.servers = {clusters[1]}",
            f"{alias}->b.enabled = true",
            f"{alias}->b.topics = {ORDERS}",
            f"delivery = {delivery.value}",
            f"replication.factor = {replicas}",
            "commit.interval.ms = 100",
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "emit.heartbeats.enabled = false",
        ]
        self._file.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def text(self) -> str:
        """All that its processes said."""
        return self._log.read_text()

    @property
    def copy(self) -> str:
        """The name of the copy."""
        return f"{self.alias}.{ORDERS}"

    def ensure(self) -> None:
        """Start it if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.starts_count += 1
            command = [sys.executable, "-m", "kafkaraw", "mirror", "run", str(self._file)]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> int:
        """Stop it gracefully; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def translations(self, ends: Mapping[TopicPartition, int]) -> list[Translated]:
        """Return what each offset of the source and of the copy would be on the other side."""
        settings = read_mirror_settings(self._file)
        mappings = asyncio.run(
            load_mappings(FlowClients(settings.flows[0].copy), f"mm2-offset-mapping.{self.alias}.internal")
        )
        found: list[Translated] = []
        for of, end in ends.items():
            for offset in range(end + 1):
                there, back = mappings[of].translate(offset), mappings[of].translate_back(offset)
                if there is not None:
                    found.append(Translated(of, offset, there.offset, there.is_exact, self.alias))
                if back is not None:
                    found.append(Translated(of, back.offset, offset, back.is_exact, self.alias, is_back=True))
        return found


# -- the attack


class Attack:
    """Moves and kills, drawn from a seed.

    Args:
        chosen: draws them.
        source: the cluster that is copied.
        target: the cluster with the copies.
        mirrors: what copies.

    Attributes:
        events: what was done, in order.
        moves_count: how many partitions of coordinators have got another leader by `_move`.
    """

    def __init__(self, chosen: random.Random, source: Nodes, target: Nodes, mirrors: Sequence[Mirror]) -> None:
        self.events: list[str] = []
        self.moves_count = 0
        self._restarting: threading.Thread | None = None
        self._chosen, self._source, self._target, self._mirrors = chosen, source, target, mirrors
        self._kinds: dict[Callable[[], str], int] = {
            lambda: self._move(self._target, INTERNAL): 5,
            lambda: self._move(self._target, [mirror.copy for mirror in self._mirrors]): 2,
            lambda: self._move(self._source, (ORDERS, *INTERNAL)): 2,
            lambda: self._restart(self._target, "kill"): 2,
            lambda: self._restart(self._target, "stop"): 1,
            lambda: self._restart(self._source, "kill"): 1,
            self._kill_mirror: 4,
        }

    def run(self, seconds: float) -> None:
        """Move and kill for some time; in the end all nodes run."""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                time.sleep(self._chosen.uniform(0.1, 1.5))
                for mirror in self._mirrors:
                    mirror.ensure()
                kind = self._chosen.choices(list(self._kinds), list(self._kinds.values()))[0]
                self.events.append(kind())
        finally:
            if self._restarting is not None:
                self._restarting.join()

    def _move(self, nodes: Nodes, topics: Sequence[str]) -> str:
        """Give some partitions another order of replicas, and the first of them the lead."""
        with Admin(bootstrap_servers=nodes.servers) as admin:
            before = leaders(admin, topics)
            moves = {of: self._chosen.sample(nodes.ids, len(nodes.ids)) for of in before if self._chosen.random() < 0.6}
            with suppress(KafkaError):  # a node is down, or leads already
                admin.alter_partition_reassignments(moves)
            with suppress(KafkaError):
                admin.elect_leaders(ElectionType.PREFERRED, list(moves))
            moved = [of for of, leader in leaders(admin, topics).items() if leader != before.get(of)]
        self.moves_count += sum(of.topic in INTERNAL for of in moved)
        return f"{len(moved)} leaders of {', '.join(topics)} moved"

    def _restart(self, nodes: Nodes, how: str) -> str:
        """End a node, and start it again beside the next events."""
        if self._restarting is not None and self._restarting.is_alive():
            return "a node is starting"
        node, pause_s = self._chosen.choice(nodes.ids[1:]), self._chosen.uniform(0, 3)
        (nodes.kill if how == "kill" else nodes.stop)(node)

        def start() -> None:
            time.sleep(pause_s)
            nodes.start(node)

        self._restarting = threading.Thread(target=start)
        self._restarting.start()
        return f"{how} node {node} of {'the target' if nodes is self._target else 'the source'}"

    def _kill_mirror(self) -> str:
        mirror = self._chosen.choice(self._mirrors)
        mirror.kill()
        time.sleep(self._chosen.choice([0.0, 0.0, 0.2]))
        mirror.ensure()
        return f"kill mirror {mirror.alias}"


def leaders(admin: Admin, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the leaders of all partitions of the topics that exist."""
    found: dict[TopicPartition, int] = {}
    for topic in topics:
        with suppress(KafkaError):
            for each in admin.describe_topics([topic])[topic].partitions:
                found[TopicPartition(topic, each.partition)] = each.leader_id
    return found


def attack(folder: Path, source: Nodes, target: Nodes, seed: int) -> None:
    """Move and kill while both mirrors copy; then compare."""
    chosen = random.Random(seed)
    with Admin(bootstrap_servers=source.servers) as admin:
        admin.create_topics([NewTopic(ORDERS, PARTITIONS, len(source.ids))])
    both = (source.servers, target.servers)
    mirrors = [
        Mirror(folder, "exact", both, Delivery.EXACTLY_ONCE, len(target.ids)),
        Mirror(folder, "loose", both, Delivery.AT_LEAST_ONCE, len(target.ids)),
    ]
    moves = Attack(chosen, source, target, mirrors)
    try:
        with Writers(source.servers) as writers:
            moves.run(SECONDS)
        with Producer(bootstrap_servers=source.servers, transactional_id="writer") as producer:
            producer.init_transactions()  # what is open ends
        assert moves.moves_count, f"no coordinator moved: {moves.events}"
        written = contents(source.servers, ORDERS)
        assert sum(map(len, written.values())) > 1_000, "the writers wrote too little"
        for mirror in mirrors:
            await_complete(mirror, written, target.servers)
        for mirror in mirrors:
            code = mirror.stop()
            assert code == 0, mirror.text
    except BaseException as error:
        error.add_note(f"events: {moves.events}")
        for mirror in mirrors:
            mirror.kill()
            error.add_note(f"mirror {mirror.alias}: {mirror.text[-3000:] if mirror.starts_count else 'not started'}")
        raise
    for mirror in mirrors:
        history = MirrorHistory(
            mirror.delivery,
            source=written,
            copy=contents(target.servers, mirror.copy),
            transactions=writers.transactions,
            translated=mirror.translations({of: records[-1][0] + 1 for of, records in written.items()}),
        )
        assert not (violations := audit_mirror(history)), (violations, moves.events, mirror.text)
        assert not [part for part in NEVER if part in mirror.text], mirror.text


def await_complete(mirror: Mirror, written: Mapping[TopicPartition, Sequence[object]], servers: str) -> None:
    """Wait until the copy has the last record of each partition."""
    last = {of: records[-1][1] for of, records in written.items() if records}

    def is_complete() -> bool:
        mirror.ensure()
        with suppress(KafkaError):
            copied = contents(servers, mirror.copy)
            return all(value in [each for _, each in copied[of]] for of, value in last.items())
        return False

    assert wait_until(is_complete, COMPLETE_S, 2), f"the copy of mirror {mirror.alias} does not become complete"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_right_while_coordinators_move_and_nodes_and_mirrors_are_killed(
    tmp_path: Path, kind: str, seed: int
) -> None:
    missing = why_missing() if kind == "apache" else None
    if missing is not None:
        pytest.skip(missing)
    with KINDS[kind](2) as source, KINDS[kind](3) as target:
        attack(tmp_path, source, target, seed)
