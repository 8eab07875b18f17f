"""The rows of leader epochs: what they answer, how they are cut, and the file that keeps them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.leader_epochs import UNKNOWN_END, EpochEnd, LeaderEpochs


def epochs(*rows: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in rows:
        assert made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        (-1, UNKNOWN_END),
        (1, EpochEnd(1, 10)),  # older than all rows: whoever has it must drop all from offset 10 on
        (2, EpochEnd(2, 20)),
        (3, EpochEnd(2, 20)),  # between two rows: the older one's end
        (5, EpochEnd(5, 30)),
        (6, UNKNOWN_END),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_known_one_begins(asked: int, end: EpochEnd):
    assert epochs((2, 10), (5, 20)).end_of(asked, log_end_offset=30) == end


def test_an_epoch_in_which_nothing_was_written_leaves_no_row():
    assert epochs((1, 0), (2, 5), (3, 5)).rows == [(1, 0), (3, 5)]


def test_an_epoch_that_is_not_newer_is_no_news():
    made = epochs((3, 0))
    assert not made.assign(3, 10)
    assert not made.assign(2, 10)
    assert made.rows == [(3, 0)]


def test_a_cut_log_forgets_the_epochs_of_what_is_gone():
    made = epochs((1, 0), (2, 10), (4, 20))
    assert made.cut_end(20)
    assert made.rows == [(1, 0), (2, 10)]
    assert not made.cut_end(15)
    assert made.cut_start(12)
    assert made.rows == [(2, 12)]
    assert not made.cut_start(12)


rows = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), max_size=20)


@given(rows, st.integers(0, 60))
def test_both_columns_always_grow_and_the_text_says_it_all(given_rows: list[tuple[int, int]], offset: int):
    made = LeaderEpochs()
    for epoch, start in given_rows:
        made.assign(epoch, start)
    found = made.rows
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(found))
    again = LeaderEpochs()
    again.load(made.text())
    assert again.rows == found
    assert made.epoch_at(offset) == max((epoch for epoch, start in found if start <= offset), default=-1)


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n2\n1 0\n", "0\n1\n1 0", "0\n1\n1\n", "0\n2\n2 0\n1 5\n", "0\nx\n"])
def test_a_damaged_file_is_refused(text: str):
    with pytest.raises(ValueError, match=r".+"):
        LeaderEpochs().load(text)
