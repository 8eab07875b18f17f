"""Look-ups in the index of a segment's batches."""

from __future__ import annotations

from kafkaraw.broker.log.batch_index import BatchIndex


def _index() -> BatchIndex:
    index = BatchIndex()
    index.add(100, last_offset=9, max_timestamp=50)
    index.add(200, last_offset=19, max_timestamp=40)
    index.add(50, last_offset=29, max_timestamp=70)
    return index


def test_an_offset_is_found_in_the_batch_that_reaches_it():
    index = _index()
    assert [index.row_of_offset(offset) for offset in (0, 9, 10, 19, 20, 29, 30)] == [0, 0, 1, 1, 2, 2, 3]


def test_a_timestamp_is_found_in_the_first_batch_that_has_it_or_a_later_one():
    index = _index()
    assert [index.row_of_timestamp(timestamp) for timestamp in (0, 50, 51, 70, 71)] == [0, 0, 2, 2, 3]


def test_only_whole_batches_fit_into_a_limit():
    index = _index()
    assert [index.end_within(0, size) for size in (0, 99, 100, 299, 300, 349, 350, 9999)] == [
        0, 0, 100, 100, 300, 300, 350, 350,
    ]  # fmt: skip
    assert index.end_within(1, 199) == 100
    assert index.end_within(1, 200) == 300


def test_an_empty_index_has_nothing():
    index = BatchIndex()
    assert (len(index), index.end_position, index.max_timestamp) == (0, 0, -1)
    assert index.row_of_offset(0) == 0
    assert index.end_within(0, 100) == 0
