"""Decides when to send Metadata requests. One request is in flight at a time, with the topics of all callers.

If a hundred batches learn at once that a leader moved, all call `refresh()`, and the client sends one request. A call
that comes while a request is in flight joins the next request, because the pending response may be older than the
reason for the call. `core/cluster.py` keeps the contents of the responses; the engine reaches the brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Final, TypeVar

from kafkaraw.client.config import ClientConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ClosedError, KafkaError, KafkaTimeoutError, NetworkError, UnknownTopicError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode, error_for, error_name, is_retriable
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.metadata_frames import DecodedMetadata

log: logging.Logger = logging.getLogger(__name__)

Ask = Callable[[MetadataRequest, float], Awaitable[DecodedMetadata]]
T = TypeVar("T")

# A topic just created is not known to every broker at once, and an auto-created one is "unknown" in the first answer.
UNKNOWN_TOPIC_GRACE_S = 3.0
_REFRESHED_TOGETHER_MAX: Final = 100
"""Topics in use: with more, a refresh of some topics leaves out the others."""
_TURN_S: Final = 0.005
STEPS_BETWEEN_LOOKS: Final = 64
"""Steps of a generator between two looks at the clock: 0.3 ms for partitions that are decoded."""


@dataclass(slots=True)
class _Wave:
    """The calls that one Metadata request serves."""

    done: asyncio.Future[None]
    topics: set[str] = field(default_factory=set)
    all_topics: bool = False
    topics_in_use: bool = False


class Metadata:
    """Keeps a `ClusterView` fresh.

    Args:
        view: the view to update.
        ask: sends one request to any broker, with a timeout in seconds.
        config: for backoff and ages.
        runtime: for jitter.
    """

    def __init__(self, view: ClusterView, ask: Ask, config: ClientConfig, runtime: Runtime) -> None:
        self._view = view
        self._ask = ask
        self._config = config
        self._rng = runtime.rng
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._waves: dict[bool, _Wave] = {}
        self._sender: asyncio.Task[None] | None = None
        self._in_use: set[str] = set()

    async def refresh(
        self, topics: Iterable[str] | None, *, deadline: Deadline, allow_auto_create: bool = False
    ) -> None:
        """Refresh the metadata; see `Engine.refresh`."""
        wave = self._next_wave(allow_auto_create)
        if topics is None:
            wave.all_topics = True
        else:
            added = set(topics)
            wave.topics |= added
            wave.topics_in_use |= not added
            self._in_use |= added
        await self._sent(wave, deadline)

    async def refresh_brokers(self, *, deadline: Deadline) -> None:
        """Refresh the brokers and the controller, without topics; see `Engine.refresh_brokers`."""
        await self._sent(self._next_wave(allow_auto_create=False), deadline)

    async def wait_for(self, topics: Sequence[str], *, deadline: Deadline, allow_auto_create: bool) -> None:
        """Refresh until every topic has a leader; see `Engine.wait_for_topics`."""
        began = Deadline(UNKNOWN_TOPIC_GRACE_S)
        attempt = 0
        missing = self._missing(topics)
        while missing:
            problem = await self._try(missing, deadline, allow_auto_create)
            missing = self._missing(topics)
            if not missing:
                return
            for topic in missing:
                self._raise_if_hopeless(topic, unknown_for_good=began.expired or deadline.expired)
            if deadline.expired:
                raise _not_in_time(self._view, missing, deadline) from problem
            await deadline.sleep(self._backoff.delay_ms(attempt, self._rng) / 1000)
            attempt += 1

    async def keep_fresh(self) -> None:
        """Refresh the view whenever it is older than `metadata_max_age_ms`, until cancelled; a loop root."""
        loop = asyncio.get_running_loop()
        while True:
            due_ms = self._view.refresh_due_ms(self._config.metadata_max_age_ms)
            await asyncio.sleep(max(due_ms / 1000 - loop.time(), self._config.retry_backoff_max_ms / 1000))
            if loop.time() * 1000 < self._view.refresh_due_ms(self._config.metadata_max_age_ms):
                continue
            try:
                await self.refresh((), deadline=Deadline(self._config.request_timeout_ms / 1000))
            except KafkaError as error:
                log.warning("the metadata could not be renewed, the old one stays in use: %s", error)

    def use(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh.

        The metadata of other topics is dropped when it is older than `metadata_max_age_ms`.
        """
        self._in_use = set(topics)

    def _next_wave(self, allow_auto_create: bool) -> _Wave:
        wave = self._waves.get(allow_auto_create)
        if wave is None:
            wave = self._waves[allow_auto_create] = _Wave(asyncio.get_running_loop().create_future())
            wave.done.add_done_callback(_retrieve)
        return wave

    async def _sent(self, wave: _Wave, deadline: Deadline) -> None:
        """Wait until a wave is sent and answered."""
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_waves(), name="metadata refresh")
        await deadline.wait_with_others(wave.done, "refreshing the metadata")

    async def close(self) -> None:
        """Fail all pending calls."""
        try:
            if self._sender is not None:
                self._sender.cancel()
                await asyncio.gather(self._sender, return_exceptions=True)
        finally:
            for wave in self._waves.values():
                _fail(wave, ClosedError("the client was closed"))
            self._waves.clear()

    async def _try(self, topics: Sequence[str], deadline: Deadline, allow_auto_create: bool) -> KafkaError | None:
        """One refresh; a network failure is returned, because the next try may reach a broker."""
        try:
            await self.refresh(topics, deadline=deadline, allow_auto_create=allow_auto_create)
        except (NetworkError, KafkaTimeoutError) as error:
            return error
        return None

    def _missing(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if not self._usable(topic)]

    def _usable(self, topic: str) -> bool:
        view = self._view.topics.get(topic)
        return view is not None and any(each.leader_id in self._view.brokers for each in view.partitions.values())

    def _raise_if_hopeless(self, topic: str, *, unknown_for_good: bool) -> None:
        code = self._view.error_of(topic)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and unknown_for_good:
            self._in_use.discard(topic)
            raise unknown_topic(topic)
        if code and not is_retriable(code):
            error = error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")
            raise with_principal(error, self._config)

    async def _send_waves(self) -> None:
        """Send one request after the other until no call is pending; a loop root."""
        while self._waves:
            allow_auto_create = next(iter(self._waves))
            wave = self._waves.pop(allow_auto_create)
            try:
                await self._send(wave, allow_auto_create)
            except asyncio.CancelledError:
                _fail(wave, ClosedError("the client was closed"))
                raise
            except Exception as error:  # noqa: BLE001  any error must be raised in the pending calls
                _fail(wave, error)
            else:
                if not wave.done.done():
                    wave.done.set_result(None)

    async def _send(self, wave: _Wave, allow_auto_create: bool) -> None:
        # The request includes the topics in use, so one response refreshes all of them. It must not recreate them. If
        # they are many, a leader that moved is no reason to read and merge all of them: only `keep_fresh` asks for all.
        is_of_brokers = not wave.topics
        is_of_few = is_of_brokers or len(self._in_use) > _REFRESHED_TOGETHER_MAX
        in_part = is_of_few and not wave.all_topics and not wave.topics_in_use
        names = wave.topics if allow_auto_create or in_part else wave.topics | self._in_use
        request = MetadataRequest(
            topics=None if wave.all_topics else [MetadataRequestTopic(name=name) for name in sorted(names)],
            allow_auto_topic_creation=allow_auto_create,
        )
        found = await self._ask(request, self._config.request_timeout_ms / 1000)
        if found.response.error_code:
            raise error_for(found.response.error_code, "metadata")
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        await in_turns(self._view.update_in_steps(found, now_ms, all_topics=wave.all_topics, in_part=in_part))
        self._view.forget_old(now_ms - self._config.metadata_max_age_ms, self._in_use)


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; let the other tasks of the event loop run after each few milliseconds."""
    now = asyncio.get_running_loop().time
    try:
        while True:
            until = now() + _TURN_S
            while now() < until:
                for _ in range(STEPS_BETWEEN_LOOKS):
                    next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        result: T = end.value
        return result


def unknown_topic(topic: str) -> UnknownTopicError:
    """The error for a topic that no broker knows."""
    return UnknownTopicError(
        f"topic {topic!r} does not exist (UNKNOWN_TOPIC_OR_PARTITION); create it with Admin.create_topics, check the "
        f"spelling, or allow the broker to create topics (auto.create.topics.enable)"
    )


def _not_in_time(view: ClusterView, topics: Sequence[str], deadline: Deadline) -> KafkaTimeoutError:
    codes = {topic: error_name(view.error_of(topic)) if view.error_of(topic) else "no leader" for topic in topics}
    about = ", ".join(f"{topic!r} ({code})" for topic, code in codes.items())
    return deadline.error(f"waiting for a leader of topic {about}")


def _fail(wave: _Wave, error: BaseException) -> None:
    if not wave.done.done():
        wave.done.set_exception(error)


def _retrieve(future: asyncio.Future[None]) -> None:
    """Retrieve the exception of a future without waiters; otherwise asyncio logs that it was never retrieved."""
    if not future.cancelled():
        future.exception()
