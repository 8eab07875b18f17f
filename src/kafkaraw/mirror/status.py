"""The state of a flow: how far each partition is copied, and when the flow was last alive. Reads both clusters only.

The positions are the committed offsets of the flow's group in the target, by partition of the copy; heartbeats are
those of the source that have arrived in the target. Start at `flow_status`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.checkpoints import Heartbeat
from kafkaraw.mirror.clients import FlowClients, newest
from kafkaraw.mirror.policies import HEARTBEATS
from kafkaraw.mirror.positions import Position
from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings
from kafkaraw.mirror.topics import selected
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a flow.

    Attributes:
        source: in the source.
        target: its copy.
        end: the end offset of the source; of the last stable offset, if the flow reads only committed records.
        position: the offset of the source up to which it is copied; None if the flow has not begun with it.
        copy_end: the end offset of the copy; None if it does not exist.
        refusal: why the flow does not copy it now; empty while it does.
    """

    source: TopicPartition
    target: TopicPartition
    end: int
    position: int | None
    copy_end: int | None
    refusal: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied yet; None if the flow has not begun with this partition."""
        return None if self.position is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow.

    Attributes:
        name: as `east->west`.
        partitions: in order.
        problems: why topics are not copied, by name.
        heartbeat_ms: the time of the last heartbeat of the source that has arrived in the target, in milliseconds since
            1970; None if there is none.
    """

    name: str
    partitions: tuple[PartitionStatus, ...]
    problems: Mapping[str, str]
    heartbeat_ms: int | None

    @property
    def topics_count(self) -> int:
        """Number of topics."""
        return len({each.source.topic for each in self.partitions})

    @property
    def lag(self) -> int:
        """Offsets that are not copied yet, of all partitions that have begun."""
        return sum(each.lag or 0 for each in self.partitions)


async def flow_status(flow: MirrorFlow, settings: MirrorSettings, clients: FlowClients) -> FlowStatus:
    """Return the state of a flow.

    Args:
        flow: the flow.
        settings: the configuration that it is of.
        clients: of its clusters.

    Raises:
        KafkaError: a cluster does not answer.
    """
    async with (
        clients.consumer(of_source=True) as source,
        clients.consumer(of_source=False) as target,
        clients.admin(of_source=False) as admin,
    ):
        listed, copies = await asyncio.gather(source.list_topics(), target.list_topics())
        copied, problems = selected(flow.route, settings.topology, listed)
        pairs = {each: TopicPartition(copy, each.partition) for topic, copy in copied.items() for each in listed[topic]}
        there = {each for partitions in copies.values() for each in partitions}
        ends, copy_ends, committed = await asyncio.gather(
            _ends(source, list(pairs)),
            _ends(target, [each for each in pairs.values() if each in there]),
            admin.list_group_offsets([flow.copy.group_id]),
        )
        positions = committed[flow.copy.group_id]
    partitions = tuple(
        PartitionStatus(
            each,
            copy,
            ends[each],
            positions[copy].offset if copy in positions else None,
            copy_ends.get(copy),
            _refusal(positions.get(copy)),
        )
        for each, copy in sorted(pairs.items())
    )
    return FlowStatus(flow.name, partitions, problems, await _heartbeat_ms(flow, clients))


def _refusal(committed: OffsetAndMetadata | None) -> str:
    """Return why a partition is not copied, as it was committed with its position."""
    if committed is None:
        return ""
    return Position.parse(committed.offset, committed.leader_epoch, committed.metadata).refusal


async def _ends(consumer: AsyncConsumer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return await consumer.end_offsets(partitions) if partitions else {}


async def _heartbeat_ms(flow: MirrorFlow, clients: FlowClients) -> int | None:
    found: list[int] = []
    records = await clients.records(flow.route.remote_topic(HEARTBEATS), of_source=False)
    for key, value in newest(records).items():
        try:
            found.append(Heartbeat.of_record(key, value).timestamp_ms)
        except ProtocolError:
            continue
    return max(found, default=None)
