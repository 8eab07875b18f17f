"""A group of consumers in which members come and go, crash, pause, lose touch, and change their minds.

Two to twelve places, each with a member or none. Which protocol, which assignors and who has a static name is drawn for
a life as a whole. Start at `GroupLife`.
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
from kafkaraw.testing.group_history import GroupHistory, Sighting
from tests.simulation.clients import persist, settle
from tests.simulation.members import GROUP, Habit, Member
from tests.simulation.world import World

TOPICS = ["flights", "ferries"]
LATE = "freights"
"""A topic that appears in the middle of a life, perhaps."""
ALL = "f.*"
CHURN_S = (6.0, 14.0)
BOUND_S = 30.0
"""Within which everything is owned and processed, once nobody comes or goes any more."""
BACK_S = 3.0
"""So long everybody has been a member before a topic grows that a leader must hear of."""
BACKLOG = 60
"""So much more is written at a time, at most, where coordinators are slow, so that members have records in hand."""
RESTING_S = 2.0
"""How long that has to last."""

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
    """What holds for a group's whole life.

    Attributes:
        places: for members; some stay empty now and then.
        settings: of the consumers; of several, each takes some, so that the group moves between the two protocols.
        static: the places that have names of their own.
        partitions: of each topic in the beginning.
        present: how likely there is a member in a place from the beginning.
        patterns: how likely a member subscribes to a pattern.
        is_versatile: members read in every way, seek and pause; and a topic may appear.
    """

    places: int
    settings: Sequence[Mapping[str, object]]
    static: frozenset[int]
    partitions: Mapping[str, int]
    present: float = 0.7
    patterns: float = 0.0
    is_versatile: bool = False

    @property
    def has_static_leaders(self) -> bool:
        """Whether a leader may come back under its name; it does not hear of topics that grew meanwhile (KIP-814)."""
        return bool(self.static) and any("group_protocol" not in settings for settings in self.settings)


def draw(rng: random.Random, session_ms: int, *, calm: bool, mixed: bool) -> Plan:
    """The plan of one life."""
    places = rng.choice([2, 2, 3, 3, 4, 5, 7, 12])
    common = {"max_poll_interval_ms": 60_000 if calm else 2500, "retry_backoff_ms": 20, "retry_backoff_max_ms": 200}
    settings = [_modern(rng)] if rng.random() < 0.5 else [_classic(rng, session_ms)]
    if mixed:
        settings = [_modern(rng), _classic(rng, session_ms)]
    share = rng.choice([0.0, 0.0, 0.5, 1.0])
    static = frozenset(place for place in range(places) if rng.random() < share)
    return Plan(
        places,
        [{**common, **of} for of in settings],
        static,
        {"flights": rng.choice([3, 5]), "ferries": rng.choice([1, 2, 4])},
    )


def draw_ways(plan: Plan, rng: random.Random) -> Plan:
    """The same plan for members that do all that there is to do."""
    patterns = rng.choice([0.0, 0.0, 0.5, 1.0])
    return replace(plan, is_versatile=True, present=rng.choice([0.7, 1.0]), patterns=patterns)


def _modern(rng: random.Random) -> dict[str, object]:
    return {"group_protocol": "consumer", "group_remote_assignor": rng.choice([None, "uniform", "range"])}


def _classic(rng: random.Random, session_ms: int) -> dict[str, object]:
    return {
        "partition_assignment_strategy": rng.choice(ASSIGNORS),
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": session_ms // 6,
    }


class GroupLife:
    """The group of one life.

    Args:
        world: where it lives.
        mixed: some members take the one protocol, some the other.
        versatile: they do all that there is to do, and a topic may appear.

    Attributes:
        group: what its members saw.
    """

    def __init__(self, world: World, *, mixed: bool = False, versatile: bool = False) -> None:
        self._world = world
        self._rng = world.rng("group")
        # What only versatile members do is drawn from a stream of its own, so that other lives stay as they were.
        self._ways = world.rng("ways")
        self._pace = world.rng("pace")
        assert world.climate.session_ms is not None
        self._plan = draw(self._rng, world.climate.session_ms, calm=world.climate.calm, mixed=mixed)
        if versatile:
            self._plan = draw_ways(self._plan, self._ways)
        # A group that goes back to the classic protocol may refuse what its members commit in their older epochs.
        exact = world.climate.calm and not mixed
        self.group = GroupHistory(bound_s=BOUND_S, exact=exact)
        self._members: dict[int, Member] = {}
        self._born = 0
        # Drawn from a stream of its own, so that lives without slow callbacks stay as they were.
        self._welcome_s = 1.5 if world.rng("time for callbacks").random() < 0.25 else 0.0
        self._settled = False
        world.topics = list(TOPICS)
        self._busy: set[asyncio.Task[None]] = set()
        self._partitions = dict(self._plan.partitions)
        self._tickets: list[tuple[bytes, Ticket]] = []
        world.note(f"{self._plan}")

    # -- before, meanwhile, and after

    async def begin(self) -> None:
        """Make the topics, before anything goes wrong."""
        async with self._world.admin("founder") as admin:
            await admin.create_topics([NewTopic(name, count) for name, count in self._partitions.items()], timeout=20)
        self._producer = self._world.producer("feeder", delivery_timeout_ms=30_000, buffer_memory=1_000_000)

    async def churn(self) -> None:
        """Have members come and go, while records are written; in the end all places that count are taken."""
        world, rng = self._world, self._rng
        until_s = world.now_s + rng.uniform(*CHURN_S)
        for place in range(self._plan.places):
            if rng.random() < self._plan.present:
                self._join(place)
        events = CALM_EVENTS if world.climate.calm else EVENTS
        if self._plan.is_versatile:
            events = {**events, "open": (1, GroupLife.open)}
        if self._plan.has_static_leaders:
            events = {name: event for name, event in events.items() if name != "grow"}
        names, weights = list(events), [weight for weight, _ in events.values()]
        while world.now_s < until_s:
            self._replace()
            self._count_members()
            await self._send(rng.randrange(1, 8))
            if world.climate.slow_coordinators:
                await self._send(self._pace.randrange(BACKLOG))
            await asyncio.sleep(rng.uniform(0, 0.7))
            place, name = rng.randrange(self._plan.places), rng.choices(names, weights)[0]
            befall = events[name][1]
            world.note(f"{name}, place {place}")
            self._busy.add(asyncio.create_task(befall(self, place), name=name))
        await asyncio.gather(*self._busy)

    async def calm_down(self) -> None:
        """Nothing goes wrong any more: at least two members want everything, and get everything."""
        world, group = self._world, self.group
        for place in range(2):
            self._join(place)
        self._settled = True
        for member in self._members.values():
            member.settle_down()
        if self._plan.has_static_leaders:
            await self._all_back()
            await self.grow(0)
            self._replace()
        if self._plan.is_versatile:
            await self._count()
        for member in self._members.values():
            member.want(self._topics)
        for topic, count in self._partitions.items():
            for number in range(count):
                await self._send(1, TopicPartition(topic, number))
        group.partitions = [
            TopicPartition(t, number) for t, count in self._partitions.items() for number in range(count)
        ]
        group.calm_since_s = world.now_s
        world.note("calm")
        await settle(world, "feeder", self._producer, self._tickets)

    async def _all_back(self) -> None:
        """Wait until everybody is a member, and has been for a while.

        A leader that comes back under its name after a topic has grown does not hear of it, and leaves all as it is.
        """
        since_s = self._world.now_s
        while self._world.now_s < since_s + BACK_S:
            self._replace()
            if not all(member.is_back for member in self._members.values()):
                since_s = self._world.now_s
            await asyncio.sleep(0.25)

    async def end(self) -> None:
        """Once all is read by somebody else: wait until the group has got there, too, and close."""
        world, group = self._world, self.group
        assert group.calm_since_s is not None
        await self._look()
        done_s = world.now_s
        while world.now_s < group.calm_since_s + group.bound_s and world.now_s < done_s + RESTING_S:
            await asyncio.sleep(0.25)
            self._replace()
            if not self._is_done():
                done_s = world.now_s
        group.calm_until_s = world.now_s
        world.note("the end of it")
        await asyncio.sleep(0.001)  # else who gives up at once had nothing at that time
        await asyncio.gather(*(member.leave() for member in self._members.values()))
        await self._look()

    def _is_done(self) -> bool:
        """Whether every record is processed, and every partition has an owner."""
        owned = sorted(tp for member in self._members.values() for tp in member.tenures)
        if owned != sorted(self.group.partitions):
            return False
        done = {(tenure.topic_partition, record.offset) for tenure in self.group.tenures for record in tenure.processed}
        final = self._world.history.final.items()
        return all((tp, offset) in done for tp, records in final for offset, _ in records)

    # -- records, and positions

    async def _send(self, count: int, where: TopicPartition | None = None) -> None:
        for _ in range(count):
            topic = self._rng.choice(self._topics)
            topic, number = where or (topic, self._rng.randrange(self._partitions[topic]))
            value = b"%s-%d-%d" % (topic.encode(), number, len(self._tickets))
            send = partial(self._producer.send, topic, value, partition=number)
            ticket = await persist(self._world, self._producer, send)
            self._world.history.sent["feeder"].append(value)
            self._tickets.append((value, ticket))

    async def watch(self) -> None:
        """Ask the group for its positions now and then."""
        while not self._world.over:
            await asyncio.sleep(self._rng.uniform(0.5, 2.0))
            with suppress(KafkaError):
                await self._look()

    async def _look(self) -> None:
        world = self._world
        async with world.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as consumer:
            asked_s = world.now_s
            found = await world.call("committed", consumer.committed(self._all(), 20), 20)
            positions = {tp: -1 if at is None else at.offset for tp, at in found.items()}
            self.group.sightings.append(Sighting(asked_s, world.now_s, positions))

    def begins_anew(self) -> None:
        """The group, in which nobody is any more, goes, and another one begins under its name."""
        for member in self._members.values():
            member.is_outlived()
        self.group.life += 1
        self._world.covered["the group began anew"] += 1

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, count in self._partitions.items() for number in range(count)]

    # -- what befalls the members

    def _join(self, place: int) -> None:
        if place in self._members and not self._members[place].is_over:
            return
        name, self._born = f"m{place}.{self._born}", self._born + 1
        settings = dict(self._plan.settings[self._born % len(self._plan.settings)])
        if place in self._plan.static:
            settings["group_instance_id"] = f"place{place}"
        habit = self._rng.choice(list(Habit))
        if self._world.climate.slow_coordinators:
            habit = self._pace.choice([habit, Habit.AUTO])
        everybody = self._members.values
        self._members[place] = Member(
            self._world,
            self.group,
            name,
            habit,
            self._draw_topics(),
            self._draw_pattern(),
            settings,
            lambda: list(everybody()),
            self._welcome_s,
            is_versatile=self._plan.is_versatile,
        )
        if self._settled:
            self._members[place].settle_down()

    def _replace(self) -> None:
        """Where a member could not go on, and said so, another one begins."""
        for place in [place for place, member in self._members.items() if member.is_over]:
            self._join(place)

    def _count_members(self) -> None:
        """Write down how many are members at the same time, as far as they know."""
        self._world.covered[f"{sum(member.is_back for member in self._members.values()):2} members"] += 1

    @property
    def _topics(self) -> list[str]:
        return list(self._partitions)

    def _draw_topics(self) -> list[str]:
        if self._settled:
            return self._topics
        return self._rng.choice([self._topics, self._topics, self._topics, TOPICS[:1], TOPICS[1:]])

    def _draw_pattern(self) -> Callable[[list[str]], str | re.Pattern[str]] | None:
        """How a member asks for topics, if not by name: the broker or the client itself may see which ones match."""
        if self._ways.random() >= self._plan.patterns:
            return None
        self._world.covered["subscribed to a pattern"] += 1
        compiled = self._ways.random() < 0.5
        return lambda topics: re.compile(_pattern(topics)) if compiled else _pattern(topics)

    async def join(self, place: int) -> None:
        """A member comes, if there is none."""
        self._join(place)

    async def leave(self, place: int) -> None:
        """A member goes in order."""
        member = self._members.get(place)
        if member is not None:
            await member.leave()
            if self._members.get(place) is member:
                del self._members[place]

    async def crash(self, place: int) -> None:
        """A member is gone."""
        member = self._members.pop(place, None)
        if member is not None:
            await member.crash()

    async def restart(self, place: int) -> None:
        """A member crashes, and another one comes in its place at once, under its name if it has one."""
        await self.crash(place)
        await asyncio.sleep(self._rng.choice([0, 0.2]))
        self._join(place)

    async def doze(self, place: int) -> None:
        """A member does not come for more for a moment."""
        if place in self._members:
            self._members[place].pause(self._rng.uniform(0.1, 1.5))

    async def sleep(self, place: int) -> None:
        """A member does not come for more for longer than it may."""
        if place in self._members:
            self._members[place].pause(self._rng.uniform(2.5, 6))

    async def lose_touch(self, place: int) -> None:
        """Nobody hears of a member, nor does it of anybody, for a while."""
        member = self._members.get(place)
        if member is not None:
            member.leash.cut()
            await asyncio.sleep(self._rng.choice([0.3, 2.0, 5.0]))
            member.leash.mend()

    async def change_its_mind(self, place: int) -> None:
        """A member subscribes to something else."""
        if place in self._members:
            self._members[place].want(self._draw_topics())

    async def grow(self, place: int) -> None:
        """A topic gets another partition."""
        topic = TOPICS[place % 2]
        count = self._partitions[topic] + 1
        if count > 6:
            return
        async with self._world.admin("grower") as admin:
            try:
                await self._world.call("create_partitions", admin.create_partitions({topic: count}, timeout=5), 5)
            except KafkaError as error:
                self._world.note(f"whether {topic} has grown is not known: {error}")
            else:
                self._partitions[topic] = max(count, self._partitions[topic])
                self._world.covered["a topic grew"] += 1

    async def open(self, place: int) -> None:
        """There is another topic."""
        if LATE in self._partitions:
            return
        count = 1 + place % 3
        async with self._world.admin("opener") as admin:
            try:
                await self._world.call("create_topics", admin.create_topics([NewTopic(LATE, count)], timeout=5), 5)
            except KafkaError as error:
                self._world.note(f"whether there is {LATE} is not known: {error}")
            else:
                self._partitions[LATE] = count
                self._world.covered["a topic appeared"] += 1

    async def _count(self) -> None:
        """Find out what there is: whether a topic was made, or has grown, may not have been told."""
        world = self._world
        async with world.admin("counter") as admin:
            there = await world.call("list_topics", admin.list_topics(timeout=20), 20)
            names = [*TOPICS, *(listing.name for listing in there if listing.name == LATE)]
            found = await world.call("describe_topics", admin.describe_topics(names, timeout=20), 20)
        self._partitions = {name: len(found[name].partitions) for name in names}
        world.topics = list(names)


def _pattern(topics: list[str]) -> str:
    return topics[0] if len(topics) == 1 else ALL


Befall = Callable[[GroupLife, int], Awaitable[None]]

CALM_EVENTS: dict[str, tuple[int, Befall]] = {
    "join": (6, GroupLife.join),
    "leave": (3, GroupLife.leave),
    "doze": (3, GroupLife.doze),
    "change its mind": (2, GroupLife.change_its_mind),
    "grow": (1, GroupLife.grow),
}
EVENTS: dict[str, tuple[int, Befall]] = {
    **CALM_EVENTS,
    "crash": (2, GroupLife.crash),
    "restart": (2, GroupLife.restart),
    "sleep": (2, GroupLife.sleep),
    "lose touch": (3, GroupLife.lose_touch),
}
"""What befalls members, and how often, next to each other."""
