"""Workers that join, leave, are killed and disconnected, whose handlers fail, take long, and are called again.

There are one to four slots, each with a worker or none. Concurrency, ordering, retries, protocol, and whether results
and offsets are committed in transactions are drawn once per run. How often the handler fails for a record follows from
the record. If the environment has settings about share groups, the workers are in one. Start at `WorkerScenario`.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from kafkaraw import ConfigResource, ConfigResourceType
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import HandlerError, KafkaError, ProducerFencedError
from kafkaraw.records import Record, Ticket, TopicPartition
from kafkaraw.testing.worker_history import Copy, Handling, HandlingEnd, Source, WorkerHistory
from kafkaraw.worker import ProducerRecord, Retries, Worker
from kafkaraw.worker.settings import Ordering
from tests.simulation.clients import persist, settle
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import ClientNetwork, World

GROUP = "ground crew"
RETRY_TOPIC, DEAD_TOPIC, RESULT_TOPIC = f"{TOPIC}.retry", f"{TOPIC}.dead", "arrivals"
RETRY_PARTITIONS = 2
CHURN_S = (3.0, 7.0)
BOUND_S = 120.0
"""The time within which all records are settled and committed, after the last fault, kill, join or leave."""
STOP_BOUND_S = 40.0
"""How far the end of a worker may exceed its `drain_timeout_ms`: its last commit, and closing two clients."""
TIMEOUT_MS = 1_500
"""The longest call of a handler."""
NEVER = 1_000
"""The number of failures of a record that cannot be handled."""


@dataclass(frozen=True)
class Plan:
    """The settings of the workers for one run.

    Attributes:
        slots: slots for workers; some are empty now and then.
        concurrency: of each slot.
        ordering: which records run one after the other.
        retries: how failed calls are repeated.
        is_transactional: results and offsets are committed in transactions.
        settings: the other settings of workers.
        longest_s: the duration of a handler's slowest call.
        keys: the number of keys.
    """

    slots: int
    concurrency: tuple[int, ...]
    ordering: Ordering
    retries: Retries
    is_transactional: bool
    settings: Mapping[str, object]
    longest_s: float
    keys: int

    @property
    def is_shared(self) -> bool:
        """Whether the workers are in a share group."""
        return self.settings.get("group_type") == "share"


_OF_SHARE_WORKERS = (
    "drain_timeout_ms",
    "queued_records_max",
    "max_poll_interval_ms",
    "delivery_timeout_ms",
    "linger_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
)


def draw_shared(rng: random.Random, session_ms: int) -> Plan:
    """Draw the plan of one run in a share group."""
    plan = draw(rng, session_ms, is_transactional=False)
    settings = {name: plan.settings[name] for name in _OF_SHARE_WORKERS}
    return replace(plan, ordering=Ordering.UNORDERED, settings={**settings, "group_type": "share"})


def draw(rng: random.Random, session_ms: int, *, is_transactional: bool) -> Plan:
    """Draw the plan of one run."""
    slots = rng.choice([1, 2, 2, 3, 4])
    attempts, topic = rng.choice([1, 2, 3, 5]), rng.choice([None, RETRY_TOPIC])
    retries = Retries(
        attempts=attempts,
        topic=topic,
        backoff_ms=rng.choice([0, 20, 300]),
        backoff_max_ms=1_000,
        on=rng.choice([Exception, ConnectionError]),
    )
    settings: dict[str, object] = {
        "commit_interval_ms": rng.choice([20, 200, 1_000]),
        "drain_timeout_ms": rng.choice([0, 300, 2_000]),
        "queued_records_max": rng.choice([1, 5, 500]),
        "max_poll_records": rng.choice([None, 1, 7]),
        "max_poll_interval_ms": rng.choice([4_000, 60_000]),
        # A transaction whose records are delayed by the markers of the last one must succeed in the end.
        "delivery_timeout_ms": rng.choice([10_000 if is_transactional else 1_100, 30_000]),
        "linger_ms": rng.choice([0, 5]),
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 200,
    }
    if rng.random() < 0.5:
        settings["group_protocol"] = "consumer"
    else:
        assignor = rng.choice(["range", "cooperative-sticky", "cooperative-sticky"])
        settings |= {
            "partition_assignment_strategy": (assignor,),
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": session_ms // 6,
        }
    return Plan(
        slots=slots,
        concurrency=tuple(rng.choice([1, 2, 5, 30]) for _ in range(slots)),
        ordering=rng.choice([Ordering.KEY, Ordering.KEY, Ordering.KEY, Ordering.PARTITION, Ordering.UNORDERED]),
        retries=retries,
        is_transactional=is_transactional,
        settings=settings,
        longest_s=rng.choice([0.005, 0.1, 0.1, 1.0]),
        keys=rng.choice([1, 3, 8]),
    )


class Nature:
    """What happens to a record, which follows from its value.

    Args:
        value: of the record.

    Attributes:
        is_poison: the deserializer refuses it.
        failures: the number of calls that fail before one returns; calls of all workers count.
        error: what failing calls raise; None for a call that exceeds its timeout.
        returns_result: the handler returns a result.
    """

    def __init__(self, value: bytes) -> None:
        rng = random.Random(value)
        self.is_poison = rng.random() < 0.03
        self.failures = rng.choices([0, 1, 2, 4, NEVER], [75, 12, 5, 3, 5])[0]
        self.error: Exception | None = rng.choice(
            [ConnectionError("down"), ConnectionError("down"), ValueError(), None]
        )
        self.returns_result = rng.random() < 0.6


def deserialize(value: bytes) -> bytes:
    """Refuse poison records."""
    if Nature(value).is_poison:
        raise ValueError("poison")
    return value


class WorkerProcess:
    """One process with a worker, from its start to its end.

    Args:
        world: the brokers and clients.
        history: the history to extend.
        name: name of this worker, unique among all.
        plan: the settings of all workers.
        slot: its slot, which has the transactional id.

    Attributes:
        network: its network, which can be disconnected.
    """

    def __init__(self, world: World, history: WorkerHistory, name: str, plan: Plan, slot: int) -> None:
        self.network = ClientNetwork(world.simulation.network)
        self._world, self._history, self._name, self._plan = world, history, name, plan
        self._rng = world.rng(name)
        self._running: set[Handling] = set()
        self._is_killed = False
        history.concurrency[name] = plan.concurrency[slot]
        settings = {
            **world._common(name),
            "runtime": world.runtime(name, self.network),
            "group_id": GROUP,
            "concurrency": plan.concurrency[slot],
            "ordering": plan.ordering.value,
            "fetch_max_wait_ms": self._rng.choice([50, 300, 500]),
            "request_timeout_ms": 1_000,
            "default_api_timeout_ms": 10_000,
            **plan.settings,
        }
        if not plan.is_shared:
            settings["auto_offset_reset"] = "earliest"
        if plan.is_transactional:
            settings |= {"transactional_id": f"crew-{slot}", "transaction_timeout_ms": 6_000}
        self._worker = Worker(**settings)
        self._worker.handle(
            TOPIC,
            value_deserializer=deserialize,
            retries=plan.retries,
            dead_letter_topic=DEAD_TOPIC,
            timeout_ms=TIMEOUT_MS,
        )(self._handle)
        self._task = asyncio.create_task(self._serve(), name=name)

    async def _serve(self) -> None:
        began_s = self._world.now_s
        try:
            await self._worker.serve()
        except HandlerError as error:
            self._world.history.stuck.append(f"{self._name} ended with {error!r}")
        except KafkaError as error:
            self._world.covered[f"{type(error).__name__} ended a worker"] += 1
            self._world.note(f"{self._name} ended with {error!r} after {self._world.now_s - began_s:.3f} s")
            is_expected = isinstance(error, ProducerFencedError) or self._has_handled_nothing
            if not (is_expected or self._is_killed):
                self._world.history.stuck.append(f"{self._name} ended with {error!r}")

    @property
    def _has_handled_nothing(self) -> bool:
        """Whether no record was handled: a worker that does not reach its brokers at the start ends with an error."""
        return not any(handling.worker == self._name for handling in self._history.handlings)

    # -- the handler

    async def _handle(self, record: Record) -> ProducerRecord | None:
        if self._is_killed:
            raise asyncio.CancelledError
        original = Source(TopicPartition(record.topic, record.partition), record.offset)
        handling = Handling(self._name, _source_of_task(), original, record.key, self._world.now_s)
        calls = sum(each.original == original for each in self._history.handlings)
        self._history.handlings.append(handling)
        self._running.add(handling)
        try:
            result = await self._act(record, calls)
        except asyncio.CancelledError:
            self._end(handling, HandlingEnd.CANCELLED)
            self._world.covered["a handler was cancelled"] += 1
            raise
        except Exception:
            self._end(handling, HandlingEnd.RAISED)
            raise
        self._end(handling, HandlingEnd.RETURNED)
        return result

    async def _act(self, record: Record, calls: int) -> ProducerRecord | None:
        nature = Nature(record.value)
        await self._take(self._rng.choice([0, self._rng.uniform(0, self._plan.longest_s)]))
        if calls < nature.failures:
            if nature.error is not None:
                raise nature.error
            await self._take(10)  # exceeds timeout_ms
        if not nature.returns_result and not self._plan.is_transactional:
            return None
        place = f"{record.topic} {record.partition} {record.offset}"
        return ProducerRecord(RESULT_TOPIC, place.encode(), record.key)

    async def _take(self, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if not self._is_killed and self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.uniform(0, 0.5))  # it has to release something
            raise

    def _end(self, handling: Handling, end: HandlingEnd) -> None:
        if handling in self._running:  # not killed
            self._running.remove(handling)
            handling.ended_s, handling.end = self._world.now_s, end

    # -- its end

    @property
    def is_ended(self) -> bool:
        """Whether it has ended by itself; raises an unexpected error that ended it."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def stop(self) -> None:
        """Stop gracefully, as after SIGTERM."""
        self._worker.stop()
        bound_s = self._plan.settings["drain_timeout_ms"] / 1000 + STOP_BOUND_S
        await self._world.call(f"{self._name}: stop", asyncio.wait([self._task]), bound_s)
        self.is_ended  # noqa: B018 - raises what has ended it
        self._world.covered["a worker stopped gracefully"] += 1

    async def kill(self) -> None:
        """End as after SIGKILL: connections break, and nothing that the process does afterwards has an effect."""
        self._is_killed = True
        for handling in self._running:
            handling.ended_s, handling.end = self._world.now_s, HandlingEnd.KILLED
        self._running.clear()
        self.network.kill()
        self._world.covered["a worker was killed"] += 1
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def problems(self) -> list[str]:
        """Why it is not healthy; empty if it is, or has ended."""
        if self._task.done():
            return []
        found = self._worker.metrics()["problems"]
        assert isinstance(found, list)
        return found


_TASK = re.compile(r"worker: (.*)-(\d+) at offset (\d+)")


def _source_of_task() -> Source:
    """Return where the record of the running task was read: its name says it."""
    task = asyncio.current_task()
    found = task and _TASK.fullmatch(task.get_name())
    assert found, task
    return Source(TopicPartition(found[1], int(found[2])), int(found[3]))


class WorkerScenario:
    """The workers of one run.

    Args:
        world: the brokers and clients.

    Attributes:
        history: what the workers did.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng("workers")
        environment = world.environment
        assert environment.session_ms is not None
        is_transactional = environment.transaction_version is not None
        if environment.shares is None:
            self._plan = draw(self._rng, environment.session_ms, is_transactional=is_transactional)
        else:
            self._plan = draw_shared(self._rng, environment.session_ms)
        self.history = WorkerHistory(GROUP, self._plan.ordering, is_transactional)
        self._processes: dict[int, WorkerProcess] = {}
        self._count = 0
        self._busy: set[asyncio.Task[None]] = set()
        self._tickets: list[tuple[bytes, Ticket]] = []
        world.note(f"{self._plan}")

    # -- phases

    async def create_topics(self) -> None:
        """Create the topics, before the first fault."""
        partitions = {TOPIC: PARTITIONS, RETRY_TOPIC: RETRY_PARTITIONS, DEAD_TOPIC: 1, RESULT_TOPIC: 2}
        async with self._world.admin("founder") as admin:
            await admin.create_topics([NewTopic(name, count) for name, count in partitions.items()], timeout=20)
            if self._plan.is_shared:
                group = ConfigResource(ConfigResourceType.GROUP, GROUP)
                await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}}, timeout=20)
        self._feeder = self._world.producer("feeder", delivery_timeout_ms=30_000, buffer_memory=1_000_000)

    async def run(self) -> None:
        """Let workers start, stop and die while records are written."""
        world, rng = self._world, self._rng
        until_s = world.now_s + rng.uniform(*CHURN_S)
        for slot in range(self._plan.slots):
            if rng.random() < 0.8:
                self._start(slot)
        names, weights = list(EVENTS), [weight for weight, _ in EVENTS.values()]
        while world.now_s < until_s:
            self._replace_ended()
            await self._send(rng.randrange(1, 8))
            await asyncio.sleep(rng.uniform(0, 0.7))
            slot, name = rng.randrange(self._plan.slots), rng.choices(names, weights)[0]
            world.note(f"{name}, slot {slot}")
            self._busy.add(asyncio.create_task(EVENTS[name][1](self, slot), name=name))
        await asyncio.gather(*self._busy)

    async def end(self) -> None:
        """After the faults: wait until all records are settled and committed, then stop the workers."""
        world = self._world
        self._start(0)
        await self._send(5)
        world.note("calm")
        await settle(world, "feeder", self._feeder, self._tickets)
        since_s = world.now_s
        async with (
            world.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as consumer,
            world.admin("onlooking admin") as admin,
        ):
            while world.now_s < since_s + BOUND_S:
                await asyncio.sleep(0.5)
                self._replace_ended()
                lag = await (self._share_lag(admin, consumer) if self._plan.is_shared else self._lag(consumer))
                problems = [what for process in self._processes.values() for what in process.problems]
                if not (lag or problems):
                    break
            else:
                what = f"{BOUND_S:g} s after the last fault, {lag} are not committed, problems: {problems}"
                world.history.stuck.append(what)
        world.note("end")
        await asyncio.gather(*(process.stop() for process in self._processes.values()))
        await self._read_topics()

    async def _lag(self, consumer: AsyncConsumer) -> dict[TopicPartition, tuple[int | None, int]]:
        """Return committed and end offsets of the partitions that are not committed to their end."""
        counts = {TOPIC: PARTITIONS, RETRY_TOPIC: RETRY_PARTITIONS if self._plan.retries.topic else 0}
        partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        # First the committed offsets: if they are the end offsets afterwards, no record was in work.
        found = await self._world.call("committed", consumer.committed(partitions, 20), 20)
        ends = await self._world.call("end_offsets", consumer.end_offsets(partitions, 20), 20)
        offsets = {tp: None if at is None else at.offset for tp, at in found.items()}
        return {tp: (offsets[tp], end) for tp, end in ends.items() if (offsets[tp] or 0) < end}

    async def _share_lag(self, admin: AsyncAdmin, consumer: AsyncConsumer) -> dict[TopicPartition, object]:
        """Return what is not accepted or rejected, by partition; an empty partition may have no start offset yet."""
        call = admin.list_share_group_offsets([GROUP], timeout=20)
        found = (await self._world.call("list_share_group_offsets", call, 20))[GROUP]
        counts = {TOPIC: PARTITIONS, RETRY_TOPIC: RETRY_PARTITIONS if self._plan.retries.topic else 0}
        partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        ends = await self._world.call("end_offsets", consumer.end_offsets(partitions, 20), 20)
        return {tp: found.get(tp) for tp in partitions if (found[tp].lag if tp in found else ends[tp])}

    async def _read_topics(self) -> None:
        """Read what the workers have read and written, and complete the history."""
        history = self.history
        for record in await self._read(TOPIC):
            source = Source(TopicPartition(record.topic, record.partition), record.offset)
            history.keys[source] = record.key
            history.returns_result[source] = self._plan.is_transactional or Nature(record.value).returns_result
        history.copies += [_copy_of(record, self._world) for record in await self._read(RETRY_TOPIC)]
        history.letters += [_copy_of(record, self._world) for record in await self._read(DEAD_TOPIC)]
        history.results = Counter(_original_of(record.value) for record in await self._read(RESULT_TOPIC))
        covered = self._world.covered
        covered["copies in the retry topic"] += len(history.copies)
        covered["dead letters"] += len(history.letters)
        covered["results"] += history.results.total()
        covered["handled again"] += len(history.handlings) - len({each.source for each in history.handlings})
        covered["handlers ran at the same time"] += any(
            one.worker == other.worker and other.began_s < (one.ended_s or 0)
            for one, other in zip(history.handlings, history.handlings[1:], strict=False)
        )

    async def _read(self, topic: str) -> list[Record]:
        async with self._world.consumer(f"reader of {topic}", isolation_level="read_committed") as consumer:
            partitions = await self._world.call("partitions_for", consumer.partitions_for(topic, 20), 20)
            consumer.assign(partitions)
            self.history.topic_ids[consumer._engine.cluster.topic_id_of(topic)] = topic
            ends = await self._world.call("end_offsets", consumer.end_offsets(partitions, 20), 20)
            found: list[Record] = []
            while [tp for tp, end in ends.items() if await consumer.position(tp, 10) < end]:
                for batch in (await self._world.call("poll", consumer.poll(1), 1)).values():
                    found += batch
            return found

    async def _send(self, count: int) -> None:
        for _ in range(count):
            key = b"%d" % self._rng.randrange(self._plan.keys) if self._rng.random() < 0.9 else None
            value = b"%d-%d" % (self._world.simulation.seed, len(self._tickets))
            where = partial(self._feeder.send, TOPIC, value, key, partition=self._rng.randrange(PARTITIONS))
            ticket = await persist(self._world, self._feeder, where)
            self._world.history.sent["feeder"].append(value)
            self._tickets.append((value, ticket))

    # -- events of workers

    def _start(self, slot: int) -> None:
        if slot in self._processes:
            return
        name, self._count = f"w{slot}.{self._count}", self._count + 1
        self._processes[slot] = WorkerProcess(self._world, self.history, name, self._plan, slot)

    def _replace_ended(self) -> None:
        """Start another worker in each slot whose worker has ended with an error, as a service manager does."""
        for slot in [slot for slot, process in self._processes.items() if process.is_ended]:
            del self._processes[slot]
            self._start(slot)

    async def start(self, slot: int) -> None:
        """Start a worker if the slot is empty."""
        self._start(slot)

    async def stop(self, slot: int) -> None:
        """Stop a worker gracefully."""
        process = self._processes.pop(slot, None)
        if process is not None:
            await process.stop()

    async def kill(self, slot: int) -> None:
        """Kill a worker."""
        process = self._processes.pop(slot, None)
        if process is not None:
            await process.kill()

    async def restart(self, slot: int) -> None:
        """Kill a worker, and start another one in its slot, with the same transactional id."""
        process = self._processes.pop(slot, None)
        if process is not None:
            killed = asyncio.create_task(process.kill(), name=f"kill slot {slot}")
            await asyncio.sleep(self._rng.choice([0, 0.2]))
            self._start(slot)
            await killed

    async def kill_while_it_stops(self, slot: int) -> None:
        """Stop a worker gracefully, and kill it before it has ended."""
        process = self._processes.pop(slot, None)
        if process is not None:
            stopped = asyncio.create_task(process.stop(), name=f"stop slot {slot}")
            await asyncio.wait([stopped], timeout=self._rng.choice([0.001, 0.05, 0.5]))
            await process.kill()
            with suppress(asyncio.CancelledError):
                await stopped

    async def disconnect(self, slot: int) -> None:
        """Disconnect a worker for a while; if that is longer than its session, it is fenced."""
        process = self._processes.get(slot)
        if process is not None:
            process.network.disconnect()
            await asyncio.sleep(self._rng.choice([0.3, 2.0, 5.0]))
            process.network.reconnect()


def _copy_of(record: Record, world: World) -> Copy:
    headers = {name: value or b"" for name, value in record.headers}
    place = TopicPartition(headers["kafkaraw.topic"].decode(), int(headers["kafkaraw.partition"]))
    began_ms = world.simulation.clock.time_ms() - world.now_s * 1000
    return Copy(
        Source(TopicPartition(record.topic, record.partition), record.offset),
        Source(place, int(headers["kafkaraw.offset"])),
        int(headers["kafkaraw.attempts"]),
        (int(headers["kafkaraw.time"]) - began_ms) / 1000,
    )


def _original_of(value: bytes | None) -> Source:
    topic, partition, offset = (value or b"").decode().split()
    return Source(TopicPartition(topic, int(partition)), int(offset))


WorkerEvent = Callable[[WorkerScenario, int], Awaitable[None]]

EVENTS: dict[str, tuple[int, WorkerEvent]] = {
    "start": (6, WorkerScenario.start),
    "stop": (3, WorkerScenario.stop),
    "kill": (2, WorkerScenario.kill),
    "restart": (2, WorkerScenario.restart),
    "kill while it stops": (1, WorkerScenario.kill_while_it_stops),
    "disconnect": (3, WorkerScenario.disconnect),
}
"""The events of workers with their weights; their order is part of the seeds."""
