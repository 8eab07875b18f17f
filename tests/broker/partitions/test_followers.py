"""What a leader concludes from what its followers ask for: who lags, and how far consumers may read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.partitions.followers import Followers

ISR = (1, 2, 3)


def made(isr: tuple[int, ...] = ISR) -> Followers:
    """The followers 2 and 3 of node 1, which lag for 10 seconds at most."""
    return Followers((2, 3), isr, now_s=0.0, lag_max_s=10.0)


def everybody(node: int) -> bool:
    return True


def test_followers_that_never_fetched_have_unknown_offsets_and_time_to_catch_up():
    followers = made()
    assert followers.high_watermark(ISR, 5, 1.0, everybody) == -1
    assert followers.lagging(ISR, 5, 10.0) == []
    assert followers.lagging(ISR, 5, 10.1) == [2, 3]


def test_the_high_watermark_is_the_least_of_those_in_sync():
    followers = made()
    followers.asked(2, 4, 5, 1.0)
    followers.asked(3, 3, 5, 1.0)
    assert followers.high_watermark(ISR, 5, 1.0, everybody) == 3
    assert followers.any_behind(ISR, 5)


def test_one_that_is_about_to_be_in_sync_counts_while_it_runs():
    followers = made(isr=(1, 2))
    followers.asked(2, 5, 5, 1.0)
    followers.asked(3, 5, 5, 1.0)
    assert followers.high_watermark((1, 2), 6, 2.0, everybody) == 5
    followers.asked(2, 6, 6, 2.0)
    assert followers.high_watermark((1, 2), 6, 2.0, everybody) == 5
    assert followers.high_watermark((1, 2), 6, 2.0, lambda node: node != 3) == 6
    assert followers.high_watermark((1, 2), 6, 12.0, everybody) == 6  # it has had its time


def test_one_that_has_everything_never_lags():
    followers = made()
    followers.asked(2, 5, 5, 1.0)
    followers.asked(3, 4, 5, 1.0)
    assert followers.lagging(ISR, 5, 1000.0) == [3]


def test_one_that_gets_all_there_was_each_time_it_asks_keeps_up_although_it_is_never_at_the_end():
    followers = made()
    end = 0
    for second in range(100):
        followers.asked(2, end, end + 7, float(second))
        end += 7
    assert followers.lagging((1, 2), end + 7, 100.0) == []
    assert followers.lagging((1, 2), end + 7, 110.0) == [2]


@given(st.lists(st.tuples(st.sampled_from((2, 3)), st.integers(0, 50), st.integers(0, 5)), max_size=30))
def test_the_high_watermark_never_passes_one_in_sync_nor_the_leaders_own_end(asks: list[tuple[int, int, int]]):
    followers, now_s, ends = made(), 0.0, {2: -1, 3: -1}
    for node, offset, later in asks:
        now_s += later
        followers.asked(node, offset, 50, now_s)
        ends[node] = offset
    assert followers.high_watermark(ISR, 50, now_s, everybody) == min(50, *ends.values())
    assert followers.high_watermark((1,), 50, now_s + 100.0, everybody) == 50
