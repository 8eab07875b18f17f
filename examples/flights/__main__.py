"""Stream processing: delays of 336,776 flights by hour, by aircraft and by weather.

    python -m examples.flights

The pipeline is that of `kafkaraw demo flights`, in src/kafkaraw/demo/pipeline. The flights are sent in two parts, and
the pipeline runs after each; the second part has flights that come late: some within the ten days that the watermark
waits, and some long after. Each result is compared with what `expected.py` computes from the files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from examples.flights.expected import Expected
from examples.harness import Place, Size, check, command
from examples.picture import lines
from kafkaraw import NewTopic, Producer
from kafkaraw.demo.flights import NEW_YORK, SOURCE_HEADER, OutgoingRecord, load_flights, reference_records
from kafkaraw.demo.malformed import KINDS, MALFORMED_HEADER, damaged
from kafkaraw.demo.pipeline_run import DEFINITION
from kafkaraw.demo.schema import REFERENCE_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS = {"small": 3_000, "whole": None}
LATE, TOO_LATE = 50, 50
TOPICS = ("planes", "weather")
FIRST_PART = 0.9


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Send, run, compare; return the picture."""
    compacted = {"cleanup.policy": "compact"}
    place.create_topics(NewTopic("flights", 3), NewTopic("planes", 1, configs=compacted), NewTopic("weather", 1))
    records = list(load_flights(FLIGHTS[size]).records())
    end = int(len(records) * FIRST_PART)
    # The last flights of the first part come late; those of the first days too late: the watermark is past them. The
    # sample has four days, and the watermark waits for ten.
    too_late, late = records[:TOO_LATE], records[end - LATE : end]
    first, second = records[TOO_LATE : end - LATE], records[end:]
    if size == "small":
        late, too_late = [*late, *too_late], []
    with Producer(bootstrap_servers=place.servers, compression_type="lz4", linger_ms=20) as producer:
        for table in REFERENCE_TABLES:
            if table.name in TOPICS:
                _send(producer, table.name, reference_records(table))
        _send(producer, "flights", [*first, *(damaged(first[0], kind) for kind in KINDS)])
        producer.flush(60)
        place.run_pipeline(spark)
        _send(producer, "flights", [*late, *second, *too_late])
        producer.flush(60)
        summary = place.run_pipeline(spark)
    late_rows = {flow.flow: flow.late_rows for flow in summary.status.flows}
    place.say(f"{len(records):,} flights; hours closed for {late_rows['delays_by_hour']:,} rows of late flights")
    _compare(place, spark, Expected(_lines([*first, *late, *second]), _lines(too_late)))
    return _picture(place)


def _send(producer: Producer, topic: str, records: Iterable[OutgoingRecord]) -> None:
    for record in records:
        producer.send(topic, record.value, record.key, headers=record.headers, timestamp_ms=record.timestamp_ms)


def _lines(records: Iterable[OutgoingRecord]) -> Sequence[int]:
    """Return the lines of the file that records were made of, which a header names."""
    sources = ((dict(record.headers)[SOURCE_HEADER] or b"").decode() for record in records)
    return [int(source.rpartition(":")[2]) for source in sources]


def _compare(place: Place, spark: SparkSession, expected: Expected) -> None:
    """Compare the newest record of each hour, the two views behind the joins, and the dead letters."""
    absent = {"mean_delay": None, "p95_delay": None, "worst": None}
    hours = [absent | each | {"id": key} for key, each in newest(place, "delays-by-hour").items()]
    check("delays by hour", expected.hours(), hours)
    place.say(f"delays by hour: {len(hours):,} hours as expected")
    for view, rows in (("delays_by_manufacturer", expected.manufacturers()), ("delays_by_wind", expected.winds())):
        check(view, rows, (row.asDict() for row in place.table(spark, view).collect()))
        place.say(f"{view}: {sum(row['flights'] for row in rows):,} flights in {len(rows)} rows as expected")
    letters = [dict(each.headers) for each in place.records("flights.dead-letters")]
    damage = [{"damage": (headers[MALFORMED_HEADER] or b"").decode()} for headers in letters]
    check("dead letters", [{"damage": kind} for kind in KINDS], damage)
    place.say(f"dead letters: {len(letters)} as expected")


def newest(place: Place, topic: str) -> dict[str, dict[str, Any]]:
    """Return the newest value of each key of a topic."""
    return {
        (record.key or b"").decode(): json.loads(record.value)
        for record in place.records(topic)
        if record.value is not None
    }


def _picture(place: Place) -> str:
    """Draw the mean delay by hour of the day in New York, one line for each airport."""
    sums = defaultdict[str, dict[int, list[float]]](lambda: defaultdict(lambda: [0.0, 0.0]))
    for key, value in newest(place, "delays-by-hour").items():
        origin, _, hour = key.partition("|")
        left = value["flights"] - value["cancelled"]
        if left:
            total = sums[origin][datetime.fromisoformat(hour).astimezone(NEW_YORK).hour]
            total[0] += value["mean_delay"] * left
            total[1] += left
    series = {
        origin: [(float(hour), total / number) for hour, (total, number) in sorted(hours.items()) if number >= 10]
        for origin, hours in sorted(sums.items())
    }
    shown = [hour for line in series.values() for hour, _ in line]
    return lines(
        "Mean delay of departure in minutes, by hour of the day in New York",
        "flights from New York in 2013, from the topic delays-by-hour",
        series,
        (f"{min(shown):.0f}:00", f"{max(shown):.0f}:00"),
    )


if __name__ == "__main__":
    command("flights", run, DEFINITION)()
