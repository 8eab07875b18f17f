"""Stream processing: delays of 336,776 flights by hour, by aircraft and by weather.

    python -m examples.flights

The flights are sent in two parts, and the pipeline runs after each; the second part has flights that come late: some
within the ten days that the watermark waits, and some long after. Each result is compared with plain Python's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

from examples.harness import Place, Size, check, command
from examples.picture import lines
from kafkaraw import NewTopic, Producer
from kafkaraw.demo.flights import OutgoingRecord, load_flights, reference_records
from kafkaraw.demo.malformed import damaged
from kafkaraw.demo.schema import REFERENCE_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS = {"small": 3_000, "whole": None}
LATE, TOO_LATE = 50, 50
DAMAGE = ("cut", "wrong-type", "not-utf-8", "empty", "not-an-object", "impossible-time")
TOPICS = ("planes", "weather")
FIRST_PART = 0.9

Flight = Mapping[str, Any]


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Send, run, compare; return the picture."""
    compacted = {"cleanup.policy": "compact"}
    place.create_topics(NewTopic("flights", 3), NewTopic("planes", 1, configs=compacted), NewTopic("weather", 1))
    records = list(load_flights(FLIGHTS[size]).records())
    end = int(len(records) * FIRST_PART)
    # Every hundredth flight comes late; those of the first days too late, because the watermark is past them.
    too_late, late = records[:TOO_LATE], records[end - LATE : end]
    first, second = records[TOO_LATE : end - LATE], records[end:]
    with Producer(bootstrap_servers=place.servers, compression_type="lz4", linger_ms=20) as producer:
        for table in REFERENCE_TABLES:
            if table.name in TOPICS:
                _send(producer, table.name, reference_records(table))
        _send(producer, "flights", [*first, *(damaged(first[0], kind) for kind in DAMAGE)])
        producer.flush(60)
        place.run_pipeline(spark)
        _send(producer, "flights", [*late, *second, *(too_late if size == "whole" else ())])
        producer.flush(60)
        summary = place.run_pipeline(spark)
    counted = [json.loads(each.value or b"") for each in [*first, *late, *second]]
    arrived = counted + [json.loads(each.value or b"") for each in (too_late if size == "whole" else ())]
    late_rows = sum(each.late_rows for each in summary.status.flows if each.flow == "delays_by_hour")
    place.say(f"{len(arrived):,} flights, of which {late_rows:,} came too late for their hour")
    _check_hours(place, counted)
    _check_planes(place, spark, arrived)
    check("dead letters", [{"reason": "decode"}] * len(DAMAGE), _dead_letters(place))
    return _picture(place)


def _send(producer: Producer, topic: str, records: Iterable[OutgoingRecord]) -> None:
    for record in records:
        producer.send(topic, record.value, record.key, headers=record.headers, timestamp_ms=record.timestamp_ms)


def _hour_of(flight: Flight) -> str:
    return str(flight["scheduled_departure"])[:13]


def _check_hours(place: Place, flights: Iterable[Flight]) -> None:
    """Compare the newest record of each hour with what plain Python computes from the flights."""
    hours = defaultdict[tuple[str, str], list[Any]](list)
    for flight in flights:
        hours[flight["origin"], _hour_of(flight)].append(flight["dep_delay"])
    expected = []
    for (origin, hour), delays in hours.items():
        known = [each for each in delays if each is not None]
        expected.append(
            {
                "id": f"{origin}|{hour}Z",
                "flights": len(delays),
                "cancelled": len(delays) - len(known),
                "mean_delay": _rounded(sum(known) / len(known)) if known else None,
            }
        )
    got = [{"mean_delay": None, **each, "id": key} for key, each in newest(place, "delays-by-hour").items()]
    check("delays by hour", expected, got)
    place.say(f"delays by hour: {len(expected):,} hours as expected")


def _rounded(mean: float) -> Decimal:
    """Round as SQL does: half up."""
    return Decimal(repr(mean)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def newest(place: Place, topic: str) -> dict[str, dict[str, Any]]:
    """Return the newest value of each key of a topic."""
    return {
        (record.key or b"").decode(): json.loads(record.value)
        for record in place.records(topic)
        if record.value is not None
    }


def _check_planes(place: Place, spark: SparkSession, flights: Iterable[Flight]) -> None:
    """Compare the table of departures with planes, and the view by manufacturer."""
    planes = {}
    for record in reference_records(next(table for table in REFERENCE_TABLES if table.name == "planes")):
        plane = json.loads(record.value or b"")
        planes[plane["tailnum"]] = plane["manufacturer"]
    numbers = defaultdict[str | None, int](int)
    for flight in flights:
        numbers[planes.get(flight["tailnum"])] += 1
    expected = [{"manufacturer": name, "flights": number} for name, number in numbers.items()]
    got = place.table(spark, "delays_by_manufacturer").collect()
    check("delays by manufacturer", expected, (row.asDict() for row in got))
    place.say(f"departures: {sum(numbers.values()):,} rows as expected")


def _dead_letters(place: Place) -> list[dict[str, str]]:
    letters = place.records("flights.dead-letters")
    return [{"reason": (dict(each.headers)["kafkaraw.reason"] or b"").decode()} for each in letters]


def _picture(place: Place) -> str:
    """Draw the mean delay by hour of the day (UTC), one line for each airport."""
    sums = defaultdict[str, dict[int, list[float]]](lambda: defaultdict(lambda: [0.0, 0.0]))
    for key, value in newest(place, "delays-by-hour").items():
        origin, _, hour = key.partition("|")
        left = value["flights"] - value["cancelled"]
        if left:
            total = sums[origin][(int(hour[11:13]) - 5) % 24]
            total[0] += value["mean_delay"] * left
            total[1] += left
    series = {
        origin: [(float(hour), total / number) for hour, (total, number) in sorted(hours.items()) if number >= 10]
        for origin, hours in sorted(sums.items())
    }
    title = "Mean delay of departure in minutes, by hour of the day (Eastern standard time)"
    return lines(
        title, "flights from New York in 2013, from the topic delays-by-hour", series, ("first hour", "last hour")
    )


if __name__ == "__main__":
    command("flights", run)()
