"""The scenarios: clients work while faults are injected; then the faults end, everything is read again and audited.

Start at `run_scenario`. Each `with_...` is one scenario.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from kafkaraw.errors import CorruptBatchError
from kafkaraw.mirror.interfaces import Delivery
from kafkaraw.testing.audit import History, Invariant, Violation, audit
from kafkaraw.testing.audit_groups import audit_absences, audit_group
from kafkaraw.testing.audit_mirror import audit_mirror
from kafkaraw.testing.audit_shares import audit_shares
from kafkaraw.testing.audit_wire import audit_numbering, audit_wire
from kafkaraw.testing.audit_workers import audit_workers
from kafkaraw.testing.group_history import GroupHistory
from kafkaraw.testing.virtual import Simulation, SimulationStalledError, run_virtual
from tests.simulation import delayed_commit, environment, failure_reports, senders, short_closes
from tests.simulation.clients import (
    SETTLE_S,
    Reader,
    administer,
    create_small_segments,
    read_committed,
    read_everything,
    send_all,
    use_recreated_topic,
)
from tests.simulation.compaction import CompactionScenario
from tests.simulation.faults import REPEAT_DELAY_MAX_S, inject_faults, slow_down_coordinators
from tests.simulation.groups import GroupScenario
from tests.simulation.mirrors import COPY, MirrorScenario
from tests.simulation.recorders import on_group_recreated, record_loads
from tests.simulation.senders import Bursts
from tests.simulation.shares import ShareScenario
from tests.simulation.transactional_services import (
    SERVICES,
    Service,
    five_batches_in_flight_at_once,
    read_group_offsets,
)
from tests.simulation.workers import WorkerScenario
from tests.simulation.world import World

RECORDS = 120
"""Records of each producer with one broker."""
RECORDS_ON_DISKS = 40
"""Records of each producer with disks that fail, after which brokers take long to start again."""
RECORDS_IN_CLUSTER = 60
"""Records of each producer with several brokers, where replication makes each record slower."""
SCENARIO_S = 900.0
TRANSACTIONS_EXPIRED_S = 10.0
"""The time after which open transactions of crashed producers have been aborted."""


@dataclass(frozen=True)
class ScenarioResult:
    """The result of one run.

    Attributes:
        history: what the clients observed.
        violations: the invariants that did not hold.
        log: the environment and the faults.
        digest: digest of all bytes on the wire.
        covered: how often each event occurred.
    """

    history: History
    violations: list[Violation]
    log: str
    digest: str
    covered: Counter[str] = field(default_factory=Counter)


async def with_one_broker(simulation: Simulation) -> ScenarioResult:
    """Two idempotent producers, one with acks=0, a reader and an admin, with a broker that is often restarted."""
    world = World(simulation, environment.one_broker(simulation.rng))
    await world.brokers.start()
    helpers = [inject_faults(world), administer(world), use_recreated_topic(world)]
    world.history.weak = world.history.repeating = world.history.unordered = {"acks=0"}
    producers = [send_all(world, name, RECORDS) for name in ("a", "b")]
    producers.append(send_all(world, "acks=0", RECORDS // 4, acks=0, enable_idempotence=False))
    return await _run(world, helpers, producers)


async def with_failing_disk(simulation: Simulation) -> ScenarioResult:
    """Producers with acks=all and a broker that syncs each batch, on a disk that crashes, fails and becomes full."""
    return await _run_on_disks(World(simulation, environment.with_failing_disk(simulation.rng)))


async def with_failing_disks(simulation: Simulation) -> ScenarioResult:
    """The same with three brokers; without syncs, one crashes at a time, while the others are in sync."""
    return await _run_on_disks(World(simulation, environment.with_failing_disks(simulation.rng)))


async def _run_on_disks(world: World) -> ScenarioResult:
    await world.brokers.start()
    await create_small_segments(world)
    helpers = [inject_faults(world), administer(world), use_recreated_topic(world)]
    if world.environment.syncs_batches and world.environment.nodes > 1:
        helpers.append(inject_faults(world, "trouble beside it"))
    world.history.repeating = world.history.unordered = {"plain"}
    patient = {"delivery_timeout_ms": 30_000, "batch_size": 200}
    producers = [send_all(world, name, RECORDS_ON_DISKS, **patient) for name in ("a", "b")]
    producers.append(send_all(world, "plain", RECORDS_ON_DISKS, enable_idempotence=False, **patient))
    stale_metadata = world.brokers.stale_metadata.in_effect() if world.environment.nodes > 1 else nullcontext()
    with world.audit_disks.of_served_batches(), stale_metadata:
        return await _run(world, helpers, producers)


async def with_several_brokers(simulation: Simulation) -> ScenarioResult:
    """Four producers, a reader and an admin, while brokers stop, leaders move and followers lag."""
    return await _run_in_cluster(World(simulation, environment.several_brokers(simulation.rng)))


async def with_unclean_elections(simulation: Simulation) -> ScenarioResult:
    """The same with unclean leader elections, and more faults at a time."""
    world = World(simulation, environment.several_brokers(simulation.rng, unclean=True))
    return await _run_in_cluster(world, inject_faults(world, "more trouble"))


async def with_compacted_topic(simulation: Simulation) -> ScenarioResult:
    """Producers that write values and tombstones of a few keys to a compacted topic, and readers that start over."""
    world = World(simulation, environment.for_compaction(simulation.rng))
    await world.brokers.start()
    scenario = CompactionScenario(world)
    helpers = [inject_faults(world), inject_faults(world, "trouble beside it")]
    with world.brokers.stale_metadata.in_effect() if world.environment.nodes > 1 else nullcontext():
        async with asyncio.timeout(SCENARIO_S):
            await scenario.create_topic()
            tasks = [asyncio.create_task(helper) for helper in helpers]
            await scenario.run()
            world.over = True
            await asyncio.gather(*tasks)
            await scenario.end()
            await read_everything(world)
        result = await _audit(world)
    return replace(result, violations=result.violations + scenario.violations())


async def with_compacted_group_offsets(simulation: Simulation) -> ScenarioResult:
    """A group as in `with_group`, while `__consumer_offsets` is compacted by each of its replicas."""
    return await _run_group(World(simulation, replace(environment.for_groups(simulation.rng), compacts=True)))


async def with_compacted_transaction_state(simulation: Simulation) -> ScenarioResult:
    """Services as in `with_transactions`, while `__transaction_state` is compacted by each of its replicas."""
    return await _run_services(World(simulation, replace(environment.for_transactions(simulation.rng), compacts=True)))


async def with_many_senders(simulation: Simulation) -> ScenarioResult:
    """Four kinds of senders, drawn from a table, while leaders move and responses are lost, late or repeated."""
    world = World(simulation, environment.for_senders(simulation.rng))
    return await _run_senders(world, senders.draw(world.rng("senders")))


async def with_repeated_requests(simulation: Simulation) -> ScenarioResult:
    """The senders that rely most on duplicate detection, in a network that delivers requests twice."""
    world = World(simulation, replace(environment.for_senders(simulation.rng), repeats_requests=True))
    return await _run_senders(world, senders.SENSITIVE_TO_REPEATS)


async def with_transactions(simulation: Simulation) -> ScenarioResult:
    """Three transactional services that crash at every step, while coordinators and leaders move and stop."""
    return await _run_services(World(simulation, environment.for_transactions(simulation.rng)))


async def _run_services(world: World) -> ScenarioResult:
    await world.brokers.start()
    helpers = [inject_faults(world), inject_faults(world, "trouble beside it")]
    services = [Service(world, f"service{number}") for number in range(SERVICES)]
    with world.brokers.stale_metadata.in_effect():
        return await _run(world, helpers, [service.run() for service in services])


async def with_pipelined_transactions(simulation: Simulation) -> ScenarioResult:
    """Services whose transactions follow each other at once, with five batches in flight; brokers are only slow."""
    world = World(simulation, environment.for_pipelining(simulation.rng))
    await world.brokers.start()
    services = [Service(world, f"service{number}") for number in range(SERVICES)]
    with five_batches_in_flight_at_once():
        return await _run(world, [inject_faults(world)], [service.run() for service in services])


async def with_short_closes(simulation: Simulation) -> ScenarioResult:
    """Consumers and producers that are closed with a short timeout, while brokers stop and coordinators move."""
    world = World(simulation, environment.for_groups(simulation.rng))
    await world.brokers.start()
    await short_closes.create_topic(world)
    consumers = [
        short_closes.consume(world, "by hand", subscribes=False),
        short_closes.consume(world, "subscribed", subscribes=True),
    ]
    with world.brokers.stale_metadata.in_effect():
        return await _run(world, [inject_faults(world)], [*consumers, short_closes.produce(world, "hasty")])


async def with_failure_reports(simulation: Simulation) -> ScenarioResult:
    """Producers whose records are refused and whose calls overlap and are cancelled; consumers that are interrupted."""
    world = World(simulation, environment.with_refused_records(simulation.rng))
    await world.brokers.start()
    await failure_reports.create_topics(world)
    async with asyncio.timeout(SCENARIO_S):
        await asyncio.gather(*(workload(world) for workload in failure_reports.WORKLOADS))
        await read_everything(world)
        await read_committed(world)
    return await _audit(world)


async def with_group(simulation: Simulation) -> ScenarioResult:
    """A group whose members join, leave, crash and are disconnected, while brokers stop and coordinators move."""
    return await _run_group(World(simulation, environment.for_groups(simulation.rng)))


async def with_graceful_group(simulation: Simulation) -> ScenarioResult:
    """A group whose members join and leave gracefully; brokers are slow, and coordinators and leaders move."""
    return await _run_group(World(simulation, environment.for_groups(simulation.rng, calm=True)))


async def with_migrating_group(simulation: Simulation) -> ScenarioResult:
    """As `with_group`, with members of both protocols, so that the group migrates from one to the other and back."""
    return await _run_group(World(simulation, environment.for_groups(simulation.rng)), mixed=True)


async def with_seeking_group(simulation: Simulation) -> ScenarioResult:
    """A group whose members use all read methods, seek, pause, and subscribe to patterns; some groups migrate."""
    world = World(simulation, environment.for_groups(simulation.rng))
    return await _run_group(world, mixed=world.rng("protocols").random() < 0.3, seeks=True)


async def with_graceful_seeking_group(simulation: Simulation) -> ScenarioResult:
    """The same members, which join and leave gracefully, as in `with_graceful_group`."""
    return await _run_group(World(simulation, environment.for_groups(simulation.rng, calm=True)), seeks=True)


async def with_delayed_commit(simulation: Simulation) -> ScenarioResult:
    """Two members: one is fenced while its commit is pending, and the other takes over (`delayed_commit`)."""
    world = World(simulation, environment.for_groups(simulation.rng, calm=True))
    await world.brokers.start()
    async with asyncio.timeout(SCENARIO_S):
        group = await delayed_commit.run_delayed_commit(world)
        await read_everything(world)
    return await _audit(world, group)


async def _run_group(world: World, *, mixed: bool = False, seeks: bool = False) -> ScenarioResult:
    await world.brokers.start()
    scenario = GroupScenario(world, mixed=mixed, seeks=seeks)
    await scenario.create_topics()
    work = [inject_faults(world, pause_s=(0.1, 2.0)), slow_down_coordinators(world), scenario.observe_offsets()]
    helpers = [asyncio.create_task(each) for each in work]
    with world.brokers.stale_metadata.in_effect(), on_group_recreated(scenario.group_recreated):
        async with asyncio.timeout(SCENARIO_S):
            await scenario.run()
            world.over = True
            await asyncio.gather(*helpers)
            await scenario.stabilize()
            await read_everything(world)
            await scenario.end()
        return await _audit(world, scenario.group)


async def with_workers(simulation: Simulation) -> ScenarioResult:
    """Workers that start, stop, are killed and fenced; handlers fail, brokers stop and coordinators move."""
    return await _run_workers(simulation, environment.for_workers(simulation.rng))


async def with_share_workers(simulation: Simulation) -> ScenarioResult:
    """As `with_workers`, in a share group: locks are renewed, and records released, rejected and delivered again."""
    return await _run_workers(simulation, environment.for_share_workers(simulation.rng))


async def _run_workers(simulation: Simulation, made: environment.Environment) -> ScenarioResult:
    world = World(simulation, made)
    await world.brokers.start()
    scenario = WorkerScenario(world)
    await scenario.create_topics()
    faults = asyncio.create_task(inject_faults(world, pause_s=(0.1, 2.0)))
    with world.brokers.stale_metadata.in_effect(), _log_text_only():
        async with asyncio.timeout(SCENARIO_S):
            await scenario.run()
            world.over = True
            await faults
            await scenario.end()
            await read_everything(world)
        result = await _audit(world)
    return replace(result, violations=result.violations + audit_workers(scenario.history, simulation.network.history))


async def with_share_group(simulation: Simulation) -> ScenarioResult:
    """A share group whose members die, pause past their locks and close; brokers stop and coordinators move."""
    world = World(simulation, environment.for_share_groups(simulation.rng))
    await world.brokers.start()
    scenario = ShareScenario(world)
    await scenario.create_topic()
    faults = asyncio.create_task(inject_faults(world, pause_s=(0.05, 1.5)))
    is_transactional = world.environment.transaction_version is not None
    with world.brokers.stale_metadata.in_effect(), record_loads(scenario.history, simulation.loop.time):
        async with asyncio.timeout(SCENARIO_S):
            await scenario.run()
            world.over = True
            await faults
            await asyncio.sleep(REPEAT_DELAY_MAX_S + TRANSACTIONS_EXPIRED_S if is_transactional else REPEAT_DELAY_MAX_S)
            await scenario.end()
            await read_everything(world)
            if is_transactional:
                await read_committed(world)
        result = await _audit(world)
    found = audit_shares(world.history, scenario.history, simulation.network.history)
    return replace(result, violations=result.violations + found)


async def with_mirror(simulation: Simulation) -> ScenarioResult:
    """A mirror between two clusters that is killed and replaced; source transactions; faults of both clusters."""
    return await _run_mirror(simulation, Delivery.EXACTLY_ONCE)


async def with_at_least_once_mirror(simulation: Simulation) -> ScenarioResult:
    """As `with_mirror`; the mirror may copy records again after a failure, and two of them run at once."""
    return await _run_mirror(simulation, Delivery.AT_LEAST_ONCE)


async def _run_mirror(simulation: Simulation, delivery: Delivery) -> ScenarioResult:
    source_environment, target_environment = environment.for_mirrors(simulation.rng)
    source, target = World(simulation, source_environment), World(simulation, target_environment, "target: ")
    target.faults, target.covered, target.history.stuck = source.faults, source.covered, source.history.stuck
    target.topics = [COPY]
    await asyncio.gather(source.brokers.start(), target.brokers.start())
    scenario = MirrorScenario(source, target, delivery)
    await scenario.create_topic()
    faults = [asyncio.create_task(inject_faults(world, pause_s=(0.05, 1.5))) for world in (source, target)]
    services = [Service(source, f"service{number}") for number in range(SERVICES)]
    stale = source.brokers.stale_metadata.in_effect(), target.brokers.stale_metadata.in_effect()
    with stale[0], stale[1], scenario.its_constants(), _log_text_only():
        async with asyncio.timeout(SCENARIO_S):
            mirror = asyncio.create_task(scenario.run())
            producer = send_all(source, "plain", RECORDS_IN_CLUSTER, delivery_timeout_ms=30_000)
            await asyncio.gather(producer, *(service.run() for service in services))
            source.over = target.over = True
            await asyncio.gather(mirror, *faults)
            await asyncio.sleep(REPEAT_DELAY_MAX_S + TRANSACTIONS_EXPIRED_S)
            await read_everything(source)
            await read_committed(source)
            await scenario.end()
            await read_everything(target)
            await read_committed(target)
        scenario.note_contents()
        await target.brokers.stop()
        result = await _audit(source)
    violations = result.violations + audit(target.history) + target.audit_disks.violations
    return replace(result, violations=violations + audit_mirror(scenario.history))


@contextmanager
def _log_text_only() -> Iterator[None]:
    """Log texts: errors that a handler of logs keeps would keep what was pending in the frames of killed calls."""
    factory = logging.getLogRecordFactory()

    def text_only(*arguments: object, **named: object) -> logging.LogRecord:
        record = factory(*arguments, **named)
        record.msg, record.args, record.exc_info = record.getMessage(), (), None
        return record

    logging.setLogRecordFactory(text_only)
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)


async def _run_senders(world: World, names: Sequence[str]) -> ScenarioResult:
    await world.brokers.start()
    helpers = [inject_faults(world), inject_faults(world, "trouble beside it")]
    bursts = [Bursts(world, name) for name in names]
    with world.brokers.stale_metadata.in_effect() if world.environment.nodes > 1 else nullcontext():
        return await _run(world, helpers, [each.run() for each in bursts], [each.end() for each in bursts])


async def _run_in_cluster(world: World, *more_faults: Coroutine[object, object, None]) -> ScenarioResult:
    await world.brokers.start()
    helpers = [inject_faults(world), inject_faults(world, "trouble beside it"), administer(world), *more_faults]
    helpers.append(use_recreated_topic(world))
    world.history.weak = {"acks=1"}
    world.history.repeating = {"acks=1"}
    world.history.unordered = {"acks=1", "at most once"}
    patient, plain = {"delivery_timeout_ms": 30_000}, {"enable_idempotence": False}
    producers = [
        send_all(world, "idempotent", RECORDS_IN_CLUSTER),
        send_all(world, "patient", RECORDS_IN_CLUSTER, **patient),
        send_all(world, "acks=1", RECORDS_IN_CLUSTER // 2, acks=1, **patient, **plain),
        send_all(world, "at most once", RECORDS_IN_CLUSTER // 2, retries=0, **plain),
    ]
    with world.brokers.stale_metadata.in_effect():
        return await _run(world, helpers, producers)


async def _run(world: World, helpers: list, producers: list, endings: Sequence = ()) -> ScenarioResult:
    tasks = [asyncio.create_task(helper) for helper in helpers]
    transactional = world.environment.transaction_version is not None
    settings = {"isolation_level": "read_committed", "fetch_max_wait_ms": 300} if transactional else {}
    reader = asyncio.create_task(Reader(world, "reader", **settings).run())
    async with asyncio.timeout(SCENARIO_S):
        await asyncio.gather(*producers)
        world.over = True
        await asyncio.gather(*tasks)
        await asyncio.gather(*endings)
        if world.environment.repeats_requests:
            await asyncio.sleep(REPEAT_DELAY_MAX_S + SETTLE_S)
        if transactional:
            await asyncio.sleep(TRANSACTIONS_EXPIRED_S)
        await read_everything(world)
        if transactional:
            await read_committed(world)
            await read_group_offsets(world)
        await reader
    return await _audit(world)


async def _audit(world: World, group: GroupHistory | None = None) -> ScenarioResult:
    await world.brokers.stop()
    await asyncio.sleep(SETTLE_S)
    world.history.left_over += world.simulation.loop.left_over()
    network = world.simulation.network
    violations = audit(world.history, unclean=world.environment.unclean)
    violations += audit_wire(network.history) + audit_numbering(network.history)
    violations += world.audit_disks.violations
    if group is not None:
        violations += audit_group(world.history, group) + audit_absences(network.history, group)
    log = f"{world.environment}\n" + "\n".join(world.faults)
    return ScenarioResult(world.history, violations, log, network.digest(), world.covered)


def run_scenario(scenario: Callable[[Simulation], Awaitable[ScenarioResult]], seed: int) -> ScenarioResult:
    """Run a scenario with a seed; it is a violation, too, if it never ends, or if the last reader gets a torn batch."""
    try:
        with _no_automatic_collections():
            return run_virtual(scenario, seed)
    except (SimulationStalledError, TimeoutError) as error:
        return _broken_off(Invariant.OVERDUE, f"the scenario never ended: {error!r}")
    except CorruptBatchError as error:
        return _broken_off(Invariant.TORN_BATCH, f"the last reader got a batch that is torn: {error}")


@contextmanager
def _no_automatic_collections() -> Iterator[None]:
    """Leave the garbage of a run to the collection after it: collections during the run take a fifth of its time.

    What refers to itself lives longer for that. When the collector would run does not follow from the seed either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _broken_off(invariant: Invariant, what: str) -> ScenarioResult:
    return ScenarioResult(History(), [Violation(invariant, what)], "", "")
