"""Tasks of the source and of both sinks, as a worker runs them, one after the other.

As a program, `python -m tests.spark.few_tasks SERVERS`: a worker that is forked from a process with connections.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import pyarrow as pa

from kafkaraw import Admin, Producer
from kafkaraw.client.admin import NewTopic
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.writing.exactly_once import Slot, commit_batch, write_slot
from kafkaraw.spark.writing.task import write_rows, write_settings
from tests.spark.spark_types import struct

SOURCE, TARGET = "source", "target"
ROWS = 10
ROW = struct("value binary")


def prepare(servers: str) -> None:
    """Make the topics, with something to read."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(SOURCE, 1), NewTopic(TARGET, 1)])
        for number in range(ROWS):
            producer.send(SOURCE, b"%d" % number)


def micro_batch(servers: str, number: int, query: str = "query", **options: str) -> None:
    """Read rows, write them at least once, and write them exactly once."""
    common = {"kafka.bootstrap.servers": servers} | options
    given = parse_options(common | {"subscribe": SOURCE})
    reading = ReadSettings(consumer_settings(given.client), True, 10_000)
    rows = [*read_ranges([OffsetRange(SOURCE, 0, 0, ROWS)], pa.schema([("value", pa.binary())]), reading)]
    assert sum(each.num_rows for each in rows) == ROWS
    assert write_rows(rows, write_settings(parse_options(common | {"topic": TARGET}), ROW)) == ROWS
    once = write_settings(parse_options(common | {"topic": TARGET, "exactlyOnce": "true"}), ROW)
    written = write_slot(rows, once, Slot(query, number, 0))
    assert written.records_count == ROWS
    commit_batch([written], once)


def sockets() -> set[str]:
    """Those that this process has, by their numbers in the kernel."""
    return {target for each in Path("/proc/self/fd").iterdir() if (target := _target(each)).startswith("socket:")}


def _target(link: Path) -> str:
    return os.readlink(link) if link.is_symlink() else ""


def main(servers: str) -> None:
    """Work in this process, in one that is forked from it, and here again."""
    micro_batch(servers, 0, "parent's")
    parents = sockets()
    child = os.fork()
    if not child:
        try:
            assert not sockets() & parents, "the child shares a socket"
            micro_batch(servers, 0, "child's")
            assert not sockets() & parents, "the child shares a socket after its work"
        finally:
            problem = sys.exception()
            if problem is not None:
                traceback.print_exception(problem)
            os._exit(int(problem is not None))
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
    micro_batch(servers, 1, "parent's")
    assert sockets() == parents, "the parent had to connect again"


if __name__ == "__main__":
    main(sys.argv[1])
