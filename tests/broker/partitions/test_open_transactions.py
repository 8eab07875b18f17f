"""Which transactions of a partition are open, aborted, and how far a read_committed reader may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.partitions.open_transactions import OpenTransactions
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.segment_indexes import aborted_between
from kafkaraw.records import BatchHeader, ControlType, encode_batch, encode_control_batch, parse_header


class Log:
    """A partition's batches, as headers."""

    def __init__(self) -> None:
        self.transactions = OpenTransactions()
        self.aborted: list[AbortedTransaction] = []
        self.end = 0

    def data(self, producer_id: int, count: int = 1, *, transactional: bool = True) -> int:
        batch = encode_batch(
            [(0, None, b"v", ())] * count,
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
        return self._note(parse_header(batch), None)

    def marker(self, producer_id: int, kind: ControlType) -> int:
        batch = encode_control_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=self.end
        )
        return self._note(parse_header(batch), kind)

    def _note(self, header: BatchHeader, kind: ControlType | None) -> int:
        aborted = self.transactions.note(header, kind)
        if aborted is not None:
            self.aborted.append(aborted)
        self.end = header.last_offset + 1
        return header.base_offset


def test_nothing_behind_an_open_transaction_is_stable() -> None:
    log = Log()
    log.data(5, 3, transactional=False)
    first = log.data(1, 2)
    log.data(2, 2)
    assert log.transactions.last_stable_offset(log.end) == first == 3
    log.marker(2, ControlType.COMMIT)
    assert log.transactions.last_stable_offset(log.end) == first
    log.marker(1, ControlType.COMMIT)
    assert log.transactions.last_stable_offset(log.end) == log.end


def test_a_transaction_whose_marker_is_not_replicated_is_not_stable() -> None:
    log = Log()
    first = log.data(1)
    marker = log.marker(1, ControlType.COMMIT)
    assert log.transactions.last_stable_offset(marker) == first
    assert log.transactions.last_stable_offset(marker + 1) == marker + 1


def test_aborted_transactions_are_given_for_the_range_that_is_read() -> None:
    log = Log()
    log.data(1, 2)
    log.data(2, 2)
    log.marker(1, ControlType.ABORT)
    log.marker(2, ControlType.COMMIT)
    log.data(3)
    log.marker(3, ControlType.ABORT)
    first, third = AbortedTransaction(1, 0, 4, 2), AbortedTransaction(3, 6, 7, 8)
    assert aborted_between(log.aborted, 0, log.end) == ([first, third], True)
    assert aborted_between(log.aborted, 4, log.end) == ([first, third], True)
    assert aborted_between(log.aborted, 5, log.end) == ([third], True)
    assert aborted_between(log.aborted, 0, 6) == ([first], True)
    assert aborted_between(log.aborted, 0, log.end + 1) == ([first, third], False)


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    log = Log()
    log.marker(1, ControlType.ABORT)
    assert log.aborted == []
    assert log.transactions.last_stable_offset(log.end) == log.end


STEPS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "plain", "abort", "commit"])), max_size=30)


@given(STEPS, st.integers(0, 40), st.integers(0, 40))
def test_a_range_is_given_every_aborted_transaction_that_has_records_in_it(
    steps: list[tuple[int, str]], start: int, length: int
) -> None:
    log = Log()
    owner: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for producer_id, what in steps:
        if what in ("data", "plain"):
            offset = log.data(producer_id, transactional=what == "data")
            if what == "data":
                owner.setdefault(producer_id, []).append(offset)
        else:
            log.marker(producer_id, ControlType.ABORT if what == "abort" else ControlType.COMMIT)
            offsets = owner.pop(producer_id, [])
            if what == "abort":
                aborted.update(offsets)
    end = min(start + length, log.end)
    given_ranges = aborted_between(log.aborted, start, end).transactions
    for offset in aborted:
        if start <= offset < end:
            assert any(each.first_offset <= offset <= each.last_offset for each in given_ranges)
