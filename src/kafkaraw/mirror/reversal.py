"""Where a flow begins after a failover, if copies keep their names: behind what the flow in the other direction copied.

After a failover, producers write to the copies in the former target. A flow back would copy all records of a copy,
also those that have come from where it writes to. The offset mapping of the first flow has the end of these, so the new
flow begins there: it copies exactly what the former target has got by itself. With MirrorMaker's default policy this
is not needed, since copies have names of their own. Start at `starts_behind_copies`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.mirror.clients import FlowClients
from kafkaraw.mirror.mapping import of_present_copies
from kafkaraw.mirror.offset_service import load_mappings, topic_ids
from kafkaraw.mirror.settings import MirrorFlow
from kafkaraw.records import TopicPartition


class FlowStart(NamedTuple):
    """Where a flow begins with a partition.

    Attributes:
        source: the partition that it reads.
        target: the partition that it writes to.
        offset: the offset behind the last record that has come from the target.
        current: the position that the flow has already; None without one.
    """

    source: TopicPartition
    target: TopicPartition
    offset: int
    current: int | None


async def starts_behind_copies(flow: MirrorFlow, clients: FlowClients) -> list[FlowStart]:
    """Return where a flow begins, for each partition that the flow in the other direction has copied.

    Args:
        flow: the flow that is to begin.
        clients: of its clusters.

    Raises:
        UsageError: the source has no offset mapping, or none of topics that the flow copies under their names, or one
            of a topic that was deleted and created again.
        KafkaError: a cluster does not answer.
    """
    route = flow.route
    topic = route.policy.offset_mapping_topic(route.target_alias)
    copy_of = partial(route.policy.remote_topic, route.target_alias)
    mappings = await load_mappings(clients, topic, of_source=True)
    async with clients.admin(of_source=True) as origin, clients.admin(of_source=False) as admin:
        ids = await topic_ids(origin)
        committed = (await admin.list_group_offsets([flow.copy.group_id]))[flow.copy.group_id]
    found = []
    for target, mapping in sorted(of_present_copies(mappings, copy_of, ids).items()):
        source = TopicPartition(copy_of(target.topic), target.partition)
        is_there = source.topic in ids
        if is_there and route.selects(source.topic) and route.remote_topic(source.topic) == target.topic:
            if mapping is None:
                raise UsageError(
                    f"{flow.name}: topic {source.topic!r} of {route.source_alias} was deleted and created again since "
                    f"{route.target_alias}->{route.source_alias} has copied it, so it is not known which of its "
                    f"records have come from {route.target_alias}: exclude it from the flow, or delete it in "
                    f"{route.target_alias} to copy all of them"
                )
            at = committed.get(target)
            found.append(FlowStart(source, target, mapping.target_end or 0, None if at is None else at.offset))
    if not found:
        raise UsageError(
            f"{flow.name}: {topic} of {route.source_alias} has no topic that a flow {route.target_alias}->"
            f"{route.source_alias} has copied under its own name, so there is nothing to begin behind: start the flow"
        )
    return found


async def set_starts(flow: MirrorFlow, clients: FlowClients, starts: Iterable[FlowStart]) -> int:
    """Commit the positions of partitions that have none; return their number.

    Raises:
        KafkaError: the target refuses, as it does while the flow runs.
    """
    wanted = {start.target: start.offset for start in starts if start.current is None}
    if wanted:
        async with clients.admin(of_source=False) as admin:
            await admin.alter_group_offsets(flow.copy.group_id, wanted)
    return len(wanted)
