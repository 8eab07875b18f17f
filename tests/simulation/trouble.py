"""What can go wrong, one thing after the other, drawn from the seed: each fault is begun, lasts, and is mended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from kafkaraw.client.admin import QuotaEntity, QuotaName
from kafkaraw.errors import KafkaError, UsageError
from tests.simulation.brokers import Down, address_of
from tests.simulation.climate import PARTITIONS, TOPIC
from tests.simulation.world import World

REPEATED_KEYS = frozenset({0, 25, 26, 28})  # Produce, AddOffsetsToTxn, EndTxn, TxnOffsetCommit
LATEST_REPEAT_S = 4.0
"""So much later a request arrives again, at most."""
SLOW_S = (0.15, 0.25)
"""How long a slow coordinator takes to store positions: in time for its requests, where brokers are slow, too."""
Fault = Callable[[World, int], AbstractAsyncContextManager[None]]
"""Breaks something, of a node when it is about one, and mends it on leaving."""


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
async def replies_lost(world: World, node: int) -> AsyncIterator[None]:
    """Requests arrive and are carried out; nobody hears of it."""
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
    """What is written, and what ends transactions, arrives twice: the second time nobody listens to the answer."""
    network, address = world.simulation.network, address_of(node)
    later_s = world.rng(f"repeats {world.now_s}").choice([(0, 0.01), (0, 0.5), (0.5, LATEST_REPEAT_S)])
    network.repeat(*address, later_s, may_come_again)
    try:
        yield
    finally:
        network.repeat(*address, None)


def may_come_again(frame: bytes) -> bool:
    """Whether a request is one of those that a broker must recognise when it arrives twice."""
    return int.from_bytes(frame[:2], "big") in REPEATED_KEYS


@asynccontextmanager
async def nameless(world: World, node: int) -> AsyncIterator[None]:
    """The name cannot be resolved, and connections are made anew."""
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
            await world.brokers.bring_up(node)

    return fault


@asynccontextmanager
async def throttled(world: World, node: int) -> AsyncIterator[None]:
    everybody = QuotaEntity(client_id=QuotaName.DEFAULT)
    async with world.admin("quotas") as admin:
        try:
            await _try(world, admin, {everybody: {"producer_byte_rate": 20_000, "consumer_byte_rate": 20_000}})
            yield
        finally:
            await _try(world, admin, {everybody: {"producer_byte_rate": None, "consumer_byte_rate": None}})


async def _try(world: World, admin: object, quotas: Mapping[QuotaEntity, Mapping[str, float | None]]) -> None:
    try:
        await world.call("alter_client_quotas", admin.alter_client_quotas(quotas, timeout=2), 2)
    except KafkaError as error:
        world.note(f"quotas stay: {type(error).__name__}")


@asynccontextmanager
async def stale_tokens(world: World, node: int) -> AsyncIterator[None]:
    """Whoever logs in now, does so with a token that has expired."""
    world.stale_tokens = True
    try:
        yield
    finally:
        world.stale_tokens = False


@asynccontextmanager
async def old_news(world: World, node: int) -> AsyncIterator[None]:
    """A node has not heard that leaders have moved, more than once, and tells clients who led before."""
    hear = world.brokers.tell_old_news(node)
    try:
        for _ in range(3):
            async with leader_moves(world, world.brokers.running[0] if world.brokers.running else node):
                await asyncio.sleep(0.08)
        yield
    finally:
        hear()


@asynccontextmanager
async def leader_moves(world: World, node: int) -> AsyncIterator[None]:
    """Another node in sync leads each of the partitions that this one leads."""
    cluster = world.brokers.cluster
    rng = random.Random(world.now_s)
    for partition in range(PARTITIONS):
        with suppress(UsageError):  # no such topic yet
            state = cluster.partition_state(TOPIC, partition)
            others = [other for other in state.isr if other != node and other in world.brokers.running]
            if others and rng.random() < 0.7:
                cluster.move_leader(TOPIC, partition, rng.choice(others))
    yield


@asynccontextmanager
async def coordinators_move(world: World, node: int) -> AsyncIterator[None]:
    """Another node in sync takes over transactions and groups from this one."""
    cluster = world.brokers.cluster
    for topic in cluster.controller.catalog.topics():
        if topic.name.startswith("__"):
            for partition in range(topic.partitions_count):
                world.covered["a coordinator moved"] += _move_leader(world, topic.name, partition, node)
    yield


def _move_leader(world: World, topic: str, partition: int, node: int) -> bool:
    """Have another node in sync lead, if this one does; says whether it was moved."""
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
    """All brokers go down at once, and come up together."""
    await world.brokers.cut_power()
    try:
        yield
    finally:
        await world.brokers.restore_power()


@asynccontextmanager
async def replication_waits(world: World, node: int) -> AsyncIterator[None]:
    """Nothing reaches the node's followers: it falls behind, and out of sync where that is soon."""
    cluster = world.brokers.cluster
    cluster.pause_replication(node)
    try:
        yield
    finally:
        cluster.resume_replication(node)


async def coordinators_take_their_time(world: World) -> None:
    """Where they do, coordinators take longer, now and then, to store positions than a call of a consumer lasts."""
    rng = world.rng("how slow coordinators are")
    while world.climate.slow_coordinators and not world.over:
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        delay_s, lasts_s = rng.choice(SLOW_S), rng.uniform(0.3, 4.0)
        world.note(f"coordinators take {delay_s} s to store positions, for {lasts_s:.3f} s")
        world.covered["slow coordinators"] += 1
        faults = world.brokers.cluster.faults
        faults.on(api="OffsetCommit", times=None).delay(delay_s)
        await asyncio.sleep(lasts_s)
        faults.clear()


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        fault: what to do.
        weight: how often it is drawn, next to the others.
        lasts_s: how long, at least and at most.
    """

    fault: Fault
    weight: int
    lasts_s: tuple[float, float] = (0.0, 0.0)


NETWORK = {
    "cut": Kind(cut, 6),
    "silence": Kind(silence, 2, (0.05, 1.5)),
    "replies lost": Kind(replies_lost, 4),
    "requests lost": Kind(requests_lost, 2),
    "slow": Kind(slow, 2, (0.1, 1.5)),
    "nameless": Kind(nameless, 1, (0.05, 1.0)),
}
BROKERS = {
    "stop": Kind(down(Down.STOP), 2, (0.01, 0.6)),
    "kill": Kind(down(Down.KILL), 2, (0.01, 0.6)),
    "crash": Kind(down(Down.CRASH), 2, (0.01, 0.6)),
}
LEADERSHIP = {
    "leader moves": Kind(leader_moves, 8),
    "old news": Kind(old_news, 4, (0.0, 0.5)),
    "power cut": Kind(power_cut, 1, (0.01, 0.5)),
    "replication waits": Kind(replication_waits, 4, (0.1, 1.5)),
}
REPEATED = Kind(repeated, 15, (0.2, 3.0))
COORDINATORS = {"coordinators move": Kind(coordinators_move, 8)}
OTHERS = {
    "throttled": Kind(throttled, 1, (0.2, 1.0)),
    "stale tokens": Kind(stale_tokens, 1, (0.2, 1.0)),
}


def possible(world: World) -> dict[str, Kind]:
    """What can go wrong in this climate."""
    if world.climate.calm:
        moves = {**COORDINATORS, "leader moves": LEADERSHIP["leader moves"]} if world.climate.session_ms else {}
        return {"slow": NETWORK["slow"], **moves}
    kinds = {**NETWORK, **BROKERS, **OTHERS}
    if world.climate.nodes > 1:
        kinds |= LEADERSHIP
    if world.climate.transaction_version is not None or world.climate.session_ms is not None:
        kinds |= COORDINATORS
    if world.climate.repeats:
        kinds["repeated"] = REPEATED
    if not world.climate.syncs:
        del kinds["crash"]
    if world.climate.login != "OAUTHBEARER":
        del kinds["stale tokens"]
    return kinds


async def trouble(world: World, name: str = "trouble", pause_s: tuple[float, float] = (0.005, 0.4)) -> None:
    """One fault after the other, until the world's troubles are over; what is broken then is mended.

    Args:
        world: where.
        name: of this series of faults: another one may run beside it.
        pause_s: between two faults.
    """
    rng, kinds = world.rng(name), possible(world)
    names, weights = list(kinds), [kind.weight for kind in kinds.values()]
    while not world.over:
        await asyncio.sleep(rng.uniform(*pause_s))
        name, node = rng.choices(names, weights)[0], rng.choice(world.brokers.ids)
        lasts_s = rng.uniform(*kinds[name].lasts_s)
        world.note(f"{name}, node {node}, {lasts_s:.3f} s")
        if name in ("power cut", *BROKERS) and node not in world.brokers.running:
            continue
        world.covered[name] += 1
        async with kinds[name].fault(world, node):
            await asyncio.sleep(lasts_s)
