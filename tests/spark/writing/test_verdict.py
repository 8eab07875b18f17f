"""What is done with a micro-batch, by the newest decision about its query."""

from __future__ import annotations

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.spark.options.resolutions import Resolution
from kafkaraw.spark.writing.decision import Decision
from kafkaraw.spark.writing.verdict import Verdict, judge


def decided(batch_id: int, *, offset: int = 1234, skipped: bool = False) -> Decision:
    return Decision("q", batch_id, (), skipped=skipped, offset=offset)


@pytest.mark.parametrize(
    ("batch_id", "last", "expected"),
    [
        (0, None, Verdict.WRITE),
        (5, decided(4), Verdict.WRITE),
        (5, decided(5), Verdict.REPEAT),
        (5, decided(5, skipped=True), Verdict.SKIP),
    ],
)
def test_the_newest_decision_is_about_this_batch_or_the_one_before(
    batch_id: int, last: Decision | None, expected: Verdict
) -> None:
    assert judge("q", batch_id, last, None, ()) is expected


@pytest.mark.parametrize(
    ("batch_id", "last", "lost", "said"),
    [
        (5, None, None, "has no decision about this query, and should have one about batch 4"),
        (5, decided(3), None, "the newest decision is about batch 3 and should be about batch 4"),
        (5, decided(9), None, "a later one, batch 9, is decided"),
        (0, None, decided(9), "batch 9 was decided before, and the topic of decisions has none about this query now"),
        (5, decided(4), decided(9), "batch 9 was decided before, and the topic of decisions ends with batch 4 now"),
    ],
)
def test_other_batches_are_refused_with_a_resolution(
    batch_id: int, last: Decision | None, lost: Decision | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        judge("q", batch_id, last, lost, ())
    assert "set the option resolveBatches to" in str(refusal.value)


@pytest.mark.parametrize(("write", "expected"), [(True, Verdict.WRITE), (False, Verdict.SKIP)])
def test_a_resolution_counts_as_long_as_the_decision_that_it_names_is_the_newest(
    write: bool, expected: Verdict
) -> None:
    named = (Resolution(6, 8, 1234, write=write),)
    assert judge("q", 6, decided(9), None, named) is expected
    assert judge("q", 8, decided(9), decided(12), named) is expected
    for batch_id, last in ((5, decided(9)), (9, decided(20)), (6, decided(9, offset=1300))):
        with pytest.raises(UsageError):
            judge("q", batch_id, last, None, named)
    assert judge("q", 6, decided(6, offset=1300), None, named) is Verdict.REPEAT


def test_a_resolution_without_a_decision_counts_as_long_as_there_is_none() -> None:
    named = (Resolution(57, 57, None, write=True),)
    assert judge("q", 57, None, None, named) is Verdict.WRITE
    assert judge("q", 57, decided(57), None, named) is Verdict.REPEAT
