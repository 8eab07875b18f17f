"""Checks that a data set of a log directory has what a data set of its broker has; for any broker's files."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kafkaraw import SqlSession, dataset
from kafkaraw.datasets.dataset import KafkaDataset
from tests.spark.log_contents import TIME_MS

UTC_US = pa.timestamp("us", tz="UTC")


def sorted_rows(data: KafkaDataset, filter: pc.Expression | None = None) -> pa.Table:
    """Read everything, in the order of the offsets."""
    return data.to_table(filter=filter).sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])


def check(servers: str, folder: Path, topics: tuple[str, ...]) -> None:
    """Compare all topics with both isolation levels, whole and filtered, and as tables of SQL."""
    everything = re.compile("|".join(topics))
    for level in ("read_committed", "read_uncommitted"):
        served = dataset(everything, key="string", bootstrap_servers=servers, isolation_level=level)
        filed = dataset(re.compile(".*"), key="string", log_dirs=str(folder), isolation_level=level, threads=2)
        assert filed.offsets == served.offsets
        expected = sorted_rows(served)
        assert sorted_rows(filed) == expected
        at = pa.scalar(datetime.datetime.fromtimestamp(TIME_MS / 1_000 + 100, datetime.UTC), UTC_US)
        for filter in (
            pc.field("timestamp") >= at,
            (pc.field("topic") == "codecs") & (pc.field("offset") >= 40) & (pc.field("offset") < 50),
            (pc.field("partition") == 0) & (pc.field("timestamp") > at) & pc.field("key").is_valid(),
        ):
            assert sorted_rows(filed, filter) == expected.filter(filter)
            assert sum(each.size for each in filed.planned(filter)) < served.offsets_count
        assert filed.tail(3).to_table(["offset"]).num_rows == served.tail(3).to_table(["offset"]).num_rows
        query = "SELECT key, \"offset\" FROM compacted('compacted') ORDER BY ALL"
        with (
            SqlSession(bootstrap_servers=servers, isolation_level=level) as one,
            SqlSession(log_dirs=[str(folder)], isolation_level=level) as other,
        ):
            newest = one.query(query).read_all()
            assert other.query(query).read_all() == newest
            assert newest.num_rows > 10
