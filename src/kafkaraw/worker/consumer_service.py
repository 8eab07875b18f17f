"""One run of a worker in a consumer group: it polls, commits, and takes part in rebalances.

Polls go on while handlers run, so that the consumer stays a member however slow they are; partitions with too many
unfinished records are paused. `processing.py` runs the records. Start at `ConsumerService._poll`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.core.fetch.offsets import OffsetAndMetadata, epoch_before, epoch_starts_of
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    CommitFailedError,
    KafkaError,
    MaxPollExceededError,
    ProtocolError,
    RetriableError,
    TransactionAbortableError,
)
from kafkaraw.records import Batch, TopicPartition
from kafkaraw.worker.metrics import WorkerStatus
from kafkaraw.worker.processing import CANCELLED_S, Processing
from kafkaraw.worker.schedule import Schedule
from kafkaraw.worker.sending import CommittingSender, RefusedError, TransactionalSender
from kafkaraw.worker.service import COMMIT_TIMEOUT_S, POLL_S, Service
from kafkaraw.worker.settings import WorkerConfig

if TYPE_CHECKING:
    from kafkaraw.client.runtime import Runtime
    from kafkaraw.records import Record

log: logging.Logger = logging.getLogger("kafkaraw.worker")

COMMIT_BACKOFF_MAX_MS: Final = 10_000
"""The longest wait after commits or transactions that failed, unless the commit interval is longer, in milliseconds."""


class ConsumerService(Service):
    """One run of a worker in a consumer group.

    Args:
        config: its settings.
        consumer: subscribes and commits; closed at the end.
        producer: sends results, retries and dead letters; closed at the end.
        runtime: clock and randomness.

    Attributes:
        consumer: as given.
        schedule: which records may run, and what may be committed.
    """

    def __init__(
        self, config: WorkerConfig, consumer: AsyncConsumer, producer: AsyncProducer, runtime: Runtime
    ) -> None:
        self.consumer: AsyncConsumer = consumer
        self.schedule: Schedule = Schedule(config.settings.concurrency, keeps_finished=config.is_transactional)
        sender = None if config.is_transactional else CommittingSender(producer, consumer, COMMIT_TIMEOUT_S)
        self._sender = TransactionalSender(producer) if sender is None else sender
        processing = Processing(
            config.group_id,
            config.by_topic,
            config.ordering,
            self.schedule,
            sender,
            runtime,
            self._fail,
            self._resume,
        )
        super().__init__(config, producer, self.schedule, processing, runtime)
        self._committing = asyncio.Lock()
        self._commits = 0
        self._commit_failures = 0  # since the last commit that succeeded
        interval_ms = config.settings.commit_interval_ms
        self._commit_backoff = Backoff(interval_ms, max(interval_ms, COMMIT_BACKOFF_MAX_MS))
        self._last_commits: set[asyncio.Task[None]] = set()
        self._has_paused = False

    # -- its life

    async def _begin(self) -> None:
        if self._config.is_transactional:
            await self.producer.init_transactions()
        self.consumer.subscribe(
            self._config.by_topic,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )
        self._start(self._poll(), "worker: polls")
        self._start(self._commit_regularly(), "worker: commits")

    async def _settle(self) -> None:
        await self._commit_in(COMMIT_TIMEOUT_S, None)

    async def _end_work(self) -> None:
        await super()._end_work()
        await self._end_tasks(self._last_commits, 0)

    # -- polls

    async def _poll(self) -> None:
        while not self._is_over:
            try:
                batches = await self.consumer.poll(POLL_S)
                self._polled()
                self._deliver(batches)
                self._resume_and_pause()
            except MaxPollExceededError as error:
                log.warning("group %r: %s", self._config.group_id, error)
            except Exception as error:  # noqa: BLE001 - the end of the worker, whatever it is
                if not await self._poll_failed(error):
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
            item, before = self.processing.item, epoch_before
            items = [item(partition, record, before(epochs, record.offset + 1)) for record in records]
            self.schedule.deliver(partition, items, position)
            self.processing.start_ready()
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
        cancelled = self.processing.drop(self.schedule.release(partitions))
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

    @property
    def _is_failing(self) -> bool:
        return bool(self._sender.failing)


def _named(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions) or "no partitions"
