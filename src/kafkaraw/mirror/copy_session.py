"""`CopySession`: one run of a flow, from the positions in the target to the first failure.

Theory of operation. One task reads and sends: it takes whole batches of any number of partitions, they are sent at
once, and the next ones are taken when there is room in flight. Meanwhile the consumer fetches the next response,
and the producer has up to five requests in flight for each broker. When the source has no more, or `commit_interval_s`
has passed, the positions are committed: with `ExactlyOnce` in the transaction of the records, which then begins anew,
with `AtLeastOnce` in one of their own.

A session makes clients, asks the plan for topics, takes over the transactional id, reads the positions in the target,
and copies. It does not go on after a failure: `flow.py` begins the next session, as after a restart of the process.
Start at `CopySession.open` and `CopySession.copy`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.consumer import engine_of, reading_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import CoordinatorKind, find_coordinators
from kafkaraw.client.producer import core_of
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.core.producer.events import ProducerIdentity
from kafkaraw.errors import (
    BrokerError,
    CorruptBatchError,
    KafkaError,
    KafkaTimeoutError,
    RetriableError,
    UsageError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.batches import TargetLimits, some_of
from kafkaraw.mirror.clients import session_clients
from kafkaraw.mirror.commit_schedule import CommitSchedule
from kafkaraw.mirror.copying import AtLeastOnce, BatchCopier, Commits, ExactlyOnce, PartitionCopy, together
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, Delivery, FlowSettings, OnCopied, TopicPlan
from kafkaraw.mirror.metrics import FlowMetrics
from kafkaraw.mirror.positions import PartitionFacts, Position, RunIds, positions_of, start_of
from kafkaraw.mirror.refusals import Refusal, Refusals, is_of_records, refusal_of, refused_by
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Batch, TopicPartition

log: logging.Logger = logging.getLogger(__name__)

FIND_S: Final = 10.0
"""For the first look-up of the coordinator of the flow's group."""
IDLE_S: Final = 0.01
"""How long the source has nothing new until positions are committed before `commit_interval_s` has passed."""
LOOK_S: Final = 0.2
"""How soon a flow without new records looks whether it is to stop, or to copy other topics."""
REFRESH_AGAIN_S: Final = 30.0
"""When a flow looks for topics again after that has failed."""
SETTLE_S: Final = 1.0
"""For batches that are in flight when another one was refused: all refusals end the session together."""
CLOSE_S: Final = 5.0
"""For closing the clients of a session that has failed."""


@dataclass(frozen=True, slots=True)
class FlowPart:
    """What a process that copies a share of a flow gets from the driver, which owns the flow; see `claims.py`.

    Attributes:
        run_id: of the driver: positions that it and its processes commit have it.
        identity: of the producer with the transactional id of the worker.
        renews: whether all positions are committed again, so that they do not expire.
        refusals: partitions to leave out, because a cluster has refused them.
    """

    run_id: str
    identity: ProducerIdentity
    renews: bool = False
    refusals: tuple[Refusal, ...] = ()


class CopySession:
    """One run of a flow, from the positions in the target to the first failure.

    Args:
        settings: of the flow.
        plan: which topics.
        memory: of the flow: whether another process has taken over, and which partitions are left out.
        metrics: count what is copied.
        runtimes: of the clients of source and target.
        on_committed: called after each commit with what was copied since the one before.
        before: positions of earlier sessions: brokers delete those of a copy with the copy.
        part: if this process copies a share of the flow.

    Attributes:
        committed: the positions that were committed last, by partition of the source.
    """

    def __init__(
        self,
        settings: FlowSettings,
        plan: TopicPlan,
        memory: tuple[RunIds, Refusals],
        metrics: FlowMetrics,
        runtimes: tuple[Runtime | None, Runtime | None],
        on_committed: OnCopied,
        before: Mapping[TopicPartition, Position],
        part: FlowPart | None = None,
    ) -> None:
        self.committed: dict[TopicPartition, Position] = {}
        self._settings = settings
        self._plan = plan
        self._runs, self._refusals = memory
        self._metrics = metrics
        self._on_committed = on_committed
        self._before = before
        self._part = part
        self._clients = session_clients(settings, runtimes)
        self._runtime = runtimes[1]
        clock = (runtimes[1] or system_runtime()).clock
        self._copier = BatchCopier(
            self._clients.producer, settings.in_flight_max_bytes, clock.time_ms, self._check_copies_exist
        )
        commits = ExactlyOnce if settings.delivery is Delivery.EXACTLY_ONCE else AtLeastOnce
        identity = None if part is None else part.identity
        self._commits: Commits = commits(self._copier, self._clients.owner, settings.group_id, identity)
        self._copies: dict[TopicPartition, PartitionCopy] = {}
        self._wanted: dict[TopicPartition, CopiedTopic] = {}  # also what is left out
        self._stops: dict[TopicPartition, int] = {}  # offsets of batches that were refused
        self._begun: list[CopiedBatch] = []  # partitions that do not continue at a position, to be told
        self._schedule = CommitSchedule(settings.commit_interval_s)
        if part is not None and part.renews:
            self._schedule.all_at_s = _now_s()
        self._committing: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[Sequence[CopiedTopic]] | None = None
        self._refresh_at_s = 0.0

    # -- the beginning

    async def open(self) -> None:
        """Connect, take over the transactional id, and find topics and positions.

        Raises:
            KafkaError: a cluster cannot be reached, both are the same one, or a partition cannot be continued.
        """
        source, target = self._clients.source, self._clients.target
        await together(engine_of(source).start(), engine_of(target).start())
        self._check_clusters()
        if self._before and self._part is None:
            topics = await self._plan.refresh()
            await self._check_not_replaced(topics)  # else this process would fence the one that has replaced it
            await self._commits.open()
        else:
            topics, *_ = await together(self._plan.refresh(), self._commits.open(), self._find_coordinator())
        await self._settle(topics)
        if self._part is None and await self._end_shares():
            await self._settle(topics)
        self._refresh_at_s = _now_s() + self._settings.refresh_topics_interval_s
        await self._adopt(topics)
        if any(position.run_id != self._runs.own for position in self.committed.values()):
            self._schedule.all_at_s = _now_s()  # an earlier process that is alive finds that it was replaced

    async def _find_coordinator(self) -> None:
        """Look up the coordinator of the flow's group: the first look-up in a new cluster creates its topic."""
        engine, group_id = engine_of(self._clients.target), self._settings.group_id
        with suppress(KafkaError):  # calls that need it look it up again
            await find_coordinators(engine, CoordinatorKind.GROUP, [group_id], Deadline(FIND_S))

    async def _check_not_replaced(self, topics: Sequence[CopiedTopic]) -> None:
        """Check that no other process has committed positions since the sessions before.

        Raises:
            FlowTakenOverError: one has.
        """
        names = {topic.source: topic.target for topic in topics}
        copies = {of: TopicPartition(names[of.topic], of.partition) for of in self._before if of.topic in names}
        committed = await self._clients.target.committed(copies.values())
        self._runs.check(positions_of(copies, committed), self._settings.name)

    async def _settle(self, topics: Sequence[CopiedTopic]) -> None:
        """Make what earlier processes have committed readable."""
        refused = {of.topic for of in self._refusals.left_out(_now_s())}
        topic = next((each for each in topics if each.source not in refused), None)
        if topic is not None:
            number = min(
                topic.partitions or (0,)
            )  # an own one: tasks that share a flow do not wait for each other then
            await self._commits.settle(TopicPartition(topic.target, number))

    async def _end_shares(self) -> bool:
        """Fence processes that have shared this flow before: they have transactional ids of their own.

        Returns:
            Whether there are any.
        """
        claim = self._settings.claim
        if claim is None:
            return False
        found = positions_of({claim: claim}, await self._clients.target.committed([claim]))
        self._runs.check(found, self._settings.name)
        if not found or found[claim].offset == 0:
            return False
        async with AsyncAdmin(runtime=self._runtime, **dict[str, Any](self._settings.target)) as admin:
            await admin.fence_producers(self._settings.transactional_ids(found[claim].offset))
        return True

    def _check_clusters(self) -> None:
        ids = [engine_of(client).cluster.cluster_id for client in (self._clients.source, self._clients.target)]
        if ids[0] is not None and ids[0] == ids[1]:
            raise UsageError(
                f"mirror {self._settings.name}: {self._settings.source_alias!r} and {self._settings.target_alias!r} "
                f"are the same cluster (id {ids[0]}); a cluster is not mirrored onto itself: check bootstrap.servers"
            )

    async def _adopt(self, topics: Sequence[CopiedTopic]) -> None:
        """Copy exactly these topics: begin with partitions that are new, end with those that are gone."""
        source = self._clients.source
        found = await source.list_topics()
        self._wanted = {
            of: topic
            for topic in topics
            for of in found.get(topic.source, ())
            if topic.partitions is None or of.partition in topic.partitions
        }
        for topic in topics:
            if topic.source not in found:
                log.warning("mirror %s: the source has no topic %r any more", self._settings.name, topic.source)
        self._refusals.keep(self._wanted)
        left_out = self._left_out()
        wanted = {of: topic for of, topic in self._wanted.items() if of not in left_out}
        await self._learn_targets({topic.target for topic in wanted.values()})
        for gone in self._copies.keys() - wanted.keys():
            if gone not in left_out:
                log.info("mirror %s: %s is not copied any more", self._settings.name, name_of(gone))
            del self._copies[gone]
        for of, copy in self._copies.items():
            _check_same(copy, self._clients.target.topic_id(copy.target.topic))
            copy.limits = TargetLimits.of(wanted[of].target_config)
        starts = await self._starts_of({of: topic for of, topic in wanted.items() if of not in self._copies})
        source.assign(self._copies)
        for of, at in starts.items():
            source.seek(of, at)
        if not self.committed.keys() >= self._copies.keys():
            # Before the first record: from now on a copy with records and without a position is not this flow's.
            await self._commit(wait=True)
        await self._note_refusals(left_out)

    def _left_out(self) -> Collection[TopicPartition]:
        """Return the partitions that are not copied now; those that have records before a refused one are, up to it."""
        stopped = self._refusals.left_out(_now_s())
        if stopped and self._refusals.due_at_s is not None:
            self._refresh_at_s = min(self._refresh_at_s, self._refusals.due_at_s)
        ends = {of: self._refusals.stopped[of].refusal.stop_offset for of in stopped}
        self._stops = {
            of: end
            for of, end in ends.items()
            if (position := self._position_before(of)) is not None and position.offset < end
        }
        return ends.keys() - self._stops.keys()

    async def _note_refusals(self, left_out: Collection[TopicPartition]) -> None:
        """Commit why partitions are left out, with their positions, for `mirror status`; they do not expire then."""
        positions = {of: position for of in left_out if (position := self._position_before(of)) is not None}
        if positions:
            await self._commits.note(
                {
                    self._copy_of(of): position._replace(
                        run_id=self._runs.own, refusal=self._refusals.stopped[of].refusal.text
                    )
                    for of, position in positions.items()
                }
            )

    def _position_before(self, of: TopicPartition) -> Position | None:
        """Return the last known position of a partition."""
        return self.committed.get(of) or self._before.get(of)

    def _copy_of(self, of: TopicPartition) -> TopicPartition:
        return TopicPartition(self._wanted[of].target, of.partition)

    async def refusals_of(self, error: KafkaError) -> list[Refusal]:
        """Return the partitions that a cluster refuses, after an error; none if that is not what ended the session."""
        failed = self._copier.failed
        is_settled = not failed or await self._copier.settle(SETTLE_S)
        refusals: dict[TopicPartition, Refusal] = {}
        partitions, topics = refused_by(error)
        for copy, offset, batch_offset, what, why in failed:
            if is_of_records(why) or isinstance(why, CorruptBatchError):
                refusal = refusal_of(copy.source, copy.target, offset, what, why, batch_offset)
                refusals.setdefault(copy.source, refusal)
            more_partitions, more_topics = refused_by(why)
            partitions, topics = partitions | more_partitions, topics | more_topics
        for of, topic in self._wanted.items():
            if {of, self._copy_of(of)} & partitions or {of.topic, topic.target} & topics:
                before = self._position_before(of)
                offset = 0 if before is None else before.offset
                refusals.setdefault(of, refusal_of(of, self._copy_of(of), offset, "copying", _cause_of(error)))
        if refusals and is_settled and self._commits.overlaps:
            await self._keep_others(refusals)
        return list(refusals.values())

    async def _keep_others(self, refused: Collection[TopicPartition]) -> None:
        """Commit what was acknowledged of other partitions; without transactions it would be copied again."""
        others = {
            copy.target: Position(
                copy.settled_offset, -1, copy.source_id, copy.target_id, self._runs.own, copy.target_offset
            )
            for of, copy in self._copies.items()
            if of not in refused and of in self.committed and copy.settled_offset > self.committed[of].offset
        }
        if others:
            await self._commits.note(others)

    async def _starts_of(self, new: Mapping[TopicPartition, CopiedTopic]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Begin with partitions; returns where each of them continues."""
        all_facts = await self._facts_of(new)
        positions = {facts.source: facts.position for facts in all_facts if facts.position is not None}
        self._runs.check(positions, self._settings.name)
        starts: dict[TopicPartition, OffsetAndMetadata] = {}
        for facts in all_facts:
            of = facts.source
            start = start_of(facts, on_loss=self._settings.on_loss, start_at=self._settings.start_at)
            if start.notice:
                log.warning("mirror %s: %s", self._settings.name, start.notice)
            elif facts.position is not None:
                self.committed[of] = facts.position
            if start.notice or facts.position is None:
                settled = range(start.offset, start.offset)
                begun = CopiedBatch(of, facts.target, settled, (), facts.target_end_offset, facts.target_id)
                self._begun.append(begun)
            self._copies[of] = PartitionCopy(
                of,
                facts.target,
                TargetLimits.of(new[of].target_config),
                facts.source_id,
                facts.target_id,
                start.offset,
                facts.target_end_offset,
                self._metrics.of(of, _now_s()),
                joins=of not in self._refusals.stopped,
            )
            starts[of] = OffsetAndMetadata(start.offset, leader_epoch=start.leader_epoch)
        self._runs.note_absent(new.keys() - positions.keys())
        return starts

    async def _learn_targets(self, topics: Iterable[str]) -> None:
        """Have the producer and the target's consumer know the copies, which may be some milliseconds old."""
        if topics:
            await core_of(self._clients.producer).learn_topics(topics)
            await together(self._clients.target.list_topics())

    async def _facts_of(self, new: Mapping[TopicPartition, CopiedTopic]) -> list[PartitionFacts]:
        """Ask both clusters about partitions that are to be copied."""
        if not new:
            return []
        source, target = self._clients.source, self._clients.target
        copies = {of: TopicPartition(topic.target, of.partition) for of, topic in new.items()}
        first, ends, target_ends, committed = await together(
            source.beginning_offsets(new),
            source.end_offsets(new),
            target.end_offsets(copies.values()),
            self._committed(copies.values()),
        )
        return [
            PartitionFacts(
                of,
                copy,
                source.topic_id(of.topic),
                target.topic_id(copy.topic),
                self._position_of(of, committed[copy], target.topic_id(copy.topic)),
                first[of],
                ends[of],
                target_ends[copy],
            )
            for of, copy in copies.items()
        ]

    async def _committed(self, copies: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Ask for positions that no open transaction may change."""
        try:
            return await self._clients.target.committed(copies)
        except KafkaTimeoutError as error:
            cause = error.__cause__
            if not isinstance(cause, BrokerError) or cause.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            raise KafkaTimeoutError(
                f"mirror {self._settings.name}: its positions in the target cannot be read: another producer has an "
                f"open transaction with offsets of group {self._settings.group_id!r}. If no coordinator will end it, "
                f"`kafkaraw transactions find-hanging __consumer_offsets` names it, and `transactions abort` ends it"
            ) from error

    def _position_of(self, of: TopicPartition, committed: OffsetAndMetadata | None, target_id: Uuid) -> Position | None:
        if committed is not None:
            return Position.parse(committed.offset, committed.leader_epoch, committed.metadata)
        before = self._before.get(of)
        return before if before is not None and before.target_id != target_id else None

    # -- copying

    async def copy(self, stop: asyncio.Event) -> None:
        """Copy until `stop` is set; then commit.

        Raises:
            KafkaError: a failure; nothing that was not committed counts.
        """
        if _now_s() >= self._schedule.all_at_s:
            await self._commit()
        while not stop.is_set():
            await self._refresh_if_due()
            self.tell_begun()
            read = await self._read()
            self._copier.check()
            if read:
                await self._send(read)
            is_idle = not read and self._schedule.is_open and self._is_at_end()
            if self._schedule.is_due(_now_s(), is_idle=is_idle, age_s=self._copier.age_ms / 1000):
                await self._commit()
            await self._check_committing()
        await self._commit(wait=True)

    def tell_begun(self) -> None:
        """Tell which partitions begin anew: offsets of an earlier copy must not be translated to those of this one."""
        if self._begun:
            begun, self._begun = self._begun, []
            self._on_committed(begun)

    async def _read(self) -> dict[TopicPartition, Batch]:
        """Wait for batches for a short time, and take some; a Fetch stays in flight meanwhile."""
        wait_s = IDLE_S if self._schedule.is_open else LOOK_S
        if not self._copies:
            await asyncio.sleep(wait_s)
            return {}
        take = partial(some_of, size_max_bytes=self._settings.in_flight_max_bytes)
        return await reading_of(self._clients.source).take(take, None, wait_s)

    def _is_at_end(self) -> bool:
        """Return whether all was read that the source had at the last responses; a broker may only be slow."""
        source = self._clients.source
        return not any(source.lag(of) for of in self._copies)

    async def _send(self, read: dict[TopicPartition, Batch]) -> None:
        source = self._clients.source
        for of in read:
            copy = self._copies[of]
            if copy.source_id != source.topic_id(of.topic):
                raise KafkaError(f"topic {of.topic!r} of the source was deleted and created again")
            copy.metrics.lag = source.lag(of)
        for of in read.keys() & self._stops.keys():
            self._stop_at(of, read)
        if not read:
            return
        if self._committing is not None and not self._commits.overlaps:
            committing, self._committing = self._committing, None
            await committing
        await self._commits.begin()
        self._schedule.sent(_now_s())
        self._copier.send(read, self._copies)
        await self._copier.wait_for_room()

    def _stop_at(self, of: TopicPartition, read: dict[TopicPartition, Batch]) -> None:
        """Leave out the batch that was refused before, and those behind it; read this partition no further."""
        batch, source = read.pop(of), self._clients.source
        wires = [wire for wire in batch.wires if wire[0].next_offset <= self._stops[of]]
        if wires:
            read[of] = Batch(*of, wires, start_offset=batch.start_offset)
        if len(wires) < len(batch.wires):
            source.pause([of])
            source.seek(of, self._stops.pop(of))
            self._refresh_at_s = _now_s()  # then it is left out

    # -- positions

    async def _commit(self, *, wait: bool = False) -> None:
        """Commit the positions behind all that was read; with `wait`, it is done when this returns."""
        if self._committing is not None:
            await self._committing
            self._committing = None
        positions = self._moved_positions()
        everything = _now_s() >= self._schedule.all_at_s
        if everything:
            positions = {**self.committed, **positions}
        if not positions:
            self._schedule.committed(_now_s(), everything=everything)
            return
        settled = {
            of: range(copy.settled_offset, position.offset)
            for of, position in positions.items()
            if (copy := self._copies.get(of)) is not None and copy.settled_offset < position.offset
        }
        for of, offsets in settled.items():
            self._copies[of].settled_offset = offsets.stop
        work = self._commit_positions(positions, settled, self._copier.sent_count)
        self._schedule.committed(_now_s(), everything=everything)
        if wait:
            await work
        else:  # the next batches are read meanwhile
            self._committing = asyncio.get_running_loop().create_task(work, name=f"positions of {self._settings.name}")

    async def _commit_positions(
        self, positions: dict[TopicPartition, Position], settled: Mapping[TopicPartition, range], count: int
    ) -> None:
        """Commit positions, then tell what was copied.

        Args:
            positions: by partition of the source.
            settled: offsets behind the batches that were sent, which have no records for users.
            count: how many batches were sent.
        """
        targets = {self._copies[of].target: position for of, position in positions.items() if of in self._copies}
        await self._commits.commit(targets, count, self._check_targets)
        self.committed.update(positions)
        copied = self._copier.take_copied(count)
        for of, offsets in settled.items():
            copy = self._copies.get(of)
            if copy is not None:
                copied.append(CopiedBatch(copy.source, copy.target, offsets, (), copy.target_offset, copy.target_id))
        self._on_committed(copied)

    def _check_targets(self) -> None:
        """Check that the copies are those that the positions are about: a new one lacks the records before.

        Raises:
            KafkaError: one was deleted and created again; the next session copies it anew.
        """
        producer = core_of(self._clients.producer)
        for copy in self._copies.values():
            _check_same(copy, producer.topic_id(copy.target.topic))

    def _check_copies_exist(self) -> None:
        """Check that no copy was deleted: its batches would be sent again until `delivery_timeout_ms`.

        Raises:
            KafkaError: one was; the next session creates it again, or leaves it out.
        """
        producer = core_of(self._clients.producer)
        for copy in self._copies.values():
            if copy.target_id != ZERO_UUID and producer.topic_id(copy.target.topic) == ZERO_UUID:
                raise KafkaError(f"topic {copy.target.topic!r} of the target was deleted")

    def _moved_positions(self) -> dict[TopicPartition, Position]:
        moved: dict[TopicPartition, Position] = {}
        for of, at in self._clients.source.next_offsets().items():
            copy, before = self._copies.get(of), self.committed.get(of)
            if copy is not None and (before is None or before.offset != at.offset):
                moved[of] = Position(
                    at.offset, at.leader_epoch, copy.source_id, copy.target_id, self._runs.own, copy.target_offset
                )
        return moved

    async def _check_committing(self) -> None:
        if self._committing is not None and self._committing.done():
            committing, self._committing = self._committing, None
            await committing

    # -- new topics

    async def _refresh_if_due(self) -> None:
        if self._refreshing is None and _now_s() >= self._refresh_at_s:
            refresh: Any = self._plan.refresh()
            self._refreshing = asyncio.get_running_loop().create_task(refresh, name=f"topics of {self._settings.name}")
            self._refresh_at_s = _now_s() + self._settings.refresh_topics_interval_s  # sooner if a retry is due
        if self._refreshing is not None and self._refreshing.done():
            refreshing, self._refreshing = self._refreshing, None
            try:
                topics = await refreshing
            except RetriableError as error:
                log.warning("mirror %s: cannot look for new topics: %s", self._settings.name, error)
                self._refresh_at_s = min(self._refresh_at_s, _now_s() + REFRESH_AGAIN_S)
                return
            await self._commit(wait=True)
            await self._adopt(topics)

    # -- the end

    async def close(self) -> None:
        """Close the clients, after everything was committed."""
        await self._end_tasks()
        await together(*(each.close() for each in self._clients.all))

    async def discard(self) -> None:
        """Close the clients after a failure; an open transaction is aborted here, or by the next session.

        If the flow is cancelled meanwhile, the other clients are closed, too.
        """
        closings: list[Callable[[], Awaitable[None]]] = [self._end_tasks]
        closings += [partial(each.close, CLOSE_S) for each in self._clients.all]
        cancelled: asyncio.CancelledError | None = None
        for closing in closings:
            try:
                await closing()
            except asyncio.CancelledError as error:
                cancelled = error
            except KafkaError:
                continue
        if cancelled is not None:
            raise cancelled

    async def _end_tasks(self) -> None:
        tasks = [task for task in (self._committing, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check_same(copy: PartitionCopy, topic_id: Uuid) -> None:
    """Raise if a copy has another id than at the begin of the session; ids that are not known are no difference."""
    if ZERO_UUID not in (topic_id, copy.target_id) and topic_id != copy.target_id:
        raise KafkaError(f"topic {copy.target.topic!r} of the target was deleted and created again")


def _cause_of(error: BaseException) -> BaseException:
    """Return the first error of a chain, which names the cause."""
    while isinstance(error.__cause__, KafkaError):
        error = error.__cause__
    return error


def _now_s() -> float:
    return asyncio.get_running_loop().time()
