"""Record into a history what happens inside clients: batches sent, leader epochs, commits; and recreated groups.

Each function replaces methods of one client, or of the coordinators, with methods that record and then do the same.
Nothing else inside of brokers is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.shares.partitions import SharePartitions
from kafkaraw.client.groups.commit_queue import PendingCommit
from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.sending.sender import Outbox
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.producer.events import Answered, Event, RequestLost, SendProduce
from kafkaraw.core.producer.failures import Verdict, verdict_on
from kafkaraw.protocol.error_codes import error_name
from kafkaraw.records import BatchPromise, SealedBatch, TopicPartition
from kafkaraw.testing.audit import History, Step
from kafkaraw.testing.group_history import Commit, GroupHistory
from kafkaraw.testing.share_history import Load, ShareHistory
from tests.simulation.environment import TOPIC


def record_batches(
    name: str, outbox: Outbox, history: History, covered: Counter[str], clock: Callable[[], float]
) -> None:
    """Record which batches a producer sends, sends again, and fails to write.

    Args:
        name: name of the producer.
        outbox: the producer's outbox.
        history: the history to extend.
        covered: counts the events.
        clock: returns the time in seconds.
    """
    numbers: dict[int, tuple[int, BatchPromise]] = {}  # by id(); the promise is kept, so that its id is not used again
    in_flight: dict[int, SendProduce] = {}
    sends, send, tell = history.shipments[name], outbox.send, outbox._report

    def promise_of(batch: SealedBatch) -> BatchPromise:
        """Return the promise of the batch before any batch split: the split batches keep its place in the order."""
        promise = batch.promise
        while promise.whole is not None:
            promise = promise.whole
        return promise

    def number_of(batch: SealedBatch) -> int:
        promise = promise_of(batch)
        return numbers.setdefault(id(promise), (len(numbers), promise))[0]

    def recorded_send(action: SendProduce) -> None:
        in_flight[action.request_id] = action
        covered["several requests in flight"] += len(in_flight) > 1
        for numbered in action.batches:
            covered["sent again"] += id(promise_of(numbered.batch)) in numbers
            covered["next epoch"] += numbered.identity.epoch > 0
            tp = TopicPartition(numbered.batch.topic, numbered.batch.partition)
            sends.append((clock(), tp, number_of(numbered.batch), Step.LEFT))
        send(action)

    def recorded_tell(event: Event) -> None:
        if isinstance(event, Answered | RequestLost):
            for numbered in in_flight.pop(event.request_id).batches:
                tp = TopicPartition(numbered.batch.topic, numbered.batch.partition)
                if isinstance(event, RequestLost):
                    covered["lost"] += 1
                elif (code := event.outcomes[tp].error_code if tp in event.outcomes else -1) and code >= 0:
                    covered[error_name(code)] += 1
                if isinstance(event, RequestLost) or verdict_on(code) is not Verdict.WRITTEN:
                    sends.append((clock(), tp, number_of(numbered.batch), Step.RETURNED))
        tell(event)

    outbox.send, outbox._report = recorded_send, recorded_tell


def record_leader_epochs(name: str, view: ClusterView, history: History) -> None:
    """Record the leader epochs that a client stores in its view of the cluster."""
    seen, update, update_leader = history.leader_epochs[name], view.update_in_steps, view.update_leader

    def note() -> None:
        for tp in view.partitions_of(TOPIC) or ():
            seen.append((tp, view.topic_id_of(TOPIC), view.leader_epoch_of(tp)))

    def recorded_update(*args: object, **kwargs: object) -> Iterator[None]:
        yield from update(*args, **kwargs)
        note()

    def recorded_update_leader(*args: object) -> bool:
        changed = update_leader(*args)
        note()
        return changed

    view.update_in_steps, view.update_leader = recorded_update, recorded_update_leader


def record_commits(name: str, progress: Progress, group: GroupHistory, clock: Callable[[], float]) -> None:
    """Record the offsets that a consumer commits, when it called commit, and whether the commit succeeded.

    Pending commits are merged into one request: each offset is identified by its own object.
    """
    intend, commit = progress._ownership.pending, progress._commits.commit
    asked: dict[int, tuple[object, float]] = {}

    def recorded_commit(offsets: Mapping) -> PendingCommit:
        asked.update((id(at), (at, clock())) for at in offsets.values())
        return intend(offsets)

    async def recorded_request(offsets: Mapping, *args: object) -> None:
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
                entry.ended_s = clock()

    progress._ownership.pending, progress._commits.commit = recorded_commit, recorded_request


@contextmanager
def record_loads(shares: ShareHistory, clock: Callable[[], float]) -> Iterator[None]:
    """In this context, record when a leader reads the state of a share partition, and when it forgets it.

    From then on, delivery counts begin at the stored ones. This happens inside of brokers; members cannot know it.
    """
    read, end = SharePartitions._read, SharePartitions._end

    def read_and_record(self, led, outcome):
        read(self, led, outcome)
        shares.loads.append(Load(clock(), led.partition.topic_partition))

    def end_and_record(self, led, error):
        end(self, led, error)
        shares.loads.append(Load(clock(), led.partition.topic_partition))

    SharePartitions._read, SharePartitions._end = read_and_record, end_and_record
    try:
        yield
    finally:
        SharePartitions._read, SharePartitions._end = read, end


@contextmanager
def on_group_recreated(group_recreated: Callable[[], None]) -> Iterator[None]:
    """In this context, call a function whenever a group without members is deleted and created again.

    This happens inside of brokers when the next member uses the other protocol; members cannot know it.
    """
    commit_change, found = GroupCoordinator._commit_change, GroupCoordinator._create_group

    def commit_and_notify(self, change, done):
        before = self._groups.get(change.group.group_id)
        if isinstance(before, ClassicGroup) and before.is_empty and isinstance(change.group, ConsumerGroup):
            group_recreated()
        commit_change(self, change, done)

    def found_and_notify(self, request, caller, answer, *, instead_of):
        if instead_of is not None:
            group_recreated()
        found(self, request, caller, answer, instead_of=instead_of)

    GroupCoordinator._commit_change, GroupCoordinator._create_group = commit_and_notify, found_and_notify
    try:
        yield
    finally:
        GroupCoordinator._commit_change, GroupCoordinator._create_group = commit_change, found
