"""`make bench-metadata`: what the metadata of a large cluster costs a client, up to a million partitions. No brokers.

A Metadata response is made once. Fresh processes decode it and merge it into a `ClusterView`, as a client does: for the
first time, again without a change, and again after one partition in a thousand has another leader. Memory is what the
view keeps, and the peak while a response is decoded. The longest step is the time for which a refresh keeps the event
loop from everything else. Start at `work`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.table import Table

from bench.worker import measured_by
from kafkaraw.client.network.metadata import STEPS_BETWEEN_LOOKS
from kafkaraw.core.cluster import ClusterView
from kafkaraw.protocol import ResponseHeader, Uuid, encode_response
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.protocol.metadata_frames import LargeMetadata, read_in_steps

T = TypeVar("T")

LAYOUTS: Final = (
    (1_000, 1, 3),
    (10_000, 1, 3),
    (100_000, 1_000, 100),
    (100_000, 10, 1_000),
    (1_000_000, 10_000, 1_000),
)
"""Partitions, topics and brokers."""
REPLICAS: Final = 3
VERSION: Final = 13
CHANGED_EACH: Final = 1_000
MEBIBYTE: Final = 1 << 20


def response(partitions: int, topics: int, brokers: int, *, moved: bool = False) -> MetadataResponse:
    """Make the metadata of a cluster; with `moved`, one partition in a thousand has its next leader."""

    def partition(number: int, index: int) -> MetadataResponsePartition:
        replicas = [(number + at) % brokers for at in range(min(REPLICAS, brokers))]
        later = int(moved and number % CHANGED_EACH == 0)
        return MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=replicas[later],
            leader_epoch=5 + later,
            replica_nodes=replicas,
            isr_nodes=list(replicas),
            offline_replicas=[],
        )

    each = partitions // topics
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092) for node in range(brokers)],
        cluster_id="simulated",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                error_code=0,
                name=f"topic-{topic:05}",
                topic_id=Uuid((topic + 1).to_bytes(16, "big")),
                partitions=[partition(topic * each + index, index) for index in range(each)],
            )
            for topic in range(topics)
        ],
    )


def work(same: Path, moved: Path) -> dict[str, float]:
    """Measure with the frames of responses in two files."""
    view, found = ClusterView(), dict[str, float]()
    frame, frame_moved = memoryview(same.read_bytes()), memoryview(moved.read_bytes())
    before = _resident_bytes()

    def refresh(frame: memoryview) -> tuple[float, float, float]:
        began = time.process_time()
        undecoded = LargeMetadata(MetadataRequest(topics=None)).read(frame, VERSION)
        answer, longest_s = _run(read_in_steps(undecoded, view.encoded))
        decoded_s = time.process_time() - began
        _, longest_of_update_s = _run(view.update_in_steps(answer, 0, all_topics=True))
        seconds = (decoded_s, time.process_time() - began, max(longest_s, longest_of_update_s))
        return seconds[0] * 1000, seconds[1] * 1000, seconds[2] * 1000

    found["response, MiB"] = len(frame) / MEBIBYTE
    found["first: decode, ms"], found["first: all, ms"], found["first: longest step, ms"] = refresh(frame)
    again = [refresh(frame) for _ in range(3)]
    found["again: decode, ms"] = statistics.median(each[0] for each in again)
    found["again: all, ms"] = statistics.median(each[1] for each in again)
    found["leaders moved: all, ms"] = refresh(frame_moved)[1]
    found["kept, MiB"] = (_resident_bytes() - before) / MEBIBYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found["peak, MiB"] = (peak - before) / MEBIBYTE
    return found


def _run(steps: Generator[None, None, T]) -> tuple[T, float]:
    """Run a generator as a client's event loop does; return its result and the longest time between two looks."""
    longest_s = 0.0
    while True:
        began = time.perf_counter()
        try:
            for _ in range(STEPS_BETWEEN_LOOKS):
                next(steps)
        except StopIteration as end:
            return end.value, max(longest_s, time.perf_counter() - began)
        longest_s = max(longest_s, time.perf_counter() - began)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@click.command()
@click.option("--partitions-min", default=0, show_default=True, help="No layout with fewer.")
@click.option("--partitions-max", default=1_000_000, show_default=True, help="No layout with more.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
def main(partitions_min: int, partitions_max: int, turns: int) -> None:
    """Measure metadata refreshes of 1,000 to 1,000,000 partitions."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    columns: list[dict[str, float]] = []
    for partitions, topics, brokers in LAYOUTS:
        if not partitions_min <= partitions <= partitions_max:
            continue
        name = f"{partitions:,} partitions, {topics:,} topics, {brokers:,} brokers"
        with tempfile.TemporaryDirectory(prefix="bench-metadata-") as folder:
            files = [str(Path(folder) / each) for each in ("same", "moved")]
            for file, moved in zip(files, (False, True), strict=True):
                answer = response(partitions, topics, brokers, moved=moved)
                Path(file).write_bytes(encode_response(ResponseHeader(0), answer, VERSION))
                del answer
            runs = [measured_by("bench.metadata", "--work", *files, what=name) for _ in range(turns)]
        columns.append({key: statistics.median(run[key] for run in runs) for key in runs[0]})
        click.echo(f"{name}: " + ", ".join(f"{key} {number:,.4g}" for key, number in columns[-1].items()))
        table.add_column(name, justify="right")
    for key in columns[0]:
        table.add_row(key, *(f"{column[key]:,.4g}" for column in columns))
    Console(width=150).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(Path(sys.argv[2]), Path(sys.argv[3]))), flush=True)
        os._exit(0)
    main()
