"""`OffsetService`: beside a flow, keeps its offset mappings, writes MirrorMaker's records, and commits group offsets.

Theory of operation. The flow calls `on_copied` for what is copied and committed, which only changes mappings in memory.
One task for each duty does the rest: mappings and offset syncs are written each second, checkpoints, group offsets and
heartbeats at their intervals. A mapping is written after the data, so after a crash it may lack the last second; the
next batch then leaves a gap. Both topics have the same records in the gap, in the same order, so reading their offsets
fills it. Group offsets are translated with what is copied, so none is ahead of the copy. A copy that was created again
has other offsets than its mapping, until the flow has noticed that: the id of the topic shows it. None is translated
before the flow has looked at the copies, since brokers before Kafka 2.8 have no ids.

A duty that fails is logged and done again at its next interval: the copy goes on. Start at `OffsetService.run`.
Source: Kafka's MirrorCheckpointTask, MirrorHeartbeatTask, OffsetSyncWriter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.group_descriptions import GroupState
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import AuthorizationError, KafkaError, ProtocolError, UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.mirror.checkpoints import Checkpoint, CheckpointLog, Heartbeat, offsets_to_commit
from kafkaraw.mirror.clients import FlowClients, create_compacted, newest
from kafkaraw.mirror.copying import together
from kafkaraw.mirror.interfaces import CopiedBatch, Delivery
from kafkaraw.mirror.mapping import (
    OffsetMapping,
    Run,
    Translation,
    mapping_key,
    of_present_copies,
    paired,
    parsed_mapping_key,
)
from kafkaraw.mirror.offset_syncs import SyncSchedule
from kafkaraw.mirror.policies import HEARTBEATS
from kafkaraw.mirror.settings import MirrorFlow
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

_log = logging.getLogger(__name__)

WRITE_INTERVAL_S: Final = 1.0
FINISH_S: Final = 10.0
"""How long writing the last offsets may take when the mirror stops."""
OWN_GROUPS: Final = "kafkaraw-mirror."
"""Groups that have the positions of flows, which are offsets of another cluster."""
GAP_OFFSETS_MAX: Final = 2_000_000
"""The largest gap that is filled by reading both topics; offsets in a larger one are not translated exactly."""


class _Gap(NamedTuple):
    """Offsets that were copied, and of which no batch was reported: from 0 on if no batch was ever reported."""

    source: range
    target: range
    copy: TopicPartition


class OffsetService:
    """The offsets of one flow.

    Args:
        flow: its settings.
        clients: of its clusters.
        now_ms: returns the time in milliseconds since 1970.

    Attributes:
        mappings: by partition of the source.
    """

    def __init__(
        self,
        flow: MirrorFlow,
        clients: FlowClients,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self.mappings: dict[TopicPartition, OffsetMapping] = {}
        self._flow = flow
        self._settings = flow.offsets
        self._policy = flow.route.policy
        self._clients = clients
        self._now_ms = now_ms
        self._gaps: dict[TopicPartition, list[_Gap]] = {}
        self._syncs = SyncSchedule(self._settings.offset_lag_max)
        self._checkpoints = CheckpointLog()
        self._groups = _Groups(flow)
        self._opened = asyncio.Event()

    def on_opened(self) -> None:
        """Take note that the flow has looked at the copies; the flow calls this."""
        self._opened.set()

    def on_copied(self, batches: Sequence[CopiedBatch]) -> None:
        """Take note of what was copied; the flow calls this."""
        may_repeat = self._flow.copy.delivery is Delivery.AT_LEAST_ONCE
        for batch in batches:
            mapping = self.mappings.setdefault(batch.source, OffsetMapping())
            mapping.note_copy(batch.target_id)
            start, base = batch.source_offsets.start, batch.target_base_offset
            end, target_end = mapping.source_end or 0, mapping.target_end or 0
            if end < start and target_end < base:
                gaps, begin = self._gaps.setdefault(batch.source, []), end
                if gaps and gaps[-1].target.start == target_end:  # no record was between them
                    begin = gaps.pop().source.start
                gaps.append(_Gap(range(begin, start), range(target_end, base), batch.target))
            mapping.add(batch, may_repeat=may_repeat)
            if self._settings.emits_offset_syncs:
                self._syncs.add(batch)

    async def run(self, *, started: Callable[[], None] = lambda: None) -> None:
        """Do all duties until the task is cancelled; then do them once more.

        Args:
            started: called when the mappings are loaded: from then on batches may be copied.

        Raises:
            KafkaError: the topics cannot be created or read.
        """
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            source, target = [await enter(self._clients.admin(of_source=side)) for side in (True, False)]
            producers = {side: await enter(self._clients.producer(of_source=side)) for side in self._written_sides()}
            await together(self._create_topics(source, target), self._load())
            started()
            duties: list[tuple[float | None, Callable[[], Awaitable[None]], str]] = [
                (WRITE_INTERVAL_S, lambda: self._write(producers), "writing offset mappings"),
                (self._settings.heartbeats_interval_s, lambda: self._beat(producers), "heartbeats"),
            ]
            translating: list[tuple[float | None, Callable[[], Awaitable[None]], str]] = [
                (
                    self._settings.checkpoints_interval_s,
                    lambda: self._checkpoint(source, target, producers[False]),
                    "checkpoints",
                ),
                (
                    self._settings.group_offsets_interval_s,
                    lambda: self._commit(source, target),
                    "committing group offsets",
                ),
            ]
            try:
                async with asyncio.TaskGroup() as tasks:
                    for interval_s, duty, name in duties:
                        if interval_s is not None:
                            tasks.create_task(self._repeat(interval_s, duty, name))
                    await self._opened.wait()
                    for interval_s, duty, name in translating:
                        if interval_s is not None:
                            tasks.create_task(self._repeat(interval_s, duty, name))
            finally:
                last = [*duties[:1], *(translating if self._opened.is_set() else ())]
                await self._finish([duty for interval_s, duty, _ in last if interval_s is not None])

    async def _finish(self, duties: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Write what the last batches have changed, so that a failover after a stop finds it."""
        try:
            async with asyncio.timeout(FINISH_S):
                for duty in duties:
                    await duty()
        except (KafkaError, TimeoutError) as error:
            _log.warning(
                "%s: the last offsets are not written: %s",
                self._flow.name,
                str(error) or f"no answer for {FINISH_S:g} s",
            )

    def _written_sides(self) -> set[bool]:
        syncs = self._settings.emits_offset_syncs and self._settings.offset_syncs_in_source
        return {False, True} if syncs or self._settings.heartbeats_interval_s is not None else {False}

    async def _repeat(self, interval_s: float, duty: Callable[[], Awaitable[None]], name: str) -> None:
        failure = ""
        while True:
            try:
                await duty()
                failure = ""
            except KafkaError as error:
                if str(error) != failure:
                    failure = str(error)
                    _log.warning("%s: %s: %s; trying again in %g s", self._flow.name, name, error, interval_s)
            await asyncio.sleep(interval_s)

    # -- topics

    async def _create_topics(self, source: AsyncAdmin, target: AsyncAdmin) -> None:
        route, factors = self._flow.route, self._settings.replication_factors
        in_target = [self._policy.offset_mapping_topic(route.source_alias)]
        if self._settings.checkpoints_interval_s is not None:
            in_target.append(self._policy.checkpoints_topic(route.source_alias))
        written: list[tuple[AsyncAdmin, str, str]] = []
        if self._settings.emits_offset_syncs:
            side = source if self._settings.offset_syncs_in_source else target
            written.append((side, self._syncs_topic(), "offset-syncs"))
        if self._settings.heartbeats_interval_s is not None:
            written += [(admin, HEARTBEATS, "heartbeats") for admin in (source, target)]
        await together(
            create_compacted(target, in_target, factors["checkpoints"]),
            *(self._create_written(admin, topic, factors[name]) for admin, topic, name in written),
        )

    async def _create_written(self, admin: AsyncAdmin, topic: str, replication_factor: int | None) -> None:
        """Create a topic that the configuration can do without."""
        try:
            await create_compacted(admin, [topic], replication_factor)
        except AuthorizationError as error:
            raise UsageError(
                f"{self._flow.name}: {error}; or let the mirror only read the source: emit.heartbeats.enabled = false, "
                "and offset-syncs.topic.location = target or emit.offset-syncs.enabled = false"
            ) from error

    def _syncs_topic(self) -> str:
        route = self._flow.route
        in_source = self._settings.offset_syncs_in_source
        return self._policy.offset_syncs_topic(route.target_alias if in_source else route.source_alias)

    async def _load(self) -> None:
        """Read mappings and checkpoints; topics that do not exist yet have none."""
        alias = self._flow.route.source_alias
        mappings = load_mappings(self._clients, self._policy.offset_mapping_topic(alias))
        if self._settings.checkpoints_interval_s is None:
            self.mappings.update(await mappings)
            return
        checkpoints = self._clients.records(self._policy.checkpoints_topic(alias), of_source=False)
        found, records = await together(mappings, checkpoints)
        self.mappings.update(found)
        self._checkpoints = CheckpointLog(read_checkpoints(newest(records)))

    # -- duties

    async def _write(self, producers: Mapping[bool, AsyncProducer]) -> None:
        """Fill gaps, and write changed mappings and offset syncs that are due."""
        await self._fill_gaps()
        await self._write_mappings(producers[False])
        side = self._settings.offset_syncs_in_source
        if syncs := self._syncs.take(delayed=True):
            for sync in syncs:
                await producers[side].send(self._syncs_topic(), sync.value, sync.key, partition=0)
            await producers[side].flush()

    async def _write_mappings(self, producer: AsyncProducer) -> None:
        topic = self._policy.offset_mapping_topic(self._flow.route.source_alias)
        written: list[tuple[OffsetMapping, int]] = []
        try:
            for partition, mapping in list(self.mappings.items()):
                for number, value in mapping.records() if mapping.changed else ():
                    written.append((mapping, number))
                    await producer.send(topic, value, mapping_key(partition, number), partition=0)
            await producer.flush()
        except BaseException:
            for mapping, number in written:
                mapping.changed.add(number)
            raise

    async def _fill_gaps(self) -> None:
        while self._gaps:
            source, gaps = self._gaps.popitem()
            for gap in gaps:
                runs = await self._runs_in(source, gap)
                if runs is None:
                    _log.warning(
                        "%s: offsets %d to %d of %s-%d are not translated exactly: both sides have other records there",
                        self._flow.name, gap.source.start, gap.source.stop, source.topic, source.partition,
                    )  # fmt: skip
                else:
                    self.mappings[source].fill_gap(gap.source, gap.target, runs)

    async def _runs_in(self, source: TopicPartition, gap: _Gap) -> list[Run] | None:
        is_first = not gap.source.start
        if is_first:
            gap = gap._replace(source=gap.source[-GAP_OFFSETS_MAX:], target=gap.target[-GAP_OFFSETS_MAX:])
        if max(len(gap.source), len(gap.target)) > GAP_OFFSETS_MAX:
            return None
        ours, theirs = await asyncio.gather(
            self._clients.marks(source, gap.source, of_source=True),
            self._clients.marks(gap.copy, gap.target, of_source=False),
        )
        return paired(ours, theirs, is_first=is_first)

    async def _translated(self, source: AsyncAdmin, target: AsyncAdmin) -> list[tuple[Checkpoint, Translation]]:
        """Return the offsets of all selected groups, as far as they can be translated."""
        committed = await self._groups.committed(source, self._now_ms())
        if not committed:
            return []
        remote_topic = self._flow.route.remote_topic
        present = of_present_copies(self.mappings, remote_topic, await topic_ids(target))
        return [
            (Checkpoint(group_id, copy, at.offset, found.offset, at.metadata), found)
            for group_id, offsets in committed.items()
            for of, at in offsets.items()
            if (mapping := present.get(of)) is not None
            and (found := mapping.translate(at.offset)) is not None
            and (copy := TopicPartition(remote_topic(of.topic), of.partition))
        ]

    async def _checkpoint(self, source: AsyncAdmin, target: AsyncAdmin, producer: AsyncProducer) -> None:
        translated = await self._translated(source, target)
        new = self._checkpoints.new(translated)
        topic = self._policy.checkpoints_topic(self._flow.route.source_alias)
        for each in new:
            await producer.send(topic, each.value, each.key, partition=0)
        await producer.flush()
        self._checkpoints.wrote(new)

    async def _commit(self, source: AsyncAdmin, target: AsyncAdmin) -> None:
        checkpoints = [each for each, _ in await self._translated(source, target)]
        if not checkpoints:
            return
        states: dict[str, GroupState | None] = {each.group_id: each.state for each in await target.list_groups()}
        wanted = sorted({each.group_id for each in checkpoints})
        committed = await target.list_group_offsets([name for name in wanted if name in states])
        for group_id, offsets in offsets_to_commit(checkpoints, states, committed).items():
            try:
                await target.alter_group_offsets(group_id, offsets)
            except KafkaError as error:  # a member has joined just now
                _log.info("%s: offsets of group %s are not committed: %s", self._flow.name, group_id, error)

    async def _beat(self, producers: Mapping[bool, AsyncProducer]) -> None:
        """Write a heartbeat to each side: the flow copies the one of the source, which shows that it is alive."""
        route, now_ms = self._flow.route, self._now_ms()
        beats = {
            True: Heartbeat(route.target_alias, route.source_alias, now_ms),
            False: Heartbeat(route.source_alias, route.target_alias, now_ms),
        }
        for side, beat in beats.items():
            await producers[side].send(HEARTBEATS, beat.value, beat.key, partition=0)
            await producers[side].flush()


class _Groups:
    """The groups of the source whose offsets are translated."""

    def __init__(self, flow: MirrorFlow) -> None:
        self._flow = flow
        self._names: list[str] = []
        self._due_ms = 0

    async def committed(self, source: AsyncAdmin, now_ms: int) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of selected groups in copied topics."""
        if now_ms >= self._due_ms:
            listed = [each.group_id for each in await source.list_groups()]
            selects = self._flow.offsets.groups.selects
            self._names = [name for name in listed if selects(name) and not name.startswith(OWN_GROUPS)]
            interval_s = self._flow.offsets.refresh_groups_interval_s
            self._due_ms = now_ms + round(1000 * interval_s) if interval_s is not None else 1 << 62
        if not self._names:
            return {}
        found = await source.list_group_offsets(self._names)
        return {
            name: {of: at for of, at in offsets.items() if self._flow.route.selects(of.topic)}
            for name, offsets in found.items()
        }


async def load_mappings(
    clients: FlowClients, topic: str, *, of_source: bool = False
) -> dict[TopicPartition, OffsetMapping]:
    """Return the mappings that a topic has, by partition of the source.

    Raises:
        KafkaError: the topic cannot be read.
    """
    chunks: dict[TopicPartition, list[tuple[int, bytes]]] = {}
    for key, value in newest(await clients.records(topic, of_source=of_source)).items():
        partition, number = parsed_mapping_key(key)
        chunks.setdefault(partition, []).append((number, value))
    return {partition: OffsetMapping.of_records(records) for partition, records in chunks.items()}


async def topic_ids(admin: AsyncAdmin) -> dict[str, Uuid]:
    """Return the ids of a cluster's topics by name; zero if its brokers have none.

    Raises:
        KafkaError: the cluster does not answer.
    """
    return {topic.name: topic.topic_id for topic in await admin.list_topics()}


async def load_present_mappings(
    clients: FlowClients, topic: str, copy_of: Callable[[str], str], *, of_source: bool = False
) -> dict[TopicPartition, OffsetMapping | None]:
    """Return the mappings that a topic has, None for those of a copy that was deleted; see `of_present_copies`.

    Raises:
        KafkaError: the topic cannot be read.
    """
    mappings = await load_mappings(clients, topic, of_source=of_source)
    if not mappings:
        return {}
    async with clients.admin(of_source=of_source) as admin:
        return of_present_copies(mappings, copy_of, await topic_ids(admin))


def read_checkpoints(records: Mapping[bytes, bytes]) -> Iterable[Checkpoint]:
    """Return the checkpoints among records; others are left out, as MirrorMaker does."""
    for key, value in records.items():
        try:
            yield Checkpoint.of_record(key, value)
        except ProtocolError as error:
            _log.info("a record among checkpoints is left out: %s", error)
