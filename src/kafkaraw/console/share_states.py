"""The page of a share group's deliveries: how often records were delivered, and in which state they are.

The share coordinator stores this in `__share_group_state`; no request tells it. The topic is read, if the console may;
what decodes its records is handed in by the command. Start at `deliveries`. Source: KIP-932.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.group_descriptions import GroupType
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.groups import described
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site, permission_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import TopicPartition

TOPIC: Final = "__share_group_state"
ROWS_MAX: Final = 1_000
_SECONDS_MAX: Final = 8.0
_BYTES_MAX: Final = 64 << 20
_POLL_S: Final = 0.5
_STATES: Final = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}


@dataclass(frozen=True)
class Delivery:
    """Records of a partition with one state.

    Attributes:
        partition: topic and partition.
        first_offset: of the first record.
        last_offset: of the last record.
        state: its name.
        count: how often they were delivered.
    """

    partition: TopicPartition
    first_offset: int
    last_offset: int
    state: str
    count: int


async def deliveries(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the deliveries of a share group."""
    name = request.query_params.get("id", "")
    group = await described(cluster, name)
    if group.group_type is not GroupType.SHARE:
        raise UsageError(f"{name!r} is no share group: only share groups count deliveries")
    infos = (await cluster.admin.list_share_group_offsets([name])).get(name, {})
    rows: list[Delivery] = []
    why = "" if cluster.settings.share_states is not None else "this console cannot read the states of share groups"
    is_whole = True
    if not why:
        try:
            states, is_whole = await _states(cluster, name, list(infos))
            rows = _rows(states)
        except KafkaError as error:
            why = visible(permission_of(error) or str(error))
    context: dict[str, Any] = {"rows": rows[:ROWS_MAX], "count": len(rows), "why": why, "is_whole": is_whole}
    context |= {"infos": sorted(infos.items()), "group_id": name}
    return site.page(request, "deliveries.html", cluster, tab="groups", **context)


async def _states(
    cluster: ClusterConnection, group: str, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, Any], bool]:
    """Return the stored state of each partition, and whether all was read."""
    topics = await cluster.admin.describe_topics(sorted({each.topic for each in partitions}))
    count = len((await cluster.admin.describe_topics([TOPIC]))[TOPIC].partitions)
    keys = {each: (group, str(topics[each.topic].topic_id), each.partition) for each in partitions}
    places = {TopicPartition(TOPIC, _hash_of("{}:{}:{}".format(*key)) % count) for key in keys.values()}
    records, is_whole = await _read(cluster, sorted(places))
    assert cluster.settings.share_states is not None
    states: Mapping[tuple[str, str, int], Any] = await asyncio.to_thread(cluster.settings.share_states, records)
    return {each: states[key] for each, key in keys.items() if key in states}, is_whole


def _hash_of(text: str) -> int:
    """Return Java's hash of a text without its sign, by which the share coordinator chooses a partition."""
    found = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        found = (31 * found + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >> 31 else found
    return 0 if signed == -(1 << 31) else abs(signed)


async def _read(
    cluster: ClusterConnection, partitions: Sequence[TopicPartition]
) -> tuple[list[tuple[bytes, bytes | None]], bool]:
    """Return keys and values of partitions, and whether that is all of them."""
    found: list[tuple[bytes, bytes | None]] = []
    size = 0
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SECONDS_MAX
    async with cluster.consumer() as consumer:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = set(partitions)
        while left := {each for each in left if await consumer.position(each) < ends[each]}:
            if loop.time() > deadline or size > _BYTES_MAX:
                return found, False
            for batch in (await consumer.poll(_POLL_S)).values():
                size += batch.size_bytes
                found += [(bytes(each.key), each.value) for each in batch if each.key]
    return found, True


def _rows(states: Mapping[TopicPartition, Any]) -> list[Delivery]:
    return [
        Delivery(
            key, each.first_offset, each.last_offset, _STATES.get(each.state, str(each.state)), each.delivery_count
        )
        for key, state in sorted(states.items())
        for each in state.batches
    ]
