"""`-o`: where reading begins and ends."""

from __future__ import annotations

import pytest

from kafkaraw.cli.start_offsets import Kind, Start, parse_range, timestamp_ms
from kafkaraw.errors import UsageError

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        ((), (None, None)),
        (("beginning",), (Start(Kind.BEGINNING), None)),
        (("earliest",), (Start(Kind.BEGINNING), None)),
        (("end",), (Start(Kind.END), None)),
        (("latest",), (Start(Kind.END), None)),
        (("stored",), (Start(Kind.STORED), None)),
        (("0",), (Start(Kind.OFFSET, 0), None)),
        (("-10",), (Start(Kind.TAIL, 10), None)),
        (("s@1700000000000", "e@1700000001000"), (Start(Kind.TIME, 1_700_000_000_000), 1_700_000_001_000)),
        (("e@-PT1H", "5"), (Start(Kind.OFFSET, 5), NOW - 3_600_000)),
    ],
)
def test_the_forms_are_those_of_kcat_and_kafka(texts: tuple[str, ...], meant: tuple[Start | None, int | None]):
    assert parse_range(texts, NOW) == meant


@pytest.mark.parametrize("texts", [("begin",), ("1.5",), ("--1",), ("s@yesterday",), ("e@",), ("0", "end"), ("٣",)])
def test_invalid_offsets_are_refused_with_the_valid_forms(texts: tuple[str, ...]):
    with pytest.raises(UsageError, match=r"must be|a start is given already; give another -o only as e@TIME"):
        parse_range(texts, NOW)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1234", 1234),
        ("1970-01-01T00:00:01", 1000),  # without a zone it is UTC, as with Kafka
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:01.250Z", 1250),
        ("1970-01-02", 86_400_000),
        ("-P1DT1M", NOW - 86_460_000),
    ],
)
def test_times_are_milliseconds_dates_or_durations(text: str, meant: int):
    assert timestamp_ms(text, NOW, "-o") == meant
