"""A consumer group whose members join, leave, crash, pause, disconnect, and change their subscriptions.

There are two to twelve slots, each with a member or none. The protocol, the assignors and the static members are drawn
once per run. Start at `GroupScenario`.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.group_history import GroupHistory, ObservedOffsets
from tests.simulation.clients import persist, settle
from tests.simulation.members import GROUP, CommitMode, Member
from tests.simulation.world import World

TOPICS = ["flights", "ferries"]
NEW_TOPIC = "freights"
"""A topic that may be created during the run."""
PATTERN = "f.*"
CHURN_S = (6.0, 14.0)
BOUND_S = 30.0
"""The time within which every partition is owned and every record processed, after the last join or leave."""
JOINED_S = 3.0
"""How long all slots must have had members before a partition is added that a leader must notice."""
BACKLOG = 60
"""The maximum number of additional records at a time if coordinators are slow, so that members have a backlog."""
STABLE_S = 2.0
"""How long the group must stay stable in the end."""

ASSIGNORS = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky", "range"),
)


@dataclass(frozen=True)
class Plan:
    """The settings of a group for one run.

    Attributes:
        slots: slots for members; some are empty now and then.
        settings: settings of the consumers, used in turn; two if the group migrates between the protocols.
        static: the slots whose members are static.
        partitions: partitions of each topic at first.
        occupied: probability that a slot has a member from the beginning.
        patterns: probability that a member subscribes to a pattern.
        seeks: members use all read methods, seek and pause; and a topic may be created.
    """

    slots: int
    settings: Sequence[Mapping[str, object]]
    static: frozenset[int]
    partitions: Mapping[str, int]
    occupied: float = 0.7
    patterns: float = 0.0
    seeks: bool = False

    @property
    def has_static_leaders(self) -> bool:
        """Whether a static leader may rejoin, which does not notice partitions added meanwhile (KIP-814)."""
        return bool(self.static) and any("group_protocol" not in settings for settings in self.settings)


def draw(rng: random.Random, session_ms: int, *, calm: bool, mixed: bool) -> Plan:
    """Draw the plan of one run."""
    slots = rng.choice([2, 2, 3, 3, 4, 5, 7, 12])
    common = {"max_poll_interval_ms": 60_000 if calm else 2500, "retry_backoff_ms": 20, "retry_backoff_max_ms": 200}
    settings = [_consumer_protocol(rng)] if rng.random() < 0.5 else [_classic_protocol(rng, session_ms)]
    if mixed:
        settings = [_consumer_protocol(rng), _classic_protocol(rng, session_ms)]
    share = rng.choice([0.0, 0.0, 0.5, 1.0])
    static = frozenset(slot for slot in range(slots) if rng.random() < share)
    return Plan(
        slots,
        [{**common, **of} for of in settings],
        static,
        {"flights": rng.choice([3, 5]), "ferries": rng.choice([1, 2, 4])},
    )


def draw_seeks(plan: Plan, rng: random.Random) -> Plan:
    """Extend a plan for members that seek, pause and subscribe to patterns."""
    patterns = rng.choice([0.0, 0.0, 0.5, 1.0])
    return replace(plan, seeks=True, occupied=rng.choice([0.7, 1.0]), patterns=patterns)


def _consumer_protocol(rng: random.Random) -> dict[str, object]:
    return {"group_protocol": "consumer", "group_remote_assignor": rng.choice([None, "uniform", "range"])}


def _classic_protocol(rng: random.Random, session_ms: int) -> dict[str, object]:
    return {
        "partition_assignment_strategy": rng.choice(ASSIGNORS),
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": session_ms // 6,
    }


class GroupScenario:
    """The group of one run.

    Args:
        world: the brokers and clients.
        mixed: members use different protocols.
        seeks: members use all read methods, seek and pause; and a topic may be created.

    Attributes:
        group: what its members observed.
    """

    def __init__(self, world: World, *, mixed: bool = False, seeks: bool = False) -> None:
        self._world = world
        self._rng = world.rng("group")
        # The draws for seeks and pauses are independent, so that other runs do not change.
        self._ways = world.rng("ways")
        self._pace = world.rng("pace")
        assert world.environment.session_ms is not None
        self._plan = draw(self._rng, world.environment.session_ms, calm=world.environment.calm, mixed=mixed)
        if seeks:
            self._plan = draw_seeks(self._plan, self._ways)
        # A group that migrates back to the classic protocol may refuse commits in older epochs of its members.
        exact = world.environment.calm and not mixed
        self.group = GroupHistory(bound_s=BOUND_S, exact=exact)
        self._members: dict[int, Member] = {}
        self._members_count = 0
        # Drawn independently, so that runs without slow callbacks do not change.
        self._callback_s = 1.5 if world.rng("time for callbacks").random() < 0.25 else 0.0
        self._settled = False
        world.topics = list(TOPICS)
        self._busy: set[asyncio.Task[None]] = set()
        self._partitions = dict(self._plan.partitions)
        self._tickets: list[tuple[bytes, Ticket]] = []
        world.note(f"{self._plan}")

    # -- phases

    async def create_topics(self) -> None:
        """Create the topics, before the first fault."""
        async with self._world.admin("founder") as admin:
            await admin.create_topics([NewTopic(name, count) for name, count in self._partitions.items()], timeout=20)
        self._producer = self._world.producer("feeder", delivery_timeout_ms=30_000, buffer_memory=1_000_000)

    async def run(self) -> None:
        """Let members join and leave while records are written."""
        world, rng = self._world, self._rng
        until_s = world.now_s + rng.uniform(*CHURN_S)
        for slot in range(self._plan.slots):
            if rng.random() < self._plan.occupied:
                self._join(slot)
        events = CALM_EVENTS if world.environment.calm else EVENTS
        if self._plan.seeks:
            events = {**events, "create topic": (1, GroupScenario.create_topic)}
        if self._plan.has_static_leaders:
            events = {name: event for name, event in events.items() if name != "add partition"}
        names, weights = list(events), [weight for weight, _ in events.values()]
        while world.now_s < until_s:
            self._replace_ended()
            self._count_members()
            await self._send(rng.randrange(1, 8))
            if world.environment.slow_coordinators:
                await self._send(self._pace.randrange(BACKLOG))
            await asyncio.sleep(rng.uniform(0, 0.7))
            slot, name = rng.randrange(self._plan.slots), rng.choices(names, weights)[0]
            act = events[name][1]
            world.note(f"{name}, slot {slot}")
            self._busy.add(asyncio.create_task(act(self, slot), name=name))
        await asyncio.gather(*self._busy)

    async def stabilize(self) -> None:
        """After the faults: at least two members subscribe to all topics, and own all partitions."""
        world, group = self._world, self.group
        for slot in range(2):
            self._join(slot)
        self._settled = True
        for member in self._members.values():
            member.stabilize()
        if self._plan.has_static_leaders:
            await self._wait_until_all_joined()
            await self.add_partition(0)
            self._replace_ended()
        if self._plan.seeks:
            await self._look_up_partitions()
        for member in self._members.values():
            member.subscribe(self._topics)
        for topic, count in self._partitions.items():
            for number in range(count):
                await self._send(1, TopicPartition(topic, number))
        group.partitions = [
            TopicPartition(t, number) for t, count in self._partitions.items() for number in range(count)
        ]
        group.calm_since_s = world.now_s
        world.note("calm")
        await settle(world, "feeder", self._producer, self._tickets)

    async def _wait_until_all_joined(self) -> None:
        """Wait until every slot has had a member for `JOINED_S`.

        A static leader that rejoins after a partition was added does not notice it, and keeps the assignment.
        """
        since_s = self._world.now_s
        while self._world.now_s < since_s + JOINED_S:
            self._replace_ended()
            if not all(member.is_joined for member in self._members.values()):
                since_s = self._world.now_s
            await asyncio.sleep(0.25)

    async def end(self) -> None:
        """Wait until the group has processed everything and is stable, then close its members."""
        world, group = self._world, self.group
        assert group.calm_since_s is not None
        await self._observe_offsets()
        done_s = world.now_s
        while world.now_s < group.calm_since_s + group.bound_s and world.now_s < done_s + STABLE_S:
            await asyncio.sleep(0.25)
            self._replace_ended()
            if not self._is_stable():
                done_s = world.now_s
        group.calm_until_s = world.now_s
        world.note("end")
        await asyncio.sleep(0.001)  # else a member that revokes at once would own nothing at that time
        await asyncio.gather(*(member.leave() for member in self._members.values()))
        await self._observe_offsets()

    def _is_stable(self) -> bool:
        """Return whether every record is processed, and every partition has an owner."""
        owned = sorted(tp for member in self._members.values() for tp in member.ownerships)
        if owned != sorted(self.group.partitions):
            return False
        done = {
            (ownership.topic_partition, record.offset)
            for ownership in self.group.ownerships
            for record in ownership.processed
        }
        final = self._world.history.final.items()
        return all((tp, offset) in done for tp, records in final for offset, _ in records)

    # -- records and committed offsets

    async def _send(self, count: int, where: TopicPartition | None = None) -> None:
        for _ in range(count):
            topic = self._rng.choice(self._topics)
            topic, number = where or (topic, self._rng.randrange(self._partitions[topic]))
            value = b"%s-%d-%d" % (topic.encode(), number, len(self._tickets))
            send = partial(self._producer.send, topic, value, partition=number)
            ticket = await persist(self._world, self._producer, send)
            self._world.history.sent["feeder"].append(value)
            self._tickets.append((value, ticket))

    async def observe_offsets(self) -> None:
        """Look up the committed offsets of the group now and then."""
        while not self._world.over:
            await asyncio.sleep(self._rng.uniform(0.5, 2.0))
            with suppress(KafkaError):
                await self._observe_offsets()

    async def _observe_offsets(self) -> None:
        world = self._world
        async with world.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as consumer:
            asked_s = world.now_s
            found = await world.call("committed", consumer.committed(self._all(), 20), 20)
            positions = {tp: -1 if at is None else at.offset for tp, at in found.items()}
            self.group.observed_offsets.append(ObservedOffsets(asked_s, world.now_s, positions))

    def group_recreated(self) -> None:
        """Note that the group, which had no members, was deleted, and another one of the same name created."""
        for member in self._members.values():
            member.group_recreated()
        self.group.life += 1
        self._world.covered["the group was recreated"] += 1

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, count in self._partitions.items() for number in range(count)]

    # -- events of members

    def _join(self, slot: int) -> None:
        if slot in self._members and not self._members[slot].is_ended:
            return
        name, self._members_count = f"m{slot}.{self._members_count}", self._members_count + 1
        settings = dict(self._plan.settings[self._members_count % len(self._plan.settings)])
        if slot in self._plan.static:
            settings["group_instance_id"] = f"place{slot}"
        commit_mode = self._rng.choice(list(CommitMode))
        if self._world.environment.slow_coordinators:
            commit_mode = self._pace.choice([commit_mode, CommitMode.AUTO])
        members = self._members.values
        self._members[slot] = Member(
            self._world,
            self.group,
            name,
            commit_mode,
            self._draw_topics(),
            self._draw_pattern(),
            settings,
            lambda: list(members()),
            self._callback_s,
            seeks=self._plan.seeks,
        )
        if self._settled:
            self._members[slot].stabilize()

    def _replace_ended(self) -> None:
        """Start another member in each slot whose member has ended with an error."""
        for slot in [slot for slot, member in self._members.items() if member.is_ended]:
            self._join(slot)

    def _count_members(self) -> None:
        """Count the present members, as far as they know."""
        self._world.covered[f"{sum(member.is_joined for member in self._members.values()):2} members"] += 1

    @property
    def _topics(self) -> list[str]:
        return list(self._partitions)

    def _draw_topics(self) -> list[str]:
        if self._settled:
            return self._topics
        return self._rng.choice([self._topics, self._topics, self._topics, TOPICS[:1], TOPICS[1:]])

    def _draw_pattern(self) -> Callable[[list[str]], str | re.Pattern[str]] | None:
        """Return a function that makes a member's pattern, which the client matches if it is compiled; or None."""
        if self._ways.random() >= self._plan.patterns:
            return None
        self._world.covered["subscribed to a pattern"] += 1
        compiled = self._ways.random() < 0.5
        return lambda topics: re.compile(_pattern(topics)) if compiled else _pattern(topics)

    async def join(self, slot: int) -> None:
        """Start a member if the slot is empty."""
        self._join(slot)

    async def leave(self, slot: int) -> None:
        """Close a member."""
        member = self._members.get(slot)
        if member is not None:
            await member.leave()
            if self._members.get(slot) is member:
                del self._members[slot]

    async def crash(self, slot: int) -> None:
        """Crash a member."""
        member = self._members.pop(slot, None)
        if member is not None:
            await member.crash()

    async def restart(self, slot: int) -> None:
        """Crash a member, and start another one in its slot, with the same instance id if it is static."""
        await self.crash(slot)
        await asyncio.sleep(self._rng.choice([0, 0.2]))
        self._join(slot)

    async def pause_briefly(self, slot: int) -> None:
        """Delay the next poll of a member."""
        if slot in self._members:
            self._members[slot].pause(self._rng.uniform(0.1, 1.5))

    async def exceed_max_poll_interval(self, slot: int) -> None:
        """Delay the next poll of a member by more than max.poll.interval.ms."""
        if slot in self._members:
            self._members[slot].pause(self._rng.uniform(2.5, 6))

    async def disconnect(self, slot: int) -> None:
        """Disconnect a member for a while."""
        member = self._members.get(slot)
        if member is not None:
            member.network.disconnect()
            await asyncio.sleep(self._rng.choice([0.3, 2.0, 5.0]))
            member.network.reconnect()

    async def change_subscription(self, slot: int) -> None:
        """Change the subscription of a member."""
        if slot in self._members:
            self._members[slot].subscribe(self._draw_topics())

    async def add_partition(self, slot: int) -> None:
        """Add a partition to a topic."""
        topic = TOPICS[slot % 2]
        count = self._partitions[topic] + 1
        if count > 6:
            return
        async with self._world.admin("grower") as admin:
            try:
                await self._world.call("create_partitions", admin.create_partitions({topic: count}, timeout=5), 5)
            except KafkaError as error:
                self._world.note(f"{topic} may have another partition: {error}")
            else:
                self._partitions[topic] = max(count, self._partitions[topic])
                self._world.covered["a partition was added"] += 1

    async def create_topic(self, slot: int) -> None:
        """Create the new topic."""
        if NEW_TOPIC in self._partitions:
            return
        count = 1 + slot % 3
        async with self._world.admin("opener") as admin:
            try:
                await self._world.call("create_topics", admin.create_topics([NewTopic(NEW_TOPIC, count)], timeout=5), 5)
            except KafkaError as error:
                self._world.note(f"{NEW_TOPIC} may have been created: {error}")
            else:
                self._partitions[NEW_TOPIC] = count
                self._world.covered["a topic was created"] += 1

    async def _look_up_partitions(self) -> None:
        """Look up the topics and partitions, because calls that changed them may have lost their responses."""
        world = self._world
        async with world.admin("counter") as admin:
            there = await world.call("list_topics", admin.list_topics(timeout=20), 20)
            names = [*TOPICS, *(listing.name for listing in there if listing.name == NEW_TOPIC)]
            found = await world.call("describe_topics", admin.describe_topics(names, timeout=20), 20)
        self._partitions = {name: len(found[name].partitions) for name in names}
        world.topics = list(names)


def _pattern(topics: list[str]) -> str:
    return topics[0] if len(topics) == 1 else PATTERN


MemberEvent = Callable[[GroupScenario, int], Awaitable[None]]

CALM_EVENTS: dict[str, tuple[int, MemberEvent]] = {
    "join": (6, GroupScenario.join),
    "leave": (3, GroupScenario.leave),
    "pause briefly": (3, GroupScenario.pause_briefly),
    "change subscription": (2, GroupScenario.change_subscription),
    "add partition": (1, GroupScenario.add_partition),
}
EVENTS: dict[str, tuple[int, MemberEvent]] = {
    **CALM_EVENTS,
    "crash": (2, GroupScenario.crash),
    "restart": (2, GroupScenario.restart),
    "exceed max.poll.interval.ms": (2, GroupScenario.exceed_max_poll_interval),
    "disconnect": (3, GroupScenario.disconnect),
}
"""The events of members with their weights; their order is part of the seeds."""
