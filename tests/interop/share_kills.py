"""Members of one share group that are killed while records keep coming, and a broker that is restarted meanwhile.

What each member was given and what the broker confirmed is compared with what was written: each record is accepted once
by those who say so. Start at `run_killed`, then `Run.check`.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from kafkaraw import Admin, ConfigResource, KafkaError, NewTopic, OffsetSpec, TopicPartition
from tests.interop.apache_kafka import SINGLE_NODE, SOON_BACK, ApacheKafka, free_ports
from tests.interop.fleet import Load
from tests.interop.share_members import Place, ShareMember

PARTITIONS: Final = 2
PATIENCE_SECONDS: Final = 120.0
START_SECONDS_MAX: Final = 60.0
SESSION_MS: Final = 3_000
"""A partition whose only member was killed waits for the end of its session."""
VALUES: Final = (b"v", b"v", b"release", b"v", b"v", b"v", b"reject", b"v")
"""What the members do with a record is its value: see `share_members.wanted`."""
DELIVERIES_MAX: Final = 10
SETTLED: Final = ("accepted", "rejected")
PROPERTIES: Final = {
    **{name: value for name, value in SINGLE_NODE.items() if name.startswith(("group.", "share.", "offsets."))},
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.delivery.count.limit": str(DELIVERIES_MAX),
}


class Restarting(Protocol):
    """A broker that keeps its address and its data."""

    @property
    def bootstrap_servers(self) -> str: ...

    def restart(self, *, kill: bool) -> None: ...


class CommandBroker:
    """`kafkaraw broker` with a data directory."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._folder = folder
        self._log_path = folder / "broker.log"
        self.bootstrap_servers = f"127.0.0.1:{self._port}"
        self._process = self._start()

    def restart(self, *, kill: bool) -> None:
        """End the process with SIGKILL or SIGTERM, and start it again with the same port and directory."""
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._wait()
        self._process = self._start()

    def close(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._wait()

    @property
    def log(self) -> str:
        """What the command has written to its standard error."""
        return self._log_path.read_text(errors="replace")

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "-m", "kafkaraw", "broker", "--port", str(self._port)]
        command += ["--data-dir", str(self._folder / "logs")]
        command += [word for name, value in PROPERTIES.items() for word in ("-X", f"{name}={value}")]
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line == f"bootstrap.servers={self.bootstrap_servers}", self.log
        return process

    def _wait(self) -> None:
        self._process.wait(START_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def apache_broker() -> Iterator[ApacheKafka]:
    """Apache Kafka that may be restarted."""
    with ApacheKafka(properties={**PROPERTIES, **SOON_BACK}) as kafka:
        yield kafka


@contextlib.contextmanager
def command_broker(folder: Path) -> Iterator[CommandBroker]:
    """`kafkaraw broker`, which has logged no traceback at the end."""
    broker = CommandBroker(folder)
    try:
        yield broker
        assert "Traceback" not in broker.log, broker.log[-3000:]
    finally:
        broker.close()


@dataclass
class Run:
    """What the members of a run have done.

    Attributes:
        members: all of them, the killed ones, too.
        ends: the end offset of each partition.
        kills: how many members were killed, by client, and how often the broker ended.
    """

    members: list[ShareMember] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def settled(self) -> Counter[Place]:
        """Return how often each record was accepted or rejected, as the broker confirmed."""
        return Counter(each.place for member in self.members for each in member.confirmations if each.what in SETTLED)

    def check(self) -> None:
        """Check that no record is lost, accepted twice, or delivered after its acceptance was confirmed."""
        written = {Place(partition, offset) for partition, end in self.ends.items() for offset in range(end)}
        settled = self.settled()
        delivered = {each.place for member in self.members for each in member.deliveries}
        assert delivered == written, "each record is delivered"
        twice = [place for place, count in settled.items() if count > 1]
        assert not twice, f"accepted twice: {self._stories(twice)}"
        unconfirmed = written - settled.keys() - self._in_doubt()
        assert not unconfirmed, f"settled without an acknowledgement: {self._stories(unconfirmed)}"
        settled_at = {
            each.place: each.at_ms for member in self.members for each in member.confirmations if each.what in SETTLED
        }
        late = [
            each.place
            for member in self.members
            for each in member.deliveries
            if each.at_ms > settled_at.get(each.place, each.at_ms)
        ]
        assert not late, f"delivered after it was accepted: {self._stories(late)}"
        counts = [each.count for member in self.members for each in member.deliveries if each.count is not None]
        assert max(counts) < DELIVERIES_MAX, "no record was given up"

    def _in_doubt(self) -> set[Place]:
        """Return the records whose acknowledgement may have reached the broker, without a confirmation."""
        found = set[Place]()
        for member in self.members:
            found |= {each.place for each in member.confirmations if each.what == "failed"}
            if member.was_killed:
                found |= {each.place for each in member.deliveries}
        return found

    def _stories(self, places: Collection[Place]) -> str:
        lines = []
        for place in sorted(places)[:5]:
            for number, member in enumerate(self.members):
                who = f"{member.client} {number}"
                lines += [
                    f"{who}: {each}" for each in (*member.deliveries, *member.confirmations) if each.place == place
                ]
        return "\n".join(lines)


def run_killed(broker: Restarting, clients: Sequence[str], steps: Sequence[str], seed: int) -> Run:
    """Read a topic in a share group of several clients, some of which are killed; each one that is gone is replaced.

    Args:
        broker: reads and writes of the run's own topic.
        clients: the members, by kind.
        steps: what happens, one after the other: a client of which a member is killed, `broker killed` or `broker
            stopped`, after which the broker starts again.
        seed: of the moments.
    """
    rng, run = random.Random(seed), Run()
    servers, topic = broker.bootstrap_servers, f"killed-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        admin.alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"}})
    running: list[ShareMember] = []

    def start(client: str) -> None:
        member = ShareMember(client, servers, topic, topic)
        run.members.append(member)
        running.append(member)

    def wait_for(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            ended = [member for member in running if member.has_ended]
            for member in ended:
                member.kill(was_killed=False)
            assert not ended, f"{ended[0].client} has ended: {ended[0].log[-3000:]}"
            assert time.monotonic() < deadline, f"{what} within {PATIENCE_SECONDS:g} s"
            time.sleep(0.02)

    def each_has_accepted() -> bool:
        return all(member.accepted() for member in running)

    try:
        with Load(servers, topic, PARTITIONS, VALUES) as load:
            for client in clients:
                start(client)
            wait_for(each_has_accepted, "not every member accepted a record")
            for step in steps:
                goal = run.settled().total() + rng.randrange(5, 60)
                wait_for(lambda goal=goal: run.settled().total() >= goal, f"no progress before {step!r}")
                run.kills[step] += 1
                if step.startswith("broker"):
                    broker.restart(kill=step == "broker killed")
                else:
                    member = rng.choice([each for each in running if each.client == step])
                    running.remove(member)
                    member.kill()
                    start(step)
            wait_for(each_has_accepted, "not every member accepted a record after the last kill")
            load.stop()
        with Admin(bootstrap_servers=servers) as admin:
            partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            run.ends = {partition.partition: info.offset for partition, info in ends.items() if info is not None}
            wait_for(lambda: _lag(admin, topic) == 0, "the group has records left")
        for member in running:
            member.leave()
    finally:
        for member in running:
            member.kill()
    return run


def _lag(admin: Admin, group: str) -> int | None:
    """Return how many records the group has not settled; None if the broker does not know it yet."""
    try:
        found = admin.list_share_group_offsets([group])[group]
    except KafkaError:
        return None  # the broker has just started
    lags = [each.lag for each in found.values() if each.lag is not None]
    return sum(lags) if len(lags) == PARTITIONS else None
