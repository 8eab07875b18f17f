"""Kill processes with workers at random moments, and check what they have handled, written and committed.

Two processes share a group, a consumer group or a share group; one is killed with SIGKILL after a random number of
calls, and another one takes its place. Start at `run_killed`.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from kafkaraw import Admin, ConfigResource, ConfigResourceType, Consumer, NewTopic, Producer, SharePartitionOffsetInfo
from kafkaraw.errors import KafkaError
from kafkaraw.records import Record, TopicPartition
from kafkaraw.worker import letters
from tests.waiting import wait_until
from tests.worker.killed import ATTEMPTS, DEAD, INVOICES, ORDERS, RETRY, always_fails

PARTITIONS = 3
KEYS = 12
PROCESSES = 2
HANDLERS = ("on_loop", "in_thread")
PATIENCE_S = 60.0
"""The maximum time until a new process calls its handler, and until everything is committed."""
TICK_S = 0.02


class Place(NamedTuple):
    """Partition and offset of a record in the topic."""

    partition: int
    offset: int


class Call(NamedTuple):
    """A line of a process: `what` is "began", "ended" or "failed"."""

    what: str
    place: Place
    key: str


class WorkerProcess:
    """One process with a worker.

    Args:
        folder: for its file.
        name: of its file.
        given: see `killed.main`.
    """

    def __init__(self, folder: Path, name: str, given: Mapping[str, object]) -> None:
        self._path = folder / name
        command = [sys.executable, "-m", "tests.worker.killed", json.dumps({**given, "log": str(self._path)})]
        self._log_path = folder / f"{name}.log"
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log)

    def calls(self) -> list[Call]:
        """Return what it has written."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        parts = (line.split(" ") for line in lines)
        return [Call(what, Place(int(partition), int(offset)), key) for what, partition, offset, key in parts]

    def count(self) -> int:
        """Return the number of calls that it has begun."""
        return self._path.read_bytes().count(b"began") if self._path.exists() else 0

    def wait_for_log(self, text: str) -> None:
        """Wait until its log has a text."""
        wait_for(lambda: text in self._log_path.read_text(), f"the log of a process has no {text!r}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def signal_until_it_ends(self, number: signal.Signals) -> int:
        """Send a signal again and again, and return the exit code."""

        def has_ended() -> bool:
            self.signal(number)
            return self._process.poll() is not None

        wait_for(has_ended, f"a process goes on after {number.name}")
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and return the exit code."""
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self.wait()


@dataclass(frozen=True)
class Run:
    """What the processes of a run have done.

    Attributes:
        processes: all of them, the killed ones, too.
        records: of the topic, by place.
        letters: by place of a dead letter's original, how many attempts it says were made.
        invoices: places of the records with a result.
        observed: after each kill, the committed offset of each partition, and the records that had been handled.
        keeps_order: failed calls are repeated in place.
        has_order: the group keeps the order by key.
        attempts: how many a handler has for a record, those in other processes included.
    """

    processes: list[WorkerProcess]
    records: dict[Place, Record]
    letters: dict[Place, int]
    invoices: set[Place]
    observed: list[tuple[dict[int, int], set[Place]]]
    keeps_order: bool
    has_order: bool = True
    attempts: int = ATTEMPTS

    def check(self) -> None:
        """Check that no record was lost or skipped, and the order by key within each process."""
        handled = set().union(*map(handled_by, self.processes))
        failing = {place for place, record in self.records.items() if always_fails(int(record.value or b""))}
        assert handled == self.records.keys() - failing, "each record is handled at least once"
        others = self.letters.keys() - failing
        if not self.has_order:  # each delivery is an attempt: processes that are killed can use up those of any record
            others = {place for place in others if self.letters[place] < self.attempts}
        assert failing <= self.letters.keys() and not others, "dead letters are complete, and there are no others"
        assert self.invoices == handled, "results are complete"
        for offsets, handled_then in self.observed:
            passed = {place for place in self.records if place.offset < offsets.get(place.partition, 0)}
            assert passed - failing <= handled_then, "a committed offset does not pass a record that is not handled"
        for process in self.processes if self.has_order else ():
            check_order(process.calls(), keeps_order=self.keeps_order)


def calls_of(processes: list[WorkerProcess]) -> int:
    return sum(process.count() for process in processes)


def has_made(processes: list[WorkerProcess], calls: int) -> bool:
    return calls_of(processes) >= calls


def handled_by(process: WorkerProcess) -> set[Place]:
    return {call.place for call in process.calls() if call.what == "ended"}


def check_order(calls: list[Call], *, keeps_order: bool) -> None:
    """Check that a process has begun the records of a key in order, and one after the other."""
    begun: dict[tuple[int, str], list[int]] = defaultdict(list)
    running: set[tuple[int, str]] = set()
    for call in calls:
        lane = (call.place.partition, call.key)
        if call.what != "began":
            running.discard(lane)
            continue
        if keeps_order:
            assert lane not in running, f"two records of a key at a time: {call}"
            running.add(lane)
        if call.place.offset not in begun[lane]:
            begun[lane].append(call.place.offset)
    for lane, offsets in begun.items():
        assert offsets == sorted(offsets), f"records of {lane} began in the order {offsets}"


def create_topics(servers: str) -> None:
    """Create the topics of the workers, empty."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic.name for topic in admin.list_topics() if not topic.is_internal])
        admin.create_topics([NewTopic(ORDERS, PARTITIONS), NewTopic(RETRY), NewTopic(DEAD), NewTopic(INVOICES)])


SHARE: Final = {"group_type": "share"}
"""The settings of workers in a share group."""
DELIVERIES = 10
"""How often the share group delivers a record: each kill may take one of them."""


def run_killed(
    servers: str, folder: Path, group: str, *, kills: int, records: int, seed: int, settings: Mapping[str, object]
) -> Run:
    """Handle records with processes that are killed, then stop the last ones gracefully.

    Args:
        servers: the brokers.
        folder: for files of the processes.
        group: the group of the workers.
        kills: number of kills.
        records: number of records; half of them are sent during the kills.
        seed: of the moments, the retries and the kind of handlers.
        settings: further settings of the workers; `SHARE` for a share group.
    """
    rng, is_shared = random.Random(seed), settings.items() >= SHARE.items()
    retry_topic, processes = rng.choice([None, RETRY]), list[WorkerProcess]()
    common = {"bootstrap_servers": servers, "group_id": group, "fetch_max_wait_ms": 50, "metadata_max_age_ms": 1_000}
    common |= settings if is_shared else {"auto_offset_reset": "earliest", "commit_interval_ms": 20, **settings}
    # A record whose first call fails in each process has a delivery in each; so many attempts in a share group.
    attempts = DELIVERIES - 2 if is_shared else ATTEMPTS

    def start() -> WorkerProcess:
        worker = {**common, "concurrency": rng.choice([1, 4, 20])}
        given = {"worker": worker, "longest_s": 0.02, "seed": rng.random(), "handler": rng.choice(HANDLERS)}
        given["attempts"] = attempts
        processes.append(WorkerProcess(folder, f"{len(processes)}", {**given, "retry_topic": retry_topic}))
        return processes[-1]

    create_topics(servers)
    with (
        Producer(bootstrap_servers=servers) as producer,
        (ShareProgress if is_shared else Progress)(servers, group) as progress,
        killed_in_the_end(processes),
    ):
        running, observed, sent = [start() for _ in range(PROCESSES)], [], 0

        def send(count: int) -> None:
            nonlocal sent
            for number in range(sent, sent + count):
                producer.send(ORDERS, b"%d" % number, b"%d" % rng.randrange(KEYS), partition=rng.randrange(PARTITIONS))
            sent += count
            producer.flush()

        each_time = records // (kills + 1)
        send(records - kills * each_time)
        for _ in range(kills):
            # All processes together make at least `each_time` more calls: a moment between them comes.
            moment = calls_of(processes) + rng.randint(1, each_time)
            wait_for(partial(has_made, processes, moment), f"the processes have not made {moment} calls")
            slot = rng.randrange(PROCESSES)
            running[slot].kill()
            offsets = progress.offsets()
            observed.append((offsets, set().union(*map(handled_by, processes))))
            running[slot] = start()
            send(each_time)
        wait_for(lambda: not progress.has_lag(), "not everything is committed")
        for process in running:
            process.wait_for_log("assigned")
            process.signal(signal.SIGTERM)
        assert [process.wait() for process in running] == [0] * PROCESSES
        found = {topic: read(onlooker_of(servers), topic) for topic in (ORDERS, DEAD, INVOICES)}
    return Run(
        processes,
        {Place(record.partition, record.offset): record for record in found[ORDERS]},
        {_original_of(record): int(dict(record.headers)[letters.ATTEMPTS] or b"") for record in found[DEAD]},
        {Place(*map(int, (record.value or b"").split())) for record in found[INVOICES]},
        observed,
        keeps_order=retry_topic is None and not is_shared,
        has_order=not is_shared,
        attempts=attempts,
    )


def _original_of(letter: Record) -> Place:
    headers = dict(letter.headers)
    return Place(int(headers["kafkaraw.partition"] or b""), int(headers["kafkaraw.offset"] or b""))


def onlooker_of(servers: str) -> Consumer:
    return Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")


def _sources() -> list[TopicPartition]:
    return [*(TopicPartition(ORDERS, number) for number in range(PARTITIONS)), TopicPartition(RETRY, 0)]


def committed(onlooker: Consumer) -> dict[int, int]:
    """Return the committed offset of each partition of the topic."""
    found = onlooker.committed([tp for tp in _sources() if tp.topic == ORDERS])
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


class Progress:
    """What a consumer group has committed.

    Args:
        servers: the brokers.
        group: the group.
    """

    def __init__(self, servers: str, group: str) -> None:
        self._consumer = Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def offsets(self) -> dict[int, int]:
        """Return the committed offset of each partition of the topic."""
        return committed(self._consumer)

    def has_lag(self) -> bool:
        """Whether records are not committed. The committed offsets first: then no record was in work afterwards."""
        try:
            found = self._consumer.committed(_sources())
        except KafkaError:
            return True
        ends = self._consumer.end_offsets(_sources())
        return any(ends[tp] > (0 if at is None else at.offset) for tp, at in found.items())


class ShareProgress:
    """What a share group has accepted and rejected: all records before the start offset of a partition.

    Args:
        servers: the brokers.
        group: the group; it begins at the first record.
    """

    def __init__(self, servers: str, group: str) -> None:
        self._admin, self._group = Admin(bootstrap_servers=servers), group
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        given = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(DELIVERIES)}
        self._admin.alter_configs({resource: given})

    def __enter__(self) -> ShareProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def _found(self) -> dict[TopicPartition, SharePartitionOffsetInfo]:
        return self._admin.list_share_group_offsets([self._group])[self._group]

    def offsets(self) -> dict[int, int]:
        """Return the start offset of each partition of the topic."""
        return {tp.partition: info.start_offset for tp, info in self._found().items() if tp.topic == ORDERS}

    def has_lag(self) -> bool:
        """Whether records are neither accepted nor rejected."""
        found = self._found()
        return not {tp for tp in _sources() if tp.topic == ORDERS} <= found.keys() or any(
            info.lag for info in found.values()
        )


def read(consumer: Consumer, topic: str) -> list[Record]:
    """Read a topic to its end."""
    with consumer:
        consumer.assign(consumer.partitions_for(topic))
        ends, found = consumer.end_offsets(consumer.assignment()), list[Record]()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found += [record for batch in consumer.poll(5).values() for record in batch]
        return found


def wait_for(is_true: Callable[[], bool], otherwise: str) -> None:
    """Wait for other processes."""
    assert wait_until(is_true, PATIENCE_S, TICK_S), f"after {PATIENCE_S:g} s, {otherwise}"


@contextmanager
def killed_in_the_end(processes: list[WorkerProcess]) -> Iterator[None]:
    """Kill the processes that are left, if the run has failed."""
    try:
        yield
    except BaseException:
        for process in processes:
            process.kill()
        raise
