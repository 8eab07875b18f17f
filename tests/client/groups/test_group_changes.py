"""Members of a group are replaced one after the other while records keep coming, on virtual time, by both protocols.

Nobody dies here, so every record is given to one member, once, and its position is committed. What may happen besides
is for simulations; with processes and other clients it is in `tests/interop/test_rolling_members.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw import AsyncAdmin, GroupState, GroupType
from tests.client.virtual_cluster import VirtualCluster, on_cluster

TOPIC, PARTITIONS = "t", 6
PACE_S = 0.2
PATIENCE_S = 60.0
MODERN: dict[str, object] = {"group_protocol": "consumer"}
KINDS: dict[str, dict[str, object]] = {
    **{name: {"partition_assignment_strategy": name} for name in ("range", "cooperative-sticky")},
    "KIP-848": MODERN,
}
PROPERTIES = {
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 1_000,
    "group_consumer_heartbeat_interval_ms": 1_000,
}


class Reader:
    """A member that reads as long as it is let."""

    def __init__(self, cluster: VirtualCluster, settings: dict[str, object]) -> None:
        self.records: list[tuple[int, int]] = []
        self._end = asyncio.Event()
        self.consumer = cluster.consumer(group_id="g", **settings)
        self.consumer.subscribe([TOPIC])
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with self.consumer:
            while not self._end.is_set():
                for batch in (await self.consumer.poll(1)).values():
                    self.records += [(record.partition, record.offset) for record in batch]

    async def leave(self) -> None:
        self._end.set()
        await self._task


class Fleet:
    """Members by place, and what all of them have read."""

    def __init__(self, cluster: VirtualCluster, admin: AsyncAdmin) -> None:
        self.cluster, self.admin = cluster, admin
        self._readers: dict[int, Reader] = {}
        self._gone: list[Reader] = []

    async def put(self, place: int, settings: dict[str, object]) -> None:
        """Have a member there, instead of the one that is."""
        if place in self._readers:
            gone = self._readers.pop(place)
            await gone.leave()
            self._gone.append(gone)
        self._readers[place] = Reader(self.cluster, settings)
        await self.until(self._settled, "not shared out")

    async def _settled(self) -> bool:
        """Whether all is shared out; and acknowledged: a group that goes down fences those who are behind."""
        parts = [reader.consumer.assignment() for reader in self._readers.values()]
        if (
            not all(parts)
            or sum(map(len, parts)) != len(set().union(*map(set, parts)))
            or sum(map(len, parts)) < PARTITIONS
        ):
            return False
        return (await self.admin.describe_groups(["g"]))["g"].state is GroupState.STABLE

    async def has_read(self, count: int) -> bool:
        return len(self.read()) >= count

    async def until(self, done: Callable[[], Awaitable[bool]], what: str) -> None:
        end = self.cluster.now + PATIENCE_S
        while not await done():
            assert self.cluster.now < end, what
            await asyncio.sleep(0.25)

    def read(self) -> Counter[tuple[int, int]]:
        return Counter(one for reader in [*self._gone, *self._readers.values()] for one in reader.records)

    async def close(self) -> None:
        for reader in self._readers.values():
            await reader.leave()


def with_load(play: Callable[[Fleet], Awaitable[None]]) -> None:
    """Have a fleet do something while records are written; then each must have been read once, and be committed."""

    async def life(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        written = 0

        async def write() -> None:
            nonlocal written
            async with cluster.producer() as producer:
                while True:
                    await producer.send(TOPIC, b"v", partition=written % PARTITIONS)
                    written += 1
                    await asyncio.sleep(PACE_S)

        async with cluster.admin() as admin:
            writing, fleet = asyncio.create_task(write()), Fleet(cluster, admin)
            await play(fleet)
            writing.cancel()
            await asyncio.wait([writing])
            await fleet.until(lambda: fleet.has_read(written), "records were read by nobody")
            await fleet.close()
            assert set(fleet.read().values()) == {1}, "records were read twice, though nobody died"
            positions = (await admin.list_group_offsets(["g"]))["g"]
            assert sum(position.offset for position in positions.values()) == len(fleet.read())

    on_cluster(life, **PROPERTIES)


async def type_of(fleet: Fleet) -> GroupType:
    return (await fleet.admin.describe_groups(["g"]))["g"].group_type


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
def test_group_migrates_to_consumer_protocol_and_back(kind: str) -> None:
    async def play(fleet: Fleet) -> None:
        for place in range(2):
            await fleet.put(place, KINDS[kind])
        for settings, expected in ((MODERN, GroupType.CONSUMER), (KINDS[kind], GroupType.CLASSIC)):
            for place in range(2):
                await fleet.put(place, settings)
            assert await type_of(fleet) is expected

    with_load(play)


def test_static_members_migrate_to_consumer_protocol_and_back() -> None:
    async def play(fleet: Fleet) -> None:
        for settings in (KINDS["range"], MODERN, KINDS["range"]):
            for place in range(2):
                await fleet.put(place, {**settings, "group_instance_id": f"i{place}"})
        assert await type_of(fleet) is GroupType.CLASSIC

    with_load(play)


@pytest.mark.parametrize("kind", KINDS)
def test_rolling_restart_of_members(kind: str) -> None:
    async def play(fleet: Fleet) -> None:
        for number in range(5):
            await fleet.put(number % 2, KINDS[kind])

    with_load(play)
