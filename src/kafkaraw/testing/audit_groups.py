"""The auditor of a group: ownership of partitions, processing of records, and committed offsets. See `audit`.

The input is what members observed between their callbacks (`group_history`), and the bytes that they sent
(`audit_absences`). A fenced member that does not know it yet still owns its partitions, but in an older generation.
That is Kafka's normal behaviour, and so are records that are processed again after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from kafkaraw.protocol.frames import decode_request
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.records import TopicPartition
from kafkaraw.testing.group_history import Commit, GroupHistory, ObservedOffsets, Ownership
from kafkaraw.testing.history import History
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.memory_network import Sent

_SIZE_BYTES: Final = 4
_PRESENCE_KEYS: Final = {11: "JoinGroup", 12: "Heartbeat", 14: "SyncGroup", 68: "ConsumerGroupHeartbeat"}


def audit_group(history: History, group: GroupHistory) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        history: the records in the topics.
        group: what the members observed.
    """
    checks = (_two_owners, _unowned, _strays, _processed_twice, _processed_again, _positions_that_went_back)
    found = [violation for check in checks for violation in check(group)]
    for check_both in (_unprocessed, _positions_too_far, _seeks):
        found += check_both(history, group)
    return found


# -- ownership


def _two_owners(group: GroupHistory) -> Iterator[Violation]:
    by_partition: dict[TopicPartition, list[Ownership]] = defaultdict(list)
    for ownership in group.ownerships:
        by_partition[ownership.topic_partition].append(ownership)
    for tp, ownerships in by_partition.items():
        for one, other in combinations(ownerships, 2):
            shared = _shared_generation(one, other)
            if shared is not None:
                at_s, generation = shared
                what = f"{one.member} and {other.member} have {tp} in generation {generation} at {at_s:.3f} s"
                yield Violation(Invariant.TWO_OWNERS, what)


def _shared_generation(one: Ownership, other: Ownership) -> tuple[float, int] | None:
    """Return when, and in which generation, two ownerships overlapped."""
    if one.ended_s is not None and one.ended_s <= other.began_s:
        return None
    for at_s in sorted({known.at_s for known in (*one.generations, *other.generations)}):
        if one.lasts_at(at_s) and other.lasts_at(at_s):
            life, generation = _generation_at(one, at_s)
            if generation >= 0 and (life, generation) == _generation_at(other, at_s):
                return at_s, generation
    return None


def _generation_at(ownership: Ownership, at_s: float) -> tuple[int, int]:
    """Return the life of the group and the generation in which the ownership's member believed itself to be."""
    generations = (known for known in reversed(ownership.generations) if known.at_s <= at_s)
    return next(((known.life, known.generation) for known in generations), (0, -1))


def _unowned(group: GroupHistory) -> Iterator[Violation]:
    """Partitions without a single owner for longer than the bound after the last disturbance."""
    if group.calm_since_s is None or group.calm_until_s is None:
        return
    for tp in group.partitions:
        owners = [ownership.member for ownership in group.of(tp) if ownership.lasts_at(group.calm_until_s)]
        if len(owners) != 1:
            calm_s = group.calm_until_s - group.calm_since_s
            what = f"{tp} is owned by {' and '.join(owners) or 'no member'} after {calm_s:.1f} s of calm"
            yield Violation(Invariant.UNOWNED, what)


# -- processing


def _unprocessed(history: History, group: GroupHistory) -> Iterator[Violation]:
    """Records that no member has processed, of partitions that the group reads."""
    done = {
        (ownership.topic_partition, record.offset) for ownership in group.ownerships for record in ownership.processed
    }
    for tp in group.partitions:
        missing = [offset for offset, _ in history.final.get(tp, ()) if (tp, offset) not in done]
        if missing:
            what = f"{len(missing)} records of {tp}, the first at {missing[0]}, which {_passed(group, tp, missing[0])}"
            yield Violation(Invariant.UNPROCESSED, what)


def _passed(group: GroupHistory, tp: TopicPartition, offset: int) -> str:
    past = [
        ownership.member for ownership in group.of(tp) if any(record.offset > offset for record in ownership.processed)
    ]
    return f"{past[0]} went past" if past else "no member reached"


def _strays(group: GroupHistory) -> Iterator[Violation]:
    for what in group.strays:
        yield Violation(Invariant.STRAY, what)


def _processed_twice(group: GroupHistory) -> Iterator[Violation]:
    """Records that two members have processed, although all revocations were graceful and no member sought them."""
    if not group.exact:
        return
    processed_by: dict[tuple[TopicPartition, int], tuple[str, float]] = {}
    for ownership in group.ownerships:
        for record in ownership.processed:
            tp, offset = ownership.topic_partition, record.offset
            before, then_s = processed_by.setdefault((tp, offset), (ownership.member, record.at_s))
            if before != ownership.member and not group.was_sought(tp, offset, then_s, record.at_s):
                what = (
                    f"{tp} {offset} was processed by {before}, and again by {ownership.member} at {record.at_s:.3f} s"
                )
                yield Violation(Invariant.PROCESSED_AGAIN, what)
                break


def _processed_again(group: GroupHistory) -> Iterator[Violation]:
    """Records below an offset that was committed before their ownership began, and that no member sought since."""
    stored: dict[TopicPartition, list[tuple[float, int, Commit]]] = defaultdict(list)
    for commit in group.commits:
        if commit.acknowledged and commit.ended_s is not None:
            for tp, offset in commit.positions.items():
                stored[tp].append((commit.ended_s, offset, commit))
    for ownership in group.ownerships:
        if not ownership.processed:
            continue
        tp, first = ownership.topic_partition, ownership.processed[0]
        for at_s, offset, commit in stored[tp]:
            too_low = at_s <= ownership.began_s and first.offset < offset
            if too_low and not group.was_sought(tp, first.offset, commit.began_s, first.at_s):
                yield Violation(
                    Invariant.PROCESSED_AGAIN,
                    f"{ownership.member} began at {first.offset} of {tp} at {ownership.began_s:.3f} s, "
                    f"though at {at_s:.3f} s {commit.member} had committed {offset}",
                )
                break


# -- positions


def _positions_too_far(history: History, group: GroupHistory) -> Iterator[Violation]:
    """Commits of an offset above a record that no member had processed by then."""
    done_s: dict[tuple[TopicPartition, int], float] = {}
    for ownership in group.ownerships:
        for record in ownership.processed:
            key = ownership.topic_partition, record.offset
            done_s[key] = min(record.at_s, done_s.get(key, record.at_s))
    for commit in group.commits:
        for tp, position in commit.positions.items():
            ahead = [
                offset
                for offset, _ in history.final.get(tp, ())
                if offset < position and done_s.get((tp, offset), float("inf")) > commit.began_s
            ]
            if ahead:
                what = f"{commit.member} committed {position} of {tp} at {commit.began_s:.3f} s, before {ahead[0]}"
                yield Violation(Invariant.POSITION_TOO_FAR, f"{what} was processed")


def _positions_that_went_back(group: GroupHistory) -> Iterator[Violation]:
    """Committed offsets lower than one that was committed, or seen, before, although no member sought them since."""
    # When an offset was known, the offset, and since when a member may have requested it.
    known: dict[TopicPartition, list[tuple[float, int, float]]] = defaultdict(list)
    commits: dict[TopicPartition, list[Commit]] = defaultdict(list)
    for commit in group.commits:
        for tp, offset in commit.positions.items():
            commits[tp].append(commit)
            if commit.acknowledged and commit.ended_s is not None:
                known[tp].append((commit.ended_s, offset, commit.began_s))
    for seen in group.observed_offsets:
        for tp, offset in seen.positions.items():
            known[tp].append((seen.answered_s, offset, _requested_since(commits[tp], tp, seen)))
    for seen in group.observed_offsets:
        for tp, now in seen.positions.items():
            for at_s, offset, since_s in known[tp]:
                went_back = at_s < seen.asked_s and now < offset
                if went_back and not group.was_sought(tp, now, since_s, seen.answered_s):
                    what = f"{tp} stands at {now} at {seen.answered_s:.3f} s, and had stood at {offset} before"
                    yield Violation(Invariant.POSITION_WENT_BACK, what)
                    break


def _requested_since(commits: list[Commit], tp: TopicPartition, seen: ObservedOffsets) -> float:
    """Return since when the offset seen may have been requested: by the last commit before, or a pending one."""
    stored = [(c.ended_s, c.began_s) for c in commits if c.acknowledged and c.ended_s and c.ended_s <= seen.asked_s]
    last_s = max(stored)[1] if stored else 0.0
    candidates = [
        commit.began_s
        for commit in commits
        if commit.positions[tp] == seen.positions[tp] and commit.began_s <= seen.answered_s
        if not commit.acknowledged or commit.ended_s is None or commit.ended_s >= last_s
    ]
    return min(candidates, default=seen.answered_s)


def _seeks(history: History, group: GroupHistory) -> Iterator[Violation]:
    """A consumer that seeks to an offset receives the first record at or after it."""
    for seek in group.seeks:
        if seek.delivered is None:
            continue
        there = [offset for offset, _ in history.final.get(seek.topic_partition, ()) if offset >= seek.offset]
        if there and seek.delivered != there[0]:
            what = f"{seek.member} sought {seek.offset} of {seek.topic_partition} at {seek.at_s:.3f} s"
            yield Violation(Invariant.SEEK_MISSED, f"{what}, and received {seek.delivered}")


# -- silence


def audit_absences(sent: Iterable[Sent], group: GroupHistory) -> list[Violation]:
    """Heartbeats, and requests to join, of clients that had left.

    Args:
        sent: the frames sent, in order.
        group: which clients had left, and when.
    """
    absences: dict[bytes, list[tuple[float, float]]] = defaultdict(list)
    for client, from_s, until_s in group.absences:
        absences[client.encode()].append((from_s, until_s))
    found = []
    for each in sent:
        frame = each.data[_SIZE_BYTES:]
        key = int.from_bytes(frame[:2], "big")
        if each.by != "client" or key not in _PRESENCE_KEYS:
            continue
        who = frame[10 : 10 + int.from_bytes(frame[8:10], "big")]
        if any(from_s < each.at_s < until_s for from_s, until_s in absences[who]) and not _is_leave_request(frame):
            what = f"{_PRESENCE_KEYS[key]} of {who.decode()} at {each.at_s:.3f} s, which had left"
            found.append(Violation(Invariant.GHOST, what))
    return found


def _is_leave_request(frame: bytes) -> bool:
    """Return whether this is a leave request, which may be sent late; in the consumer protocol it is a heartbeat."""
    _, request = decode_request(frame)
    return isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0
