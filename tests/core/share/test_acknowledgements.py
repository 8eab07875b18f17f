"""Records in hand: which offsets are open, and what is sent about them."""

from __future__ import annotations

import random

import pytest

from kafkaraw.core.share.acknowledgements import GAP, AcknowledgeType, AcquiredRange, RecordsInHand, ranges_of
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def hand(*ranges: tuple[int, int]) -> RecordsInHand:
    return RecordsInHand(TopicPartition("t", 0), [AcquiredRange(first, last, 1) for first, last in ranges])


def test_everything_is_accepted_as_one_range_for_each_acquired_one():
    assert hand((0, 9), (20, 29)).accept_all() == [(0, 9, [ACCEPT]), (20, 29, [ACCEPT])]


def test_accepting_everything_joins_ranges_that_follow_each_other():
    records = hand((0, 4), (5, 9), (11, 12), (13, 13))
    assert records.accept_all() == [(0, 9, [ACCEPT]), (11, 13, [ACCEPT])]


def test_offsets_without_records_are_gaps():
    records = hand((0, 4))
    records.found([0, 2, 3])
    records.settle(ACCEPT)
    assert records.take() == [(0, 4, [ACCEPT, GAP, ACCEPT, ACCEPT, GAP])]
    assert records.is_settled


def test_one_type_stands_for_a_whole_range():
    records = hand((0, 2))
    records.found([0, 1, 2])
    for offset in (2, 0, 1):
        records.acknowledge(offset, REJECT)
    assert records.take() == [(0, 2, [REJECT])]


def test_acknowledgement_that_was_not_sent_is_replaced():
    records = hand((0, 0))
    records.found([0])
    records.acknowledge(0, ACCEPT)
    records.acknowledge(0, RELEASE)
    assert records.take() == [(0, 0, [RELEASE])]


def test_acknowledgement_that_was_sent_is_refused():
    records = hand((0, 1))
    records.found([0, 1])
    records.acknowledge(0, ACCEPT)
    records.take()
    with pytest.raises(UsageError, match="offset 0 of t-0 is not in hand"):
        records.acknowledge(0, ACCEPT)
    assert list(records.unacknowledged) == [1]


def test_offset_that_was_not_acquired_is_refused():
    with pytest.raises(UsageError, match="offset 5"):
        hand((0, 1)).acknowledge(5, ACCEPT)


def test_exception_in_implicit_mode_leaves_the_others_accepted():
    records = hand((0, 2))
    records.acknowledge(1, RELEASE)
    assert records.accept_all() == [(0, 2, [ACCEPT, RELEASE, ACCEPT])]


def test_renewed_record_is_open_again_and_not_counted_as_unacknowledged():
    records = hand((0, 1))
    records.found([0, 1])
    records.acknowledge(0, RENEW)
    records.acknowledge(1, ACCEPT)
    assert records.is_renewing
    assert records.take() == [(0, 1, [RENEW, ACCEPT])]
    assert records.is_renewing
    records.renewal_ended([0], is_renewed=True)
    assert not records.is_renewing
    assert records.renewed == {0}
    assert not records.unacknowledged
    assert not records.is_settled
    records.acknowledge(0, ACCEPT)
    assert records.take() == [(0, 0, [ACCEPT])]
    assert records.is_settled


def test_record_whose_renewal_failed_is_lost():
    records = hand((0, 0))
    records.found([0])
    records.acknowledge(0, RENEW)
    records.take()
    records.renewal_ended([0], is_renewed=False)
    assert records.is_settled
    with pytest.raises(UsageError):
        records.acknowledge(0, ACCEPT)


def test_partly_returned_batch_is_accepted_in_part():
    records = hand((0, 5))
    records.settle(ACCEPT, below=3)
    assert records.take() == [(0, 2, [ACCEPT])]
    assert list(records.unacknowledged) == [3, 4, 5]
    assert records.accept_all() == [(3, 5, [ACCEPT])]


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_is_acknowledged_exactly_once_in_any_order(seed: int):
    rng = random.Random(seed)
    records = hand((0, 19), (25, 44))
    present = sorted(rng.sample([*range(20), *range(25, 45)], 25))
    records.found(present)
    wanted = {offset: rng.choice([ACCEPT, RELEASE, REJECT]) for offset in present}
    sent: dict[int, int] = {}
    left = list(present)
    rng.shuffle(left)
    while left or not records.is_settled:
        for _ in range(rng.randrange(6)):
            if left:
                offset = left.pop()
                records.acknowledge(offset, wanted[offset])
        for first, last, types in records.take():
            types = types * (last - first + 1) if len(types) == 1 else types
            for offset, kind in zip(range(first, last + 1), types, strict=True):
                assert offset not in sent
                sent[offset] = kind
    assert {offset: kind for offset, kind in sent.items() if kind != GAP} == wanted
    assert set(sent) == {*range(20), *range(25, 45)}


def test_ranges_divide_at_missing_offsets():
    assert ranges_of({1: ACCEPT, 2: RELEASE, 4: ACCEPT}) == [(1, 2, [ACCEPT, RELEASE]), (4, 4, [ACCEPT])]
