"""A share group whose members die, pause past their locks, close and are disconnected, while brokers stop and move.

One to four slots have a member or none. A feeder writes records; in some runs, a service also writes transactions that
it commits or aborts, or that expire. In the end, all members leave, all brokers are restarted, which must not change
the state of the group, and new members get what is left. Start at `ShareScenario`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from kafkaraw.client.admin import ConfigResource, NewTopic
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.share_history import Restart, ShareHistory
from tests.simulation.brokers import Down
from tests.simulation.clients import persist, settle
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.share_members import CLOSE_S, GROUP, ShareMember
from tests.simulation.transactional_services import Service
from tests.simulation.world import World

CHURN_S = (3.0, 8.0)
BOUND_S = 60.0
"""The time within which new members settle all records, after the last fault."""
LOOK_S = 0.5
RESTART_S = 2.0
"""The time until the writes of share states have ended, behind the last lock."""


class ShareScenario:
    """The share group of one run.

    Args:
        world: the brokers and clients.

    Attributes:
        history: what the members observed.
    """

    def __init__(self, world: World) -> None:
        settings = world.environment.shares
        assert settings is not None
        self._world, self._settings = world, settings
        self._rng = world.rng("share group")
        self._slots = self._rng.choice([1, 2, 3, 4, 4])
        self._members: dict[int, ShareMember] = {}
        self._count = 0
        self._is_calm = False
        self._busy: set[asyncio.Task[None]] = set()
        self._tickets: list[tuple[bytes, Ticket]] = []
        self.history = ShareHistory(
            GROUP, settings.delivery_count_limit, settings.lock_ms / 1000, settings.reads_committed
        )

    # -- phases

    async def create_topic(self) -> None:
        """Create the topic, and configure the group, before the first fault."""
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed" if self._settings.reads_committed else "read_uncommitted",
        }
        async with self._world.admin("founder") as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS)], timeout=20)
            await admin.alter_configs({ConfigResource.group(GROUP): configs}, timeout=20)
            found = await admin.describe_topics([TOPIC], timeout=20)
            self.history.topic_ids[found[TOPIC].topic_id] = TOPIC
        self._feeder = self._world.producer("feeder", delivery_timeout_ms=30_000, buffer_memory=1_000_000)

    async def run(self) -> None:
        """Let members join, leave and die while records are written."""
        world, rng = self._world, self._rng
        until_s = world.now_s + rng.uniform(*CHURN_S)
        services = []
        if world.environment.transaction_version is not None:
            services.append(asyncio.create_task(Service(world, "service0").run(), name="service"))
        for slot in range(self._slots):
            if rng.random() < 0.8:
                self._join(slot)
        names, weights = list(EVENTS), [weight for weight, _ in EVENTS.values()]
        while world.now_s < until_s:
            self._replace_ended()
            await self._send(rng.randrange(1, 12))
            await asyncio.sleep(rng.uniform(0, 0.7))
            slot, name = rng.randrange(self._slots), rng.choices(names, weights)[0]
            world.note(f"{name}, slot {slot}")
            self._busy.add(asyncio.create_task(EVENTS[name][1](self, slot), name=name))
        await asyncio.gather(*self._busy, *services)

    async def end(self) -> None:
        """After the faults: have all members leave, restart the brokers, and have new members get what is left."""
        world = self._world
        await self._send(5)
        await settle(world, "feeder", self._feeder, self._tickets)
        if self._rng.random() < 0.5:
            await asyncio.sleep(self._rng.uniform(0, 2))
        world.note("the members leave")
        await asyncio.gather(*(self.leave(slot) for slot in list(self._members)))
        await asyncio.sleep(self.history.lock_s + RESTART_S)
        await self._restart_brokers()
        self._is_calm = True
        for slot in range(self._rng.choice([1, 2])):
            self._join(slot)
        await self._settle_records()
        world.note("end")
        await asyncio.gather(*(self.leave(slot) for slot in list(self._members)))

    async def _restart_brokers(self) -> None:
        world, brokers = self._world, self._world.brokers
        before, at_s = await self._offsets(), world.now_s
        how = self._rng.choice([Down.STOP, Down.KILL])
        world.note(f"all brokers restart: {how.value}")
        for node_id in list(brokers.running):
            await brokers.take_down(node_id, how)
        for node_id in brokers.ids:
            await brokers.bring_up(node_id)
        await asyncio.sleep(RESTART_S)
        after = await self._offsets()
        self.history.restarts.append(Restart(at_s, before, after))
        world.covered["restarted with records left"] += any(lag for _, lag in after.values())

    async def _settle_records(self) -> None:
        """Wait until the group is done with all records."""
        world, since_s = self._world, self._world.now_s
        while world.now_s < since_s + BOUND_S:
            await asyncio.sleep(LOOK_S)
            self._replace_ended()
            if not any(lag for _, lag in (await self._offsets()).values()):
                return
        what = f"{BOUND_S:g} s after the restart, start offsets and lags are {await self._offsets()}"
        world.history.stuck.append(what)

    async def _offsets(self) -> dict[TopicPartition, tuple[int, int | None]]:
        """Return the start offset and the lag of the group in each partition."""
        async with self._world.admin("onlooker") as admin:
            call = admin.list_share_group_offsets([GROUP], timeout=20)
            found = await self._world.call("list_share_group_offsets", call, 20)
        return {tp: (at.start_offset, at.lag) for tp, at in sorted(found[GROUP].items())}

    async def _send(self, count: int) -> None:
        for _ in range(count):
            value = b"%d-%d" % (self._world.simulation.seed, len(self._tickets))
            where = partial(self._feeder.send, TOPIC, value, partition=self._rng.randrange(PARTITIONS))
            ticket = await persist(self._world, self._feeder, where)
            self._world.history.sent["feeder"].append(value)
            self._tickets.append((value, ticket))

    # -- members

    def _join(self, slot: int) -> None:
        if slot not in self._members:
            name, self._count = f"m{slot}.{self._count}", self._count + 1
            self._members[slot] = ShareMember(self._world, self.history, name, is_calm=self._is_calm)

    def _replace_ended(self) -> None:
        """Start another member in each slot whose application has failed."""
        for slot in [slot for slot, member in self._members.items() if member.is_ended]:
            del self._members[slot]
            self._join(slot)

    async def join(self, slot: int) -> None:
        """Start a member if the slot is empty."""
        self._join(slot)

    async def leave(self, slot: int) -> None:
        """Close a member in time."""
        member = self._members.pop(slot, None)
        if member is not None:
            await member.leave(CLOSE_S)

    async def leave_quickly(self, slot: int) -> None:
        """Close a member with a short timeout."""
        member = self._members.pop(slot, None)
        if member is not None:
            await member.leave(self._rng.choice([0.0, 0.05, 0.5]))

    async def kill(self, slot: int) -> None:
        """Kill a member; brokers see its connections break."""
        member = self._members.pop(slot, None)
        if member is not None:
            await member.kill(vanishes=False)

    async def vanish(self, slot: int) -> None:
        """Kill a member as if its machine had lost power: its locks and its session expire."""
        member = self._members.pop(slot, None)
        if member is not None:
            await member.kill(vanishes=True)

    async def fail(self, slot: int) -> None:
        """Have the application of a member raise an error."""
        if slot in self._members:
            self._members[slot].fail()

    async def pause(self, slot: int) -> None:
        """Delay a member, with records in hand, mostly past their locks."""
        if slot in self._members:
            self._members[slot].pause(self.history.lock_s * self._rng.uniform(0.3, 2.5))

    async def wake(self, slot: int) -> None:
        """Interrupt the call of a member."""
        if slot in self._members:
            self._members[slot].wake()

    async def disconnect(self, slot: int) -> None:
        """Disconnect a member for a while."""
        member = self._members.get(slot)
        if member is not None:
            member.network.disconnect()
            await asyncio.sleep(self._rng.choice([0.3, 1.0, 4.0]))
            member.network.reconnect()


ShareEvent = Callable[[ShareScenario, int], Awaitable[None]]

EVENTS: dict[str, tuple[int, ShareEvent]] = {
    "join": (10, ShareScenario.join),
    "leave": (3, ShareScenario.leave),
    "leave quickly": (2, ShareScenario.leave_quickly),
    "kill": (3, ShareScenario.kill),
    "vanish": (2, ShareScenario.vanish),
    "fail": (1, ShareScenario.fail),
    "pause": (8, ShareScenario.pause),
    "wake up": (1, ShareScenario.wake),
    "disconnect": (2, ShareScenario.disconnect),
}
"""The events of members with their weights; their order is part of the seeds."""
