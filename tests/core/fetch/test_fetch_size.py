"""How much of a partition is asked for at once."""

from __future__ import annotations

import pytest

from kafkaraw.core.fetch.requests import AdaptiveFetchSize, FetchLimits
from kafkaraw.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

LEAST, MOST = 1_000, 4_000


def answer(*sizes: int) -> FetchResponse:
    parts = [
        PartitionData(partition_index=index, error_code=0, high_watermark=0, records=memoryview(bytes(size)))
        for index, size in enumerate(sizes)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)])


def asked_after(*answers: tuple[FetchResponse, float]) -> int:
    size = AdaptiveFetchSize(FetchLimits(partition_max_bytes=LEAST), MOST)
    for response, took_s in answers:
        size.answered(response, took_s)
    return size.limits.partition_max_bytes


def test_answers_that_come_full_and_at_once_are_asked_for_up_to_the_most() -> None:
    quick = [(answer(0, 700), 0.1), (answer(1_500), 0.1), (answer(4_000), 0.1)]
    assert [asked_after(*quick[:count]) for count in range(4)] == [1_000, 2_000, 4_000, 4_000]


@pytest.mark.parametrize("response", [answer(), answer(0, 0), answer(499, 499), FetchResponse(responses=[])])
def test_answers_that_are_not_full_change_nothing(response: FetchResponse) -> None:
    assert asked_after((response, 0.0)) == asked_after((response, 30.0)) == LEAST
    assert asked_after((answer(1_000), 0.1), (response, 30.0)) == 2 * LEAST


def test_a_slow_line_is_asked_for_less_and_never_for_less_than_the_least() -> None:
    full = answer(4_000)
    assert asked_after((full, 0.1), (full, 0.1), (full, 1.5)) == 2 * LEAST
    assert asked_after((full, 0.1), (full, 1.5), (full, 1.5)) == LEAST


def test_what_is_neither_quick_nor_slow_stays_as_it_is() -> None:
    assert asked_after((answer(1_000), 0.1), (answer(2_000), 0.5)) == 2 * LEAST


def test_a_bound_of_the_users_own_is_kept() -> None:
    size = AdaptiveFetchSize(FetchLimits(partition_max_bytes=LEAST), LEAST)
    size.answered(answer(1_000), 0.01)
    assert size.limits == FetchLimits(partition_max_bytes=LEAST)
