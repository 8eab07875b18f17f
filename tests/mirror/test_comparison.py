"""Two sequences of records are compared exactly, however they are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

pa = pytest.importorskip("pyarrow")

from kafkaraw.mirror import comparison  # noqa: E402
from kafkaraw.mirror.comparison import Difference, DifferenceKind, PartitionComparison, Side  # noqa: E402

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("ms", "UTC")),
    ]
)
KINDS = DifferenceKind


def row(number: int, value: bytes | None = None) -> tuple[object, ...]:
    headers = [("n", b"%d" % number), ("none", None)] if number % 3 == 0 else None
    return b"%d" % number if number % 5 else None, value if value is not None else b"v%d" % number, headers, number


def batches(rows: Sequence[tuple[object, ...]], sizes: Iterable[int], first_offset: int) -> Iterable[pa.RecordBatch]:
    offset, left = first_offset, list(rows)
    for size in sizes:
        part, left = left[:size], left[size:]
        if not part:
            return
        columns = [list(range(offset, offset + len(part))), *(list(column) for column in zip(*part, strict=True))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
        offset += size


def compared(
    source: Sequence[tuple[object, ...]],
    target: Sequence[tuple[object, ...]],
    *,
    sizes: tuple[int, int] = (7, 5),
    first_offset: int = 0,
) -> PartitionComparison:
    """Compare as `verification` does: add a batch where the comparison wants one."""
    result = PartitionComparison()
    waiting = {
        Side.SOURCE: iter(batches(source, [sizes[0]] * (len(source) + 1), 0)),
        Side.TARGET: iter(batches(target, [sizes[1]] * (len(target) + 1), first_offset)),
    }
    while not result.is_over:
        wanted = result.wants()
        assert wanted
        for side in wanted:
            batch = next(waiting[side], None)
            if batch is None:
                result.end(side)
            else:
                result.add(side, batch)
        result.compare()
    return result


SOURCE = [row(number) for number in range(300)]


def test_equal_sequences_have_no_difference_whatever_their_offsets() -> None:
    result = compared(SOURCE, SOURCE, first_offset=1000)
    assert (result.equal_count, result.counts(), result.differences()) == (300, {}, [])
    assert result.last_equal == (299, 1299)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([*SOURCE[:10], *SOURCE[20:]], [Difference(KINDS.MISSING, 10, (10, 19), None)]),
        (SOURCE[10:], [Difference(KINDS.MISSING, 10, (0, 9), None)]),
        (SOURCE[:290], [Difference(KINDS.BEHIND, 10, (290, 299), None)]),
        ([], [Difference(KINDS.BEHIND, 300, (0, 299), None)]),
        ([*SOURCE[:50], *SOURCE[20:]], [Difference(KINDS.REPEATED, 30, None, (50, 79))]),
        ([*SOURCE, *SOURCE[-2:]], [Difference(KINDS.REPEATED, 2, None, (300, 301))]),
        (
            [*SOURCE[:50], row(50, b"other"), *SOURCE[51:]],
            [Difference(KINDS.CHANGED, 1, (50, 50), (50, 50), ("value",))],
        ),
        ([*SOURCE[:50], row(1000), row(1001), *SOURCE[50:]], [Difference(KINDS.UNEXPECTED, 2, None, (50, 51))]),
        (
            [*SOURCE[:50], SOURCE[51], SOURCE[50], *SOURCE[52:]],
            [Difference(KINDS.MOVED, 1, (50, 50), (51, 51))],
        ),
        (
            [*SOURCE[:10], *SOURCE[12:100], *SOURCE[90:290]],
            [
                Difference(KINDS.MISSING, 2, (10, 11), None),
                Difference(KINDS.REPEATED, 10, None, (98, 107)),
                Difference(KINDS.BEHIND, 10, (290, 299), None),
            ],
        ),
    ],
    ids=["gap", "begin", "behind", "empty", "repeated", "repeated at the end", "changed", "unexpected", "moved", "all"],
)
@pytest.mark.parametrize("sizes", [(1, 1), (7, 5), (1000, 3), (1000, 1000)])
def test_each_difference_is_named_with_its_offsets(
    target: list[tuple[object, ...]], expected: list[Difference], sizes: tuple[int, int]
) -> None:
    result = compared(SOURCE, target, sizes=sizes)
    found = result.differences()
    moved = [each for each in expected if each.kind is KINDS.MOVED]
    if moved:  # which of two swapped records has moved depends on where one begins to look
        assert [each.kind for each in found] == [KINDS.MOVED]
    else:
        assert found == expected
    assert result.counts() == {each.kind: each.count for each in expected}


def test_a_copy_of_something_else_is_missing_in_full_and_unexpected_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "WINDOW_MAX", 128)
    target = [row(number) for number in range(1_001, 1_401)]
    result = compared(SOURCE, target)
    assert result.equal_count == 0
    assert result.counts()[KINDS.UNEXPECTED] == 400
    assert result.counts()[KINDS.MISSING] + result.counts().get(KINDS.BEHIND, 0) == 300


def edited(random_source: random.Random, rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    rows = list(rows)
    for _ in range(random_source.randrange(6)):
        place = random_source.randrange(len(rows) + 1)
        length = random_source.randrange(1, 20)
        match random_source.randrange(5):
            case 0:
                del rows[place : place + length]
            case 1:
                rows[place:place] = rows[max(0, place - length) : place]
            case 2:
                rows[place : place + length] = [(one[0], b"other", *one[2:]) for one in rows[place : place + length]]
            case 3:
                rows[place:place] = [row(random_source.randrange(10_000, 20_000)) for _ in range(length)]
            case 4:
                rows[place : place + length] = rows[place : place + length][::-1]
    return rows


@pytest.mark.parametrize("seed", range(60))
def test_each_record_of_both_sides_is_counted_once_and_the_result_does_not_depend_on_batches(seed: int) -> None:
    random_source = random.Random(seed)
    numbers = random_source.choice([range(200), [number % 7 for number in range(200)]])
    source = [row(number) for number in numbers]
    target = edited(random_source, source)
    results = [compared(source, target, sizes=sizes) for sizes in ((1000, 1000), (3, 17))]
    for result in results:
        counts = {kind: result.counts().get(kind, 0) for kind in DifferenceKind}
        both = result.equal_count + counts[KINDS.CHANGED] + counts[KINDS.MOVED]
        assert both + counts[KINDS.MISSING] + counts[KINDS.BEHIND] == len(source)
        assert both + counts[KINDS.REPEATED] + counts[KINDS.UNEXPECTED] == len(target)
        assert (not result.counts()) == (source == target)
        assert sum(each.count for each in result.differences()) == sum(result.counts().values())


def test_differences_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "KEPT_MAX", 5)
    result = compared(SOURCE, [*SOURCE[:10], *SOURCE[20:]])
    assert result.counts() == {KINDS.MISSING: 10}
    assert result.differences() == [Difference(KINDS.MISSING, 5, (10, 14), None)]
