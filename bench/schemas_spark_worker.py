"""One Spark driver that reads a topic of framed Avro into typed columns, as a process in the Python of its connector.

Its one argument is JSON, see `Job`. It prints a line of JSON for each row. Run as a script: the Python of Spark's own
connector has no kafkaraw, so nothing of it may be imported here before it is needed. Start at `ROWS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: dict[str, tuple[str, ...]] = {
    "all fields": ("value.*",),
    "the struct": ("value",),
    "three of nine fields": ("value.id", "value.city", "value.price"),
}
"""Row -> what is selected of the typed columns."""
PREFIX_BYTES = 5


class Job:
    """What is asked for, and the session to do it in.

    Args:
        asked: connector ("kafka" or "kafkaraw"), servers, topic, registry (URL), schema (its text), records (of the
            topic), jars, rows (names of `ROWS`).
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.ours = asked["connector"] == "kafkaraw"
        self.spark = self._session()

    def _session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        if self.ours:
            from kafkaraw.spark import session

            return session("bench", master="local[2]", conf={"spark.driver.memory": "4g"})
        builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.driver.memory", "4g")
        builder = builder.config("spark.jars", ",".join(self.asked["jars"])).config("spark.sql.session.timeZone", "UTC")
        return builder.config("spark.ui.enabled", "false").getOrCreate()

    def typed(self) -> DataFrame:
        """Return the topic with the column `value` as a struct."""
        read = self.spark.read.format(self.asked["connector"]).option("kafka.bootstrap.servers", self.asked["servers"])
        read = read.option("subscribe", self.asked["topic"])
        if self.ours:
            return read.option("value.format", "avro").option("schema.registry.url", self.asked["registry"]).load()
        from pyspark.sql.avro.functions import from_avro
        from pyspark.sql.functions import expr

        unframed = expr(f"substring(value, {PREFIX_BYTES + 1})")
        return read.load().select(from_avro(unframed, self.asked["schema"]).alias("value"))

    def run(self, row: str) -> None:
        """Read everything, and do nothing with it."""
        self.typed().select(*ROWS[row]).write.format("noop").mode("overwrite").save()

    def check(self) -> list[object]:
        """Return numbers that depend on all fields, which both connectors must agree on."""
        fields = json.loads(self.asked["schema"])["fields"]
        sums = [f"sum(crc32(cast(string(value.{each['name']}) AS binary)))" for each in fields]
        return list(self.typed().selectExpr(*sums).collect()[0])


def tree_cpu(root: int) -> float:
    """Return the seconds of CPU of a process, of those below it, and of their children that have ended."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:15]))
    found, more = set[int](), {root}
    while more:
        found |= more
        more = {each for each, parent in parents.items() if parent in more} - found
    return sum(used[each] for each in found if each in used) / os.sysconf("SC_CLK_TCK")


def say(what: dict[str, Any]) -> None:
    """Print a result."""
    print(json.dumps(what), flush=True)


def main() -> None:
    """Do all rows, after each has run once: Java compiles what it runs."""
    job = Job(json.loads(sys.argv[1]))
    job.spark.sparkContext.setLogLevel("OFF")
    say({"check": job.check()})
    for row in job.asked["rows"]:
        job.run(row)
        cpu, began = tree_cpu(os.getpid()), time.perf_counter()
        job.run(row)
        took = time.perf_counter() - began
        say({"row": row, "seconds": took, "cpu_seconds": tree_cpu(os.getpid()) - cpu})
    job.spark.stop()


if __name__ == "__main__":
    main()
