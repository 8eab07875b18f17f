"""Threads that share clients, with forced switches: `python -m tests.client.threads [--rounds N] [--seed SEED]`.

In each round threads send, flush, commit and close one producer at once, and one thread reads from a consumer that
another one closes. Switches are forced: the interpreter changes threads after a microsecond, and a trace function lets
go of the interpreter at random lines of the client. Then the log is compared with what the threads were told.
Prints a line for each finding; exits with 1 if there is any. A round that does not end in `ROUND_S` ends the process,
with the stacks of all threads. `KAFKARAW_IMPL` chooses the implementation of records.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow

import kafkaraw
from kafkaraw import Consumer, KafkaError, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import ClosedError
from kafkaraw.records import IMPLEMENTATION
from tests.client.hooks.audit import Log, LogReader, prepare
from tests.client.hooks.world import REFUSED_BYTES, SOURCE, SOURCE_RECORDS, SOURCES, TOPIC, failed

ROUND_S = 120.0
TIMEOUT_S = 40.0
THREADS = 4
STEPS = 12
TRACED = tuple(
    f"{Path(kafkaraw.__file__).parent / folder}/" for folder in ("client", "records", "net", "core/producer")
)
SWITCH_S = 1e-6


class Switches:
    """Lets go of the interpreter at random lines of the client, in every thread that begins from now on.

    Args:
        seed: of the lines.
    """

    def __init__(self, seed: int) -> None:
        self.every = 50
        self._rng = random.Random(seed)
        self._traced: dict[CodeType, bool] = {}
        sys.setswitchinterval(SWITCH_S)
        threading.settrace(self._called)

    def _called(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        code = frame.f_code
        traced = self._traced.get(code)
        if traced is None:
            traced = self._traced[code] = code.co_filename.startswith(TRACED)
        return self._line if traced else None

    def _line(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        chance = self._rng.random() * self.every
        if chance < 1.0:
            time.sleep(0.0005 if chance < 0.1 else 0.0)
        return self._line


class Round:
    """What threads do with one producer, and what they are told.

    Args:
        servers: of the broker.
        name: unlike that of any other round.
        rng: what is done.
    """

    def __init__(self, servers: str, name: str, rng: random.Random) -> None:
        self.name = name
        self.findings: list[str] = []
        self.transactional = rng.random() < 0.3
        self.committed = False
        self.taken: list[tuple[list[bytes], Any]] = []
        self._told = False  # a call has raised what failed: after that, all of it may have been reported
        self._rng = rng
        own: dict[str, object] = {"transactional_id": name} if self.transactional else {}
        self.producer = Producer(
            bootstrap_servers=servers,
            linger_ms=rng.choice([0, 1, 5]),
            batch_size=rng.choice([200, 16_384]),
            buffer_memory=rng.choice([5_000, 1_000_000]),
            max_request_size=4_000,
            delivery_timeout_ms=int(TIMEOUT_S * 1000),
            **own,
        )

    def run(self) -> None:
        """Let the threads do their work, then close the producer."""
        if self.transactional:
            self.producer.init_transactions(TIMEOUT_S)
            self.producer.begin_transaction()
        self.producer.partitions_for(TOPIC)
        closes = self._rng.randrange(-THREADS, THREADS)  # a thread that closes, in half of the rounds
        seeds = [self._rng.randrange(1 << 30) for _ in range(THREADS)]
        each_in_a_thread(
            [lambda n=n, s=s: self._work(n, random.Random(s), closes=n == closes) for n, s in enumerate(seeds)]
        )
        if self.transactional:
            self._commit()
        self._settle("close", self.producer.close)

    def _work(self, number: int, rng: random.Random, *, closes: bool) -> None:
        """What one thread does."""
        for step in range(STEPS):
            value = b"%s %d %d" % (self.name.encode(), number, step)
            try:
                match rng.choice(["send", "send", "send", "refused", "nowait", "arrow", "flush", "result", "callback"]):
                    case "send":
                        self._take([value], self.producer.send(TOPIC, value))
                    case "refused" if rng.random() < 0.3:
                        value += b"x" * REFUSED_BYTES
                        self._take([value], self.producer.send(TOPIC, value))
                    case "nowait":
                        self._take([value], self.producer.send_nowait(TOPIC, value))
                    case "callback":
                        self._take([value], self.producer.send(TOPIC, value)).add_done_callback(self._send_more)
                    case "arrow":
                        rows = pyarrow.table({"value": pyarrow.array([value], pyarrow.binary())})
                        self._take([value], self.producer.send_arrow(TOPIC, rows))
                    case "result":
                        self._take([value], ticket := self.producer.send(TOPIC, value))
                        ticket.result(TIMEOUT_S)
                    case "flush":
                        self._settle("flush", self.producer.flush)
            except KafkaError as error:
                self._check(error)
            if closes and rng.random() < 0.15:
                self._settle("close", self.producer.close)
        if self.transactional and number == 0 and rng.random() < 0.7:
            self._commit()

    def _send_more(self, ticket: Any) -> None:
        value = b"%s after %d" % (self.name.encode(), id(ticket))
        try:
            self._take([value], self.producer.send_nowait(TOPIC, value))
        except KafkaError as error:
            self._check(error)

    def _take(self, values: list[bytes], ticket: Any) -> Any:
        self.taken.append((values, ticket))
        return ticket

    def _settle(self, name: str, method: Callable[[float], object]) -> None:
        before = [ticket for _, ticket in self.taken.copy()]
        try:
            method(TIMEOUT_S)
        except ClosedError:
            return
        except KafkaError:
            self._told = True
        else:
            if not all(ticket.done for ticket in before):
                self.findings.append(f"{name} returned before every record had an outcome")

    def _commit(self) -> None:
        try:
            self.producer.commit_transaction(TIMEOUT_S)
        except KafkaError as error:
            self._told = True
            self._check(error)
        else:
            self.committed = True

    def _check(self, error: KafkaError) -> None:
        if "not acknowledged within" in str(error) or "stayed full" in str(error):
            self.findings.append(f"a call did not end: {error}")

    def audit(self, log: Log) -> list[str]:
        """Compare the log with what the threads were told."""
        findings, nobody_told = list(self.findings), []
        for values, ticket in self.taken:
            for value in values:
                times = log.written[value]
                if not ticket.done:
                    findings.append(f"the ticket of {value[:40]!r} is pending after close()")
                elif failed(ticket):
                    nobody_told.append(value[:40])
                    if times:
                        findings.append(f"{value[:40]!r} is in the log, and its ticket failed: {ticket.exception()}")
                elif times != 1:
                    findings.append(f"{value[:40]!r} is acknowledged and {times} times in the log")
                elif self.committed and value not in log.committed:
                    findings.append(f"{value[:40]!r} is acknowledged and not part of the transaction")
        if nobody_told and not self._told:
            findings.append(f"nobody was told that these failed: {nobody_told}")
        if self.committed and nobody_told:
            findings.append(f"committed without {nobody_told}")
        return findings


def read_and_close(servers: str, group: str, rng: random.Random) -> list[str]:
    """One thread reads and commits, another one closes: what is committed has been given, each record once."""
    given: dict[TopicPartition, list[int]] = {partition: [] for partition in SOURCES}
    consumer = Consumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=rng.choice([1, 60_000]),
        max_partition_fetch_bytes=rng.choice([150, 100_000]),
    )
    consumer.subscribe([SOURCE])
    began = threading.Event()

    def read() -> None:
        for _ in range(SOURCE_RECORDS):
            try:
                match rng.choice(["poll", "next", "batches", "commit"]):
                    case "poll":
                        for partition, batch in consumer.poll(0.2, 3).items():
                            given[partition] += range(batch.start_offset, batch.next_offset)
                    case "next" if sum(map(len, given.values())) < SOURCE_RECORDS:
                        record = next(consumer)
                        given[TopicPartition(record.topic, record.partition)].append(record.offset)
                    case "batches":
                        batch = next(consumer.batches(0.2), None)
                        if batch is not None:
                            given[batch.topic_partition] += range(batch.start_offset, batch.next_offset)
                    case "commit":
                        consumer.commit(timeout=TIMEOUT_S)
            except (KafkaError, StopIteration):
                pass
            began.set()

    wait_s = rng.uniform(0, 0.02)

    def close() -> None:
        began.wait(TIMEOUT_S)
        time.sleep(wait_s)
        consumer.close(TIMEOUT_S)

    each_in_a_thread([read, close])
    findings = []
    for partition, offset in LogReader(servers).committed_offsets(group).items():
        if offset > len(given[partition]):
            findings.append(f"{partition} is committed at {offset}, and {given[partition]} were given")
    for partition, offsets in given.items():
        if offsets != list(range(len(offsets))):
            findings.append(f"{partition} gave {offsets}")
    return findings


def each_in_a_thread(work: list[Callable[[], None]]) -> None:
    """Run all of it at once; what one raises ends the round."""
    problems: list[BaseException] = []

    def guarded(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as error:  # noqa: BLE001 - raised below
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.getLogger("kafkaraw").setLevel(logging.CRITICAL)
    found, began = 0, time.monotonic()
    with EmbeddedBroker(process=True, properties={"group.initial.rebalance.delay.ms": "0"}) as broker:
        servers = broker.bootstrap_servers
        switches, reader = Switches(given.seed), LogReader(servers)  # before the clients' loop thread begins
        prepare(servers)
        for number in range(given.rounds):
            rng = random.Random(f"{given.seed} {number}")
            switches.every = rng.choice([10, 100, 1000])
            faulthandler.dump_traceback_later(ROUND_S, exit=True)
            one = Round(servers, f"round {number}", rng)
            one.run()
            findings = one.audit(reader.read())
            findings += read_and_close(servers, f"group {number}", rng)
            faulthandler.cancel_dump_traceback_later()
            found += bool(findings)
            for finding in findings:
                print(f"round {number} of seed {given.seed}: {finding}", flush=True)
    print(f"{given.rounds} rounds, {found} with findings, {time.monotonic() - began:.0f} s, records: {IMPLEMENTATION}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
