"""Members of a group: they poll, process, and commit, each in its own way; they pause, crash, and lose touch.

What a member sees is written into a `GroupHistory`: partitions between their callbacks, records when it is done with
them, positions when it asks to store them. Start at `Member.run`.
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
from kafkaraw.client.groups.commit_queue import PendingCommit
from kafkaraw.client.groups.membership import CHECK_S
from kafkaraw.client.groups.progress import Progress
from kafkaraw.errors import FencedInstanceIdError, KafkaError, MaxPollExceededError
from kafkaraw.records import TopicPartition
from kafkaraw.testing.group_history import Commit, End, GroupHistory, Processed, Silence, Standing, Tenure
from tests.simulation.leash import Leash
from tests.simulation.manners import AT_ONCE, MANNERS, Piece, Surroundings
from tests.simulation.whims import Whims
from tests.simulation.world import World

T = TypeVar("T")

GROUP = "crew"
COMMIT_S = 5.0
"""What a commit is given."""
CALLBACKS_S = 2 * COMMIT_S
"""What callbacks may add to a call, as they commit."""
CLOSE_S = 10.0
LEAVING_S = 1.0
"""Within which a member that is away for too long has said so."""
EARLY_S = 0.001
INTERRUPTED_S = 2.0
"""So long whoever closes it waits until it is in a call that may be interrupted."""
IMPATIENT = 0.15
"""Where coordinators are slow, calls last so much shorter, so that there are some within a commit."""
SELDOM_S = 0.5
"""Once it has settled down, a member stores positions no more often."""


class Habit(StrEnum):
    """When a member stores what it has processed."""

    ON_REVOKE = "on revoke"
    """When it has to give partitions up, and at times in between."""
    EACH_POLL = "each poll"
    NOWAIT = "nowait"
    """After each poll, without waiting; and when it has to give partitions up."""
    AUTO = "auto"


class Member:
    """One consumer of the group, from its first call to its end.

    Args:
        world: where it lives.
        group: where is written down what it sees.
        name: of this consumer; of those that follow each other in a place, each has its own.
        habit: when it commits.
        topics: what it subscribes to.
        pattern: how it asks for topics, if not by name.
        settings: of its consumer.
        everybody: gives the members of the group that live now.
        welcome_s: what its user does with partitions that are new takes so long, at most, before they come back.
        is_versatile: it reads in every way, seeks and pauses; else it polls.

    Attributes:
        name: its name.
        tenures: what it has now.
        leash: by which it hangs on the network.
    """

    def __init__(
        self,
        world: World,
        group: GroupHistory,
        name: str,
        habit: Habit,
        topics: list[str],
        pattern: Callable[[list[str]], str | re.Pattern[str]] | None,
        settings: Mapping[str, object],
        everybody: Callable[[], Iterable[Member]],
        welcome_s: float = 0.0,
        *,
        is_versatile: bool = False,
    ) -> None:
        self.name = name
        self.tenures: dict[TopicPartition, Tenure] = {}
        self.leash = Leash(world.simulation.network)
        self._outlived: Standing | None = None
        self._world, self._group, self._habit, self._topics = world, group, habit, topics
        self._everybody, self._pattern = everybody, pattern
        self._welcome_s, self._welcomes = welcome_s, world.rng(f"callbacks of {name}")
        self._rng = world.rng(name)
        self._slow_s = self._rng.choice([0, 0, 0.005, 0.05])
        self._pause_s = 0.0
        self._leaves = self._is_silent = self._is_closing = self._is_called = self._is_busy = False
        self._closed = asyncio.Event()
        self._closer: asyncio.Task[None] | None = None
        self._is_restless = True
        self._left_s = self._away_s = self._back_s = 0.0  # the end of the call before, of this one, and its beginning
        self._committed_s = 0.0
        self._max_poll_s = settings["max_poll_interval_ms"] / 1000
        self._ways = world.rng(f"ways of {name}")
        self._manners = self._ways.sample(list(MANNERS), self._ways.choice([1, 1, 2, 4])) if is_versatile else ["poll"]
        self._is_interrupted = is_versatile and self._ways.random() < 0.5
        self._consumer = self._make(settings)
        self._whims = Whims(name, self._consumer, self.tenures, group, world, is_fickle=is_versatile)
        self._task = asyncio.create_task(self._run(), name=name)

    def _make(self, settings: Mapping) -> AsyncConsumer:
        consumer = self._world.consumer(
            self.name,
            runtime=self._world.runtime(self.name, self.leash),
            group_id=GROUP,
            enable_auto_commit=self._habit is Habit.AUTO,
            auto_commit_interval_ms=self._rng.choice([100, 700]),
            default_api_timeout_ms=10_000,
            request_timeout_ms=1_000,
            fetch_max_wait_ms=500,
            fetch_min_bytes=1,
            **settings,
        )
        watch_commits(self.name, consumer._group.progress, self._group, self._world)
        return consumer

    # -- what befalls it

    def pause(self, seconds: float) -> None:
        """Keep it from polling for so long, once it has processed what it has."""
        self._pause_s = seconds

    def want(self, topics: list[str]) -> None:
        """Have it subscribe to these."""
        self._topics = topics
        if not self._is_silent and not self._is_closing:
            self._subscribe()

    def settle_down(self) -> None:
        """From now on it stays in the group."""
        self._is_restless = False

    async def crash(self) -> None:
        """The process is gone: nobody hears of it, and nothing is sent any more."""
        tasks = [task for task in (self._task, self._closer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        group = self._consumer._group
        await group.membership.close()
        await group.progress.close(Deadline(0))
        await self._consumer._reading.close(Deadline(0))
        self._gave(list(self.tenures), End.CRASHED)

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself, in order; raises what it has not ended in order by."""
        if self._task.done():
            self._task.result()
        return self._task.done()

    @property
    def is_back(self) -> bool:
        """Whether it is a member, as far as it knows."""
        return self.generation >= 0 and not self._is_closing

    async def leave(self) -> None:
        """Let it end in order, after what it is doing now; or close its consumer from here, in the middle of a call."""
        if self._is_interrupted:
            await self._until_interruptible()
            if self._is_interruptible:
                doing = "a callback ran" if self._is_called else "it was busy" if self._is_busy else "it was waiting"
                self._world.covered[f"closed while {doing}"] += 1
                self._closer = asyncio.create_task(self._close(), name=f"{self.name} is closed")
                await asyncio.wait([self._closer])
                if not self._closer.cancelled():
                    self._closer.result()
        self._leaves = True
        await asyncio.wait([self._task])

    @property
    def _is_interruptible(self) -> bool:
        """Whether it waits for records, or for a callback of its own: nothing that it was given is unprocessed then.

        Or whether what it is busy with is not stored; but others process that again.
        """
        is_busy = self._is_busy and self._habit is Habit.AUTO and not self._group.exact
        return (self._consumer._reading.is_waiting or self._is_called or is_busy) and not self._is_closing

    async def _until_interruptible(self) -> None:
        wants_callback, until_s = self._ways.random() < 0.5, self._world.now_s + INTERRUPTED_S
        # Drawn from a stream of its own, so that lives in which nobody wants that stay as they were.
        wants_work = self._world.rng(f"work of {self.name}").random() < 0.5 and self._habit is Habit.AUTO
        while not self._task.done() and self._world.now_s < until_s:
            if self._is_interruptible and (self._is_called or not wants_callback) and (self._is_busy or not wants_work):
                return
            await asyncio.sleep(EARLY_S)

    @property
    def generation(self) -> int:
        """What it believes."""
        return self._consumer.group_metadata().generation_id

    def look(self, partitions: Iterable[TopicPartition]) -> None:
        """Write down what it believes now, of these."""
        standing = self._stand()
        for tp in partitions:
            if tp in self.tenures:
                self.tenures[tp].standings.append(standing)

    def is_outlived(self) -> None:
        """The group in which it believes itself to be, if in any, is no more; another one begins under its name."""
        self._outlived = self._stand()

    def _stand(self) -> Standing:
        """Where it believes itself to be: in the group's life before this one, as long as it has not moved since."""
        generation, before = self.generation, self._outlived
        if before is None or before.generation != generation:
            before = self._outlived = None
        life = self._group.life if before is None else before.life
        return Standing(self._world.now_s, generation, life)

    # -- its loop

    async def _run(self) -> None:
        self._subscribe()
        while not (self._leaves or self._is_closing):
            try:
                await self._read()
                await self._pause()
                if not self._is_closing:
                    self._whims.follow(is_restless=self._is_restless)
            except FencedInstanceIdError:
                # A coordinator that takes over in a rebalance may know an older member of this name: final, in Kafka.
                self._world.covered["fenced"] += 1
                break
            except KafkaError as error:
                self._note(error)
                await asyncio.sleep(0.01)
            if self._is_restless and self._rng.random() < 0.01 and not self._is_closing:
                await self._be_silent()
        if self._is_closing:
            await self._closed.wait()
        else:
            await self._close()

    def _note(self, error: KafkaError) -> None:
        self._world.covered[type(error).__name__] += 1
        if isinstance(error, MaxPollExceededError):
            # Whoever goes through what is in hand makes no call: that they do is looked for now and then.
            look_s = 0.0 if AT_ONCE.issuperset(self._manners) else CHECK_S
            since_s = self._left_s + self._max_poll_s + look_s + LEAVING_S
            if since_s < self._back_s:
                self._group.silences.append(Silence(self.name, since_s, self._back_s))

    async def _read(self) -> None:
        """Take and process what there is, in one of the ways in which it reads."""
        world, timeout = self._world, self._rng.choice([0.1, 0.5, 1.0])
        if world.climate.slow_coordinators:
            timeout *= IMPATIENT
        manner, enough = self._ways.choice(self._manners), self._ways.choice([1, 3, 20])
        began_s, taken = world.now_s, 0
        around = Surroundings(self._ask, lambda: self._is_called)
        async with aclosing(MANNERS[manner](self._consumer, timeout, around)) as pieces:
            async for piece in pieces:
                taken += 1
                await self._process(piece)
                if manner not in AT_ONCE and (self._leaves or taken >= enough):
                    break
        if not taken and not self._is_closing and world.now_s < began_s + timeout - EARLY_S:
            world.history.stuck.append(f"{self.name}: {manner} gave up at {world.now_s:.3f} s, before its time")
        if taken:
            world.covered[f"read by {manner}"] += 1
            await self._commit_after_reading()

    async def _ask(self, name: str, work: Awaitable[T], timeout: float) -> T:
        self._left_s, self._back_s = self._away_s, self._world.now_s
        try:
            found = await self._world.call(f"{self.name}: {name}", work, timeout + CALLBACKS_S)
        finally:
            self._away_s = self._world.now_s
        self.look(self.tenures)
        return found

    async def _process(self, piece: Piece) -> None:
        tp, records = piece
        tenure = self.tenures.get(tp)
        if tenure is None:
            self._group.strays.append(f"{self.name} was given records of {tp} at {self._world.now_s:.3f} s")
            return
        stretch = self._whims.given(tp, records[0][0])
        self._world.history.reads[stretch] += [(tp, offset, value) for offset, value in records]
        self._is_busy = True
        for offset, value in records:
            if self._slow_s and not self._has_to_hurry:
                await asyncio.sleep(self._slow_s)
            tenure.processed.append(Processed(self._world.now_s, offset, value))
        self._is_busy = False

    @property
    def _has_to_hurry(self) -> bool:
        """Once it has settled down it is not slow for so long that it is thrown out, for ever again; or at all, where
        there is much to catch up with.
        """
        is_late = self._world.now_s > self._away_s + self._max_poll_s / 2
        return not self._is_restless and (is_late or self._world.climate.slow_coordinators)

    async def _pause(self) -> None:
        if self._pause_s:
            pause_s, self._pause_s = self._pause_s, 0.0
            await asyncio.sleep(pause_s)

    async def _commit_after_reading(self) -> None:
        if not self._is_restless and self._world.now_s < self._committed_s + SELDOM_S:
            return  # one record at a time, and each one stored before the next, all of them would take too long
        self._committed_s = self._world.now_s
        if self._habit is Habit.NOWAIT:
            self._consumer.commit_nowait()
        elif self._habit is Habit.EACH_POLL or (self._habit is Habit.ON_REVOKE and self._rng.random() < 0.1):
            await self._commit()

    async def _commit(self) -> None:
        try:
            commit = self._consumer.commit(timeout=COMMIT_S)
            await self._world.call(f"{self.name}: commit", commit, COMMIT_S)
        except KafkaError as error:
            self._world.covered[f"{type(error).__name__} of a commit"] += 1

    async def _be_silent(self) -> None:
        """Leave the group for a while, but stay."""
        self._is_silent = True
        with suppress(KafkaError):
            await self._world.call(
                f"{self.name}: unsubscribe", self._consumer.unsubscribe(CLOSE_S), CLOSE_S + CALLBACKS_S
            )
        if self._is_closing:
            return
        from_s = self._world.now_s
        await asyncio.sleep(self._rng.uniform(0, 3))
        self._is_silent = False
        self._group.silences.append(Silence(self.name, from_s, self._world.now_s))
        self._world.covered["unsubscribed"] += 1
        if not self._is_closing:
            self._subscribe()

    async def _close(self) -> None:
        self._is_closing = True
        with suppress(KafkaError):
            close = self._consumer.close(CLOSE_S)
            await self._world.call(f"{self.name}: close", close, CLOSE_S + CALLBACKS_S)
        self._closed.set()
        self._group.silences.append(Silence(self.name, self._world.now_s, float("inf")))
        if self.tenures:
            self._group.strays.append(f"{self.name} was not asked to give up {sorted(self.tenures)} when it closed")
            self._gave(list(self.tenures), End.CRASHED)

    # -- its callbacks

    def _subscribe(self) -> None:
        callbacks = {"on_assigned": self._assigned, "on_revoked": self._revoked, "on_lost": self._lost}
        if self._pattern is None:
            self._consumer.subscribe(self._topics, **callbacks)
        else:
            self._consumer.subscribe(pattern=self._pattern(self._topics), **callbacks)

    async def _assigned(self, partitions: list[TopicPartition]) -> None:
        world = self._world
        self._told(f"gets {_short(partitions)} in {self.generation}")
        for tp in partitions:
            if tp in self.tenures:
                self._group.strays.append(f"{self.name} was given {tp} twice, at {world.now_s:.3f} s")
            self.tenures[tp] = tenure = Tenure(self.name, tp, world.now_s)
            self._group.tenures.append(tenure)
        world.covered["assigned"] += 1
        for other in self._everybody():
            other.look(partitions)
        if self._welcome_s:
            with self._being_called():
                await asyncio.sleep(self._welcomes.uniform(0, self._welcome_s))

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._told(f"gives {_short(partitions)} in {self.generation}")
        if self._habit is not Habit.AUTO and partitions:
            with self._being_called():
                await self._commit()
        self._gave(partitions, End.REVOKED)
        self._world.covered["revoked"] += 1

    def _told(self, what: str) -> None:
        self._world.note(f"{self.name} {what}")
        if self._closed.is_set():
            self._group.strays.append(f"{self.name} was called back after it was closed: it {what}")

    @contextmanager
    def _being_called(self) -> Iterator[None]:
        self._is_called = True
        try:
            yield
        finally:
            self._is_called = False
            if self._closed.is_set():
                self._group.strays.append(f"{self.name} was closed while a callback ran, and went on")

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self._told(f"loses {_short(partitions)}")
        self._gave(partitions, End.LOST)
        self._world.covered["lost partitions"] += 1

    def _gave(self, partitions: list[TopicPartition], end: End) -> None:
        for tp in partitions:
            tenure = self.tenures.pop(tp, None)
            self._whims.gave_up(tp)
            if tenure is None:
                self._group.strays.append(f"{self.name} had to give up {tp}, and had not got it")
                continue
            tenure.ended_s, tenure.end = self._world.now_s, end


def _short(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"{topic}-{number}" for topic, number in partitions) or "nothing"


def watch_commits(name: str, progress: Progress, group: GroupHistory, world: World) -> None:
    """Have a history tell which positions a consumer wants stored, since when, and what it is told.

    Commits wait for each other, and become one then: each position is known by its own object.
    """
    intend, commit = progress._ownership.pending, progress._commits.commit
    asked: dict[int, tuple[object, float]] = {}

    def noted_commit(offsets: Mapping) -> PendingCommit:
        asked.update((id(at), (at, world.now_s)) for at in offsets.values())
        return intend(offsets)

    async def noted(offsets: Mapping, *args: object) -> None:
        entries: dict[float, Commit] = {}
        for tp, at in offsets.items():
            began_s = asked[id(at)][1]
            entries.setdefault(began_s, Commit(name, {}, began_s)).positions[tp] = at.offset
        group.commits.extend(entries.values())
        try:
            await commit(offsets, *args)
            for entry in entries.values():
                entry.acknowledged = True
        finally:
            for entry in entries.values():
                entry.ended_s = world.now_s

    progress._ownership.pending, progress._commits.commit = noted_commit, noted
