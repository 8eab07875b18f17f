"""Whole lives of a small world: clients at work while things go wrong; then all is mended, read again, and judged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from kafkaraw.testing.audit import History, Invariant, Violation, audit
from kafkaraw.testing.audit_groups import audit_group, audit_silences
from kafkaraw.testing.audit_wire import audit_numbering, audit_wire
from kafkaraw.testing.group_history import GroupHistory
from kafkaraw.testing.virtual import Simulation, SimulationStalledError, run_virtual
from tests.simulation import climate, closing, held_commits, reports, senders
from tests.simulation.beginnings import told_of_beginnings
from tests.simulation.clients import (
    LANDING_S,
    Reader,
    administer,
    read_committed,
    read_everything,
    send_all,
    use_a_passing_topic,
)
from tests.simulation.groups import GroupLife
from tests.simulation.senders import Bursts
from tests.simulation.services import SERVICES, Service, as_eager_as_java, ask_positions
from tests.simulation.trouble import LATEST_REPEAT_S, coordinators_take_their_time, trouble
from tests.simulation.world import World

COUNT = 120
"""Records of each producer next to one broker."""
COUNT_SEVERAL = 60
"""And next to several, of which each has to be told of them."""
LIFETIME_S = 900.0
ABORTED_BY_THEN_S = 10.0
"""After so long transactions that somebody left open are over their time."""


@dataclass(frozen=True)
class Life:
    """What is left of a life.

    Attributes:
        history: what the clients saw.
        violations: what should not have been.
        story: the climate, and what went wrong.
        digest: of every byte on the wire.
        covered: how often things happened for which lives are made.
    """

    history: History
    violations: list[Violation]
    story: str
    digest: str
    covered: Counter[str] = field(default_factory=Counter)


async def with_one_broker(simulation: Simulation) -> Life:
    """Two producers, a reader and an admin, while one broker is cut off, killed and started again."""
    world = World(simulation, climate.one_broker(simulation.rng))
    await world.brokers.start()
    helpers = [trouble(world), administer(world), use_a_passing_topic(world)]
    world.history.weak = world.history.repeating = world.history.unordered = {"acks=0"}
    producers = [send_all(world, name, COUNT) for name in ("a", "b")]
    producers.append(send_all(world, "acks=0", COUNT // 4, acks=0, enable_idempotence=False))
    return await _live(world, helpers, producers)


async def with_several_brokers(simulation: Simulation) -> Life:
    """Producers of three kinds, a reader and an admin, while brokers go down, leaders move and followers lag."""
    return await _in_a_cluster(World(simulation, climate.several_brokers(simulation.rng)))


async def with_unclean_elections(simulation: Simulation) -> Life:
    """The same, where a replica that is not in sync may lead, and brokers go down two at a time."""
    world = World(simulation, climate.several_brokers(simulation.rng, unclean=True))
    return await _in_a_cluster(world, trouble(world, "more trouble"))


async def with_many_senders(simulation: Simulation) -> Life:
    """Four kinds of senders at once, drawn from a table, while leaders move and answers are lost, late or doubled."""
    world = World(simulation, climate.sending(simulation.rng))
    return await _send(world, senders.draw(world.rng("senders")))


async def with_repeated_requests(simulation: Simulation) -> Life:
    """The same with those senders for whom it matters most that brokers know again what arrives twice, as much does."""
    world = World(simulation, replace(climate.sending(simulation.rng), repeats=True))
    return await _send(world, senders.SENSITIVE_TO_REPEATS)


async def with_transactions(simulation: Simulation) -> Life:
    """Three services that make transactions and die at every step, while coordinators and leaders move and go down."""
    world = World(simulation, climate.transacting(simulation.rng))
    await world.brokers.start()
    helpers = [trouble(world), trouble(world, "trouble beside it")]
    services = [Service(world, f"service{number}") for number in range(SERVICES)]
    with world.brokers.old_news.in_effect():
        return await _live(world, helpers, [service.run() for service in services])


async def with_pipelined_transactions(simulation: Simulation) -> Life:
    """Services with many requests in flight from the first one on, which begin again at once; brokers are only slow."""
    world = World(simulation, climate.pipelining(simulation.rng))
    await world.brokers.start()
    services = [Service(world, f"service{number}") for number in range(SERVICES)]
    with as_eager_as_java():
        return await _live(world, [trouble(world)], [service.run() for service in services])


async def with_hasty_closes(simulation: Simulation) -> Life:
    """Consumers and producers that are given little time to close, while brokers go down and coordinators move."""
    world = World(simulation, climate.in_groups(simulation.rng))
    await world.brokers.start()
    await closing.make_topic(world)
    consumers = [
        closing.consume(world, "by hand", subscribes=False),
        closing.consume(world, "subscribed", subscribes=True),
    ]
    with world.brokers.old_news.in_effect():
        return await _live(world, [trouble(world)], [*consumers, closing.produce(world, "hasty")])


async def with_reports(simulation: Simulation) -> Life:
    """Producers with failures to report, whose calls overlap and are interrupted; consumers that are interrupted."""
    world = World(simulation, climate.in_reports(simulation.rng))
    await world.brokers.start()
    await reports.make_topics(world)
    async with asyncio.timeout(LIFETIME_S):
        await asyncio.gather(*(part(world) for part in reports.PARTS))
        await read_everything(world)
        await read_committed(world)
    return await _judge(world)


async def with_a_group(simulation: Simulation) -> Life:
    """A group whose members come and go, crash and lose touch, while brokers go down and coordinators move."""
    return await _in_a_group(World(simulation, climate.in_groups(simulation.rng)))


async def with_a_calm_group(simulation: Simulation) -> Life:
    """A group whose members come and go in order; brokers are slow, and coordinators and leaders move."""
    return await _in_a_group(World(simulation, climate.in_groups(simulation.rng, calm=True)))


async def with_a_group_that_moves(simulation: Simulation) -> Life:
    """As `with_a_group`, with members of both protocols, so that the group moves from one to the other and back."""
    return await _in_a_group(World(simulation, climate.in_groups(simulation.rng)), mixed=True)


async def with_a_versatile_group(simulation: Simulation) -> Life:
    """A group whose members read in every way, seek, pause, and take patterns; some move between the protocols."""
    world = World(simulation, climate.in_groups(simulation.rng))
    return await _in_a_group(world, mixed=world.rng("protocols").random() < 0.3, versatile=True)


async def with_a_calm_versatile_group(simulation: Simulation) -> Life:
    """The same members, who come and go in order, as in `with_a_calm_group`."""
    return await _in_a_group(World(simulation, climate.in_groups(simulation.rng, calm=True)), versatile=True)


async def with_a_held_commit(simulation: Simulation) -> Life:
    """Two members: one is fenced while its commit waits, and the other takes over (`held_commits`)."""
    world = World(simulation, climate.in_groups(simulation.rng, calm=True))
    await world.brokers.start()
    async with asyncio.timeout(LIFETIME_S):
        group = await held_commits.overtaken(world)
        await read_everything(world)
    return await _judge(world, group)


async def _in_a_group(world: World, *, mixed: bool = False, versatile: bool = False) -> Life:
    await world.brokers.start()
    life = GroupLife(world, mixed=mixed, versatile=versatile)
    await life.begin()
    work = [trouble(world, pause_s=(0.1, 2.0)), coordinators_take_their_time(world), life.watch()]
    helpers = [asyncio.create_task(each) for each in work]
    with world.brokers.old_news.in_effect(), told_of_beginnings(life.begins_anew):
        async with asyncio.timeout(LIFETIME_S):
            await life.churn()
            world.over = True
            await asyncio.gather(*helpers)
            await life.calm_down()
            await read_everything(world)
            await life.end()
        return await _judge(world, life.group)


async def _send(world: World, names: Sequence[str]) -> Life:
    await world.brokers.start()
    helpers = [trouble(world), trouble(world, "trouble beside it")]
    bursts = [Bursts(world, name) for name in names]
    with world.brokers.old_news.in_effect() if world.climate.nodes > 1 else nullcontext():
        return await _live(world, helpers, [each.run() for each in bursts], [each.end() for each in bursts])


async def _in_a_cluster(world: World, *more_trouble: Coroutine[object, object, None]) -> Life:
    await world.brokers.start()
    helpers = [trouble(world), trouble(world, "trouble beside it"), administer(world), *more_trouble]
    helpers.append(use_a_passing_topic(world))
    world.history.weak = {"acks=1"}
    world.history.repeating = {"acks=1"}
    world.history.unordered = {"acks=1", "at most once"}
    patient, plain = {"delivery_timeout_ms": 30_000}, {"enable_idempotence": False}
    producers = [
        send_all(world, "idempotent", COUNT_SEVERAL),
        send_all(world, "patient", COUNT_SEVERAL, **patient),
        send_all(world, "acks=1", COUNT_SEVERAL // 2, acks=1, **patient, **plain),
        send_all(world, "at most once", COUNT_SEVERAL // 2, retries=0, **plain),
    ]
    with world.brokers.old_news.in_effect():
        return await _live(world, helpers, producers)


async def _live(world: World, helpers: list, producers: list, endings: Sequence = ()) -> Life:
    tasks = [asyncio.create_task(helper) for helper in helpers]
    transactional = world.climate.transaction_version is not None
    settings = {"isolation_level": "read_committed", "fetch_max_wait_ms": 300} if transactional else {}
    reader = asyncio.create_task(Reader(world, "reader", **settings).run())
    async with asyncio.timeout(LIFETIME_S):
        await asyncio.gather(*producers)
        world.over = True
        await asyncio.gather(*tasks)
        await asyncio.gather(*endings)
        if world.climate.repeats:
            await asyncio.sleep(LATEST_REPEAT_S + LANDING_S)
        if transactional:
            await asyncio.sleep(ABORTED_BY_THEN_S)
        await read_everything(world)
        if transactional:
            await read_committed(world)
            await ask_positions(world)
        await reader
    return await _judge(world)


async def _judge(world: World, group: GroupHistory | None = None) -> Life:
    await world.brokers.stop()
    await asyncio.sleep(LANDING_S)
    world.history.left_over += world.simulation.loop.left_over()
    network = world.simulation.network
    violations = audit(world.history, unclean=world.climate.unclean)
    violations += audit_wire(network.history) + audit_numbering(network.history)
    if group is not None:
        violations += audit_group(world.history, group) + audit_silences(network.history, group)
    story = f"{world.climate}\n" + "\n".join(world.faults)
    return Life(world.history, violations, story, network.digest(), world.covered)


def live(life: Callable[[Simulation], Awaitable[Life]], seed: int) -> Life:
    """Run a life from a seed; one that never ends is a violation, too."""
    try:
        return run_virtual(life, seed)
    except (SimulationStalledError, TimeoutError) as error:
        return Life(History(), [Violation(Invariant.OVERDUE, f"this life never ended: {error!r}")], "", "")


def never_seen(
    life: Callable[[Simulation], Awaitable[Life]], happenings: Iterable[str], seeds: Iterable[int]
) -> set[str]:
    """Which of these happenings no life of these seeds has; it ends with the seed at which all were seen."""
    missing = set(happenings)
    for seed in seeds:
        missing -= (+live(life, seed).covered).keys()
        if not missing:
            break
    return missing
