"""The schema of the demo's records: one table of fields per data set, from which everything else is derived.

The replay encodes JSON from these tables, and the Spark pipeline derives its schema from them, so the two cannot
differ. No I/O here, and no import of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["string", "int", "double"]


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a data set.

    Attributes:
        name: its name in the CSV file and in the JSON.
        kind: its type, named as in Spark's DDL.
        mandatory: whether every real row has a value.
    """

    name: str
    kind: Kind
    mandatory: bool = False


# The columns `hour`, `minute` and `time_hour` of the file are left out: SCHEDULED_DEPARTURE says the same in one field.
FLIGHT_FIELDS = (
    Field("carrier", "string", mandatory=True),
    Field("flight", "int", mandatory=True),
    Field("tailnum", "string"),
    Field("origin", "string", mandatory=True),
    Field("dest", "string", mandatory=True),
    Field("distance", "int", mandatory=True),
    Field("year", "int", mandatory=True),
    Field("month", "int", mandatory=True),
    Field("day", "int", mandatory=True),
    Field("sched_dep_time", "int", mandatory=True),
    Field("dep_time", "int"),
    Field("dep_delay", "int"),
    Field("sched_arr_time", "int", mandatory=True),
    Field("arr_time", "int"),
    Field("arr_delay", "int"),
    Field("air_time", "int"),
)
SCHEDULED_DEPARTURE = Field("scheduled_departure", "string", mandatory=True)
"""Added by the replay: the scheduled departure in UTC, as in `2013-01-01T10:15:00Z`."""


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """A small table that goes to a topic of its own.

    Attributes:
        name: the topic, and the CSV file without its ending.
        key: the columns of the record key; their values are joined by `|`.
        fields: its columns.
        time: the column that holds the time of the record (UTC, ISO 8601), if there is one.
    """

    name: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]
    time: str | None = None


def _fields(kinds: dict[Kind, str]) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for kind, names in kinds.items() for name in names.split())


REFERENCE_TABLES = (
    ReferenceTable("airlines", ("carrier",), _fields({"string": "carrier name"})),
    ReferenceTable(
        "airports", ("faa",), _fields({"string": "faa name dst tzone", "double": "lat lon", "int": "alt tz"})
    ),
    ReferenceTable(
        "planes",
        ("tailnum",),
        _fields({"string": "tailnum type manufacturer model engine", "int": "year engines seats speed"}),
    ),
    ReferenceTable(
        "weather",
        ("origin", "time_hour"),
        _fields(
            {
                "string": "origin time_hour",
                "int": "year month day hour",
                "double": "temp dewp humid wind_dir wind_speed wind_gust precip pressure visib",
            }
        ),
        time="time_hour",
    ),
)
