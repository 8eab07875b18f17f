"""Offsets of groups on the other side of a flow: what they are there, and committing them for a failover.

An offset of a topic that the flow copies is translated with the offset mapping in the target. A topic that is itself a
copy, from the cluster that the group moves to, is translated back to the offset of its source, so the same code moves a
group to the other side and back. Without a mapping, as for copies that MirrorMaker has made, MirrorMaker's offset syncs
are used, and on request the timestamp of the group's next record. If the cluster that the group comes from does not
answer, its last checkpoints are used. Nothing that was written about a copy that was deleted is used for one of the
same name (`of_present_copies`). No offset is committed for a group that has members, and none moves backwards.
Start at `GroupTranslator`.
Source: Kafka's MirrorCheckpointTask, RemoteClusterUtils; KIP-382.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from functools import partial
from typing import Final

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.group_descriptions import GroupState
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.errors import RetriableError, UsageError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.mirror.checkpoints import INACTIVE, Checkpoint
from kafkaraw.mirror.clients import FlowClients, newest
from kafkaraw.mirror.mapping import OffsetMapping, Translation, paired
from kafkaraw.mirror.offset_service import GAP_OFFSETS_MAX, load_present_mappings, read_checkpoints
from kafkaraw.mirror.offset_syncs import OffsetSync, translated
from kafkaraw.mirror.settings import MirrorFlow
from kafkaraw.records import TopicPartition

ANSWER_S: Final = 10.0
"""How long the cluster that a group leaves may take to answer: it may be down."""
OPEN_OFFSETS_MIN: Final = 10_000
OPEN_FACTOR: Final = 4
"""How many offsets behind a mapping's end are looked at, for each one on the other side: some have no records."""


class How(StrEnum):
    """How an offset was found; the values are words for users.

    Attributes:
        EXACT: the position before the same record.
        EARLIER: a position before it: the copy has not reached the offset, or old records are gone on one side.
        OFFSET_SYNC: the position of MirrorMaker's nearest offset sync before it.
        CHECKPOINT: the last checkpoint; the cluster that the group comes from does not answer.
        TIMESTAMP: the first record that is not older than the group's next record.
        UNKNOWN: none is known, or what is known is about a topic that was deleted.
    """

    EXACT = "exact"
    EARLIER = "earlier"
    OFFSET_SYNC = "offset-sync"
    CHECKPOINT = "checkpoint"
    TIMESTAMP = "timestamp"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """An offset of a group, on both sides.

    Attributes:
        group_id: the group.
        origin: the partition that the group has read.
        offset: its committed offset there.
        destination: the same partition on the other side.
        translated: the offset there; None if none is known.
        how: how it was found.
        current: the committed offset that the group has there; None without one.
        end: the end offset there; None if the partition does not exist.
        metadata: what the group has committed with its offset.
    """

    group_id: str
    origin: TopicPartition
    offset: int
    destination: TopicPartition
    translated: int | None
    how: How
    current: int | None = None
    end: int | None = None
    metadata: str = field(default="", compare=False)

    @property
    def to_commit(self) -> int | None:
        """The offset that a failover commits; None if there is none, or the group is as far already."""
        if self.translated is None or (self.current is not None and self.current >= self.translated):
            return None
        return self.translated


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What a failover of groups does.

    Attributes:
        offsets: translated, of all groups.
        silent: why the cluster that the groups come from was not asked; empty if it has answered.
        active_at_origin: groups with members there, which still commit.
        active_at_destination: groups with members there, whose offsets are not changed.
        missing: groups without an offset that the flow is about.
    """

    offsets: tuple[TranslatedOffset, ...]
    silent: str
    active_at_origin: tuple[str, ...]
    active_at_destination: tuple[str, ...]
    missing: tuple[str, ...]


class GroupTranslator:
    """Translates offsets of groups from one side of a flow to the other one.

    Args:
        flow: the flow.
        clients: of its clusters.
        reverse: the flow in the other direction; None if there is none.
        back: from the target to the source.
        by_timestamp: use timestamps for offsets that are not known otherwise.
    """

    def __init__(
        self,
        flow: MirrorFlow,
        clients: FlowClients,
        reverse: MirrorFlow | None = None,
        *,
        back: bool = False,
        by_timestamp: bool = False,
    ) -> None:
        forward, inbound = (reverse, flow) if back else (flow, reverse)
        self._flow = flow
        self._route = None if forward is None else forward.route
        self._policy = (forward or flow).route.policy
        self._inbound_policy = (inbound or flow).route.policy
        self._clients = clients
        self._from_source = not back
        self._by_timestamp = by_timestamp
        aliases = (flow.route.source_alias, flow.route.target_alias)
        self.origin_alias: str = aliases[0 if self._from_source else 1]
        self.destination_alias: str = aliases[1 if self._from_source else 0]

    async def plan(self, groups: Sequence[str]) -> GroupPlan:
        """Translate the offsets of groups.

        Raises:
            UsageError: the origin does not answer, and there are no checkpoints to use instead.
            KafkaError: the destination does not answer.
        """
        async with AsyncExitStack() as stack:
            origin = await stack.enter_async_context(self._clients.admin(of_source=self._from_source))
            destination = await stack.enter_async_context(self._clients.admin(of_source=not self._from_source))
            try:
                async with asyncio.timeout(ANSWER_S):
                    committed = await origin.list_group_offsets(groups)
                    states = await _states(origin)
                silent = ""
            except (RetriableError, TimeoutError) as error:
                silent = str(error) or f"no answer for {ANSWER_S:.0f} s"
                states = {}
            if silent:
                offsets = await self._of_checkpoints(groups, silent)
            else:
                offsets = await self._of_offsets(committed)
            offsets = await self._with_facts(destination, groups, offsets)
            there = await _states(destination)
        known = {each.group_id for each in offsets}
        return GroupPlan(
            tuple(offsets),
            silent,
            tuple(name for name in groups if states.get(name) not in INACTIVE),
            tuple(name for name in groups if there.get(name) not in INACTIVE),
            tuple(name for name in groups if name not in known),
        )

    async def commit(self, plan: GroupPlan) -> dict[str, int]:
        """Commit the translated offsets in the destination.

        Args:
            plan: the result of `plan`; no group may have members in the destination.

        Returns:
            Numbers of committed offsets by group; those that are as far already are left alone.

        Raises:
            UsageError: a group has members in the destination.
            KafkaError: the destination refuses, as it does if a member has joined meanwhile.
        """
        if plan.active_at_destination:
            raise UsageError(
                f"group {plan.active_at_destination[0]!r} has members in {self.destination_alias}, so its offsets "
                "there are not changed: stop them first"
            )
        wanted: dict[str, dict[TopicPartition, int | OffsetAndMetadata]] = {}
        for each in plan.offsets:
            if each.to_commit is not None:
                at = OffsetAndMetadata(each.to_commit, each.metadata)
                wanted.setdefault(each.group_id, {})[each.destination] = at
        async with self._clients.admin(of_source=not self._from_source) as destination:
            for group_id, offsets in wanted.items():
                await destination.alter_group_offsets(group_id, offsets)
        return {group_id: len(offsets) for group_id, offsets in wanted.items()}

    # -- where offsets come from

    async def _of_checkpoints(self, groups: Sequence[str], silent: str) -> list[TranslatedOffset]:
        if not self._from_source:
            raise UsageError(f"{self.origin_alias} does not answer, and only a target has checkpoints: {silent}")
        topic = self._policy.checkpoints_topic(self.origin_alias)
        records = await self._clients.records(topic, of_source=False)
        found = [each for each in read_checkpoints(newest(records)) if each.group_id in groups]
        if not found:
            raise UsageError(
                f"{self.origin_alias} does not answer, and {topic} of {self.destination_alias} has no checkpoint of "
                f"{', '.join(groups)}: {silent}"
            )
        mappings = await self._mappings_into_destination()
        return [self._of_checkpoint(each, mappings) for each in sorted(found)]

    def _of_checkpoint(
        self, each: Checkpoint, mappings: Mapping[TopicPartition, OffsetMapping | None]
    ) -> TranslatedOffset:
        upstream = self._policy.upstream_topic(each.target.topic) or each.target.topic
        origin, offset, how = TopicPartition(upstream, each.target.partition), None, How.UNKNOWN
        mapping = mappings.get(origin)
        if mapping is not None:
            offset, how = _offset_of_checkpoint(each, mapping), How.CHECKPOINT
        elif origin not in mappings:
            offset, how = each.downstream_offset, How.CHECKPOINT
        return TranslatedOffset(
            each.group_id, origin, each.upstream_offset, each.target, offset, how, metadata=each.metadata
        )

    async def _mappings_into_destination(self) -> dict[TopicPartition, OffsetMapping | None]:
        return await load_present_mappings(
            self._clients,
            self._policy.offset_mapping_topic(self.origin_alias),
            partial(self._policy.remote_topic, self.origin_alias),
            of_source=not self._from_source,
        )

    async def _mappings_into_origin(self) -> dict[TopicPartition, OffsetMapping | None]:
        return await load_present_mappings(
            self._clients,
            self._inbound_policy.offset_mapping_topic(self.destination_alias),
            partial(self._inbound_policy.remote_topic, self.destination_alias),
            of_source=self._from_source,
        )

    async def _of_offsets(
        self, committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> list[TranslatedOffset]:
        into_destination = await self._mappings_into_destination()
        into_origin = await self._mappings_into_origin()
        outdated = {of for of, mapping in into_destination.items() if mapping is None}
        found: list[TranslatedOffset] = []
        for group_id, offsets in committed.items():
            for origin, at in sorted(offsets.items()):
                original = self._original(origin, into_origin)
                if original is not None and not _has(into_destination.get(origin), at.offset):
                    mapping = into_origin.get(original)
                    other = None if mapping is None else mapping.translate_back(at.offset)
                    if mapping is not None and other is not None and not other.is_exact:
                        other = await self._read(mapping, original, origin, at.offset, back=True) or other
                    destination = original
                elif self._is_copied(origin.topic):
                    copy = self._policy.remote_topic(self.origin_alias, origin.topic)
                    destination = TopicPartition(copy, origin.partition)
                    mapping = into_destination.get(origin)
                    other = None if mapping is None else mapping.translate(at.offset)
                    if mapping is not None and other is not None and not other.is_exact:
                        other = await self._read(mapping, origin, destination, at.offset, back=False) or other
                else:
                    continue
                found.append(_translated(group_id, origin, at, destination, other))
        return await self._with_timestamps(await self._with_syncs(found, outdated))

    async def _read(
        self, mapping: OffsetMapping, source: TopicPartition, copy: TopicPartition, offset: int, *, back: bool
    ) -> Translation | None:
        """Translate an offset where the mapping is coarse, by reading what both topics have there.

        Args:
            mapping: of the partition.
            source: the partition of the mapping's source.
            copy: the partition of its copy.
            offset: of the source; of the copy if `back` is set.
            back: whether the offset is one of the copy.

        Returns:
            None if the offset is in no gap, the gap is too large, or both sides have other records there.
        """
        of_source = self._from_source != back  # whether the mapping's source is the flow's
        gap, is_open = mapping.gap_at(offset, back=back), False
        if gap is None and (ends := mapping.ends_before(offset, back=back)) is not None:
            gap, is_open = await self._open_gap(ends, source, copy, offset, of_source=of_source, back=back), True
        if gap is None or max(map(len, gap)) > GAP_OFFSETS_MAX:
            return None
        marks = await asyncio.gather(
            self._clients.marks(source, gap[0], of_source=of_source),
            self._clients.marks(copy, gap[1], of_source=not of_source),
        )
        here, there = marks[::-1] if back else marks
        if paired(here, there[: len(here)] if is_open else there) is None:
            return None
        place = bisect_left(here, offset, key=lambda mark: mark.offset)
        if place < len(there):
            return Translation(there[place].offset, is_exact=True)
        end = gap[0 if back else 1]
        return Translation((there[-1].offset + 1 if there else end.start) if is_open else end.stop, is_exact=True)

    async def _open_gap(
        self,
        ends: tuple[int, int],
        source: TopicPartition,
        copy: TopicPartition,
        offset: int,
        *,
        of_source: bool,
        back: bool,
    ) -> tuple[range, range]:
        """Return the offsets behind the end of a mapping: up to an offset, and as many as may be the same records.

        Args:
            ends: of the mapping, in source and copy.
            source: the partition of the mapping's source.
            copy: the partition of its copy.
            offset: behind one of the ends.
            of_source: whether the mapping's source is the flow's.
            back: whether the offset is one of the copy.
        """
        count = max(OPEN_OFFSETS_MIN, OPEN_FACTOR * (offset - ends[1 if back else 0]))
        other, is_source = (source, of_source) if back else (copy, not of_source)
        there = min(ends[0 if back else 1] + count, await self._clients.end_offset(other, of_source=is_source))
        return (
            (range(ends[0], there), range(ends[1], offset)) if back else (range(ends[0], offset), range(ends[1], there))
        )

    def _original(
        self, origin: TopicPartition, into_origin: Mapping[TopicPartition, OffsetMapping | None]
    ) -> TopicPartition | None:
        """Return the partition of the destination that a partition of the origin is a copy of, None if it is none."""
        source = self._inbound_policy.topic_source(origin.topic)
        upstream = TopicPartition(self._inbound_policy.upstream_topic(origin.topic) or origin.topic, origin.partition)
        if source == self.destination_alias or (source is None and upstream in into_origin and upstream == origin):
            return upstream
        return None

    def _is_copied(self, topic: str) -> bool:
        """Whether a flow copies a topic of the origin to the destination."""
        return self._route is not None and self._route.selects(topic)

    async def _with_syncs(
        self, offsets: list[TranslatedOffset], outdated: Collection[TopicPartition]
    ) -> list[TranslatedOffset]:
        """Use MirrorMaker's offset syncs where there is no mapping.

        Args:
            offsets: as far as they are translated.
            outdated: partitions whose mapping is about a copy that was deleted: their syncs may be, too.
        """
        if not self._from_source or all(each.translated is not None for each in offsets):
            return offsets
        in_source = self._flow.offsets.offset_syncs_in_source
        topic = self._policy.offset_syncs_topic(self.destination_alias if in_source else self.origin_alias)
        syncs: dict[TopicPartition, list[OffsetSync]] = {}
        for key, value in await self._clients.records(topic, of_source=in_source):
            if value is not None:
                sync = OffsetSync.of_record(key, value)
                syncs.setdefault(sync.source, []).append(sync)
        found = []
        for each in offsets:
            is_open = each.translated is None and each.origin not in outdated
            other = translated(syncs.get(each.origin, []), each.offset) if is_open else None
            found.append(each if other is None else _changed(each, other.offset, How.OFFSET_SYNC))
        return found

    async def _with_timestamps(self, offsets: list[TranslatedOffset]) -> list[TranslatedOffset]:
        if not self._by_timestamp or all(each.translated is not None for each in offsets):
            return offsets
        found = []
        async with self._clients.consumer(of_source=not self._from_source) as destination:
            there = await destination.list_topics()
            for each in offsets:
                if each.translated is not None or each.destination not in there.get(each.destination.topic, ()):
                    found.append(each)
                    continue
                end = (await destination.end_offsets([each.destination]))[each.destination]  # first: both sides grow
                timestamp_ms = await self._clients.timestamp_of(each.origin, each.offset, of_source=self._from_source)
                at = None
                if timestamp_ms is not None:
                    at = (await destination.offsets_for_times({each.destination: timestamp_ms}))[each.destination]
                found.append(_changed(each, end if at is None else at.offset, How.TIMESTAMP))
        return found

    # -- facts about the destination

    async def _with_facts(
        self, destination: AsyncAdmin, groups: Sequence[str], offsets: list[TranslatedOffset]
    ) -> list[TranslatedOffset]:
        committed = await destination.list_group_offsets(groups)
        async with self._clients.consumer(of_source=not self._from_source) as consumer:
            there = await consumer.list_topics()
            wanted = {each.destination for each in offsets if each.destination in there.get(each.destination.topic, ())}
            ends = await consumer.end_offsets(wanted) if wanted else {}
        found = []
        for each in offsets:
            at = committed.get(each.group_id, {}).get(each.destination)
            current, end = None if at is None else at.offset, ends.get(each.destination)
            if end is not None and each.translated is not None and each.translated > end:
                each = replace(each, translated=None, how=How.UNKNOWN)  # of a topic that was created again since
            found.append(replace(each, current=current, end=end))
        return found


def _has(mapping: OffsetMapping | None, offset: int) -> bool:
    """Whether a mapping has an offset: of topics that keep their names, each direction has copied a part."""
    return mapping is not None and mapping.translate(offset) is not None


def _translated(
    group_id: str, origin: TopicPartition, at: OffsetAndMetadata, destination: TopicPartition, found: Translation | None
) -> TranslatedOffset:
    how = How.UNKNOWN if found is None else How.EXACT if found.is_exact else How.EARLIER
    offset = None if found is None else found.offset
    return TranslatedOffset(group_id, origin, at.offset, destination, offset, how, metadata=at.metadata)


def _offset_of_checkpoint(checkpoint: Checkpoint, mapping: OffsetMapping) -> int:
    """Return the position in the copy of a checkpoint, which may be about an earlier copy.

    The mapping is about the present one. Where it was thinned, the checkpoint is more exact if both agree.
    """
    offset, downstream = checkpoint.upstream_offset, checkpoint.downstream_offset
    found = mapping.translate(offset)
    if found is None:
        return downstream  # of records that were copied before, by MirrorMaker
    gap = None if found.is_exact else mapping.gap_at(offset)
    return downstream if gap is not None and gap[1].start <= downstream <= gap[1].stop else found.offset


def _changed(each: TranslatedOffset, offset: int, how: How) -> TranslatedOffset:
    return replace(each, translated=offset, how=how)


async def _states(admin: AsyncAdmin) -> dict[str, GroupState | None]:
    return {each.group_id: each.state for each in await admin.list_groups()}
