"""A Spark session that does something of everything, so that Java writes the classes of it to a file.

    python -m tests.spark_classes

`tests.java_options.share_spark_classes` runs it with the option that names the file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.spark import session

_SECONDS_MAX = 300


def main() -> None:
    """Read, write and stream; then wait until Java has ended, which writes the file."""
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        conf = {"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": str(folder / "warehouse")}
        spark = session("classes", master="local[2]", conf=conf)
        spark.sparkContext.setLogLevel("OFF")
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        rows = spark.range(100).selectExpr("cast(id as string) as value")
        rows.write.format("kafkaraw").options(**servers, topic="t").mode("append").save()
        read = spark.read.format("kafkaraw").options(**servers, subscribe="t").load()
        read.createOrReplaceTempView("records")
        spark.sql("SELECT partition, count(*) FROM records GROUP BY partition ORDER BY partition").collect()
        read.write.parquet(str(folder / "rows"))
        stream = spark.readStream.format("kafkaraw").options(**servers, subscribe="t", startingOffsets="earliest")
        writer = stream.load().writeStream.format("kafkaraw").options(**servers, topic="u").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        assert query.awaitTermination(_SECONDS_MAX), "the query did not end"
        java = spark.sparkContext._gateway.proc
        spark.stop()
        java.stdin.close()
        java.wait(_SECONDS_MAX)


if __name__ == "__main__":
    main()
