"""What a filter needs is never too little: a range that is left out has no matching record."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.datasets.pruning import earliest_timestamp_us, matching_ranges, needed_columns
from kafkaraw.ranges.planning import OffsetRange

UTC_US = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", UTC_US),
    ("amount", pa.int64()), ("value", pa.binary()),
])  # fmt: skip
FIELD = pc.field
TOPIC, PARTITION, OFFSET, TIMESTAMP, AMOUNT = map(pc.field, ("topic", "partition", "offset", "timestamp", "amount"))
LONG = [OffsetRange("t", partition, 0, 10_000_000) for partition in range(3)]


def spans(filter: pc.Expression, ranges: list[OffsetRange] = LONG) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in matching_ranges(ranges, filter, SCHEMA)]


def at(text: str) -> pa.Scalar:
    return pa.scalar(datetime.datetime.fromisoformat(text), UTC_US)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ((OFFSET >= 1_234_567) & (OFFSET < 1_300_000) & (PARTITION == 2), [(2, 1_234_567, 1_300_000)]),
        (OFFSET == 7, [(0, 7, 8), (1, 7, 8), (2, 7, 8)]),
        ((PARTITION == 1) & OFFSET.isin([5, 9_000_000]), [(1, 5, 6), (1, 9_000_000, 9_000_001)]),
        (
            (PARTITION == 0) & (OFFSET < 3) | (PARTITION == 2) & (OFFSET >= 9_999_999),
            [(0, 0, 3), (2, 9_999_999, 10_000_000)],
        ),
        (PARTITION != 1, [(0, 0, 10_000_000), (2, 0, 10_000_000)]),
        (TOPIC == "other", []),
        (OFFSET > 10_000_000, []),
        (AMOUNT > 3, [(partition, 0, 10_000_000) for partition in range(3)]),
        (OFFSET + 1 > AMOUNT, [(partition, 0, 10_000_000) for partition in range(3)]),
    ],
)  # fmt: skip
def test_only_offsets_that_may_match_are_read(filter: pc.Expression, expected: list[tuple[int, int, int]]):
    assert spans(filter) == expected


COMPARISONS = st.builds(
    lambda field, operator, value: getattr(pc.field(field), operator)(value),
    st.sampled_from(["offset", "partition", "amount"]),
    st.sampled_from(["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"]),
    st.integers(-1, 60),
)
FILTERS = st.recursive(
    COMPARISONS
    | st.builds(
        lambda field, values: pc.field(field).isin(values),
        st.sampled_from(["offset", "partition"]),
        st.lists(st.integers(0, 50), max_size=3),
    )
    | st.builds(lambda field: pc.field(field).is_null(), st.sampled_from(["offset", "amount"])),
    lambda inner: (
        st.builds(lambda one, other: one & other, inner, inner)
        | st.builds(lambda one, other: one | other, inner, inner)
        | st.builds(lambda one: ~one, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(filter=FILTERS, starts=st.lists(st.integers(0, 40), min_size=1, max_size=3), size=st.integers(1, 12))
def test_a_range_that_is_left_out_has_no_matching_record(filter: pc.Expression, starts: list[int], size: int):
    ranges = [OffsetRange("t", partition, start, start + size) for partition, start in enumerate(starts)]
    rows = [
        {"topic": "t", "partition": each.partition, "offset": offset, "amount": None if offset % 3 else offset % 7}
        for each in ranges
        for offset in range(each.start, each.end)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    kept = matching_ranges(ranges, filter, SCHEMA)
    read = {(each.partition, offset) for each in kept for offset in range(each.start, each.end)}
    matching = table.filter(filter).select(["partition", "offset"]).to_pylist()
    assert {(row["partition"], row["offset"]) for row in matching} <= read


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (at("2026-01-01T00:00:00+00:00") <= TIMESTAMP, 1_767_225_600_000_000),
        (at("2026-01-01T00:00:00+00:00") < TIMESTAMP, 1_767_225_600_000_001),
        ((at("2026-01-01T00:00:00+00:00") == TIMESTAMP) & (AMOUNT > 3), 1_767_225_600_000_000),
        (at("2026-01-01T00:00:00+00:00") > TIMESTAMP, None),
        ((at("2026-01-01T00:00:00+00:00") < TIMESTAMP) | (AMOUNT > 3), None),
        ((at("2026-01-01T00:00:00+00:00") < TIMESTAMP) | TIMESTAMP.is_null(), None),
        (AMOUNT > 3, None),
        (at("1969-12-31T23:59:59+00:00") < TIMESTAMP, None),
        (TIMESTAMP.cast(pa.date32()) >= datetime.date(2026, 1, 1), None),
        (
            TIMESTAMP.isin(
                pa.array([at("2026-01-02T00:00:00+05:00").as_py(), at("2026-01-03T00:00:00+00:00").as_py()], UTC_US)
            ),
            1_767_294_000_000_000,
        ),
        (
            (at("2026-01-02T00:00:00+00:00") < TIMESTAMP) | (at("2026-01-01T00:00:00+00:00") < TIMESTAMP),
            1_767_225_600_000_001,
        ),
        (
            (at("2026-01-02T00:00:00+00:00") < TIMESTAMP) & (at("2026-01-01T00:00:00+00:00") < TIMESTAMP),
            1_767_312_000_000_001,
        ),
        (
            (pc.field("value") == b"2026-01-01 00:00:00") & (at("2026-01-02T00:00:00+00:00") < TIMESTAMP),
            1_767_312_000_000_001,
        ),
        (
            pc.scalar(pa.scalar(1_767_225_600_000_000, pa.timestamp("us", tz="+02:00"))) <= TIMESTAMP,
            1_767_225_600_000_000,
        ),
    ],
)
def test_a_filter_on_timestamps_has_an_earliest_time(filter: pc.Expression, expected: int | None):
    assert earliest_timestamp_us(filter, SCHEMA) == expected


def test_columns_of_the_projection_and_of_the_filter_are_needed():
    assert needed_columns(SCHEMA, ["value"], (AMOUNT > 3) & (OFFSET > 1)) == ["offset", "amount", "value"]
    assert needed_columns(SCHEMA, [], None) == []
    assert needed_columns(SCHEMA, {"sum": AMOUNT + OFFSET}, None) == ["offset", "amount"]
    assert needed_columns(SCHEMA, None, AMOUNT > 3) == list(SCHEMA.names)


@settings(max_examples=60, deadline=None)
@given(times=st.lists(st.integers(1, 2**53), min_size=1, max_size=3), hours=st.integers(-12, 12), is_text=st.booleans())
def test_the_earliest_time_does_not_depend_on_how_it_is_written(times: list[int], hours: int, is_text: bool):
    zone = pa.timestamp("us", tz=f"{hours:+03d}:00")
    scalars = [pa.scalar(each, pa.int64()).cast(zone if is_text else UTC_US) for each in times]
    filter = scalars[0] <= TIMESTAMP
    for each in scalars[1:]:
        filter |= each < TIMESTAMP
    assert earliest_timestamp_us(filter, SCHEMA) == min([times[0], *(each + 1 for each in times[1:])])


def test_a_column_can_be_named_by_its_place():
    assert needed_columns(SCHEMA, ["offset", "amount"], pc.field(2) > 3) == list(SCHEMA.names)
    assert needed_columns(SCHEMA, {"sum": pc.field(4) + pc.field(2)}, None) == list(SCHEMA.names)
    assert spans(pc.field(2) > 3) == [(partition, 0, 10_000_000) for partition in range(3)]
    assert earliest_timestamp_us(pc.field(3) > at("2026-01-01T00:00:00+00:00"), SCHEMA) is None


def test_an_unknown_column_is_an_error():
    with pytest.raises(pa.ArrowInvalid, match="nowhere"):
        needed_columns(SCHEMA, ["nowhere"], None)
