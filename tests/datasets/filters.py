"""Filters drawn at random, each as SQL of DuckDB and of Spark, and as an expression of PyArrow and of Polars."""

from __future__ import annotations

import datetime
import operator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
UTC_US = pa.timestamp("us", tz="UTC")
OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Time:
    """A timestamp, written in a time zone.

    Attributes:
        micros: since 1970.
        hours: the zone's distance from UTC.
    """

    micros: int
    hours: int

    def at(self) -> datetime.datetime:
        zone = datetime.timezone(datetime.timedelta(hours=self.hours))
        return (EPOCH + datetime.timedelta(microseconds=self.micros)).astimezone(zone)


@dataclass(frozen=True)
class Filter:
    """A filter in every language that is tested.

    Attributes:
        duckdb: as SQL of DuckDB.
        spark: as SQL of Spark.
        arrow: as an expression of PyArrow.
        polars: as an expression of Polars.
    """

    duckdb: str
    spark: str
    arrow: Any
    polars: Any

    def __repr__(self) -> str:
        return self.duckdb


def _literal(value: object) -> tuple[str, str, Any, Any]:
    if isinstance(value, Time):
        text = value.at().isoformat(sep=" ", timespec="microseconds")
        return f"TIMESTAMPTZ '{text}'", f"TIMESTAMP '{text}'", pa.scalar(value.at(), UTC_US), value.at()
    if isinstance(value, str):
        return f"'{value}'", f"'{value}'", value, value
    return str(value), str(value), value, value


def _column(name: str) -> tuple[str, str, Any, Any]:
    spark = f"`{name}`" if name in KAFKA_COLUMNS else SPARK_FIELDS[name]
    return f'"{name}"', spark, pc.field(name), pl.col(name)


KAFKA_COLUMNS = ("topic", "partition", "offset", "timestamp")
SPARK_FIELDS = {
    "amount": "CAST(get_json_object(CAST(value AS STRING), '$.amount') AS BIGINT)",
    "status": "get_json_object(CAST(value AS STRING), '$.status')",
}


def compared(name: str, sign: str, value: object) -> Filter:
    (duckdb, spark, arrow, polars), (one, other, scalar, plain) = _column(name), _literal(value)
    compare = OPERATORS[sign]
    return Filter(f"{duckdb} {sign} {one}", f"{spark} {sign} {other}", compare(arrow, scalar), compare(polars, plain))


def flipped(name: str, sign: str, value: object) -> Filter:
    (duckdb, spark, arrow, polars), (one, other, scalar, plain) = _column(name), _literal(value)
    compare = OPERATORS[sign]
    literal = scalar if isinstance(scalar, pa.Scalar) else pa.scalar(scalar)
    return Filter(
        f"{one} {sign} {duckdb}", f"{other} {sign} {spark}",
        compare(pc.scalar(literal), arrow), compare(pl.lit(plain), polars),
    )  # fmt: skip


def between(name: str, low: object, high: object) -> Filter:
    duckdb, spark, arrow, polars = _column(name)
    (one, two, first, start), (three, four, last, end) = _literal(low), _literal(high)
    return Filter(
        f"{duckdb} BETWEEN {one} AND {three}", f"{spark} BETWEEN {two} AND {four}",
        (arrow >= first) & (arrow <= last), polars.is_between(pl.lit(start), pl.lit(end)),
    )  # fmt: skip


def among(name: str, values: list[object], *, is_in: bool) -> Filter:
    duckdb, spark, arrow, polars = _column(name)
    literals = [_literal(each) for each in values]
    word = "IN" if is_in else "NOT IN"
    found = arrow.isin(pa.array([each[2].as_py() if isinstance(each[2], pa.Scalar) else each[2] for each in literals]))
    inside = polars.is_in([each[3] for each in literals])
    return Filter(
        f"{duckdb} {word} ({', '.join(each[0] for each in literals)})",
        f"{spark} {word} ({', '.join(each[1] for each in literals)})",
        found if is_in else ~found,
        inside if is_in else ~inside,
    )


def is_null(name: str, *, wanted: bool) -> Filter:
    duckdb, spark, arrow, polars = _column(name)
    word = "IS NULL" if wanted else "IS NOT NULL"
    return Filter(
        f"{duckdb} {word}", f"{spark} {word}",
        arrow.is_null() if wanted else arrow.is_valid(), polars.is_null() if wanted else polars.is_not_null(),
    )  # fmt: skip


def narrow(name: str, sign: str, value: int) -> Filter:
    """A comparison with a cast, which no range of offsets follows from unless it is understood."""
    duckdb, spark, arrow, polars = _column(name)
    compare = OPERATORS[sign]
    return Filter(
        f"CAST({duckdb} AS DOUBLE) {sign} {value}.5", f"CAST({spark} AS DOUBLE) {sign} {value}.5D",
        compare(arrow.cast(pa.float64()), value + 0.5), compare(polars.cast(pl.Float64), value + 0.5),
    )  # fmt: skip


def computed(name: str, sign: str, value: int) -> Filter:
    duckdb, spark, arrow, polars = _column(name)
    compare = OPERATORS[sign]
    return Filter(
        f"{duckdb} * 2 + 1 {sign} {value}", f"{spark} * 2 + 1 {sign} {value}",
        compare(pc.add(pc.multiply(arrow, 2), 1), value), compare(polars * 2 + 1, value),
    )  # fmt: skip


def both(one: Filter, other: Filter) -> Filter:
    return Filter(
        f"({one.duckdb} AND {other.duckdb})", f"({one.spark} AND {other.spark})",
        one.arrow & other.arrow, one.polars & other.polars,
    )  # fmt: skip


def either(one: Filter, other: Filter) -> Filter:
    return Filter(
        f"({one.duckdb} OR {other.duckdb})", f"({one.spark} OR {other.spark})",
        one.arrow | other.arrow, one.polars | other.polars,
    )  # fmt: skip


def negated(one: Filter) -> Filter:
    return Filter(f"NOT ({one.duckdb})", f"NOT ({one.spark})", ~one.arrow, ~one.polars)


def filters(
    topics: list[str], partitions: int, offsets: int, times_us: list[int], *, has_fields: bool = True
) -> st.SearchStrategy[Filter]:
    """Draw filters over Kafka's columns, and over the fields `amount` and `status` of JSON values.

    Args:
        topics: names.
        partitions: numbers go a little beyond.
        offsets: go a little beyond.
        times_us: timestamps of records; filters have these, and times just before and behind them.
        has_fields: whether the values are JSON.
    """
    numbers = st.integers(-1, offsets + 2)
    times = st.builds(
        lambda micros, delta, hours: Time(micros + delta, hours),
        st.sampled_from(times_us or [0]),
        st.sampled_from([-1_000_000, -1_000, -1, 0, 0, 0, 1, 1_000, 86_400_000_000]),
        st.sampled_from([0, 0, 2, -5]),
    )
    values: dict[str, st.SearchStrategy[object]] = {
        "topic": st.sampled_from([*topics, "other"]),
        "partition": st.integers(-1, partitions),
        "offset": numbers,
        "timestamp": times,
    }
    if has_fields:
        values |= {"amount": st.integers(-1, 30), "status": st.sampled_from(["new", "paid", "lost"])}
    names = st.sampled_from([*values, "offset", "timestamp"])
    signs = st.sampled_from(list(OPERATORS))
    whole = st.sampled_from(["partition", "offset"])
    leaves = (
        names.flatmap(lambda name: st.builds(compared, st.just(name), signs, values[name]))
        | names.flatmap(lambda name: st.builds(flipped, st.just(name), signs, values[name]))
        | names.flatmap(lambda name: st.builds(between, st.just(name), values[name], values[name]))
        | names.flatmap(
            lambda name: st.builds(
                among, st.just(name), st.lists(values[name], min_size=1, max_size=3), is_in=st.booleans()
            )
        )
        | st.builds(is_null, st.sampled_from(list(values)), wanted=st.booleans())
        | st.builds(narrow, whole, signs, st.integers(-1, offsets + 2))
        | st.builds(computed, whole, signs, numbers)
    )
    return st.recursive(
        leaves,
        lambda inner: st.builds(both, inner, inner) | st.builds(either, inner, inner) | st.builds(negated, inner),
        max_leaves=6,
    )
