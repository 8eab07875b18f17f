"""A mirror between two clusters: it is killed, replaced while it still runs, and disconnected from both clusters.

Services write transactions to the source, and commit and abort them; its topic gains a partition; groups commit
offsets, and are moved to the other cluster and back. A process of the mirror is a real `MirrorRun`: the flow with its
topics, offset mappings, offset syncs, checkpoints and the offsets of groups. A process that ends with an error is
started again, as by a service manager. Start at `MirrorScenario`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kafkaraw.client.admin import AsyncAdmin, NewPartitions, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaError
from kafkaraw.mirror import mapping, offset_service
from kafkaraw.mirror.checkpoints import Checkpoint
from kafkaraw.mirror.clients import FlowClients, newest
from kafkaraw.mirror.interfaces import CopiedBatch, Delivery, FlowSettings
from kafkaraw.mirror.mapping import OffsetMapping
from kafkaraw.mirror.offset_service import OffsetService, load_mappings
from kafkaraw.mirror.offset_syncs import OffsetSync, translated
from kafkaraw.mirror.policies import NameFilter, ReplicationPolicy, TopicRoute, Topology
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import MirrorFlow, OffsetSettings, TopicSettings
from kafkaraw.mirror.translation import GroupTranslator, How, TranslatedOffset
from kafkaraw.records import TopicPartition
from kafkaraw.testing.mirror_history import MirrorHistory, Translated
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.transactional_services import SERVICES
from tests.simulation.world import ClientNetwork, World

COPY = f"a.{TOPIC}"
BOUND_S = 120.0
"""The time within which the copy is complete, after the last fault and kill."""
STOP_BOUND_S = 40.0
GROUP = "kafkaraw-mirror.a->b"
READERS = "readers"
"""A group of the source without members, whose offsets grow."""
GROUPS = (READERS, *(f"service{number}" for number in range(SERVICES)))
"""Groups of the source; those of services commit in transactions."""
LASTING = "RecordsLostError", "SourceReplacedError", "SourceTruncatedError", "CorruptBatchError", "UsageError"
"""Errors that no event of this scenario may cause."""


@dataclass(frozen=True)
class Plan:
    """The settings of all processes of a run.

    Attributes:
        delivery: of the flow.
        commit_interval_s: of the flow.
        in_flight_max_bytes: of the flow.
        refresh_topics_interval_s: of the flow.
        write_interval_s: of mappings and offset syncs.
        groups_interval_s: of checkpoints, and of commits for groups.
        heartbeats_interval_s: of heartbeats, which are copied; None for none.
        offset_syncs_in_source: which cluster has the offset syncs.
        offset_lag_max: of offset syncs.
        chunk_runs: the number of runs in a chunk of a mapping.
        level_chunks: the number of chunks of a level, before two of them are thinned.
    """

    delivery: Delivery
    commit_interval_s: float
    in_flight_max_bytes: int
    refresh_topics_interval_s: float
    write_interval_s: float
    groups_interval_s: float
    heartbeats_interval_s: float | None
    offset_syncs_in_source: bool
    offset_lag_max: int
    chunk_runs: int
    level_chunks: int

    def flow(
        self, source: Mapping[str, object], target: Mapping[str, object], **clients: Mapping[str, object]
    ) -> MirrorFlow:
        """Return the settings of a flow.

        Args:
            source: connection settings of the source.
            target: connection settings of the target.
            clients: settings of `consumer` and `producer`.
        """
        copy = FlowSettings(
            "a",
            "b",
            source,
            target,
            delivery=self.delivery,
            refresh_topics_interval_s=self.refresh_topics_interval_s,
            commit_interval_s=self.commit_interval_s,
            in_flight_max_bytes=self.in_flight_max_bytes,
            **clients,
        )
        has_heartbeats = self.heartbeats_interval_s is not None
        route = TopicRoute("a", "b", ReplicationPolicy(), NameFilter((TOPIC,)), copies_heartbeats=has_heartbeats)
        topics = TopicSettings(route, 3, NameFilter(()), False, None, None, False)
        offsets = OffsetSettings(
            groups=NameFilter((".*",)),
            refresh_groups_interval_s=self.groups_interval_s,
            checkpoints_interval_s=self.groups_interval_s,
            group_offsets_interval_s=self.groups_interval_s,
            heartbeats_interval_s=self.heartbeats_interval_s,
            emits_offset_syncs=True,
            offset_syncs_in_source=self.offset_syncs_in_source,
            offset_lag_max=self.offset_lag_max,
            replication_factors=dict.fromkeys(("offset-syncs", "checkpoints", "heartbeats"), 3),
        )
        return MirrorFlow(copy, topics, offsets, admin_timeout_s=5.0)


class _NotedOffsets(OffsetService):
    """An offset service; its history has what was copied, and offsets that it translates meanwhile."""

    def note_in(self, process: MirrorProcess) -> None:
        """Set whose service this is, before it runs."""
        self._process = process

    def on_copied(self, batches: Sequence[CopiedBatch]) -> None:
        if self._process.is_killed:
            return
        super().on_copied(batches)
        self._process.note_copied(batches)


class MirrorProcess:
    """One process of the mirror, from its start to its end.

    Args:
        worlds: of the source and the target.
        history: to extend.
        name: of this process, unique among all.
        plan: the settings.

    Attributes:
        network: its network, which can be disconnected.
        is_killed: nothing that it does counts any more.
    """

    def __init__(self, worlds: tuple[World, World], history: MirrorHistory, name: str, plan: Plan) -> None:
        self.network = ClientNetwork(worlds[0].simulation.network)
        self.is_killed = False
        self._world, self._history, self._name = worlds[0], history, name
        self._rng = worlds[0].rng(name)
        clients = [{**world._common(name), "runtime": world.runtime(name, self.network)} for world in worlds]
        runtimes = [client.pop("runtime") for client in clients]
        flow = plan.flow(
            *clients,
            consumer={"fetch_max_wait_ms": self._rng.choice([200, 500])},
            producer={"transaction_timeout_ms": self._rng.choice([2_000, 6_000]), "retry_backoff_ms": 20},
        )
        self._run = MirrorRun(flow, Topology([flow.route]), source_runtime=runtimes[0], target_runtime=runtimes[1])
        offsets = _NotedOffsets(flow, self._run.clients, now_ms=runtimes[1].clock.time_ms)
        offsets.note_in(self)
        self._run.offsets = offsets
        self._task = asyncio.create_task(self._live(), name=name)

    async def _live(self) -> None:
        world = self._world
        try:
            await self._run.run()
        except KafkaError as error:
            world.covered[f"{type(error).__name__} ended a mirror"] += 1
            world.note(f"{self._name} ended with {error!r}")
            if type(error).__name__ in LASTING and not self.is_killed:
                world.history.stuck.append(f"{self._name} ended with {error!r}")
        finally:
            if self._run.flow is not None:
                world.covered["a mirror began a session again"] += self._run.flow.sessions_count > 1

    # -- the mappings of offsets

    @property
    def mappings(self) -> dict[TopicPartition, OffsetMapping]:
        """The mappings of the topic, by partition of the source."""
        return {of: offsets for of, offsets in self._run.offsets.mappings.items() if of.topic == TOPIC}

    def note_copied(self, batches: Sequence[CopiedBatch]) -> None:
        """Take note of copied batches, and translate some offsets with what is known now."""
        for batch in batches:
            if batch.source.topic == TOPIC:
                self._history.copied.append(batch)
                some = self._rng.randrange(batch.source_offsets.stop + 3)
                for offset in {batch.source_offsets.start, batch.source_offsets.stop, some}:
                    note_translation(self._history, batch.source, self._run.offsets.mappings, offset, self._name)

    # -- its end

    @property
    def is_ended(self) -> bool:
        """Whether it has ended by itself; raises an unexpected error that ended it."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def stop(self) -> None:
        """Stop gracefully, as after SIGTERM."""
        self._run.stop()
        await self._world.call(f"{self._name}: stop", asyncio.wait([self._task]), STOP_BOUND_S)
        self.is_ended  # noqa: B018 - raises what has ended it
        self._world.covered["a mirror stopped gracefully"] += 1

    def kill(self) -> asyncio.Task[None]:
        """End as after SIGKILL: connections break, and nothing that the process does afterwards has an effect.

        Returns:
            What is left of it, which the caller waits for before the run ends.
        """
        self.is_killed = True
        self.network.kill()
        self._world.covered["a mirror was killed"] += 1
        self._task.cancel()
        return self._task


def note_translation(
    history: MirrorHistory,
    of: TopicPartition,
    mappings: Mapping[TopicPartition, OffsetMapping],
    offset: int,
    by: str,
) -> None:
    """Translate an offset of the source, and one of the copy back."""
    found, back = mappings[of].translate(offset), mappings[of].translate_back(offset)
    if found is not None:
        history.translated.append(Translated(of, offset, found.offset, found.is_exact, by))
    if back is not None:
        history.translated.append(Translated(of, back.offset, offset, back.is_exact, by, is_back=True))


class MirrorScenario:
    """The mirror of one run.

    Args:
        source: the brokers and clients of the source.
        target: those of the target.
        delivery: of the flow.

    Attributes:
        history: what the mirror did, and the contents of both clusters.
    """

    def __init__(self, source: World, target: World, delivery: Delivery) -> None:
        self._source, self._target = source, target
        self._rng = rng = source.rng("mirror")
        self._plan = Plan(
            delivery=delivery,
            commit_interval_s=rng.choice([0.02, 0.1, 0.5]),
            in_flight_max_bytes=rng.choice([300, 2_000, 16 << 20]),
            refresh_topics_interval_s=rng.choice([1.0, 3.0]),
            write_interval_s=rng.choice([0.1, 0.5, 1.0]),
            groups_interval_s=rng.choice([1.0, 3.0]),
            heartbeats_interval_s=rng.choice([None, None, 1.0]),
            offset_syncs_in_source=rng.random() < 0.5,
            offset_lag_max=rng.choice([0, 5, 100]),
            chunk_runs=rng.choice([2, 3, 256]),
            level_chunks=rng.choice([2, 16]),
        )
        self.history = MirrorHistory(delivery)
        self._process: MirrorProcess | None = None
        self._zombies: list[MirrorProcess] = []
        self._killed: list[asyncio.Task[None]] = []
        self._read_up_to: dict[TopicPartition, int] = {}
        self._count = self._failovers_count = 0
        source.note(f"{self._plan}")

    @contextmanager
    def its_constants(self) -> Iterator[None]:
        """In this context, mappings have the plan's chunks, which are thinned soon, and its interval of writing."""
        before = mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS, offset_service.WRITE_INTERVAL_S
        plan = self._plan
        mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS = plan.chunk_runs, plan.level_chunks
        offset_service.WRITE_INTERVAL_S = plan.write_interval_s
        try:
            yield
        finally:
            mapping.CHUNK_RUNS, mapping.LEVEL_CHUNKS, offset_service.WRITE_INTERVAL_S = before

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
        """After the faults: wait until the copy is complete, and groups have their offsets; stop the mirror."""
        world = self._source
        self._replace_ended()
        self._kill_zombies()
        await self._read_on(world.ends)
        async with self._target.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as onlooker:
            await self._until("the mirror is behind", lambda: self._behind(onlooker))
        async with self._source.admin("source groups") as source, self._target.admin("target groups") as target:
            await self._until("groups lack their offsets", lambda: self._lacking(source, target))
        assert self._process is not None
        world.note("the mirror stops")
        for of in self._process.mappings:
            for offset in range(world.ends.get(of, 0) + 1):
                note_translation(self.history, of, self._process.mappings, offset, "the last mirror")
        await self._process.stop()
        await self._read_records()
        await asyncio.gather(*self._killed, return_exceptions=True)

    def note_contents(self) -> None:
        """Complete the history with what was read of both clusters."""
        self.history.source = self._source.history.final_committed
        copied = self._target.history.final_committed
        self.history.copy = {TopicPartition(TOPIC, of.partition): records for of, records in copied.items()}
        self.history.transactions = self._source.history.transactions
        self._source.covered["records copied"] += sum(map(len, copied.values()))
        self._target.history.final = {}  # batches of transactions that were aborted are sent again

    # -- what is expected in the end

    async def _until(self, what: str, missing: Callable[[], Awaitable[object]]) -> None:
        """Wait until nothing is missing, at most for `BOUND_S`."""
        since_s = self._source.now_s
        while found := await missing():
            if self._source.now_s > since_s + BOUND_S:
                self._source.history.stuck.append(f"{BOUND_S:g} s after the last fault, {what}: {found}")
                return
            await asyncio.sleep(0.5)
            self._replace_ended()

    async def _behind(self, onlooker: AsyncConsumer) -> dict[TopicPartition, tuple[int | None, int]]:
        """Return positions and ends of the partitions that are not copied to their end."""
        ends = self._source.ends
        found = await onlooker.committed([TopicPartition(COPY, of.partition) for of in ends], 20)
        offsets = {of.partition: at.offset for of, at in found.items() if at is not None}
        lag = {of: (offsets.get(of.partition), end) for of, end in ends.items()}
        return {of: (at, end) for of, (at, end) in lag.items() if at != end}

    async def _lacking(self, source: AsyncAdmin, target: AsyncAdmin) -> list[Translated]:
        """Return the offsets of groups that the target does not have, though the mapping has them exactly."""
        assert self._process is not None
        ours = await source.list_group_offsets(GROUPS, timeout=20)
        theirs = await target.list_group_offsets(GROUPS, timeout=20)
        found: list[Translated] = []
        there: list[Translated] = []
        for group_id, offsets in ours.items():
            for of, at in offsets.items():
                known = self._process.mappings.get(of)
                expected = known.translate(at.offset) if known is not None else None
                if expected is None or not expected.is_exact:
                    continue
                has = theirs.get(group_id, {}).get(TopicPartition(COPY, of.partition))
                if has is None or has.offset < expected.offset:
                    found.append(Translated(of, at.offset, expected.offset, True, group_id))
                elif has.offset > expected.offset:  # by another process, or with an earlier mapping
                    is_exact = self._plan.delivery is Delivery.EXACTLY_ONCE  # else it may be that of an earlier copy
                    there.append(Translated(of, at.offset, has.offset, is_exact, f"the offset of {group_id}"))
        if not found:
            self.history.translated += there
            self._source.covered["offsets of groups in the target"] += sum(map(len, theirs.values()))
        return found

    async def _read_records(self) -> None:
        """Read the mirror's own records: all mappings, checkpoints and offset syncs translate no offset ahead."""
        clients, policy, ends = self._clients("auditor"), ReplicationPolicy(), self._source.ends
        stored = await load_mappings(clients, policy.offset_mapping_topic("a"))
        for of in stored.keys() & ends.keys():
            for offset in range(ends[of] + 1):
                note_translation(self.history, of, stored, offset, "the stored mapping")
        for key, value in newest(await clients.records(policy.checkpoints_topic("a"), of_source=False)).items():
            each = Checkpoint.of_record(key, value)
            self._note(each.target.partition, each.upstream_offset, each.downstream_offset, "a checkpoint")
            self._source.covered["checkpoints"] += each.target.topic == COPY
        in_source = self._plan.offset_syncs_in_source
        syncs: dict[TopicPartition, list[OffsetSync]] = {}
        for key, value in await clients.records(
            policy.offset_syncs_topic("b" if in_source else "a"), of_source=in_source
        ):
            sync = OffsetSync.of_record(key, value)
            syncs.setdefault(sync.source, []).append(sync)
        for of in syncs.keys() & ends.keys():
            self._source.covered["offset syncs"] += len(syncs[of])
            for offset in range(ends[of] + 1):
                if (found := translated(syncs[of], offset)) is not None:
                    self._note(of.partition, offset, found.offset, "an offset sync")

    def _note(self, partition: int, source: int, target: int, by: str, *, is_exact: bool = False) -> None:
        self.history.translated.append(Translated(TopicPartition(TOPIC, partition), source, target, is_exact, by))

    def _clients(self, name: str) -> FlowClients:
        """Return clients of both clusters that are not disconnected with the mirror."""
        settings = [world._common(name) for world in (self._source, self._target)]
        runtimes = [each.pop("runtime") for each in settings]
        flow = self._plan.flow(*settings)
        return FlowClients(flow.copy, source_runtime=runtimes[0], target_runtime=runtimes[1])

    # -- groups

    async def _read_on(self, ends: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group in the source, which only grow."""
        for of, end in sorted(ends.items()):
            at = self._read_up_to.get(of, 0)
            self._read_up_to[of] = max(at, self._rng.randrange(at, end + 1) if end > at else end)
        with suppress(KafkaError):
            async with self._source.admin("group") as admin:
                await admin.alter_group_offsets(READERS, self._read_up_to, timeout=5)
                self._source.covered["offsets of a group"] += 1

    async def read_on(self) -> None:
        """Let a group of the source commit offsets."""
        with suppress(KafkaError):
            async with self._source.consumer("ends", isolation_level="read_committed") as consumer:
                ends = await consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], 5)
            await self._read_on(ends)

    async def fail_over(self) -> None:
        """Move the groups to the target while the mirror runs, or ask what their offsets would be in the source."""
        name, self._failovers_count = f"operator{self._failovers_count}", self._failovers_count + 1
        back = self._rng.random() < 0.3
        settings = self._plan.flow({}, {})
        translator = GroupTranslator(settings, self._clients(name), settings if back else None, back=back)
        with suppress(KafkaError):
            plan = await translator.plan(GROUPS)
            self._note_plan(plan.offsets, name, back=back)
            if not back:
                await translator.commit(plan)
            self._source.covered["a failback was planned" if back else "a failover was made"] += 1

    def _note_plan(self, offsets: Sequence[TranslatedOffset], name: str, *, back: bool) -> None:
        for each in offsets:
            if each.translated is None:
                continue
            here, there = (each.translated, each.offset) if back else (each.offset, each.translated)
            of = TopicPartition(TOPIC, each.origin.partition)
            self.history.translated.append(Translated(of, here, there, each.how is How.EXACT, name, back))
            self._source.covered[f"a translation that is {each.how}"] += 1

    # -- events

    def _start(self) -> None:
        name, self._count = f"m{self._count}", self._count + 1
        self._process = MirrorProcess((self._source, self._target), self.history, name, self._plan)

    def _replace_ended(self) -> None:
        if self._process is None or self._process.is_ended:
            self._start()

    async def kill(self) -> None:
        """Kill the process, and start another one."""
        process = self._process
        if process is not None:
            self._killed.append(process.kill())
            await asyncio.sleep(self._rng.choice([0, 0.1]))
            self._start()

    async def restart(self) -> None:
        """Stop the process gracefully, and start another one."""
        process = self._process
        if process is not None:
            stopped = asyncio.create_task(process.stop(), name="stop the mirror")
            await asyncio.wait([stopped], timeout=self._rng.choice([0.01, 1.0, 10.0]))
            if not stopped.done():
                self._killed.append(process.kill())
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

    def _kill_zombies(self) -> None:
        """Kill what runs beside the last process; one of them may have taken over."""
        self._killed += [process.kill() for process in self._zombies if not process.is_ended]


MirrorEvent = Callable[[MirrorScenario], Awaitable[None]]

EVENTS: dict[str, tuple[int, MirrorEvent]] = {
    "kill the mirror": (4, MirrorScenario.kill),
    "restart the mirror": (2, MirrorScenario.restart),
    "replace the mirror": (3, MirrorScenario.replace),
    "disconnect the mirror": (2, MirrorScenario.disconnect),
    "the topic grows": (1, MirrorScenario.grow),
    "a group reads on": (3, MirrorScenario.read_on),
    "fail over": (2, MirrorScenario.fail_over),
}
"""The events of the mirror with their weights; their order is part of the seeds."""
