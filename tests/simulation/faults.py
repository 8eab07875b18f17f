"""Faults of the network, brokers, leaders, quotas and tokens, drawn from the seed; each lasts for some time.

Start at `inject_faults`; the tables of faults are above it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from kafkaraw.client.admin import QuotaEntity, QuotaName
from kafkaraw.errors import KafkaError, UsageError
from tests.simulation.brokers import Down, address_of
from tests.simulation.disks import disk_fails, power_fails
from tests.simulation.environment import PARTITIONS
from tests.simulation.world import World

REPEATED_KEYS = frozenset({0, 25, 26, 28})  # Produce, AddOffsetsToTxn, EndTxn, TxnOffsetCommit
REPEATED_SHARE_KEYS = frozenset({76, 78, 79})  # ShareGroupHeartbeat, ShareFetch, ShareAcknowledge
REPEAT_DELAY_MAX_S = 4.0
"""The maximum delay until a request is delivered again."""
SLOW_COORDINATOR_S = (0.15, 0.25)
"""The delay of OffsetCommit at a slow coordinator: below the request timeout, even if brokers are slow, too."""
Fault = Callable[[World, int], AbstractAsyncContextManager[None]]
"""Begins a fault, of the given node if it concerns one, and ends it on exit."""


@asynccontextmanager
async def cut(world: World, node: int) -> AsyncIterator[None]:
    world.simulation.network.cut(*address_of(node))
    yield


@asynccontextmanager
async def silence(world: World, node: int) -> AsyncIterator[None]:
    world.simulation.network.silence(*address_of(node))
    try:
        yield
    finally:
        world.simulation.network.silence(*address_of(node), False)


@asynccontextmanager
async def responses_lost(world: World, node: int) -> AsyncIterator[None]:
    """Requests are handled, and their responses are lost."""
    world.simulation.network.half_open(*address_of(node), "server")
    yield


@asynccontextmanager
async def requests_lost(world: World, node: int) -> AsyncIterator[None]:
    world.simulation.network.half_open(*address_of(node), "client")
    yield


@asynccontextmanager
async def slow(world: World, node: int) -> AsyncIterator[None]:
    world.simulation.network.slow(*address_of(node), (20, 350))
    try:
        yield
    finally:
        world.simulation.network.slow(*address_of(node), None)


@asynccontextmanager
async def repeated(world: World, node: int) -> AsyncIterator[None]:
    """Requests that write or end transactions arrive twice; the second response is dropped."""
    network, address = world.simulation.network, address_of(node)
    delay_s = world.rng(f"repeats {world.now_s}").choice([(0, 0.01), (0, 0.5), (0.5, REPEAT_DELAY_MAX_S)])
    keys = REPEATED_KEYS if world.environment.shares is None else REPEATED_KEYS | REPEATED_SHARE_KEYS
    network.repeat(*address, delay_s, lambda frame: int.from_bytes(frame[:2], "big") in keys)
    try:
        yield
    finally:
        network.repeat(*address, None)


@asynccontextmanager
async def name_not_resolved(world: World, node: int) -> AsyncIterator[None]:
    """The host name cannot be resolved, and the connections break."""
    world.simulation.network.hide(address_of(node)[0])
    world.simulation.network.cut(*address_of(node))
    try:
        yield
    finally:
        world.simulation.network.hide(address_of(node)[0], False)


def down(how: Down) -> Fault:
    @asynccontextmanager
    async def fault(world: World, node: int) -> AsyncIterator[None]:
        await world.brokers.take_down(node, how)
        try:
            yield
        finally:
            try:
                await world.brokers.bring_up(node)
            except OSError as error:
                assert world.environment.disks_fail, error  # the disk has a fault, whose end starts the node

    return fault


@asynccontextmanager
async def throttled(world: World, node: int) -> AsyncIterator[None]:
    every_client = QuotaEntity(client_id=QuotaName.DEFAULT)
    async with world.admin("quotas") as admin:
        try:
            await _alter_quotas(
                world, admin, {every_client: {"producer_byte_rate": 20_000, "consumer_byte_rate": 20_000}}
            )
            yield
        finally:
            await _alter_quotas(world, admin, {every_client: {"producer_byte_rate": None, "consumer_byte_rate": None}})


async def _alter_quotas(world: World, admin: object, quotas: Mapping[QuotaEntity, Mapping[str, float | None]]) -> None:
    try:
        await world.call("alter_client_quotas", admin.alter_client_quotas(quotas, timeout=2), 2)
    except KafkaError as error:
        world.note(f"quotas not altered: {type(error).__name__}")


@asynccontextmanager
async def stale_tokens(world: World, node: int) -> AsyncIterator[None]:
    """Clients authenticate with expired tokens."""
    world.stale_tokens = True
    try:
        yield
    finally:
        world.stale_tokens = False


@asynccontextmanager
async def stale_metadata(world: World, node: int) -> AsyncIterator[None]:
    """Leaders move three times, and a node serves the metadata from before."""
    refresh = world.brokers.serve_stale_metadata(node)
    try:
        for _ in range(3):
            async with leader_moves(world, world.brokers.running[0] if world.brokers.running else node):
                await asyncio.sleep(0.08)
        yield
    finally:
        refresh()


@asynccontextmanager
async def leader_moves(world: World, node: int) -> AsyncIterator[None]:
    """Move leaders to other replicas in sync."""
    cluster, topic = world.brokers.cluster, world.topics[0]
    rng = random.Random(world.now_s)
    for partition in range(PARTITIONS):
        with suppress(UsageError):  # no such topic yet
            state = cluster.partition_state(topic, partition)
            others = [other for other in state.isr if other != node and other in world.brokers.running]
            if others and rng.random() < 0.7:
                cluster.move_leader(topic, partition, rng.choice(others))
    yield


@asynccontextmanager
async def coordinators_move(world: World, node: int) -> AsyncIterator[None]:
    """Move the transaction and group coordinators of this node to other nodes in sync."""
    cluster = world.brokers.cluster
    for topic in cluster.controller.catalog.topics():
        if topic.name.startswith("__"):
            for partition in range(topic.partitions_count):
                world.covered["a coordinator moved"] += _move_leader(world, topic.name, partition, node)
    yield


def _move_leader(world: World, topic: str, partition: int, node: int) -> bool:
    """Move the leader to another node in sync if this node leads; return whether it was moved."""
    cluster = world.brokers.cluster
    with suppress(UsageError):  # no such topic yet
        state = cluster.partition_state(topic, partition)
        others = [other for other in state.isr if other != node and other in world.brokers.running]
        if state.leader == node and others:
            cluster.move_leader(topic, partition, others[int(world.now_s * 1000) % len(others)])
            return True
    return False


@asynccontextmanager
async def power_cut(world: World, node: int) -> AsyncIterator[None]:
    """All brokers are killed at once, and started together."""
    await world.brokers.cut_power()
    try:
        yield
    finally:
        await world.brokers.restore_power()


@asynccontextmanager
async def replication_paused(world: World, node: int) -> AsyncIterator[None]:
    """Pause the replication of a node: it falls behind, and out of sync if `lag_max_ms` is short."""
    cluster = world.brokers.cluster
    cluster.pause_replication(node)
    try:
        yield
    finally:
        cluster.resume_replication(node)


async def slow_down_coordinators(world: World) -> None:
    """If the environment says so, delay OffsetCommit now and then, by more than a call of a consumer takes."""
    rng = world.rng("how slow coordinators are")
    while world.environment.slow_coordinators and not world.over:
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        delay_s, lasts_s = rng.choice(SLOW_COORDINATOR_S), rng.uniform(0.3, 4.0)
        world.note(f"OffsetCommit takes {delay_s} s, for {lasts_s:.3f} s")
        world.covered["slow coordinators"] += 1
        faults = world.brokers.cluster.faults
        faults.on(api="OffsetCommit", times=None).delay(delay_s)
        await asyncio.sleep(lasts_s)
        faults.clear()


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    Attributes:
        fault: begins and ends it.
        weight: how often it is drawn, relative to the others.
        lasts_s: minimum and maximum duration.
    """

    fault: Fault
    weight: int
    lasts_s: tuple[float, float] = (0.0, 0.0)


NETWORK = {
    "cut": FaultKind(cut, 6),
    "silence": FaultKind(silence, 2, (0.05, 1.5)),
    "responses lost": FaultKind(responses_lost, 4),
    "requests lost": FaultKind(requests_lost, 2),
    "slow": FaultKind(slow, 2, (0.1, 1.5)),
    "name not resolved": FaultKind(name_not_resolved, 1, (0.05, 1.0)),
}
BROKERS = {
    "stop": FaultKind(down(Down.STOP), 2, (0.01, 0.6)),
    "kill": FaultKind(down(Down.KILL), 2, (0.01, 0.6)),
    "crash": FaultKind(down(Down.CRASH), 2, (0.01, 0.6)),
}
LEADERSHIP = {
    "leader moves": FaultKind(leader_moves, 8),
    "stale metadata": FaultKind(stale_metadata, 4, (0.0, 0.5)),
    "power cut": FaultKind(power_cut, 1, (0.01, 0.5)),
    "replication paused": FaultKind(replication_paused, 4, (0.1, 1.5)),
}
REPEATED = FaultKind(repeated, 15, (0.2, 3.0))
COORDINATORS = {"coordinators move": FaultKind(coordinators_move, 8)}
DISKS = {
    "power fails": FaultKind(power_fails, 12, (0.0, 0.5)),
    "disk fails": FaultKind(disk_fails, 12, (0.1, 1.0)),
}
OTHERS = {
    "throttled": FaultKind(throttled, 1, (0.2, 1.0)),
    "stale tokens": FaultKind(stale_tokens, 1, (0.2, 1.0)),
}


def possible_faults(world: World) -> dict[str, FaultKind]:
    """Return the faults that the environment allows."""
    if world.environment.calm:
        moves = {**COORDINATORS, "leader moves": LEADERSHIP["leader moves"]} if world.environment.session_ms else {}
        return {"slow": NETWORK["slow"], **moves}
    kinds = {**NETWORK, **BROKERS, **OTHERS}
    if world.environment.nodes > 1:
        kinds |= LEADERSHIP
    if world.environment.transaction_version is not None or world.environment.session_ms is not None:
        kinds |= COORDINATORS
    if world.environment.repeats_requests:
        kinds["repeated"] = REPEATED
    if world.environment.disks_fail:
        kinds |= DISKS
    if not world.environment.syncs_batches:
        del kinds["crash"]
    if world.environment.sasl_mechanism != "OAUTHBEARER":
        del kinds["stale tokens"]
    return kinds


async def inject_faults(world: World, name: str = "trouble", pause_s: tuple[float, float] = (0.005, 0.4)) -> None:
    """Inject one fault after the other until `world.over`; the last one is ended.

    Args:
        world: the brokers and clients.
        name: name of this series of faults, of which several may run at a time; the seed of its random numbers.
        pause_s: minimum and maximum time between two faults.
    """
    rng, kinds = world.rng(name), possible_faults(world)
    names, weights = list(kinds), [kind.weight for kind in kinds.values()]
    while not world.over:
        await asyncio.sleep(rng.uniform(*pause_s))
        name, node = rng.choices(names, weights)[0], rng.choice(world.brokers.ids)
        lasts_s = rng.uniform(*kinds[name].lasts_s)
        world.note(f"{name}, node {node}, {lasts_s:.3f} s")
        if name in ("power cut", *BROKERS, *DISKS) and node not in world.brokers.running:
            continue
        world.covered[name] += 1
        async with kinds[name].fault(world, node):
            await asyncio.sleep(lasts_s)
