"""The members of a group: they read, process and commit, each in its own way; they pause, crash, and disconnect.

A member records into a `GroupHistory` what it observes: the partitions between their callbacks, the records that it
has processed, and the offsets that it commits. Start at `Member`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from enum import StrEnum
from typing import TypeVar

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.membership import CHECK_S
from kafkaraw.errors import FencedInstanceIdError, KafkaError, MaxPollExceededError
from kafkaraw.records import TopicPartition
from kafkaraw.testing.group_history import Absence, End, GroupHistory, KnownGeneration, Ownership, Processed
from tests.simulation.read_methods import ALL_AT_ONCE, READ_METHODS, Piece, ReadContext
from tests.simulation.recorders import record_commits
from tests.simulation.seek_and_pause import SeekAndPause
from tests.simulation.world import ClientNetwork, World

T = TypeVar("T")

GROUP = "crew"
COMMIT_S = 5.0
"""The timeout of a commit."""
CALLBACKS_S = 2 * COMMIT_S
"""The time by which callbacks, which commit, may exceed the timeout of a call."""
CLOSE_S = 10.0
LEAVE_S = 1.0
"""The time within which a member that exceeds max.poll.interval.ms leaves."""
TICK_S = 0.001
INTERRUPTED_S = 2.0
"""The maximum wait for a call in which the member may be closed by another task."""
SHORT_CALLS = 0.15
"""The factor of call timeouts if coordinators are slow, so that calls return during a commit."""
COMMIT_INTERVAL_S = 0.5
"""The minimum interval between commits of a member that stays in the group."""


class CommitMode(StrEnum):
    """When a member commits."""

    ON_REVOKE = "on revoke"
    """In `on_revoked`, and at times in between."""
    EACH_POLL = "each poll"
    NOWAIT = "nowait"
    """After each poll, without waiting; and in `on_revoked`."""
    AUTO = "auto"


class Member:
    """One consumer of the group, from its first call to its end.

    Args:
        world: the brokers and clients.
        group: the history to extend.
        name: name of this consumer, unique among all members.
        commit_mode: when it commits.
        topics: the topics that it subscribes to.
        pattern: makes a pattern of topics, to subscribe by; None to subscribe by name.
        settings: settings of its consumer.
        members: returns the present members of the group.
        callback_s: maximum duration of `on_assigned`.
        seeks: it uses several read methods, seeks and pauses; else it polls only.

    Attributes:
        name: its name.
        ownerships: the partitions that it owns.
        network: its network, which can be disconnected.
    """

    def __init__(
        self,
        world: World,
        group: GroupHistory,
        name: str,
        commit_mode: CommitMode,
        topics: list[str],
        pattern: Callable[[list[str]], str | re.Pattern[str]] | None,
        settings: Mapping[str, object],
        members: Callable[[], Iterable[Member]],
        callback_s: float = 0.0,
        *,
        seeks: bool = False,
    ) -> None:
        self.name = name
        self.ownerships: dict[TopicPartition, Ownership] = {}
        self.network = ClientNetwork(world.simulation.network)
        self._recreated: KnownGeneration | None = None
        self._world, self._group, self._commit_mode, self._topics = world, group, commit_mode, topics
        self._all_members, self._pattern = members, pattern
        self._callback_s, self._callback_rng = callback_s, world.rng(f"callbacks of {name}")
        self._rng = world.rng(name)
        self._slow_s = self._rng.choice([0, 0, 0.005, 0.05])
        self._pause_s = 0.0
        self._leaves = self._is_unsubscribed = self._is_closing = self._callback_runs = self._is_processing = False
        self._closed = asyncio.Event()
        self._closer: asyncio.Task[None] | None = None
        self._is_active = True
        self._left_s = self._away_s = self._back_s = 0.0  # end of the previous call; end and begin of the last one
        self._committed_s = 0.0
        self._max_poll_s = settings["max_poll_interval_ms"] / 1000
        self._ways = world.rng(f"ways of {name}")
        self._methods = self._ways.sample(list(READ_METHODS), self._ways.choice([1, 1, 2, 4])) if seeks else ["poll"]
        self._is_interrupted = seeks and self._ways.random() < 0.5
        self._consumer = self._make(settings)
        self._seek_and_pause = SeekAndPause(name, self._consumer, self.ownerships, group, world, is_active=seeks)
        self._task = asyncio.create_task(self._run(), name=name)

    def _make(self, settings: Mapping) -> AsyncConsumer:
        consumer = self._world.consumer(
            self.name,
            runtime=self._world.runtime(self.name, self.network),
            group_id=GROUP,
            enable_auto_commit=self._commit_mode is CommitMode.AUTO,
            auto_commit_interval_ms=self._rng.choice([100, 700]),
            default_api_timeout_ms=10_000,
            request_timeout_ms=1_000,
            fetch_max_wait_ms=500,
            fetch_min_bytes=1,
            **settings,
        )
        record_commits(self.name, consumer._group.progress, self._group, self._world.simulation.loop.time)
        return consumer

    # -- events

    def pause(self, seconds: float) -> None:
        """Delay the next call, after the present records are processed."""
        self._pause_s = seconds

    def subscribe(self, topics: list[str]) -> None:
        """Change the subscription."""
        self._topics = topics
        if not self._is_unsubscribed and not self._is_closing:
            self._subscribe()

    def stabilize(self) -> None:
        """Stay in the group from now on, without seeks and pauses."""
        self._is_active = False

    async def crash(self) -> None:
        """End the member as if its process had crashed."""
        tasks = [task for task in (self._task, self._closer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        group = self._consumer._group
        await group.membership.close()
        await group.progress.close(Deadline(0))
        await self._consumer._reading.close(Deadline(0))
        self._end_ownerships(list(self.ownerships), End.CRASHED)

    @property
    def is_ended(self) -> bool:
        """Whether the member has ended by itself; raises the error that ended it otherwise."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    @property
    def is_joined(self) -> bool:
        """Whether it is a member, as far as it knows."""
        return self.generation >= 0 and not self._is_closing

    async def leave(self) -> None:
        """End the member gracefully after its present call; or close its consumer from this task, during a call."""
        if self._is_interrupted:
            await self._wait_until_interruptible()
            if self._is_interruptible:
                during = "a callback" if self._callback_runs else "processing" if self._is_processing else "a poll"
                self._world.covered[f"closed in {during}"] += 1
                self._closer = asyncio.create_task(self._close(), name=f"{self.name} is closed")
                await asyncio.wait([self._closer])
                if not self._closer.cancelled():
                    self._closer.result()
        self._leaves = True
        await asyncio.wait([self._task])

    @property
    def _is_interruptible(self) -> bool:
        """Whether another task may close it now: it waits for records or in a callback, so no delivered record is lost.

        Also while it processes records, if they are not committed: other members process them again.
        """
        is_processing = self._is_processing and self._commit_mode is CommitMode.AUTO and not self._group.exact
        return (self._consumer._reading.is_waiting or self._callback_runs or is_processing) and not self._is_closing

    async def _wait_until_interruptible(self) -> None:
        wants_callback, until_s = self._ways.random() < 0.5, self._world.now_s + INTERRUPTED_S
        # Drawn independently, so that other runs do not change.
        wants_work = self._world.rng(f"work of {self.name}").random() < 0.5 and self._commit_mode is CommitMode.AUTO
        while not self._task.done() and self._world.now_s < until_s:
            if (
                self._is_interruptible
                and (self._callback_runs or not wants_callback)
                and (self._is_processing or not wants_work)
            ):
                return
            await asyncio.sleep(TICK_S)

    @property
    def generation(self) -> int:
        """The generation, or epoch, that it knows."""
        return self._consumer.group_metadata().generation_id

    def record_generation(self, partitions: Iterable[TopicPartition]) -> None:
        """Record its present generation for these partitions."""
        known = self._known_generation()
        for tp in partitions:
            if tp in self.ownerships:
                self.ownerships[tp].generations.append(known)

    def group_recreated(self) -> None:
        """Note that its group was deleted, and another one of the same name created."""
        self._recreated = self._known_generation()

    def _known_generation(self) -> KnownGeneration:
        """Return its generation, in the deleted group if its generation has not changed since."""
        generation, before = self.generation, self._recreated
        if before is None or before.generation != generation:
            before = self._recreated = None
        life = self._group.life if before is None else before.life
        return KnownGeneration(self._world.now_s, generation, life)

    # -- its loop

    async def _run(self) -> None:
        self._subscribe()
        while not (self._leaves or self._is_closing):
            try:
                await self._read()
                await self._pause()
                if not self._is_closing:
                    self._seek_and_pause.act(may_act=self._is_active)
            except FencedInstanceIdError:
                # A coordinator that takes over in a rebalance may know an older member of this instance id.
                self._world.covered["fenced"] += 1
                break
            except KafkaError as error:
                self._note(error)
                await asyncio.sleep(0.01)
            if self._is_active and self._rng.random() < 0.01 and not self._is_closing:
                await self._unsubscribe_for_a_while()
        if self._is_closing:
            await self._closed.wait()
        else:
            await self._close()

    def _note(self, error: KafkaError) -> None:
        self._world.covered[type(error).__name__] += 1
        if isinstance(error, MaxPollExceededError):
            # While delivered records are processed there are no calls; the consumer checks every CHECK_S.
            look_s = 0.0 if ALL_AT_ONCE.issuperset(self._methods) else CHECK_S
            since_s = self._left_s + self._max_poll_s + look_s + LEAVE_S
            if since_s < self._back_s:
                self._group.absences.append(Absence(self.name, since_s, self._back_s))

    async def _read(self) -> None:
        """Read and process records with one of its read methods."""
        world, timeout = self._world, self._rng.choice([0.1, 0.5, 1.0])
        if world.environment.slow_coordinators:
            timeout *= SHORT_CALLS
        method, enough = self._ways.choice(self._methods), self._ways.choice([1, 3, 20])
        began_s, taken = world.now_s, 0
        context = ReadContext(self._call, lambda: self._callback_runs)
        async with aclosing(READ_METHODS[method](self._consumer, timeout, context)) as pieces:
            async for piece in pieces:
                taken += 1
                await self._process(piece)
                if method not in ALL_AT_ONCE and (self._leaves or taken >= enough):
                    break
        if not taken and not self._is_closing and world.now_s < began_s + timeout - TICK_S:
            world.history.stuck.append(f"{self.name}: {method} returned at {world.now_s:.3f} s, before its timeout")
        if taken:
            world.covered[f"read by {method}"] += 1
            await self._commit_after_reading()

    async def _call(self, name: str, work: Awaitable[T], timeout: float) -> T:
        self._left_s, self._back_s = self._away_s, self._world.now_s
        try:
            found = await self._world.call(f"{self.name}: {name}", work, timeout + CALLBACKS_S)
        finally:
            self._away_s = self._world.now_s
        self.record_generation(self.ownerships)
        return found

    async def _process(self, piece: Piece) -> None:
        tp, records = piece
        ownership = self.ownerships.get(tp)
        if ownership is None:
            self._group.strays.append(f"{self.name} received records of {tp} at {self._world.now_s:.3f} s")
            return
        stretch = self._seek_and_pause.delivered(tp, records[0][0])
        self._world.history.reads[stretch] += [(tp, offset, value) for offset, value in records]
        self._is_processing = True
        for offset, value in records:
            if self._slow_s and not self._must_not_be_slow:
                await asyncio.sleep(self._slow_s)
            ownership.processed.append(Processed(self._world.now_s, offset, value))
        self._is_processing = False

    @property
    def _must_not_be_slow(self) -> bool:
        """Whether it must process without delay: it is to stay, and max.poll.interval.ms is half over, or there is a
        backlog.
        """
        is_late = self._world.now_s > self._away_s + self._max_poll_s / 2
        return not self._is_active and (is_late or self._world.environment.slow_coordinators)

    async def _pause(self) -> None:
        if self._pause_s:
            pause_s, self._pause_s = self._pause_s, 0.0
            await asyncio.sleep(pause_s)

    async def _commit_after_reading(self) -> None:
        if not self._is_active and self._world.now_s < self._committed_s + COMMIT_INTERVAL_S:
            return  # a commit per record would take too long
        self._committed_s = self._world.now_s
        if self._commit_mode is CommitMode.NOWAIT:
            self._consumer.commit_nowait()
        elif self._commit_mode is CommitMode.EACH_POLL or (
            self._commit_mode is CommitMode.ON_REVOKE and self._rng.random() < 0.1
        ):
            await self._commit()

    async def _commit(self) -> None:
        try:
            commit = self._consumer.commit(timeout=COMMIT_S)
            await self._world.call(f"{self.name}: commit", commit, COMMIT_S)
        except KafkaError as error:
            self._world.covered[f"{type(error).__name__} of a commit"] += 1

    async def _unsubscribe_for_a_while(self) -> None:
        """Unsubscribe, which leaves the group, and subscribe again after a while."""
        self._is_unsubscribed = True
        with suppress(KafkaError):
            await self._world.call(
                f"{self.name}: unsubscribe", self._consumer.unsubscribe(CLOSE_S), CLOSE_S + CALLBACKS_S
            )
        if self._is_closing:
            return
        from_s = self._world.now_s
        await asyncio.sleep(self._rng.uniform(0, 3))
        self._is_unsubscribed = False
        self._group.absences.append(Absence(self.name, from_s, self._world.now_s))
        self._world.covered["unsubscribed"] += 1
        if not self._is_closing:
            self._subscribe()

    async def _close(self) -> None:
        self._is_closing = True
        with suppress(KafkaError):
            close = self._consumer.close(CLOSE_S)
            await self._world.call(f"{self.name}: close", close, CLOSE_S + CALLBACKS_S)
        self._closed.set()
        self._group.absences.append(Absence(self.name, self._world.now_s, float("inf")))
        if self.ownerships:
            self._group.strays.append(f"{self.name} closed without on_revoked for {sorted(self.ownerships)}")
            self._end_ownerships(list(self.ownerships), End.CRASHED)

    # -- its callbacks

    def _subscribe(self) -> None:
        callbacks = {"on_assigned": self._assigned, "on_revoked": self._revoked, "on_lost": self._lost}
        if self._pattern is None:
            self._consumer.subscribe(self._topics, **callbacks)
        else:
            self._consumer.subscribe(pattern=self._pattern(self._topics), **callbacks)

    async def _assigned(self, partitions: list[TopicPartition]) -> None:
        world = self._world
        self._note_callback(f"is assigned {_short(partitions)} in {self.generation}")
        for tp in partitions:
            if tp in self.ownerships:
                self._group.strays.append(f"{self.name} was assigned {tp} twice, at {world.now_s:.3f} s")
            self.ownerships[tp] = ownership = Ownership(self.name, tp, world.now_s)
            self._group.ownerships.append(ownership)
        world.covered["assigned"] += 1
        for other in self._all_members():
            other.record_generation(partitions)
        if self._callback_s:
            with self._in_callback():
                await asyncio.sleep(self._callback_rng.uniform(0, self._callback_s))

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._note_callback(f"revokes {_short(partitions)} in {self.generation}")
        if self._commit_mode is not CommitMode.AUTO and partitions:
            with self._in_callback():
                await self._commit()
        self._end_ownerships(partitions, End.REVOKED)
        self._world.covered["revoked"] += 1

    def _note_callback(self, what: str) -> None:
        self._world.note(f"{self.name} {what}")
        if self._closed.is_set():
            self._group.strays.append(f"a callback of {self.name} ran after it was closed: it {what}")

    @contextmanager
    def _in_callback(self) -> Iterator[None]:
        self._callback_runs = True
        try:
            yield
        finally:
            self._callback_runs = False
            if self._closed.is_set():
                self._group.strays.append(f"a callback of {self.name} went on after it was closed")

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self._note_callback(f"loses {_short(partitions)}")
        self._end_ownerships(partitions, End.LOST)
        self._world.covered["lost partitions"] += 1

    def _end_ownerships(self, partitions: list[TopicPartition], end: End) -> None:
        for tp in partitions:
            ownership = self.ownerships.pop(tp, None)
            self._seek_and_pause.released(tp)
            if ownership is None:
                self._group.strays.append(f"{self.name} did not own {tp}, which was revoked or lost")
                continue
            ownership.ended_s, ownership.end = self._world.now_s, end


def _short(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"{topic}-{number}" for topic, number in partitions) or "nothing"
