"""Metrics and logs: this machine's metrics and log files, aggregated for each minute, with alerts.

    python -m examples.metrics

Samples /proc several times a second, keeps all processors busy for a while, sends its log files, runs the pipeline, and
compares its results with those of plain Python.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import cpu_count
from typing import TYPE_CHECKING, Any, Final

from examples.harness import Place, Size, check, command
from examples.metrics.collector import CpuTimes, host, log_lines, sample
from examples.picture import bars
from kafkaraw import NewTopic, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS: Final = {"cpu.busy.percent": 90.0, "memory.used.percent": 90.0, "load.1m": 64.0}
EVENT: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (\w+) (\S+) ?(.*)", re.ASCII)
NO_SAMPLES: Final = (b'{"host": "a", "metric": "load.1m"}', b"load.1m 0.5")
BUSY: Final = "import os; os.nice(19)\nwhile True: pass"


@dataclass(frozen=True)
class Amount:
    """How much an example collects.

    Args:
        seconds: of samples.
        busy_s: seconds at their end in which all processors are kept busy.
        lines: of each log file; None for all.
    """

    seconds: float
    busy_s: float
    lines: int | None


AMOUNTS: Final = {"small": Amount(5, 0, 200), "whole": Amount(150, 75, None)}
INTERVAL_S: Final = 0.2


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Collect, run, compare; return the picture."""
    place.create_topics(NewTopic("metrics", 1), NewTopic("log-lines", 3))
    amount = AMOUNTS[size]
    with Producer(bootstrap_servers=place.servers, linger_ms=20) as producer:
        samples = _send_samples(producer, amount)
        lines = list(log_lines(amount.lines))
        for name, line in lines:
            producer.send("log-lines", line.encode(), name.encode())
        producer.flush(60)
    place.run_pipeline(spark)
    minutes = _minutes(samples)
    check("metrics-by-minute", minutes, _newest(place, "metrics-by-minute"))
    alerts = [each for each in minutes if each["mean"] > LIMITS.get(each["metric"], float("inf"))]
    check("alerts", ({"id": each["id"], "mean": each["mean"]} for each in alerts), _newest(place, "alerts"))
    place.say(f"{len(samples):,} samples in {len(minutes)} minutes and metrics, {len(alerts)} alerts: as expected")
    _check_events(place, spark, [line for _, line in lines])
    high = {each["id"] for each in alerts}
    shown = [each for each in minutes if each["metric"].endswith(".percent")]
    return bars(
        "Processor and memory of one machine, for each minute",
        "mean in percent; beside it, minimum, maximum, number of samples and alert",
        [
            (
                f"{each['minute'][11:16]} {each['metric'].removesuffix('.percent')}",
                each["mean"],
                f"{each['min']:.0f} to {each['max']:.0f}, {each['samples']}{', alert' if each['id'] in high else ''}",
            )
            for each in sorted(shown, key=lambda each: (each["metric"], each["minute"]))
        ],
    )


def _send_samples(producer: Producer, amount: Amount) -> list[dict[str, Any]]:
    name, times, samples = host(), CpuTimes.read(), list[dict[str, Any]]()
    end = time.monotonic() + amount.seconds
    for value in NO_SAMPLES:
        producer.send("metrics", value)
    with _busy_processors() as start_them:
        while (left := end - time.monotonic()) > 0:
            if left < amount.busy_s:
                start_them()
            time.sleep(INTERVAL_S)
            values, times = sample(times)
            at = datetime.now(UTC).isoformat()
            for metric, value in values.items():
                samples.append({"host": name, "metric": metric, "value": value, "at": at})
                producer.send("metrics", json.dumps(samples[-1]).encode(), metric.encode())
    return samples


@contextmanager
def _busy_processors() -> Iterator[Any]:
    """Yield a function that makes all processors busy until the end of the context."""
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        while len(processes) < (cpu_count() or 1):
            processes.append(subprocess.Popen([sys.executable, "-c", BUSY]))

    try:
        yield start
    finally:
        for each in processes:
            each.kill()
            each.wait(10)


def _minutes(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what plain Python computes for each metric and minute."""
    values = defaultdict[tuple[str, str, str], list[float]](list)
    for each in samples:
        values[each["host"], each["metric"], each["at"][:16]].append(each["value"])
    return [
        {
            "id": f"{name}|{metric}|{minute}Z",
            "metric": metric,
            "minute": f"{minute}:00Z",
            "samples": len(found),
            "min": min(found),
            "mean": sum(found) / len(found),
            "max": max(found),
        }
        for (name, metric, minute), found in values.items()
    ]


def _newest(place: Place, topic: str) -> list[Mapping[str, Any]]:
    """Return the newest value of each key of a compacted topic."""
    newest = {record.key: json.loads(record.value) for record in place.records(topic) if record.value is not None}
    return [{**value, "id": (key or b"").decode()} for key, value in newest.items()]


def _check_events(place: Place, spark: SparkSession, lines: list[str]) -> None:
    """Compare events and dead letters with the lines that were sent."""
    found = [EVENT.fullmatch(line) for line in lines]
    columns = ("at", "action", "package", "version")
    expected = [dict(zip(columns, each.groups(), strict=True)) for each in found if each is not None]
    check("package_events", expected, (row.asDict() for row in place.table(spark, "package_events").collect()))
    numbers = Counter((each["at"][:16], each["action"]) for each in expected)
    by_minute = [{"minute": minute, "action": action, "count": n} for (minute, action), n in numbers.items()]
    rows = place.table(spark, "package_events_by_minute").collect()
    check("package_events_by_minute", by_minute, (row.asDict() for row in rows))
    letters = Counter(each.value for each in place.records("metrics.dead-letters"))
    bad = Counter(line.encode() for line, each in zip(lines, found, strict=True) if each is None)
    bad.update(NO_SAMPLES)
    check("dead letters", _counted(bad), _counted(letters))
    place.say(f"{len(lines):,} lines of logs: {len(expected):,} events, {bad.total():,} dead letters, as expected")


def _counted(values: Counter[bytes | None] | Counter[bytes]) -> list[dict[str, Any]]:
    return [{"value": value, "number": number} for value, number in values.items()]


if __name__ == "__main__":
    command("metrics", run)()
