"""Runs many programs in a session of a kind of its own: `python -m tests.spark.run_programs KIND SERVERS TOPIC COUNT`.

The kinds: `recommended` is `kafkaraw.spark.session()`; `plain` is Spark's own builder with the format registered;
`pushdown` is the plain one with `spark.sql.python.filterPushdown.enabled`. Only under `recommended` does the topic grow
while a program runs: under the others a DataFrame keeps the snapshot of its first query. The topic is empty at first.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from kafkaraw import Producer
from tests.spark.programs import Copy, Program, Records, Topic, outcomes, programs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _session(kind: str, scratch: Path) -> SparkSession:
    warehouse = {"spark.sql.warehouse.dir": str(scratch / "warehouse")}
    if kind == "recommended":
        from kafkaraw.spark import session

        return session(master="local[2]", conf=warehouse)
    from pyspark.sql import SparkSession

    from kafkaraw.spark.source import KafkaDataSource

    builder = SparkSession.builder.master("local[2]").config(map=warehouse).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.python.filterPushdown.enabled", str(kind == "pushdown").lower()).getOrCreate()
    spark.dataSource.register(KafkaDataSource)
    return spark


def main() -> None:
    kind, servers, topic, count = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, Producer(bootstrap_servers=servers) as producer:
        scratch = Path(folder)
        spark = _session(kind, scratch)
        spark.sparkContext.setLogLevel("OFF")
        copy, source = Copy(spark, scratch), Topic(spark, servers, Records(producer, topic))
        done = 0

        @settings(
            max_examples=int(count),
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(program=programs(growth=kind == "recommended"))
        def same(program: Program) -> None:
            nonlocal done
            over_topic, over_copy = outcomes(program, source, copy, scratch)
            assert over_topic == over_copy
            done += 1

        try:
            same()
        finally:
            spark.stop()
        print(f"{count} programs: {done} runs the same, {kind} session", flush=True)


if __name__ == "__main__":
    main()
