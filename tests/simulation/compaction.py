"""A compacted topic: producers write values and tombstones of a few keys while the cleaner runs and faults happen.

One of them writes in transactions, which stay open while the cleaner runs, and often aborts. Start at
`CompactionScenario`. The producers own different keys, so that the order of the values of a key is known.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import KafkaError
from kafkaraw.records import TopicPartition
from kafkaraw.testing.audit import Invariant, Violation
from tests.simulation.clients import CATCH_UP_S, SETTLE_S, persist
from tests.simulation.world import World

COMPACTED = "compacted"
PARTITION = TopicPartition(COMPACTED, 0)
PRODUCERS = 2
KEYS = 4
"""Keys of each producer."""
RECORDS = 150
"""Records of each producer."""
TRANSACTIONS = 10
OFFSETS_OF_TRANSACTIONS = 40
"""Maximum number of offsets that may be missing although nothing was compacted; more than the markers have."""
TRANSACTION_TIMEOUT_MS = 5_000
TOMBSTONE_SHARE = 0.15
CALL_S = 20.0


class _Sent(NamedTuple):
    """A value of a key, and whether it is known that readers get it."""

    value: bytes | None
    is_acknowledged: Callable[[], bool]


class CompactionScenario:
    """Writes, and reads from the first record again and again; every reader sees rising offsets.

    Attributes:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._sent: dict[bytes, list[_Sent]] = {}
        self._found: list[Violation] = []
        self._last: dict[bytes, tuple[int, bytes | None]] = {}
        self._writing = True

    async def create_topic(self) -> None:
        """Create the topic, with settings that let the cleaner run often."""
        rng = self.world.rng("compacted topic")
        configs = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "internal.segment.bytes": rng.choice(["500", "2000"]),
            "segment.ms": rng.choice(["200", "2000"]),
            # A replica that has an old value must get the tombstone before another one has removed it.
            "delete.retention.ms": "500" if self.world.environment.nodes == 1 else "86400000",
        }
        topic = NewTopic(COMPACTED, 1, replication_factor=min(3, self.world.environment.nodes), configs=configs)
        async with self.world.admin("founder") as admin:
            await self.world.call("create_topics", admin.create_topics([topic], timeout=CALL_S), CALL_S)

    async def run(self) -> None:
        """Write all records, while a reader starts over at the first record."""
        reader = asyncio.create_task(self._keep_reading())
        senders = [self._send(f"producer{number}") for number in range(PRODUCERS)]
        await asyncio.gather(*senders, self._transact("transactional"))
        self._writing = False
        await reader

    async def _send(self, name: str) -> None:
        world, rng = self.world, self.world.rng(name)
        producer = world.producer(name, delivery_timeout_ms=30_000, buffer_memory=1_000_000)
        for number in range(RECORDS):
            key = b"%s key %d" % (name.encode(), rng.randrange(KEYS))
            value = None if rng.random() < TOMBSTONE_SHARE else b"%s-%d" % (name.encode(), number)
            ticket = await persist(
                world, producer, lambda k=key, v=value: producer.send(COMPACTED, v, key=k, partition=0)
            )
            self._sent.setdefault(key, []).append(_Sent(value, lambda t=ticket: t.done and t.exception() is None))
            if rng.random() < 0.4:
                await asyncio.sleep(rng.uniform(0, 0.15))
        with suppress(KafkaError):
            await world.call(f"{name}: flush", producer.flush(60), 60)
        await asyncio.sleep(SETTLE_S)
        with suppress(KafkaError):
            await world.close(name, producer.close(10), 10)

    async def _transact(self, name: str) -> None:
        world, rng = self.world, self.world.rng(name)
        producer: AsyncProducer | None = None
        for number in range(TRANSACTIONS):
            try:
                if producer is None:
                    producer = self._transactional(name, number)
                    await world.call("init_transactions", producer.init_transactions(CALL_S), CALL_S)
                await self._transaction(producer, name, number, rng)
            except KafkaError as error:
                world.covered[f"{type(error).__name__} in a transaction"] += 1
                if producer is not None:
                    await self._close(name, producer)
                producer = None
        if producer is not None:
            await self._close(name, producer)

    def _transactional(self, name: str, number: int) -> AsyncProducer:
        return self.world.producer(
            f"{name} #{number}",
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            delivery_timeout_ms=4_000,
            buffer_memory=1_000_000,
        )

    async def _transaction(self, producer: AsyncProducer, name: str, number: int, rng: random.Random) -> None:
        """Write a few values, wait while segments are rolled and cleaned, and commit or abort."""
        await producer.begin_transaction()
        written: dict[bytes, bytes | None] = {}
        for at in range(rng.randint(1, 3)):
            key = b"%s key %d" % (name.encode(), rng.randrange(KEYS))
            written[key] = None if rng.random() < TOMBSTONE_SHARE else b"%s-%d-%d" % (name.encode(), number, at)
            await producer.send(COMPACTED, written[key], key=key, partition=0)
        await producer.flush(CALL_S)
        await asyncio.sleep(rng.choice([0, rng.uniform(0.5, 2)]))
        if rng.random() < 0.5:
            await self.world.call("abort_transaction", producer.abort_transaction(CALL_S), CALL_S)
            return
        committed: list[bool] = []
        for key, value in written.items():
            self._sent.setdefault(key, []).append(_Sent(value, lambda: bool(committed)))
        await self.world.call("commit_transaction", producer.commit_transaction(CALL_S), CALL_S)
        committed.append(True)
        self.world.covered["committed to the compacted topic"] += 1

    async def _close(self, name: str, producer: AsyncProducer) -> None:
        with suppress(KafkaError):
            await self.world.close(name, producer.close(10), 10)

    async def _keep_reading(self) -> None:
        rng: random.Random = self.world.rng("reader from the start")
        number = 0
        while self._writing:
            number += 1
            with suppress(KafkaError):
                await self._read(f"reader {number}", give_up_s=5.0)
                self.world.covered["read from the start"] += 1
            await asyncio.sleep(rng.uniform(0, 1))

    async def _read(self, name: str, *, give_up_s: float) -> dict[bytes, tuple[int, bytes | None]]:
        """Read from the first record to the end; return the last value of each key.

        Raises:
            KafkaError: a call has failed.
        """
        last: dict[bytes, tuple[int, bytes | None]] = {}
        async with self.world.consumer(name, isolation_level="read_committed") as consumer:
            consumer.assign([PARTITION])
            ends = await self.world.call("end_offsets", consumer.end_offsets([PARTITION], CALL_S), CALL_S)
            give_up_at_s = self.world.now_s + give_up_s
            offset, count = -1, 0
            while await consumer.position(PARTITION, CALL_S) < ends[PARTITION]:
                if self.world.now_s > give_up_at_s:
                    if give_up_s == CATCH_UP_S:
                        self.world.history.left_over.append(f"records of {COMPACTED} that cannot be read: {ends}")
                    break
                for batch in (await self.world.call("poll", consumer.poll(0.5), 0.5)).values():
                    for record in batch:
                        if record.offset <= offset:
                            what = f"{name}: offset {record.offset} follows {offset} in {COMPACTED}"
                            self._found.append(Violation(Invariant.NONMONOTONIC_POLL, what))
                        offset, count = record.offset, count + 1
                        last[record.key] = record.offset, record.value
            if count < ends[PARTITION] - OFFSETS_OF_TRANSACTIONS:
                self.world.covered["gaps"] += 1
        return last

    async def end(self) -> None:
        """After the faults, let the cleaner run once more, and read everything."""
        await asyncio.sleep(SETTLE_S)
        await self._wait_for_open_transactions()
        self._last = await self._read("last reader of the compacted topic", give_up_s=CATCH_UP_S)

    async def _wait_for_open_transactions(self) -> None:
        """Wait until the coordinator has aborted what a killed service left open: readers stop before it."""
        give_up_at_s = self.world.now_s + CATCH_UP_S
        committed = self.world.consumer("last stable offset", isolation_level="read_committed")
        everything = self.world.consumer("high watermark", isolation_level="read_uncommitted")
        async with committed, everything:
            while self.world.now_s < give_up_at_s:
                ends = [
                    await self.world.call("end_offsets", consumer.end_offsets([PARTITION], CALL_S), CALL_S)
                    for consumer in (committed, everything)
                ]
                if ends[0] == ends[1]:
                    return
                await asyncio.sleep(SETTLE_S)

    def violations(self) -> list[Violation]:
        """Return what is wrong with the last values of the keys, and with the order of offsets."""
        return self._found + [
            Violation(Invariant.COMPACTED_AWAY, problem)
            for key, sent in self._sent.items()
            if (problem := self._problem_of(key, sent))
        ]

    def _problem_of(self, key: bytes, sent: list[_Sent]) -> str:
        acknowledged = [at for at, one in enumerate(sent) if one.is_acknowledged()]
        if not acknowledged:
            return ""
        possible = [one.value for one in sent[acknowledged[-1] :]]
        offset, value = self._last.get(key, (-1, None))  # a tombstone may be gone: that is no value, too
        if value in possible:
            return ""
        return f"{key!r} has the value {value!r} at offset {offset}; the last acknowledged one is {possible[0]!r}"
