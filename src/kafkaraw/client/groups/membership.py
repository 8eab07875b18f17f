"""A consumer's membership in its group: drives the state machine of `core/group`, and reconciles inside `poll`.

One task (`_run`) carries out the actions of the machine, so heartbeats do not depend on the application. What concerns
the application waits for `turn`, with which every call that returns records begins: errors, and changes of the
assignment. Start at `turn` and `_run`.
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
from kafkaraw.client.groups.commit_queue import Positions
from kafkaraw.client.groups.listeners import Callbacks, Listeners
from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.groups.reconciliation import Reconciliation
from kafkaraw.client.groups.subscription import SubscribedTopics
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.coordinator import Coordinator
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
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
from kafkaraw.errors import CommitFailedError, KafkaError, UsageError, copy_to_raise
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log: logging.Logger = logging.getLogger(__name__)

CHECK_S: Final = 3.0
"""How often to check what no event reports: new topics, the poll timer, commits that are due."""


class _Withdrawn(Exception):
    """The member has left or rejoined while the coordinator was looked up: the request must not be sent any more."""


class _Tasks:
    """The tasks of one membership.

    Attributes:
        runner: drives the state machine.
        refreshing: refreshes the metadata of subscribed topics.
        leaving: send leave requests.
        running: carry out other actions, and the ones above except the runner.
    """

    def __init__(self) -> None:
        self.runner: asyncio.Task[None] | None = None
        self.refreshing: asyncio.Task[None] | None = None
        self.leaving: set[asyncio.Task[None]] = set()
        self.running: set[asyncio.Task[None]] = set()

    async def cancel(self) -> None:
        """Cancel all tasks, and wait for their end."""
        named = (task for task in (self.runner, self.refreshing) if task is not None)
        tasks = [*self.running, *self.leaving, *named]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Membership:
    """The membership of one consumer.

    Args:
        engine: the client's connections and metadata.
        config: the consumer's settings, with a group.
        member: the state machine.
        coordinator: of the group.
        reading: reads the assigned partitions.
        metrics: counters.

    Attributes:
        callbacks: the calls of the rebalance listener.
        progress: the consumer's commits; to be set before the first call.
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
        self.callbacks: Callbacks = Callbacks()
        self.member = member
        self._engine = engine
        self._config = config
        self._coordinator = coordinator
        self._reading = reading
        self._metrics = metrics
        self._listeners = Listeners()
        self._topics = SubscribedTopics(engine, config)
        self._reconciliation: Reconciliation | None = None
        self._final: Reconciliation | None = None  # of a member that leaves
        self._tasks = _Tasks()
        self._wakeup = asyncio.Event()
        self._changed = asyncio.Event()
        self._error: KafkaError | None = None
        self._fault: BaseException | None = None
        self._mark: object = None
        self._last_identity: GroupMetadata = self._current_identity()

    # -- the subscription

    @property
    def is_active(self) -> bool:
        """Whether there is a subscription."""
        return self._topics.is_active

    @property
    def subscription(self) -> list[str]:
        """Names of the subscribed topics; of a pattern, those that are known to match."""
        return sorted(self._topics.subscription.topics)

    def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listeners: Listeners
    ) -> None:
        """Subscribe to these topics; the member joins with the next call to poll."""
        self._topics.subscribe(topics, pattern)
        self._listeners = listeners
        self._wakeup.set()

    def group_metadata(self) -> GroupMetadata:
        """Return the member id and the generation in which the consumer got its partitions.

        The coordinator accepts TxnOffsetCommit without a member id and with generation -1 from any producer. A member
        that the coordinator has removed has neither. Until a poll reports its partitions as lost, this method returns
        the member's last identity, which the coordinator refuses (KIP-447).
        """
        self._remember_identity()
        return self._last_identity if self.is_active else self._current_identity()

    def _remember_identity(self) -> None:
        """Take over the member's identity, unless it is none, or one that does not own what the application holds."""
        reconciler = self.member.reconciler
        change = reconciler.in_progress or reconciler.pending
        if self.member.identity.generation_id >= 0 and not (change is not None and change.lost):
            self._last_identity = self._current_identity()

    def _current_identity(self) -> GroupMetadata:
        member = self.member
        return GroupMetadata(
            member.settings.group_id,
            member.identity.generation_id,
            member.identity.member_id,
            member.settings.group_instance_id,
        )

    def identity(self) -> GroupMetadata:
        """Return the identity for a commit.

        Raises:
            CommitFailedError: the consumer has subscribed, but is no member: its partitions may belong to others.
        """
        if not self.is_active:
            return GroupMetadata(self.member.settings.group_id)
        if self.member.identity.generation_id < 0:
            raise CommitFailedError(
                f"nothing was committed for group {self.member.settings.group_id!r}: the consumer "
                f"{self.member.description}, and its partitions may belong to others; call poll() to rejoin"
            )
        return self._current_identity()

    def refused(self, code: int, who: GroupMetadata) -> bool:
        """A commit was rejected because of its member id or generation; return whether to retry it."""
        if not self.is_active:
            return False
        self._wakeup.set()
        retries = self.member.retries_commit(code, who.generation_id)
        self._receive(CommitRejected(code, who.generation_id))
        return retries

    async def settled(self, deadline: Deadline) -> None:
        """Wait for the end of a rebalance that ends without a call to poll; no longer than the deadline."""
        while self.is_active and self.member.is_rebalancing and not deadline.expired:
            self._changed.clear()
            await _wait(self._changed, deadline.remaining)

    # -- inside calls of the application

    async def turn(self, deadline: Deadline) -> bool:
        """Do what has to be done inside a call of the application, before it gets records.

        Returns:
            whether records may be returned: False if the time was up before all was done.

        Raises:
            KafkaError: the member's error.
            CallUser: a callback has to be called on the thread of the application.
        """
        if self.callbacks.is_inside:
            raise UsageError("a callback of a rebalance cannot read: the rebalance waits for it to return")
        self._begin()
        self._receive(PollStarted())
        try:
            self._raise_error()
            return await self._reconcile(deadline)
        finally:
            self._receive(PollEnded())
            self._wakeup.set()

    async def _reconcile(self, deadline: Deadline) -> bool:
        while True:
            if self._reconciliation is None:
                change = self.member.reconciler.pending
                if change is None:
                    self._remember_identity()
                    return True
                self._receive(ReconciliationStarted())
                log.info("group %r: %s", self.member.settings.group_id, _description(change))
                self._reconciliation = self._new_reconciliation(change)
            reconciliation = self._reconciliation
            if not await reconciliation.run(deadline) or self._reconciliation is not reconciliation:
                return False  # the time is up, or a task that closes the consumer has done the rest
            self._reconciliation = None
            self._receive(ReconciliationCompleted())
            self._wakeup.set()
            error = reconciliation.take_error()
            if error is not None:
                raise error

    def _new_reconciliation(self, change: AssignmentChange) -> Reconciliation:
        return Reconciliation(
            change, self._listeners, self.callbacks, self.progress, self._assign, self._committed_offsets
        )

    async def _committed_offsets(self, partitions: Iterable[TopicPartition]) -> Positions:
        return await self.progress.stored(partitions, self._engine.deadline(None))

    def _raise_error(self) -> None:
        if self._fault is not None:
            raise copy_to_raise(self._fault)
        error, self._error = self._error, None
        if error is None:
            error = self.member.reconciler.error
            self._receive(ErrorReported())
        error = error or self._topics.error()
        if error is not None:
            raise with_principal(error, self._config)

    def _assign(self, partitions: Iterable[TopicPartition], starts: Positions) -> None:
        kept = sorted(partitions)
        self._reading.fetcher.was_reached = True
        self._reading.assign(kept, starts)
        self.progress.forget(kept)
        self._use_topics()

    # -- leaving

    async def leave(self, deadline: Deadline, reason: str) -> None:
        """Revoke all partitions, as in a rebalance, and leave the group.

        Raises:
            CallUser: a callback has to be called on the thread of the application; then call again.
            Exception: what a callback raised; the member has left nevertheless.
        """
        if not self.is_active:
            return
        error = await self._reconcile_finally(deadline)
        if self.is_active:
            self._topics.clear()
            self._receive(Unsubscribed(reason))
            self._last_identity = self._current_identity()
            self._reading.assign(())
            for action in self.member.actions():
                self._do(action)
        if self._tasks.leaving:
            await asyncio.wait(set(self._tasks.leaving), timeout=deadline.remaining)
        self._wakeup.set()
        if error is not None:
            raise error

    async def _reconcile_finally(self, deadline: Deadline) -> Exception | None:
        """Finish the reconciliation in progress, then revoke all partitions; return what a callback raised.

        Other tasks may do the same, or may be in a call to poll that reconciles: the first one takes the next step.
        """
        while self._final is None and self.is_active:
            before = self._reconciliation
            if before is not None:
                await before.finish(deadline)
            if self._reconciliation is before:
                self._reconciliation = self._final = self._final_reconciliation(before)
        final = self._final
        if final is None:
            return None
        await final.finish(deadline)
        if self._final is final:
            self._reconciliation = self._final = None
        return final.take_error()

    def _final_reconciliation(self, before: Reconciliation | None) -> Reconciliation:
        self._receive(ReconciliationCompleted())
        owned = self.member.reconciler.owned
        is_member = self.member.identity.generation_id >= 0
        change = AssignmentChange(revoked=owned) if is_member else AssignmentChange(lost=owned)
        final = self._new_reconciliation(change)
        error = None if before is None else before.take_error()
        if error is not None:
            final.failed(error)
        return final

    async def close(self) -> None:
        """End every task."""
        if self._reconciliation is not None:
            self._reconciliation.cancel()
        await self._tasks.cancel()

    # -- the task that drives the machine

    def _begin(self) -> None:
        if self._tasks.runner is None:
            self._tasks.runner = asyncio.get_running_loop().create_task(self._run(), name="group membership")
            self._tasks.runner.add_done_callback(self._ended)

    async def _run(self) -> None:
        """Carry out the actions of the machine until the task is cancelled; a loop root."""
        while True:
            now_ms = self._now_ms()
            self._wakeup.clear()
            self._report_changes(now_ms)
            self.member.tick(now_ms)
            for action in self.member.actions():
                self._do(action)
            if self.member.reconciler.needs_poll:
                self._interrupt_iteration()
            self._changed.set()
            await self._sleep(now_ms)

    async def _sleep(self, now_ms: int) -> None:
        """Wait for a wakeup or the next deadline; warn if the event loop was blocked meanwhile."""
        deadline_ms = self.member.deadline_ms()
        pause_s = CHECK_S if deadline_ms is None else min(CHECK_S, max(0.0, (deadline_ms - now_ms) / 1000))
        loop = asyncio.get_running_loop()
        due_s = loop.time() + pause_s
        await _wait(self._wakeup, pause_s)
        late_s = loop.time() - due_s
        if late_s * 3000 > self.member.settings.session_timeout_ms:
            log.warning(
                "group %r: the event loop was blocked for %.1f s, in which no heartbeat could be sent "
                "(session_timeout_ms=%d): do not call what blocks in a coroutine; use asyncio.to_thread",
                *(self.member.settings.group_id, late_s, self.member.settings.session_timeout_ms),
            )

    def _report_changes(self, now_ms: int) -> None:
        """Send the machine the events that nothing else reports."""
        if not self.is_active:
            return
        self._check_consumption(now_ms)
        watched = self.member.watched_topics
        if watched:
            self.member.receive(TopicsRefreshed(self._topics.topics_of(watched)), now_ms)
        if self._tasks.refreshing is None and self._topics.is_refresh_due(now_ms):
            self._tasks.refreshing = self._start(self._refresh(now_ms), "refreshing topics")
        if self._topics.is_known and self.member.poll_timer.is_enabled:  # it joins with the first poll
            self.member.receive(SubscriptionChanged(self._topics.subscription), now_ms)

    def _check_consumption(self, now_ms: int) -> None:
        """Restart the poll timer if a call waits for records, or if records were taken from the last batch."""
        mark = self._reading.cursor.mark
        if self._reading.is_waiting or mark != self._mark:
            self._mark = mark
            self.member.receive(RecordsConsumed(), now_ms)
        if self.progress.is_due:
            self._interrupt_iteration()

    def _interrupt_iteration(self) -> None:
        """Make the next call begin with `turn`, even if records of the last batch are left."""
        self._reading.cursor.must_enter_loop = True
        self._reading.wake()

    def _do(self, action: Action) -> None:
        if isinstance(action, Send):
            self._start(self._send(action), "group request")
        elif isinstance(action, FindTopics):
            self._start(self._find(action), "finding topics")
        elif isinstance(action, FindTopicNames):
            self._start(self._find_names(action), "finding topics")
        else:
            self._tasks.leaving.add(task := self._start(self._leave_group(action), "leaving the group"))
            task.add_done_callback(self._tasks.leaving.discard)

    async def _send(self, action: Send) -> None:
        while self._tasks.leaving:  # else a leave request that is retried might come after the next JoinGroup
            await asyncio.wait(set(self._tasks.leaving))
        find_s, began_s = self._config.request_timeout_ms / 1000, self._metrics.begin()

        def make(connection: Connection) -> Request[Response]:
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
        self._wakeup.set()

    async def _find(self, action: FindTopics) -> None:
        try:
            await self._engine.refresh(action.topics)
        except KafkaError as error:
            self._receive(RequestFailed(action.attempt, error))
        else:
            topics = self._topics.topics_of(action.topics)
            self._receive(TopicsFound(action.attempt, topics))
            self._use_topics()
        self._wakeup.set()

    async def _find_names(self, action: FindTopicNames) -> None:
        try:
            await self._engine.refresh(None if self._topics.subscription.pattern else self._topics.subscription.topics)
        except KafkaError as error:
            self._receive(RequestFailed(action.attempt, error))
        else:
            self._receive(TopicNamesFound(action.attempt))
        self._wakeup.set()

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

    async def _refresh(self, now_ms: int) -> None:
        try:
            await self._topics.refresh(now_ms, self.member.watched_topics)
        except KafkaError as error:
            log.info("refreshing the topics of group %r failed: %s", self.member.settings.group_id, error)
            if not self._engine.cluster.brokers:  # not reached yet: perhaps the address is wrong
                self._error = error
                self._reading.wake()
        finally:
            self._tasks.refreshing = None
            self._use_topics()
            self._wakeup.set()

    def _use_topics(self) -> None:
        owned = {partition.topic for partition in self.member.reconciler.owned}
        self._engine.use_topics(owned | self._topics.subscription.topics | set(self.member.watched_topics))

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Note an error that is none of Kafka's, a fault in this program: the next call raises it."""
        self._tasks.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
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


def _description(change: AssignmentChange) -> str:
    """Return the change in words, for the log."""
    parts = {"lost": change.lost, "revoked": change.revoked, "assigned": change.assigned or ()}
    changes = [f"{what} {', '.join(f'{t}-{n}' for t, n in sorted(them))}" for what, them in parts.items() if them]
    return "; ".join(changes) or "the assignment stays the same"
