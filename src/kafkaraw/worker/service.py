"""One run of a worker: it polls, commits, takes part in rebalances, and ends.

Polls go on while handlers run, so that the consumer stays a member however slow they are; partitions with too many
unfinished records are paused. `processing.py` runs the records. Start at `Service.run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.core.fetch.offsets import OffsetAndMetadata, epoch_starts_of
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    CommitFailedError,
    ConfigError,
    KafkaError,
    MaxPollExceededError,
    ProtocolError,
    RetriableError,
    TransactionAbortableError,
    UnknownTopicError,
)
from kafkaraw.records import Batch, TopicPartition
from kafkaraw.worker.metrics import WorkerStatus
from kafkaraw.worker.processing import CANCELLED_S, Processing
from kafkaraw.worker.schedule import Schedule
from kafkaraw.worker.sending import RefusedError, Sender, TransactionalSender
from kafkaraw.worker.settings import Ordering, WorkerConfig

if TYPE_CHECKING:
    from kafkaraw.client.runtime import Runtime
    from kafkaraw.records import Record

log: logging.Logger = logging.getLogger("kafkaraw.worker")

POLL_S: Final = 0.2
"""The longest poll, in seconds, and so how late a stop may be noticed."""
SILENT_S: Final = 60.0
"""A worker whose polls do not return for longer than this is not healthy, in seconds."""
COMMIT_TIMEOUT_S: Final = 10.0
COMMIT_BACKOFF_MAX_MS: Final = 10_000
"""The longest wait after commits or transactions that failed, unless the commit interval is longer, in milliseconds."""
CLOSE_S: Final = 5.0
"""The longest that closing a client may take after the last commit, in seconds."""


class Service:
    """One run of a worker.

    Args:
        config: its settings.
        consumer: subscribes and commits; closed at the end.
        producer: sends results, retries and dead letters; closed at the end.
        runtime: clock and randomness.

    Attributes:
        consumer: as given.
        producer: as given.
        schedule: which records may run, and what may be committed.
        processing: runs the records.
    """

    def __init__(
        self, config: WorkerConfig, consumer: AsyncConsumer, producer: AsyncProducer, runtime: Runtime
    ) -> None:
        self.consumer = consumer
        self.producer = producer
        self.schedule: Schedule = Schedule(config.settings.concurrency, keeps_finished=config.is_transactional)
        sender = None if config.is_transactional else Sender(producer, consumer, COMMIT_TIMEOUT_S)
        self._sender = TransactionalSender(producer) if sender is None else sender
        self.processing: Processing = Processing(
            config.group_id,
            config.by_topic,
            Ordering(config.settings.ordering),
            self.schedule,
            sender,
            runtime,
            self._fail,
            self._resume,
        )
        self._config = config
        self._rng = runtime.rng
        self._failure: BaseException | None = None
        self._stopped = asyncio.Event()
        self._committing = asyncio.Lock()
        self._commits = 0
        self._commit_failures = 0  # since the last commit that succeeded
        interval_ms = config.settings.commit_interval_ms
        self._commit_backoff = Backoff(interval_ms, max(interval_ms, COMMIT_BACKOFF_MAX_MS))
        self._last_commits: set[asyncio.Task[None]] = set()
        self._polled_s: float | None = None
        self._has_paused = False
        self._is_over = False

    # -- its life

    async def run(self) -> None:
        """Handle records until `stop` is called.

        Raises:
            HandlerError: a record can neither be handled nor written as a dead letter.
            KafkaError: a broker refuses for good, or cannot be reached at the beginning.
            CorruptBatchError: a record batch is damaged; nothing behind it in its partition is committed.
        """
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._check_topics()
            if self._config.is_transactional:
                await self.producer.init_transactions()
            self.consumer.subscribe(
                self._config.by_topic,
                on_assigned=self._assigned,
                on_revoked=self._revoked,
                on_lost=self._lost,
            )
            loop = asyncio.get_running_loop()
            tasks.append(loop.create_task(self._poll(), name="worker: polls"))
            tasks.append(loop.create_task(self._commit_regularly(), name="worker: commits"))
            await self._stopped.wait()
            log.info("group %r: the worker stops; records in work finish", self._config.group_id)
            self.schedule.is_stopping = True
            await self.processing.finish(self.schedule.in_work, self._drain_s)
        finally:
            self.schedule.is_stopping = True
            await _uninterrupted(self._end(tasks))
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Start no more records; `run` returns when those in work have finished, or their time is up."""
        self._stopped.set()

    def _fail(self, error: BaseException) -> None:
        """Stop, and let `run` raise the first error."""
        if self._failure is None:
            log.error("group %r: the worker stops because of %r", self._config.group_id, error)
            self._failure = error
        self.schedule.is_stopping = True
        self._stopped.set()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Commit what is done, leave the group, and close both clients; also when `run` is cancelled."""
        cancelled = self.processing.cancel_unfinished()
        if cancelled:
            await asyncio.wait(cancelled, timeout=CANCELLED_S)
        try:
            await self._commit_in(COMMIT_TIMEOUT_S, None)
        finally:
            self._is_over = True
            await self._end_tasks(tasks[:1], POLL_S + CLOSE_S)
            await self._end_tasks([*tasks[1:], *self._last_commits], 0)
            await self.processing.close()
            for client in (self.consumer, self.producer):
                try:
                    await client.close(CLOSE_S)
                except KafkaError as error:
                    log.warning("while closing a client of the worker: %s", error)

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

    # -- polls

    async def _poll(self) -> None:
        tries = 0
        while not self._is_over:
            try:
                batches = await self.consumer.poll(POLL_S)
                self._polled_s, tries = asyncio.get_running_loop().time(), 0
                self._deliver(batches)
                self._resume_and_pause()
            except MaxPollExceededError as error:
                log.warning("group %r: %s", self._config.group_id, error)
            except RetriableError as error:
                if self._polled_s is None:
                    self._fail(error)  # perhaps the address is wrong
                    return
                log.warning("group %r: polling failed, and is tried again: %s", self._config.group_id, error)
                await asyncio.sleep(_POLL_BACKOFF.delay_ms(tries, self._rng) / 1000)
                tries += 1
            except Exception as error:  # noqa: BLE001 - the end of the worker, whatever it is
                self._fail(error)
                return

    def _deliver(self, batches: Mapping[TopicPartition, Batch]) -> None:
        """Pass on what a poll has returned. There is no `await` between the poll and this.

        So the positions belong to these records: a commit in between would skip them.
        """
        if self.schedule.is_stopping:
            return
        positions = self.consumer.next_offsets()
        for partition, batch in batches.items():
            records: list[Record] = []
            epochs = epoch_starts_of(batch.headers)
            try:
                records.extend(batch)
                position = positions[partition]
            except ProtocolError as error:  # damaged, or too large
                position = OffsetAndMetadata(records[-1].offset + 1 if records else batch.start_offset)
                self._fail(error)
            self.processing.accept(partition, records, epochs, position)
        for partition, at in positions.items():
            if partition not in batches:
                self.schedule.deliver(partition, (), at)  # behind transaction markers, for example

    def _resume(self) -> None:
        """Resume partitions that have few unfinished records by now."""
        if self._has_paused:
            self._resume_and_pause()

    def _resume_and_pause(self) -> None:
        """Pause the partitions with too many unfinished records, and resume the others."""
        if self._is_over:
            return
        limit, paused = self._config.settings.queued_records_max, set(self.consumer.paused())
        to_pause: list[TopicPartition] = []
        to_resume: list[TopicPartition] = []
        for partition in set(self.consumer.assignment()) & set(self.schedule.partitions):
            held = self.schedule.held(partition)
            if partition not in paused and (self.schedule.is_stopping or held >= limit):
                to_pause.append(partition)
            elif partition in paused and not self.schedule.is_stopping and held <= limit // 2:
                to_resume.append(partition)
        self._has_paused = bool(paused or to_pause)
        if to_pause:
            self.consumer.pause(to_pause)
        if to_resume:
            self.consumer.resume(to_resume)

    # -- commits

    async def _commit_regularly(self) -> None:
        try:
            while True:
                wait_ms: float = self._config.settings.commit_interval_ms
                if self._commit_failures:
                    wait_ms = max(wait_ms, self._commit_backoff.delay_ms(self._commit_failures, self._rng))
                await asyncio.sleep(wait_ms / 1000)
                await self._commit()
        except Exception as error:  # noqa: BLE001 -- the worker must not go on without commits
            self._fail(error)

    async def _commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit what is done and not committed, of these partitions or of all; a failure is logged."""
        async with self._committing:
            while True:
                plan = self.schedule.commit_plan(lambda each: partitions is None or each in partitions)
                if not plan.offsets:
                    if partitions is None:
                        self._commit_failures = 0
                        self._sender.nothing_to_commit()
                    return
                try:
                    await self._sender.commit(plan, self.consumer.group_metadata())
                except RefusedError as error:
                    assert error.item is not None
                    self.processing.replace_results(error.item, error.cause)
                    if self._failure is not None:
                        return
                    continue
                except (CommitFailedError, TransactionAbortableError, RetriableError) as error:
                    log.warning("group %r: offsets are not committed yet: %s", self._config.group_id, error)
                    self._commit_failures += 1
                    return
                except KafkaError as error:
                    self._fail(error)
                    return
                self.schedule.committed(plan)
                self._commits += 1
                self._commit_failures = 0
                self._resume_and_pause()
                return

    async def _commit_in(self, seconds: float, partitions: Collection[TopicPartition] | None) -> None:
        """Commit, and wait for at most a time; a commit that takes longer goes on, because its outcome is not known."""
        commit = asyncio.get_running_loop().create_task(self._commit(partitions), name="worker: commits at the end")
        self._last_commits.add(commit)
        commit.add_done_callback(self._last_commits.discard)
        await asyncio.wait([commit], timeout=seconds)

    # -- rebalances; the consumer calls these within a poll, or when it is closed

    async def _assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            log.info("group %r: assigned %s", self._config.group_id, _named(partitions))
        self.schedule.assign(partitions)
        if self.schedule.is_stopping:
            self.consumer.pause(partitions)

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        """Let records in work finish, commit, and drop the others."""
        if partitions:
            log.info("group %r: revoked %s", self._config.group_id, _named(partitions))
        left = self.schedule.freeze(partitions)
        if not self._is_over:
            await self.processing.finish(left, self._drain_s)
            await self._commit_in(COMMIT_TIMEOUT_S, set(partitions))
        await self._release(partitions)

    async def _lost(self, partitions: list[TopicPartition]) -> None:
        """Drop all records: other members may handle them already."""
        log.warning("group %r: lost %s", self._config.group_id, _named(partitions))
        await self._release(partitions)

    async def _release(self, partitions: list[TopicPartition]) -> None:
        cancelled = self.processing.release(partitions)
        if cancelled:
            await asyncio.wait(cancelled, timeout=CANCELLED_S)

    # -- what it reports

    def status(self) -> WorkerStatus:
        """Return its numbers; call it on its event loop."""
        return WorkerStatus(
            self._config.group_id,
            self._problems(),
            self.schedule.is_stopping,
            len(self.schedule.partitions),
            len(self.consumer.paused()),
            self.schedule.running,
            self.schedule.queued,
            self._commits,
            {spec.name: metrics for spec, metrics in self.processing.metrics.items()},
        )

    def _problems(self) -> list[str]:
        found = list(self.processing.overdue)
        if self._failure is not None:
            found.append(f"the worker stops: {self._failure!r}")
        if self._polled_s is None:
            found.append("no broker has answered yet")
        elif (silent_s := asyncio.get_running_loop().time() - self._polled_s) > SILENT_S:
            found.append(f"the last poll ended {silent_s:.0f} s ago")
        if self._sender.failing:
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


def _named(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions) or "no partitions"
