"""The auditor of a share group: no record is lost, none comes again that is done with, counts and locks hold.

The input is what applications recorded (`share_history`), what brokers and members sent (`share_wire`), and the records
in the topic in the end. What Kafka promises about delivery counts: a delivery is not stored when records are acquired,
but when they are released, or their lock expires. A leader that takes over begins at the stored counts; deliveries
that were open then are not counted (KIP-932, "Delivery count and record state"; kafka.server.share.SharePartition,
which writes no state in `acquire`). So a count may go back when a leader loads the state, to that of the last confirmed
release, and never otherwise. Start at `audit_shares`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import History
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.memory_network import Sent
from kafkaraw.testing.share_history import Answer, Given, ShareHistory
from kafkaraw.testing.share_wire import Acquisition, Exchange, Place, SentAnswer, ShareTraffic, share_traffic

_FINAL: Final = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})
_TICK_S: Final = 0.001


def audit_shares(history: History, shares: ShareHistory, sent: Iterable[Sent]) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        history: the records in the topics.
        shares: what the members observed.
        sent: the frames on the wire, in order.
    """
    traffic = share_traffic(sent, shares.group, shares.topic_ids)
    audit = _Audit(history, shares, traffic)
    checks = (
        audit.unprocessed,
        audit.wrong_records,
        audit.delivered_again,
        audit.delivery_counts,
        audit.locked_twice,
        audit.strays,
        audit.misreported,
        audit.unreported,
        audit.changed_states,
    )
    return [violation for check in checks for violation in check()]


class _Audit:
    """The observations of one run, by record."""

    def __init__(self, history: History, shares: ShareHistory, traffic: ShareTraffic) -> None:
        self._shares = shares
        self._traffic = traffic
        committed = shares.reads_committed and history.final_committed is not None
        final = history.final_committed if committed and history.final_committed is not None else history.final
        self._values: dict[Place, bytes] = {
            (tp, offset): value for tp, records in final.items() for offset, value in records
        }
        self._acquired: dict[Place, list[Acquisition]] = defaultdict(list)
        for acquisition in traffic.acquisitions:
            self._acquired[acquisition.place].append(acquisition)
        self._sent: dict[Place, list[SentAnswer]] = defaultdict(list)
        for sent in traffic.answers:
            self._sent[sent.place].append(sent)
        self._said: dict[Place, list[Answer]] = defaultdict(list)
        for answer in shares.answers:
            self._said[answer.given.topic_partition, answer.given.offset].append(answer)
        self._loads: dict[TopicPartition, list[float]] = defaultdict(list)
        for load in shares.loads:
            self._loads[load.topic_partition].append(load.at_s)
        self._blind_s = sorted(
            each.asked_s for each in traffic.exchanges if each.is_fetch and (each.answered_s is None or each.code)
        )

    # -- records

    def unprocessed(self) -> Iterator[Violation]:
        """Records that no application accepted or rejected, and that were not delivered as often as the limit."""
        missing = [
            place
            for place in self._values
            if not any(answer.kind in _FINAL for answer in self._said.get(place, ())) and not self._is_worn_out(place)
        ]
        if missing:
            tp, offset = min(missing)
            counts = [each.delivery_count for each in self._acquired.get((tp, offset), ())]
            what = f"{len(missing)} records, the first at {offset} of {tp}, which was delivered with counts {counts}"
            yield Violation(Invariant.UNPROCESSED, what)

    def _is_worn_out(self, place: Place) -> bool:
        """Return whether a record may have been delivered as often as the limit; responses may be missing."""
        count, since_s = 0, 0.0
        for each in self._acquired.get(place, ()):
            if each.delivery_count >= count:
                count, since_s = each.delivery_count, each.exchange.asked_s
        blind = len(self._blind_s) - bisect_right(self._blind_s, since_s)
        return count + blind >= self._shares.delivery_count_limit

    def wrong_records(self) -> Iterator[Violation]:
        """Records that applications got and that are not in the topic, or not for this group."""
        for given in self._shares.given:
            value = self._values.get((given.topic_partition, given.offset))
            if value is None and self._shares.reads_committed:
                yield Violation(Invariant.ABORTED_READ, f"{_named(given)}, which no committed transaction has")
            elif value != given.value:
                what = f"{_named(given)} with value {given.value!r}; in the topic it is {value!r}"
                yield Violation(Invariant.INCONSISTENT_OFFSETS, what)

    def delivered_again(self) -> Iterator[Violation]:
        """Records that a broker locked again after it had confirmed that they were accepted or rejected."""
        for place, answers in self._sent.items():
            ended = [each for each in answers if each.kind in _FINAL and each.code == 0]
            for acquisition in self._acquired.get(place, ()):
                before = next((each for each in ended if self._is_after(acquisition, each)), None)
                if before is not None:
                    what = f"{_at(place)} was delivered to {_told(acquisition)}, but {_sent(before)} was confirmed"
                    yield Violation(Invariant.DELIVERED_AGAIN, what)
                    break

    def _is_after(self, acquisition: Acquisition, answer: SentAnswer) -> bool:
        """Return whether a broker acquired a record after it had confirmed an answer."""
        told_s, confirmed_s = acquisition.exchange.answered_s, answer.exchange.answered_s
        assert told_s is not None
        assert confirmed_s is not None
        if acquisition.exchange.asked_s > confirmed_s:
            return True
        # The record may have been acquired before, and the response to the fetch have waited for a write.
        earlier = [each.delivery_count for each in self._acquired[answer.place] if _is_of(each, answer)]
        return told_s > confirmed_s and acquisition.delivery_count > max(earlier, default=0)

    # -- counts and locks

    def delivery_counts(self) -> Iterator[Violation]:
        """Counts above the limit, that do not rise, or that rise by more deliveries than there can have been."""
        for place, acquired in self._acquired.items():
            for each in acquired:
                if not 1 <= each.delivery_count <= self._shares.delivery_count_limit:
                    yield _count_violation(each, f"the limit is {self._shares.delivery_count_limit}")
            for before, after in pairwise(acquired):
                if not self._is_loaded_between(before, after) and after.delivery_count <= before.delivery_count:
                    yield _count_violation(after, f"before that it was {before.delivery_count}, to {_told(before)}")
            yield from self._below_stored(place, acquired)
            yield from self._above_deliveries(acquired)

    def _below_stored(self, place: Place, acquired: list[Acquisition]) -> Iterator[Violation]:
        for answer in self._sent.get(place, ()):
            if answer.kind != AcknowledgeType.RELEASE or answer.code != 0:
                continue
            released = max((each.delivery_count for each in acquired if _is_of(each, answer)), default=0)
            for each in acquired:
                confirmed_s = answer.exchange.answered_s or 0
                if each.exchange.asked_s > confirmed_s and each.delivery_count <= released:
                    yield _count_violation(each, f"{_sent(answer)} with count {released} was confirmed before")

    def _above_deliveries(self, acquired: list[Acquisition]) -> Iterator[Violation]:
        """A response that was not sent may have had records, too; it was counted if the request came."""
        for number, each in enumerate(acquired, 1):
            blind = bisect_right(self._blind_s, _answered_s(each))
            if each.delivery_count > number + blind:
                yield _count_violation(each, f"but it was delivered {number} times, and {blind} fetches got no records")

    def _is_loaded_between(self, before: Acquisition, after: Acquisition) -> bool:
        """Return whether deliveries may be forgotten: a leader has read the state, before everything was stored."""
        until_s = _answered_s(after)
        until_s = min([until_s, *(each.at_s for each in self._shares.restarts if each.at_s > _answered_s(before))])
        return any(before.exchange.asked_s <= at_s <= until_s for at_s in self._loads[before.place[0]])

    def locked_twice(self) -> Iterator[Violation]:
        """Records that a member got while they were certainly locked for another one."""
        uses: dict[str, list[Exchange]] = defaultdict(list)
        for exchange in self._traffic.exchanges:
            uses[exchange.member].append(exchange)
        for place, acquired in self._acquired.items():
            for before, after in pairwise(acquired):
                same = before.exchange.member == after.exchange.member
                if same or self._is_loaded_between(before, after) or self._is_settled_between(before, after):
                    continue
                if self._locked_until_s(before) > _answered_s(after) and _is_alive(uses, before, after):
                    what = f"{_at(place)} was delivered to {_told(after)} while {_told(before)} had it"
                    yield Violation(Invariant.LOCKED_TWICE, what)

    def _is_settled_between(self, before: Acquisition, after: Acquisition) -> bool:
        return any(
            each.exchange.member == before.exchange.member
            and each.kind != AcknowledgeType.RENEW
            and before.exchange.asked_s <= each.exchange.asked_s <= _answered_s(after)
            for each in self._sent.get(before.place, ())
        )

    def _locked_until_s(self, acquisition: Acquisition) -> float:
        """Return until when a record was certainly locked.

        A renewal that comes after the end of the lock does not make it longer. It is no error for records in front of
        the start offset (kafka.server.share.SharePartition.acknowledge), which another member may have ended.
        """
        until_s = acquisition.exchange.asked_s + self._shares.lock_s - _TICK_S
        for each in self._sent.get(acquisition.place, ()):
            is_renewal = each.kind == AcknowledgeType.RENEW and each.code == 0 and _is_of(acquisition, each)
            if is_renewal and each.exchange.asked_s <= until_s:
                until_s = max(until_s, each.exchange.asked_s + self._shares.lock_s - _TICK_S)
        return until_s

    # -- what clients said

    def strays(self) -> Iterator[Violation]:
        """Records that an application got and that no broker had locked for its member, or with another count."""
        told = {(each.exchange.member, each.place, each.delivery_count) for each in self._traffic.acquisitions}
        seen: Counter[tuple[str, Place, int]] = Counter()
        for given in self._shares.given:
            what = given.member, (given.topic_partition, given.offset), given.delivery_count
            if what not in told:
                yield Violation(Invariant.STRAY, f"{_named(given)}, which no broker has delivered so")
            seen[what] += 1

    def misreported(self) -> Iterator[Violation]:
        """Confirmations that no broker has sent, and acknowledgements that no application has asked for."""
        confirmed: Counter[tuple[str, Place, int]] = Counter()
        for sent in self._traffic.answers:
            if sent.code == 0:
                confirmed[sent.exchange.member, sent.place, sent.kind] += 1
        said: set[tuple[str, Place, int]] = set()
        for answer in self._shares.answers:
            what = answer.given.member, (answer.given.topic_partition, answer.given.offset), int(answer.kind)
            said.add(what)
            if answer.reported_s is None or answer.error is not None or answer.is_ambiguous:
                continue
            if not confirmed[what]:
                text = f"the {answer.kind.name} of {_named(answer.given)} was reported as stored; no broker said so"
                yield Violation(Invariant.MISREPORTED, text)
            confirmed[what] -= 1
        for sent in self._traffic.answers:
            what = sent.exchange.member, sent.place, sent.kind
            if what not in said and sent.kind != AcknowledgeType.RELEASE and sent.place in self._values:
                yield Violation(Invariant.MISREPORTED, f"{_sent(sent)} was sent; the application has not said so")

    def unreported(self) -> Iterator[Violation]:
        """Acknowledgements whose results the client has not reported by the end of its close."""
        for answer in self._shares.answers:
            if answer.reported_s is None and answer.given.member not in self._shares.ended:
                what = f"the result of {answer.kind.name} at {answer.at_s:.3f} s of {_named(answer.given)}"
                yield Violation(Invariant.UNREPORTED, f"{what} was never reported")

    # -- restarts

    def changed_states(self) -> Iterator[Violation]:
        """Offsets of the group that a restart of all brokers has changed."""
        for restart in self._shares.restarts:
            if restart.before != restart.after:
                what = f"the restart at {restart.at_s:.3f} s changed {restart.before} to {restart.after}"
                yield Violation(Invariant.STATE_CHANGED, what)


def _is_of(acquisition: Acquisition, answer: SentAnswer) -> bool:
    """Return whether an answer may be about a delivery."""
    return acquisition.exchange.member == answer.exchange.member and _answered_s(acquisition) <= answer.exchange.asked_s


def _answered_s(acquisition: Acquisition) -> float:
    answered_s = acquisition.exchange.answered_s
    assert answered_s is not None, "a record is acquired by a response"
    return answered_s


def _is_alive(uses: Mapping[str, list[Exchange]], before: Acquisition, after: Acquisition) -> bool:
    """Return whether the share session of a delivery certainly went on until after another delivery."""
    own, until_s = before.exchange, _answered_s(after)
    later = [each for each in uses[own.member] if each.asked_s > own.asked_s]
    if any(each.epoch <= 0 and each.asked_s <= until_s for each in later):
        return False
    return any(
        each.link == own.link and each.epoch > 0 and each.asked_s >= until_s and each.code == 0 for each in later
    )


def _count_violation(acquisition: Acquisition, why: str) -> Violation:
    what = f"{_at(acquisition.place)} has count {acquisition.delivery_count} for {_told(acquisition)}; {why}"
    return Violation(Invariant.DELIVERY_COUNT, what)


def _at(place: Place) -> str:
    (topic, partition), offset = place
    return f"offset {offset} of {topic}-{partition}"


def _named(given: Given) -> str:
    return f"{given.member} got {_at((given.topic_partition, given.offset))} (count {given.delivery_count})"


def _told(acquisition: Acquisition) -> str:
    return f"{acquisition.exchange.member} at {_answered_s(acquisition):.3f} s"


def _sent(answer: SentAnswer) -> str:
    kind = AcknowledgeType(answer.kind).name
    return f"{kind} of {_at(answer.place)} by {answer.exchange.member} at {answer.exchange.asked_s:.3f} s"
