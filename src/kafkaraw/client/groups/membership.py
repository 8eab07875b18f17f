"""A consumer's membership of its group: drives the machine of `core/group`, and tells the user inside their calls.

One task (`_keep`) does what the machine asks for, so heartbeats depend on nothing that the user does. What concerns the
user waits for `turn`, which every call that reads makes first. Start at `turn` and `_keep`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Final

from kafkaraw.client.committed import GroupMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.callbacks import Callbacks
from kafkaraw.client.groups.handing_over import HandingOver
from kafkaraw.client.groups.intents import Positions
from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.groups.subscribed import Subscribed
from kafkaraw.client.listeners import Listeners
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.coordinator import Coordinator
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.fetch.positions import Start
from kafkaraw.core.group.events import (
    HEARTBEATS,
    Action,
    AssignmentChange,
    CommitRejected,
    ErrorReported,
    Event,
    FindTopicNames,
    FindTopics,
    LeaveGroup,
    PollEnded,
    PollStarted,
    ReconciliationCompleted,
    ReconciliationStarted,
    RecordsConsumed,
    RequestFailed,
    ResponseReceived,
    Send,
    SubscriptionChanged,
    TopicNamesFound,
    TopicsFound,
    TopicsRefreshed,
    Unsubscribed,
)
from kafkaraw.core.group.member import GroupMember
from kafkaraw.errors import CommitFailed, KafkaError, UsageError, copy_to_raise
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log = logging.getLogger(__name__)

LOOK_S: Final = 3.0
"""How often is looked after what no event tells: topics that were made, a user who is away, commits that are due."""


class _Withdrawn(Exception):
    """While the coordinator was looked for, the member has left or begun anew, and this request is wrong by now."""


class Membership:
    """The membership of one consumer.

    Args:
        engine: the way to the cluster.
        config: the consumer's settings, with a group.
        member: decides.
        coordinator: of the group.
        reading: reads what the member owns.
        metrics: counts.

    Attributes:
        callbacks: the calls of the user's callbacks.
        progress: commits; to be given before the first call.
    """

    progress: Progress

    def __init__(
        self,
        engine: Engine,
        config: ConsumerConfig,
        member: GroupMember,
        coordinator: Coordinator,
        reading: Reading,
        metrics: GroupMetrics,
    ) -> None:
        self.callbacks = Callbacks()
        self.member = member
        self._engine = engine
        self._config = config
        self._coordinator = coordinator
        self._reading = reading
        self._metrics = metrics
        self._listeners = Listeners()
        self._subscribed = Subscribed(engine, config)
        self._telling: HandingOver | None = None
        self._last: HandingOver | None = None  # what is told to who leaves
        self._keeper: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._problem: KafkaError | None = None
        self._failure: BaseException | None = None
        self._mark: object = None

    # -- what the user wants

    @property
    def is_active(self) -> bool:
        """Whether something is subscribed to."""
        return self._subscribed.is_active

    @property
    def subscription(self) -> list[str]:
        """Names of the topics that are subscribed to, as far as they are known."""
        return sorted(self._subscribed.wanted.topics)

    def subscribe(self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, who: Listeners) -> None:
        """Want these topics from now on; membership begins with the next call that reads."""
        self._subscribed.subscribe(topics, pattern)
        self._listeners = who
        self._news.set()

    def group_metadata(self) -> GroupMetadata:
        """Who this member is at the moment."""
        member = self.member
        return GroupMetadata(
            member.settings.group_id,
            member.identity.generation_id,
            member.identity.member_id,
            member.settings.group_instance_id,
        )

    def identity(self) -> GroupMetadata:
        """Who commits.

        Raises:
            CommitFailed: something is subscribed to, but this consumer is no member: its partitions belong to others.
        """
        if not self.is_active:
            return GroupMetadata(self.member.settings.group_id)
        if self.member.identity.generation_id < 0:
            raise CommitFailed(
                f"nothing was committed for group {self.member.settings.group_id!r}: the consumer "
                f"{self.member.description}, and what it had may belong to others; call poll() to be a member again"
            )
        return self.group_metadata()

    def refused(self, code: int, who: GroupMetadata) -> bool:
        """A commit was refused because of who made it; says whether to try again, as who this member is now."""
        if not self.is_active:
            return False
        self._news.set()
        retries = self.member.retries_commit(code, who.generation_id)
        self._receive(CommitRejected(code, who.generation_id))
        return retries

    async def settled(self, deadline: Deadline) -> None:
        """Wait, in a rebalance that ends without the user, until it has ended; no longer than the deadline."""
        while self.is_active and self.member.is_rebalancing and not deadline.expired:
            self._changed.clear()
            await _wait(self._changed, deadline.remaining)

    # -- inside the user's calls

    async def turn(self, deadline: Deadline) -> bool:
        """Do what has to be done inside a call of the user, before anything is given to them.

        Returns:
            whether records may be given: False when the time was up before all was done.

        Raises:
            KafkaError: what the user must hear of.
            CallUser: a callback has to be called on the user's thread.
        """
        if self.callbacks.is_inside:
            raise UsageError("a callback of a rebalance cannot read: the rebalance waits for it to return")
        self._begin()
        self._receive(PollStarted())
        try:
            self._raise_problem()
            return await self._tell(deadline)
        finally:
            self._receive(PollEnded())
            self._news.set()

    async def _tell(self, deadline: Deadline) -> bool:
        while True:
            if self._telling is None:
                handover = self.member.reconciler.pending
                if handover is None:
                    return True
                self._receive(ReconciliationStarted())
                log.info("group %r: %s", self.member.settings.group_id, _words(handover))
                self._telling = HandingOver(handover, self._listeners, self, self.callbacks)
            telling = self._telling
            if not await telling.go_on(deadline) or self._telling is not telling:
                return False  # the time is up, or somebody who closes has told the rest
            self._telling = None
            self._receive(ReconciliationCompleted())
            self._news.set()
            problem = telling.take_problem()
            if problem is not None:
                raise problem

    def _raise_problem(self) -> None:
        if self._failure is not None:
            raise copy_to_raise(self._failure)
        problem, self._problem = self._problem, None
        if problem is None:
            problem = self.member.reconciler.error
            self._receive(ErrorReported())
        problem = problem or self._subscribed.problem()
        if problem is not None:
            raise with_principal(problem, self._config)

    # -- what handing over needs, see `handing_over.Owner`

    def read(self, partitions: Iterable[TopicPartition], starts: Positions) -> None:
        """Read exactly these from now on, new ones from these positions."""
        kept = sorted(partitions)
        self._reading.fetcher.was_reached = True
        self._reading.assign(kept, {partition: Start(at.offset, at.leader_epoch) for partition, at in starts.items()})
        self.progress.forget(kept)
        self._use_topics()

    async def commit_processed(self) -> None:
        """Commit what was processed, if that is to be done without being asked."""
        await self.progress.commit_processed()

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way that the user asked for and does not wait for."""
        return self.progress.is_committing

    async def commits_end(self) -> None:
        """Let those commits end."""
        await self.progress.commits_end()

    async def stored_positions(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Where to begin."""
        return await self.progress.stored(partitions, self._engine.deadline(None))

    # -- leaving

    async def leave(self, deadline: Deadline, reason: str) -> None:
        """Give everything up and leave; the user is told as in a rebalance.

        Raises:
            CallUser: a callback has to be called on the user's thread; then call again.
            Exception: what a callback raised; the member has left nevertheless.
        """
        if not self.is_active:
            return
        problem = await self._tell_last(deadline)
        if self.is_active:
            self._subscribed.clear()
            self._receive(Unsubscribed(reason))
            self._reading.assign(())
            for action in self.member.actions():
                self._do(action)
        if self._leaving:
            await asyncio.wait(set(self._leaving), timeout=deadline.remaining)
        self._news.set()
        if problem is not None:
            raise problem

    async def _tell_last(self, deadline: Deadline) -> Exception | None:
        """Tell the user that nothing is theirs any more, after what they were being told; what a callback raised.

        Others may do the same meanwhile, or may still be in a call that tells: whoever comes first takes the next step.
        """
        while self._last is None and self.is_active:
            before = self._telling
            if before is not None:
                await before.finish(deadline)
            if self._telling is before:
                self._telling = self._last = self._last_words(before)
        last = self._last
        if last is None:
            return None
        await last.finish(deadline)
        if self._last is last:
            self._telling = self._last = None
        return last.take_problem()

    def _last_words(self, before: HandingOver | None) -> HandingOver:
        self._receive(ReconciliationCompleted())
        owned = self.member.reconciler.owned
        is_member = self.member.identity.generation_id >= 0
        last = AssignmentChange(revoked=owned) if is_member else AssignmentChange(lost=owned)
        telling = HandingOver(last, self._listeners, self, self.callbacks)
        problem = None if before is None else before.take_problem()
        if problem is not None:
            telling.failed(problem)
        return telling

    async def close(self) -> None:
        """End every task."""
        tasks = [*self._tasks, *self._leaving, *(task for task in (self._keeper, self._looking) if task is not None)]
        if self._telling is not None:
            self._telling.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the task that keeps the membership

    def _begin(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="group membership")
            self._keeper.add_done_callback(self._ended)

    async def _keep(self) -> None:
        """Do what the machine asks for, for ever; a loop root."""
        while True:
            now_ms = self._now_ms()
            self._news.clear()
            self._look_around(now_ms)
            self.member.tick(now_ms)
            for action in self.member.actions():
                self._do(action)
            if self.member.reconciler.needs_poll:
                self._call_home()
            self._changed.set()
            await self._rest(now_ms)

    async def _rest(self, now_ms: int) -> None:
        """Wait for news, or for the next deadline; and notice when the loop was held up."""
        deadline_ms = self.member.deadline_ms()
        pause_s = LOOK_S if deadline_ms is None else min(LOOK_S, max(0.0, (deadline_ms - now_ms) / 1000))
        loop = asyncio.get_running_loop()
        due_s = loop.time() + pause_s
        await _wait(self._news, pause_s)
        late_s = loop.time() - due_s
        if late_s * 3000 > self.member.settings.session_timeout_ms:
            log.warning(
                "group %r: the event loop was blocked for %.1f s, in which no heartbeat could be sent "
                "(session_timeout_ms=%d): do not call what blocks in a coroutine; use asyncio.to_thread",
                *(self.member.settings.group_id, late_s, self.member.settings.session_timeout_ms),
            )

    def _look_around(self, now_ms: int) -> None:
        if not self.is_active:
            return
        self._look_for_user(now_ms)
        watched = self.member.watched_topics
        if watched:
            self.member.receive(TopicsRefreshed(self._subscribed.topics_of(watched)), now_ms)
        if self._looking is None and self._subscribed.is_due(now_ms):
            self._looking = self._start(self._look(now_ms), "looking at topics")
        if self._subscribed.is_known and self.member.poll_timer.is_enabled:  # it joins with the first poll
            self.member.receive(SubscriptionChanged(self._subscribed.wanted), now_ms)

    def _look_for_user(self, now_ms: int) -> None:
        """Somebody who waits in a call, or goes through records that they were given, is not away."""
        mark = self._reading.cursor.mark
        if self._reading.is_waiting or mark != self._mark:
            self._mark = mark
            self.member.receive(RecordsConsumed(), now_ms)
        if self.progress.is_due:
            self._call_home()

    def _call_home(self) -> None:
        """Have the user's next call come to `turn`, though there are records in hand."""
        self._reading.cursor.called_home = True
        self._reading.wake()

    def _do(self, action: Action) -> None:
        if isinstance(action, Send):
            self._start(self._send(action), "group request")
        elif isinstance(action, FindTopics):
            self._start(self._find(action), "finding topics")
        elif isinstance(action, FindTopicNames):
            self._start(self._find_names(action), "finding topics")
        else:
            self._leaving.add(task := self._start(self._leave_group(action), "leaving the group"))
            task.add_done_callback(self._leaving.discard)

    async def _send(self, action: Send) -> None:
        while self._leaving:  # else a leave request that is retried might come after the next JoinGroup
            await asyncio.wait(set(self._leaving))
        find_s, began_s = self._config.request_timeout_ms / 1000, self._metrics.begin()

        def make(connection: Connection) -> object:
            if not self.member.awaits(action.attempt):
                raise _Withdrawn
            return action.make(connection.version_for(action.api_key))

        try:
            response = await self._coordinator.once(
                make, timeout=action.timeout_ms / 1000, find_s=find_s, lane="group" if action.blocks else "main"
            )
        except _Withdrawn:
            return
        except KafkaError as error:
            self._receive(RequestFailed(action.attempt, error))
        else:
            if action.api_key in HEARTBEATS:
                self._metrics.heartbeat_answered(began_s)
            self._receive(ResponseReceived(action.attempt, response))
        self._news.set()

    async def _find(self, action: FindTopics) -> None:
        try:
            await self._engine.refresh(action.topics)
        except KafkaError as error:
            self._receive(RequestFailed(action.attempt, error))
        else:
            topics = self._subscribed.topics_of(action.topics)
            self._receive(TopicsFound(action.attempt, topics))
            self._use_topics()
        self._news.set()

    async def _find_names(self, action: FindTopicNames) -> None:
        try:
            await self._engine.refresh(None if self._subscribed.wanted.pattern else self._subscribed.wanted.topics)
        except KafkaError as error:
            self._receive(RequestFailed(action.attempt, error))
        else:
            self._receive(TopicNamesFound(action.attempt))
        self._news.set()

    async def _leave_group(self, action: LeaveGroup) -> None:
        """Leave the group; otherwise the other members would wait until the session times out."""
        deadline, moved = Deadline(self._config.request_timeout_ms / 1000), True
        try:
            while moved and not deadline.expired:
                response = await self._coordinator.once(
                    lambda connection: action.make(connection.version_for(action.api_key)), timeout=deadline.remaining
                )
                moved = is_retriable(getattr(response, "error_code", ErrorCode.NONE))
                if moved:
                    await deadline.sleep(self._config.retry_backoff_ms / 1000)
        except KafkaError as error:
            log.info("leaving group %r (%s) was not confirmed: %s", self._config.group_id, action.reason, error)

    async def _look(self, now_ms: int) -> None:
        try:
            await self._subscribed.look(now_ms, self.member.watched_topics)
        except KafkaError as error:
            log.info("looking at the topics of group %r failed: %s", self.member.settings.group_id, error)
            if not self._engine.cluster.brokers:  # not reached yet: perhaps the address is wrong
                self._problem = error
                self._reading.wake()
        finally:
            self._looking = None
            self._use_topics()
            self._news.set()

    def _use_topics(self) -> None:
        owned = {partition.topic for partition in self.member.reconciler.owned}
        self._engine.use_topics(owned | self._subscribed.wanted.topics | set(self.member.watched_topics))

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An error that is none of Kafka's is a fault in this program: the next call raises it."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._reading.wake()

    def _receive(self, event: Event) -> None:
        self.member.receive(event, self._now_ms())

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _words(handover: AssignmentChange) -> str:
    """What the user is told, for the log."""
    parts = {"lost": handover.lost, "revoked": handover.revoked, "assigned": handover.assigned or ()}
    told = [f"{what} {', '.join(f'{t}-{n}' for t, n in sorted(them))}" for what, them in parts.items() if them]
    return "; ".join(told) or "nothing changes for this member"
