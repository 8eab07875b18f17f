"""A mirror between two clusters: it is killed, replaced while it still runs, and disconnected from both clusters.

Services write transactions to the source, and commit and abort them; its topic gains a partition. A process of the
mirror is a real `Flow` with the mappings of its offsets, which it stores now and then, as `OffsetService` does. A
process that ends with an error is started again, as by a service manager. Start at `MirrorScenario`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kafkaraw.client.admin import AsyncAdmin, NewPartitions, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import BrokerError, KafkaError
from kafkaraw.mirror import mapping
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, FlowSettings
from kafkaraw.mirror.mapping import OffsetMapping
from kafkaraw.records import TopicPartition
from kafkaraw.testing.mirror_history import MirrorHistory, Translated
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import ClientNetwork, World

COPY = f"a.{TOPIC}"
BOUND_S = 120.0
"""The time within which the copy is complete, after the last fault and kill."""
STOP_BOUND_S = 40.0
GROUP = "kafkaraw-mirror.a->b"
LASTING = "RecordsLostError", "SourceReplacedError", "SourceTruncatedError", "CorruptBatchError", "UsageError"
"""Errors that no event of this scenario may cause."""


@dataclass(frozen=True)
class Plan:
    """The settings of all processes of a run.

    Attributes:
        commit_interval_s: of the flow.
        in_flight_max_bytes: of the flow.
        refresh_topics_interval_s: of the flow.
        store_probability: how often mappings are stored after a commit.
        chunk_runs: the number of runs in a chunk of a mapping.
        level_chunks: the number of chunks of a level, before two of them are thinned.
    """

    commit_interval_s: float
    in_flight_max_bytes: int
    refresh_topics_interval_s: float
    store_probability: float
    chunk_runs: int
    level_chunks: int


class _Topics:
    """The plan of topics: one topic and its copy, whose missing partitions are created."""

    def __init__(self, source: AsyncAdmin, target: AsyncAdmin) -> None:
        self._source, self._target = source, target

    async def refresh(self) -> Sequence[CopiedTopic]:
        found = await self._source.describe_topics([TOPIC], timeout=5)
        count = len(found[TOPIC].partitions)
        with suppress(BrokerError):
            await self._target.create_topics([NewTopic(COPY, count)], timeout=5)
        with suppress(BrokerError):
            await self._target.create_partitions({COPY: NewPartitions(count)}, timeout=5)
        return [CopiedTopic(TOPIC, COPY, {})]


class MirrorProcess:
    """One process of the mirror, from its start to its end.

    Args:
        worlds: of the source and the target.
        history: to extend.
        stored: the stored mappings of all processes: values by partition of the source and chunk.
        name: of this process, unique among all.
        plan: the settings.

    Attributes:
        network: its network, which can be disconnected.
    """

    def __init__(
        self,
        worlds: tuple[World, World],
        history: MirrorHistory,
        stored: dict[TopicPartition, dict[int, bytes]],
        name: str,
        plan: Plan,
    ) -> None:
        source = worlds[0]
        self.network = ClientNetwork(source.simulation.network)
        self._world, self._history, self._stored, self._name, self._plan = source, history, stored, name, plan
        self._rng = source.rng(name)
        self._is_killed = False
        self._mappings = {of: OffsetMapping.of_records(chunks.items()) for of, chunks in stored.items()}
        self._admins = [AsyncAdmin(**self._client(world, f"{name} topics")) for world in worlds]
        clients = [self._client(world, name) for world in worlds]
        runtimes = [client.pop("runtime") for client in clients]
        settings = FlowSettings(
            "a",
            "b",
            *clients,
            consumer={"fetch_max_wait_ms": self._rng.choice([50, 300])},
            producer={"transaction_timeout_ms": self._rng.choice([2_000, 6_000]), "retry_backoff_ms": 20},
            refresh_topics_interval_s=plan.refresh_topics_interval_s,
            commit_interval_s=plan.commit_interval_s,
            in_flight_max_bytes=plan.in_flight_max_bytes,
        )
        self._flow = Flow(
            settings,
            _Topics(*self._admins),
            self._on_copied,
            source_runtime=runtimes[0],
            target_runtime=runtimes[1],
        )
        self._task = asyncio.create_task(self._run(), name=name)

    def _client(self, world: World, name: str) -> dict[str, object]:
        return {**world._common(name), "runtime": world.runtime(name, self.network)}

    async def _run(self) -> None:
        world = self._world
        try:
            await self._flow.run()
        except KafkaError as error:
            world.covered[f"{type(error).__name__} ended a mirror"] += 1
            world.note(f"{self._name} ended with {error!r}")
            if type(error).__name__ in LASTING and not self._is_killed:
                world.history.stuck.append(f"{self._name} ended with {error!r}")
        finally:
            world.covered["a mirror began a session again"] += self._flow.sessions_count > 1
            for admin in self._admins:
                with suppress(KafkaError):
                    await admin.close()

    # -- the mappings of offsets

    def _on_copied(self, batches: Sequence[CopiedBatch]) -> None:
        if self._is_killed:
            return
        for batch in batches:
            offsets = self._mappings.setdefault(batch.source, OffsetMapping())
            offsets.add(batch)
            self._history.copied.append(batch)
            for offset in {
                batch.source_offsets.start,
                batch.source_offsets.stop,
                self._rng.randrange(batch.source_offsets.stop + 3),
            }:
                self._translate(batch.source, offsets, offset)
        if self._rng.random() < self._plan.store_probability:
            self._store()

    def _store(self) -> None:
        for of, offsets in self._mappings.items():
            chunks = self._stored.setdefault(of, {})
            for number, value in offsets.records():
                if value is None:
                    chunks.pop(number, None)
                else:
                    chunks[number] = value

    def _translate(self, of: TopicPartition, offsets: OffsetMapping, offset: int) -> None:
        found = offsets.translate(offset)
        if found is not None:
            self._history.translated.append(Translated(of, offset, found.offset, found.is_exact, self._name))

    def translate_all(self, ends: dict[TopicPartition, int]) -> None:
        """Translate every offset of the source."""
        for of, offsets in self._mappings.items():
            for offset in range(ends.get(of, 0) + 1):
                self._translate(of, offsets, offset)

    # -- its end

    @property
    def is_ended(self) -> bool:
        """Whether it has ended by itself; raises an unexpected error that ended it."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def stop(self) -> None:
        """Stop gracefully, as after SIGTERM."""
        self._flow.stop()
        await self._world.call(f"{self._name}: stop", asyncio.wait([self._task]), STOP_BOUND_S)
        self.is_ended  # noqa: B018 - raises what has ended it
        self._world.covered["a mirror stopped gracefully"] += 1

    async def kill(self) -> None:
        """End as after SIGKILL: connections break, and nothing that the process does afterwards has an effect."""
        self._is_killed = True
        self.network.kill()
        self._world.covered["a mirror was killed"] += 1
        self._task.cancel()
        await asyncio.wait([self._task])


class MirrorScenario:
    """The mirror of one run.

    Args:
        source: the brokers and clients of the source.
        target: those of the target.

    Attributes:
        history: what the mirror did, and the contents of both clusters.
    """

    def __init__(self, source: World, target: World) -> None:
        self._source, self._target = source, target
        self._rng = rng = source.rng("mirror")
        self._plan = Plan(
            commit_interval_s=rng.choice([0.02, 0.1, 0.5]),
            in_flight_max_bytes=rng.choice([300, 2_000, 16 << 20]),
            refresh_topics_interval_s=rng.choice([1.0, 3.0]),
            store_probability=rng.choice([0.1, 0.5, 1.0]),
            chunk_runs=rng.choice([2, 3, 256]),
            level_chunks=rng.choice([2, 16]),
        )
        self.history = MirrorHistory()
        self._stored: dict[TopicPartition, dict[int, bytes]] = {}
        self._process: MirrorProcess | None = None
        self._zombies: list[MirrorProcess] = []
        self._count = 0
        source.note(f"{self._plan}")

    @contextmanager
    def small_chunks(self) -> Iterator[None]:
        """In this context, mappings have the plan's chunks, which are thinned after a few transactions."""
        before = mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS
        mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS = self._plan.chunk_runs, self._plan.level_chunks
        try:
            yield
        finally:
            mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS = before

    async def create_topic(self) -> None:
        """Create the topic of the source, before the first fault."""
        async with self._source.admin("founder") as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS)], timeout=20)

    async def run(self) -> None:
        """Let the mirror be killed, replaced and disconnected until the source has no more faults."""
        names, weights = list(EVENTS), [weight for weight, _ in EVENTS.values()]
        self._start()
        while not self._source.over:
            await asyncio.sleep(self._rng.uniform(0, 1.5))
            self._replace_ended()
            name = self._rng.choices(names, weights)[0]
            self._source.note(name)
            await EVENTS[name][1](self)

    async def end(self) -> None:
        """After the faults: wait until the copy is complete, and stop the mirror."""
        world, since_s = self._source, self._source.now_s
        self._replace_ended()
        await self._end_zombies()
        async with self._target.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as onlooker:
            while world.now_s < since_s + BOUND_S:
                await asyncio.sleep(0.5)
                self._replace_ended()
                behind = await self._behind(onlooker)
                if not behind:
                    break
            else:
                world.history.stuck.append(f"{BOUND_S:g} s after the last fault, the mirror is behind: {behind}")
        assert self._process is not None
        world.note("the mirror stops")
        self._process.translate_all(world.ends)
        await self._process.stop()

    def note_contents(self) -> None:
        """Complete the history with what was read of both clusters."""
        self.history.source = self._source.history.final_committed
        copied = self._target.history.final_committed
        self.history.copy = {TopicPartition(TOPIC, of.partition): records for of, records in copied.items()}
        self._source.covered["records copied"] += sum(map(len, copied.values()))
        self._target.history.final = {}  # batches of transactions that were aborted are sent again

    async def _behind(self, onlooker: AsyncConsumer) -> dict[TopicPartition, tuple[int | None, int]]:
        """Return positions and ends of the partitions that are not copied to their end."""
        ends = self._source.ends
        found = await onlooker.committed([TopicPartition(COPY, of.partition) for of in ends], 20)
        offsets = {of.partition: at.offset for of, at in found.items() if at is not None}
        lag = {of: (offsets.get(of.partition), end) for of, end in ends.items()}
        return {of: (at, end) for of, (at, end) in lag.items() if at != end}

    # -- events

    def _start(self) -> None:
        name, self._count = f"m{self._count}", self._count + 1
        worlds = self._source, self._target
        self._process = MirrorProcess(worlds, self.history, self._stored, name, self._plan)

    def _replace_ended(self) -> None:
        if self._process is None or self._process.is_ended:
            self._start()

    async def kill(self) -> None:
        """Kill the process, and start another one."""
        process = self._process
        if process is not None:
            killed = asyncio.create_task(process.kill(), name="kill the mirror")
            await asyncio.sleep(self._rng.choice([0, 0.1]))
            self._start()
            await killed

    async def restart(self) -> None:
        """Stop the process gracefully, and start another one."""
        process = self._process
        if process is not None:
            stopped = asyncio.create_task(process.stop(), name="stop the mirror")
            await asyncio.wait([stopped], timeout=self._rng.choice([0.01, 1.0, 10.0]))
            if not stopped.done():
                await process.kill()
            await asyncio.gather(stopped, return_exceptions=True)
            self._start()

    async def replace(self) -> None:
        """Start another process while this one still runs, disconnected for a while or not."""
        process = self._process
        if process is None:
            return
        self._source.covered["a mirror was replaced"] += 1
        is_disconnected = self._rng.random() < 0.5
        if is_disconnected:
            process.network.disconnect()
        self._start()
        self._zombies.append(process)
        if is_disconnected:
            await asyncio.sleep(self._rng.choice([0.3, 2.0]))
            process.network.reconnect()

    async def disconnect(self) -> None:
        """Disconnect the process from both clusters for a while."""
        process = self._process
        if process is not None:
            process.network.disconnect()
            await asyncio.sleep(self._rng.choice([0.3, 2.0, 7.0]))
            process.network.reconnect()

    async def grow(self) -> None:
        """Give the topic of the source one more partition."""
        with suppress(KafkaError):
            async with self._source.admin("grower") as admin:
                await admin.create_partitions({TOPIC: NewPartitions(PARTITIONS + 1)}, timeout=2)
                self._source.covered["the topic grew"] += 1

    async def _end_zombies(self) -> None:
        """Kill what runs beside the last process; one of them may have taken over."""
        for process in self._zombies:
            if not process.is_ended:
                await process.kill()


MirrorEvent = Callable[[MirrorScenario], Awaitable[None]]

EVENTS: dict[str, tuple[int, MirrorEvent]] = {
    "kill the mirror": (4, MirrorScenario.kill),
    "restart the mirror": (2, MirrorScenario.restart),
    "replace the mirror": (3, MirrorScenario.replace),
    "disconnect the mirror": (2, MirrorScenario.disconnect),
    "the topic grows": (1, MirrorScenario.grow),
}
"""The events of the mirror with their weights; their order is part of the seeds."""
