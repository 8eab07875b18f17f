"""`ShareMembership`: a consumer's membership in its share group; drives the state machine of `core/share/member.py`.

One task carries out the actions of the machine, so heartbeats do not depend on the application. Start at `_run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable

from kafkaraw.client.config import ShareConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.sharing.reading import ShareReading
from kafkaraw.core.group.events import (
    Action,
    ErrorReported,
    GroupSettings,
    LeaveGroup,
    PollEnded,
    PollStarted,
    RequestFailed,
    ResponseReceived,
    Send,
    Subscription,
    SubscriptionChanged,
    Unsubscribed,
)
from kafkaraw.core.retry import Backoff
from kafkaraw.core.share.member import ShareEvent, ShareMember
from kafkaraw.errors import KafkaError, UsageError, copy_to_raise
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable

log: logging.Logger = logging.getLogger(__name__)


class _Withdrawn(Exception):
    """The member has left or rejoined while the coordinator was looked up: the request must not be sent any more."""


class ShareMembership:
    """The membership of one share consumer.

    Args:
        engine: the client's connections and metadata.
        config: the consumer's settings.
        member_id: of the member.
        reading: reads the assigned partitions.

    Attributes:
        member: the state machine.
    """

    def __init__(self, engine: Engine, config: ShareConsumerConfig, member_id: str, reading: ShareReading) -> None:
        settings = GroupSettings(
            config.group_id,
            max_poll_interval_ms=config.max_poll_interval_ms,
            request_timeout_ms=config.request_timeout_ms,
            rack_id=config.client_rack or None,
        )
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.member: ShareMember = ShareMember(settings, backoff, engine.runtime.rng, member_id)
        self._engine = engine
        self._config = config
        self._reading = reading
        self._coordinator = Coordinator(engine, CoordinatorKind.GROUP, config.group_id)
        self._topics: frozenset[str] = frozenset()
        self._runner: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()
        self._fault: BaseException | None = None

    @property
    def subscription(self) -> list[str]:
        """The subscribed topics, in order."""
        return sorted(self._topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics; the member joins with the next call that reads.

        Raises:
            UsageError: the argument is not a list of names.
        """
        given: object = topics
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise UsageError(f"subscribe: topics={given!r} must be a list of names, as in subscribe(['flights'])")
        names: list[object] = [*given]
        for name in names:
            if not isinstance(name, str) or not name:
                raise UsageError(f"subscribe: {name!r} is not the name of a topic")
        self._topics = frozenset(topics)
        self._engine.use_topics(self._topics)
        if self._runner is not None and self._topics:
            self._receive(SubscriptionChanged(Subscription(self._topics)))
            self._wakeup.set()

    def begin_poll(self) -> None:
        """A call of the application reads: join if need be, and stop the poll timer.

        Raises:
            KafkaError: the member's error.
            UsageError: there is no subscription.
        """
        if self._fault is not None:
            raise copy_to_raise(self._fault)
        if not self._topics:
            raise UsageError("nothing is subscribed: call subscribe([...]) first")
        if self._runner is None:
            self._runner = asyncio.get_running_loop().create_task(self._run(), name="share group membership")
            self._runner.add_done_callback(self._ended)
        self._reading.counters.poll_began()
        self._receive(PollStarted())
        if self.member.subscription is None:
            self._receive(SubscriptionChanged(Subscription(self._topics)))
        self._wakeup.set()

    def check(self) -> None:
        """Raise the member's error, if there is one; the next call joins again.

        Raises:
            KafkaError: the error.
        """
        error = self.member.error
        if error is not None:
            self._receive(ErrorReported())
            self._wakeup.set()
            raise with_principal(error, self._config)

    def end_poll(self) -> None:
        """The call ends: the poll timer runs."""
        self._reading.counters.poll_ended()
        self._receive(PollEnded())
        self._wakeup.set()

    async def leave(self, deadline: Deadline, reason: str) -> None:
        """Leave the group, and wait for the coordinator's response."""
        self._topics = frozenset()
        self._receive(Unsubscribed(reason))
        self._carry_out()
        if self._leaving:
            await asyncio.wait(set(self._leaving), timeout=deadline.remaining)

    async def close(self) -> None:
        """End every task."""
        tasks = [*self._tasks, *([] if self._runner is None else [self._runner])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the task that drives the machine

    async def _run(self) -> None:
        """Carry out the actions of the machine until the task is cancelled; a loop root."""
        while True:
            now_ms = _now_ms()
            self._wakeup.clear()
            self.member.tick(now_ms)
            self._carry_out()
            deadline_ms = self.member.deadline_ms()
            try:
                async with asyncio.timeout(None if deadline_ms is None else max(0, deadline_ms - now_ms) / 1000):
                    await self._wakeup.wait()
            except TimeoutError:
                pass

    def _carry_out(self) -> None:
        for action in self.member.actions():
            self._do(action)
        if self._reading.assignment is not self.member.assignment:
            self._reading.assignment = self.member.assignment
            self._reading.wakeup.set()
        if self.member.error is not None:
            self._reading.wakeup.set()

    def _do(self, action: Action) -> None:
        if isinstance(action, Send):
            self._start(self._send(action), "share group heartbeat")
        elif isinstance(action, LeaveGroup):
            self._leaving.add(task := self._start(self._leave_group(action), "leaving the share group"))
            task.add_done_callback(self._leaving.discard)

    async def _send(self, action: Send) -> None:
        if self._leaving:
            await asyncio.wait(set(self._leaving))

        def make(connection: Connection) -> Request[Response]:
            if not self.member.awaits(action.attempt):
                raise _Withdrawn
            return action.make(connection.version_for(action.api_key))

        began_s = asyncio.get_running_loop().time()
        try:
            response = await self._coordinator.once(make, timeout=action.timeout_ms / 1000)
        except _Withdrawn:
            return
        except KafkaError as error:
            if not self._engine.is_started:  # not reached yet: perhaps the address is wrong
                self._reading.fail(error)
            self._receive(RequestFailed(action.attempt, error))
        else:
            counters, took_s = self._reading.counters, asyncio.get_running_loop().time() - began_s
            counters.heartbeat_max_s = max(counters.heartbeat_max_s, took_s)
            self._receive(ResponseReceived(action.attempt, response))
        self._wakeup.set()

    async def _leave_group(self, action: LeaveGroup) -> None:
        deadline = Deadline(self._config.request_timeout_ms / 1000)
        try:
            while not deadline.expired:
                response = await self._coordinator.once(lambda _: action.make(0), timeout=deadline.remaining)
                if not is_retriable(getattr(response, "error_code", ErrorCode.NONE)):
                    return
                await deadline.sleep(self._config.retry_backoff_ms / 1000)
        except KafkaError as error:
            log.info("leaving group %r (%s) was not confirmed: %s", self._config.group_id, action.reason, error)

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Note an error that is none of Kafka's, a fault in this program: the next call raises it."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            self._reading.wakeup.set()

    def _receive(self, event: ShareEvent) -> None:
        self.member.receive(event, _now_ms())


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
