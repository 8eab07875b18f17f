"""Any history of a cluster whose elections are clean: nothing that was acknowledged is ever lost, or shown otherwise.

Every seed is a history of produce requests with acks=all, killed, stopped and started nodes, moved leaders and held
replication, on virtual time; what must hold is asked after every step and at the end.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.broker.virtual_nodes import VirtualNodes, on_nodes, outcome

STEPS = 60
PROPERTIES = {"replica_lag_time_max_ms": 2_000}


class History:
    """One history, and what was promised to producers and shown to consumers in it."""

    def __init__(self, nodes: VirtualNodes, seed: int) -> None:
        self.nodes = nodes
        self.rng = random.Random(f"history {seed}")
        self.sent = 0
        self.promised: dict[int, bytes] = {}
        self.shown: list[bytes | None] = []
        self.leader_epoch = 0
        self.waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        steps = [self.produce, self.produce, self.produce, self.kill, self.stop, self.start, self.start]
        steps += [self.move, self.hold, self.release, self.release, self.rest]
        for _ in range(STEPS):
            await self.rng.choice(steps)()
            self.check()
        await self.heal()

    async def produce(self) -> None:
        leader = self.nodes.cluster.leader_of("t")
        if leader is None:
            return
        for _ in range(self.rng.randint(1, 3)):
            value = b"%d" % self.sent
            self.sent += 1
            task = asyncio.ensure_future(self._produce(leader, value, self.rng.choice((-1, -1, 1))))
            self.waiting.add(task)
            task.add_done_callback(self.waiting.discard)
        await asyncio.sleep(self.rng.choice((0, 0.002, 0.05)))

    async def _produce(self, leader: int, value: bytes, acks: int) -> None:
        code, offset = outcome(await self.nodes.produce(leader, value, acks=acks, timeout_ms=1_500))
        if code == ErrorCode.NONE and acks == -1:
            assert self.promised.setdefault(offset, value) == value, "two values were acknowledged at one offset"

    async def kill(self) -> None:
        if len(self.nodes.cluster.nodes) > 1:
            await self.nodes.cluster.kill_node(self.rng.choice(sorted(self.nodes.cluster.nodes)))

    async def stop(self) -> None:
        if len(self.nodes.cluster.nodes) > 1:
            await self.nodes.cluster.stop_node(self.rng.choice(sorted(self.nodes.cluster.nodes)))

    async def start(self) -> None:
        down = [node for node in self.nodes.cluster.node_ids if node not in self.nodes.cluster.nodes]
        if down:
            await self.nodes.cluster.start_node(self.rng.choice(down))

    async def move(self) -> None:
        try:
            self.nodes.cluster.move_leader("t", 0, self.rng.randint(0, 2))
        except UsageError:
            return  # not in sync, or down

    async def hold(self) -> None:
        self.nodes.cluster.pause_replication(self.rng.randint(0, 2))

    async def release(self) -> None:
        self.nodes.cluster.resume_replication(self.rng.randint(0, 2))

    async def rest(self) -> None:
        await asyncio.sleep(self.rng.choice((0.01, 0.5, 4.0)))

    def check(self) -> None:
        state = self.nodes.cluster.partition_state("t", 0)
        assert state.leader_epoch >= self.leader_epoch
        self.leader_epoch = state.leader_epoch
        if state.leader < 0:
            return
        leader = self.nodes.leader()
        values = self.nodes.values(leader.node_id)
        assert leader.high_watermark <= leader.log.log_end_offset
        for node in state.isr:
            if node in self.nodes.cluster.nodes:
                assert self.nodes.replica(node).log.log_end_offset >= leader.high_watermark
        for offset, value in self.promised.items():
            assert values[offset] == value, f"what was acknowledged at {offset} is lost on the leader"
        shown = values[: leader.high_watermark]
        common = min(len(shown), len(self.shown))
        assert shown[:common] == self.shown[:common], "consumers were shown something else before"
        self.shown = max(shown, self.shown, key=len)

    async def heal(self) -> None:
        """Everybody is back: the logs are the same, byte for byte, and hold all that was promised and shown."""
        for node in self.nodes.cluster.node_ids:
            self.nodes.cluster.resume_replication(node)
            if node not in self.nodes.cluster.nodes:
                await self.nodes.cluster.start_node(node)
        await self.nodes.cluster.wait_until_in_sync(30)
        if self.waiting:
            await asyncio.wait(self.waiting)
        assert outcome(await self.nodes.produce(self.nodes.leader().node_id, b"last"))[0] == ErrorCode.NONE
        self.check()
        first = self.nodes.records(0)
        assert self.nodes.records(1) == first
        assert self.nodes.records(2) == first
        rows = [self.nodes.replica(node).log.epochs.rows for node in range(3)]
        assert rows[0] == rows[1] == rows[2]


def run(seed: int, **configs: str) -> None:
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(**configs)
        await History(nodes, seed).run()

    on_nodes(life, seed=seed, **PROPERTIES)


@pytest.mark.parametrize("seed", range(25))
def test_with_clean_elections_nothing_acknowledged_is_lost(seed: int):
    run(seed, min_insync_replicas=("1", "2")[seed % 2])


@pytest.mark.soak
def test_with_clean_elections_nothing_acknowledged_is_lost_in_many_histories():
    for seed in range(1000, 1500):
        run(seed, min_insync_replicas=("1", "2")[seed % 2])
