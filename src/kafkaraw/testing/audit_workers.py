"""The auditor of workers: no record is lost or skipped, the order by key, the concurrency, results once. See `audit`.

The input is what handlers recorded and what the topics contain in the end (`worker_history`), and the commits on the
wire. A worker that has lost its partitions and does not know it yet handles records that another one handles, too: a
record is handled at least once. Start at `audit_workers`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from kafkaraw.protocol.frames import decode_request
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequest
from kafkaraw.records import TopicPartition
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.memory_network import Sent
from kafkaraw.testing.worker_history import Copy, Handling, HandlingEnd, Source, WorkerHistory
from kafkaraw.worker.settings import Ordering

_SIZE_BYTES: Final = 4
_OFFSET_COMMIT: Final = 8
_NEVER_S: Final = float("inf")


def audit_workers(workers: WorkerHistory, sent: Iterable[Sent]) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        workers: what the workers did.
        sent: the frames on the wire, in order.
    """
    settled_s = _settled_s(workers)
    found = [*_positions_too_far(workers, sent, settled_s), *_key_order(workers, settled_s)]
    found += [*_concurrency(workers), *_unprocessed(workers)]
    if workers.is_transactional:
        found += _results_again(workers)
    return found


# -- what is settled: handled, with its result in the log, or copied into the retry or the dead-letter topic


def _settled_s(workers: WorkerHistory) -> dict[Source, float]:
    """Return when each record that was read was settled first; those that never were are missing."""
    found: dict[Source, float] = {}

    def note(source: Source, at_s: float) -> None:
        found[source] = min(at_s, found.get(source, _NEVER_S))

    for handling in workers.handlings:
        if handling.end is HandlingEnd.RETURNED and handling.ended_s is not None and _has_result(workers, handling):
            note(handling.source, handling.ended_s)
    made_of: dict[Source, list[Copy]] = defaultdict(list)
    for copy in (*workers.copies, *workers.letters):
        made_of[copy.original].append(copy)
    for original, copies in made_of.items():
        note(original, min(copy.at_s for copy in copies))
    for before in workers.copies:
        later = [copy.at_s for copy in made_of[before.original] if copy.attempts > before.attempts]
        if later:
            note(before.source, min(later))
    return found


def _has_result(workers: WorkerHistory, handling: Handling) -> bool:
    return not workers.returns_result[handling.original] or workers.results[handling.original] > 0


class _Commit(NamedTuple):
    """An offset that a worker asked to commit."""

    at_s: float
    worker: str | None
    topic_partition: TopicPartition
    offset: int


def _commits(workers: WorkerHistory, sent: Iterable[Sent]) -> Iterator[_Commit]:
    for each in sent:
        frame = each.data[_SIZE_BYTES:]
        if each.by != "client" or int.from_bytes(frame[:2], "big") != _OFFSET_COMMIT:
            continue
        header, request = decode_request(frame)
        assert isinstance(request, OffsetCommitRequest)
        for topic in request.topics if request.group_id == workers.group else ():
            for part in topic.partitions:
                place = TopicPartition(topic.name or workers.topic_ids[topic.topic_id], part.partition_index)
                yield _Commit(each.at_s, header.client_id, place, part.committed_offset)


def _positions_too_far(
    workers: WorkerHistory, sent: Iterable[Sent], settled_s: Mapping[Source, float]
) -> Iterator[Violation]:
    """Commits of an offset above a record that was not settled by then; those of transactions may be aborted."""
    read: dict[TopicPartition, list[Source]] = defaultdict(list)
    for source in (*workers.keys, *(copy.source for copy in workers.copies)):
        read[source.topic_partition].append(source)
    for commit in _commits(workers, sent):
        for source in read[commit.topic_partition]:
            if source.offset < commit.offset and settled_s.get(source, _NEVER_S) > commit.at_s:
                what = f"{commit.worker} committed {commit.offset} of {commit.topic_partition} at {commit.at_s:.3f} s"
                settled = f"was settled at {settled_s[source]:.3f} s" if source in settled_s else "was never settled"
                yield Violation(Invariant.POSITION_TOO_FAR, f"{what}, but {source.offset} {settled}")
                break


def _unprocessed(workers: WorkerHistory) -> Iterator[Violation]:
    """Records that were neither handled, with their result in the log, nor written as dead letters."""
    handled = {
        each.original for each in workers.handlings if each.end is HandlingEnd.RETURNED and _has_result(workers, each)
    }
    done = handled | {letter.original for letter in workers.letters}
    missing = sorted(source for source in workers.keys if source not in done)
    if missing:
        what = f"{len(missing)} records, the first at {missing[0].offset} of {missing[0].topic_partition}"
        yield Violation(Invariant.UNPROCESSED, what)


# -- order and concurrency


def _lane(workers: WorkerHistory, source: Source, key: bytes | None) -> Hashable | None:
    """Return what the records have in common that run one after the other; None if this one has no order."""
    if workers.ordering is Ordering.PARTITION:
        return source.topic_partition
    if workers.ordering is Ordering.UNORDERED or key is None:
        return None
    return source.topic_partition, key


def _key_order(workers: WorkerHistory, settled_s: Mapping[Source, float]) -> Iterator[Violation]:
    lanes: dict[Hashable, list[Handling]] = defaultdict(list)
    for handling in workers.handlings:
        lane = _lane(workers, handling.source, handling.key)
        if lane is not None:
            lanes[lane].append(handling)
    earlier: dict[Hashable, list[Source]] = defaultdict(list)
    for source, key in sorted(workers.keys.items()):
        earlier[_lane(workers, source, key)].append(source)
    for lane, handlings in lanes.items():
        yield from _overlaps(lane, handlings)
        yield from _first_handlings(workers, earlier[lane], handlings, settled_s)


def _overlaps(lane: Hashable, handlings: Iterable[Handling]) -> Iterator[Violation]:
    """Handlings of one lane in one worker at the same time."""
    by_worker: dict[str, list[Handling]] = defaultdict(list)
    for handling in handlings:
        by_worker[handling.worker].append(handling)
    for worker, mine in by_worker.items():
        for one, other in pairwise(mine):
            if one.ended_s is None or one.ended_s > other.began_s:
                what = f"{worker} handled {other.source.offset} at {other.began_s:.3f} s, while {one.source.offset} ran"
                yield Violation(Invariant.KEY_ORDER, f"{lane}: {what}")


def _first_handlings(
    workers: WorkerHistory, records: list[Source], handlings: Iterable[Handling], settled_s: Mapping[Source, float]
) -> Iterator[Violation]:
    """Records whose first handling began before an earlier record of the lane was handled first, or was settled."""
    first: dict[Source, Handling] = {}
    for handling in handlings:
        first.setdefault(handling.source, handling)
    for one, other in pairwise(first.values()):
        if one.source.offset > other.source.offset:
            what = f"{one.source} was handled before {other.source}, which has the same key"
            yield Violation(Invariant.KEY_ORDER, what)
    if workers.is_transactional:
        return  # the copy that settled an earlier record may be one of an aborted transaction
    for before, after in pairwise(records):
        if after in first and settled_s.get(before, _NEVER_S) > first[after].began_s:
            what = f"{after} was handled at {first[after].began_s:.3f} s, before {before} of the same key was settled"
            yield Violation(Invariant.KEY_ORDER, what)


def _concurrency(workers: WorkerHistory) -> Iterator[Violation]:
    changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for handling in workers.handlings:
        changes[handling.worker].append((handling.began_s, 1))
        if handling.ended_s is not None:
            changes[handling.worker].append((handling.ended_s, -1))
    for worker, its_changes in changes.items():
        running = 0
        for at_s, change in sorted(its_changes):  # ends before begins at the same time
            running += change
            if running > workers.concurrency[worker]:
                what = f"{worker} ran {running} handlers at {at_s:.3f} s, of {workers.concurrency[worker]}"
                yield Violation(Invariant.CONCURRENCY, what)
                break


# -- once


def _results_again(workers: WorkerHistory) -> Iterator[Violation]:
    """Records with two outcomes in the log: results and dead letters, or one of them twice; and copies made twice."""
    letters = Counter(letter.original for letter in workers.letters)
    for source in workers.keys:
        if workers.results[source] + letters[source] > 1:
            what = f"{source} has {workers.results[source]} results and {letters[source]} dead letters"
            yield Violation(Invariant.DUPLICATE, what)
    for (original, attempts), count in Counter((copy.original, copy.attempts) for copy in workers.copies).items():
        if count > 1:
            yield Violation(Invariant.DUPLICATE, f"{original} has {count} copies after call {attempts}")
