"""One run of a worker, whatever kind of group it is in: its beginning, its end, and what it reports.

`consumer_service.py` and `share_service.py` read from the group, and tell it what is processed; `processing.py` runs
the records. Start at `Service.run`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Final

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ConfigError, KafkaError, RetriableError, UnknownTopicError
from kafkaraw.worker.metrics import WorkerStatus
from kafkaraw.worker.processing import CANCELLED_S, Processing
from kafkaraw.worker.schedule import Slots
from kafkaraw.worker.settings import WorkerConfig

if TYPE_CHECKING:
    from kafkaraw.client.runtime import Runtime

log: logging.Logger = logging.getLogger("kafkaraw.worker")

POLL_S: Final = 0.2
"""The longest poll, in seconds, and so how late a stop may be noticed."""
SILENT_S: Final = 60.0
"""A worker whose polls do not return for longer than this is not healthy, in seconds."""
COMMIT_TIMEOUT_S: Final = 10.0
CLOSE_S: Final = 5.0
"""The longest that closing a client may take after the last commit, in seconds."""


class Service(ABC):
    """One run of a worker.

    Args:
        config: its settings.
        producer: sends results, retries and dead letters; closed at the end.
        schedule: which records may run.
        processing: runs the records.
        runtime: randomness.

    Attributes:
        consumer: reads from the group; closed at the end.
        producer: as given.
        processing: as given.
    """

    consumer: AsyncConsumer | AsyncShareConsumer

    def __init__(
        self, config: WorkerConfig, producer: AsyncProducer, schedule: Slots, processing: Processing, runtime: Runtime
    ) -> None:
        self.producer: AsyncProducer = producer
        self.processing: Processing = processing
        self._config = config
        self._slots = schedule
        self._rng = runtime.rng
        self._failure: BaseException | None = None
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []  # the one that polls is the first
        self._polled_s: float | None = None
        self._poll_tries = 0
        self._is_over = False

    # -- its life

    async def run(self) -> None:
        """Handle records until `stop` is called.

        Raises:
            HandlerError: a record can neither be handled nor written as a dead letter.
            KafkaError: a broker refuses for good, or cannot be reached at the beginning.
            CorruptBatchError: a record batch is damaged; nothing behind it in its partition is committed.
        """
        try:
            await self._check_topics()
            await self._begin()
            await self._stopped.wait()
            log.info("group %r: the worker stops; records in work finish", self._config.group_id)
            self._slots.is_stopping = True
            await self.processing.finish(self._slots.in_work, self._drain_s)
        finally:
            self._slots.is_stopping = True
            await _uninterrupted(self._end())
        if self._failure is not None:
            raise self._failure

    @abstractmethod
    async def _begin(self) -> None:
        """Subscribe, and start the tasks that work until the end."""

    @abstractmethod
    async def _settle(self) -> None:
        """Tell the group what is done, after the last handler."""

    @property
    @abstractmethod
    def _is_failing(self) -> bool:
        """Whether results, copies or dead letters are not acknowledged."""

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    def stop(self) -> None:
        """Start no more records; `run` returns when those in work have finished, or their time is up."""
        self._stopped.set()

    def _fail(self, error: BaseException) -> None:
        """Stop, and let `run` raise the first error."""
        if self._failure is None:
            log.error("group %r: the worker stops because of %r", self._config.group_id, error)
            self._failure = error
        self._slots.is_stopping = True
        self._stopped.set()

    async def _end(self) -> None:
        """Tell the group what is done, leave it, and close both clients; also when `run` is cancelled."""
        cancelled = self.processing.cancel_unfinished()
        if cancelled:
            await asyncio.wait(cancelled, timeout=CANCELLED_S)
        try:
            await self._settle()
        finally:
            self._is_over = True
            await self._end_work()
            await self.processing.close()
            for client in (self.consumer, self.producer):
                try:
                    await client.close(CLOSE_S)
                except KafkaError as error:
                    log.warning("while closing a client of the worker: %s", error)

    async def _end_work(self) -> None:
        """End the tasks."""
        await self._end_tasks(self._tasks[:1], POLL_S + CLOSE_S)
        await self._end_tasks(self._tasks[1:], 0)

    async def _end_tasks(self, tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
        """Wait for tasks, and cancel them when the time is up."""
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_topics(self) -> None:
        """Check that the topics exist into which the worker writes itself, before a record needs them."""
        for topic, setting in self._config.written_topics.items():
            try:
                await self.producer.partitions_for(topic)
            except UnknownTopicError as error:
                raise ConfigError(f"{setting}: the topic does not exist; create it before the worker starts") from error

    @property
    def _drain_s(self) -> float:
        return self._config.settings.drain_timeout_ms / 1000

    async def _poll_failed(self, error: Exception) -> bool:
        """Wait before the next poll; return False if the worker must stop because of the error."""
        if not isinstance(error, RetriableError) or self._polled_s is None:  # perhaps the address is wrong
            self._fail(error)
            return False
        log.warning("group %r: polling failed, and is tried again: %s", self._config.group_id, error)
        await asyncio.sleep(_POLL_BACKOFF.delay_ms(self._poll_tries, self._rng) / 1000)
        self._poll_tries += 1
        return True

    def _polled(self) -> None:
        """Note that a poll has succeeded."""
        self._polled_s, self._poll_tries = asyncio.get_running_loop().time(), 0

    # -- what it reports

    @abstractmethod
    def status(self) -> WorkerStatus:
        """Return its numbers; call it on its event loop."""

    def _problems(self) -> list[str]:
        found = list(self.processing.overdue)
        if self._failure is not None:
            found.append(f"the worker stops: {self._failure!r}")
        if self._polled_s is None:
            found.append("no broker has answered yet")
        elif (silent_s := asyncio.get_running_loop().time() - self._polled_s) > SILENT_S:
            found.append(f"the last poll ended {silent_s:.0f} s ago")
        if self._is_failing:
            found.append("results, copies or dead letters are not acknowledged")
        return found


async def _uninterrupted(work: Coroutine[object, object, None]) -> None:
    """Wait for work whose waits have deadlines; if this call is cancelled, raise that when the work has ended."""
    task = asyncio.get_running_loop().create_task(work, name="worker: its end")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


_POLL_BACKOFF: Final = Backoff(100, 5_000)
