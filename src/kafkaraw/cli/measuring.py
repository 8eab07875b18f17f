"""The work of `kafkaraw perf`: send or read a number of records, and report rates and latencies.

The lines have the form of kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh, so that their results can be
compared, and scripts that read them work. Start at `measure_producing` and `measure_consuming`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.stopping import Stop
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.config import ConsumerConfig, ProducerConfig
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from kafkaraw.records.interface import Ticket

_REPORT_EVERY_S: Final = 5.0
_SAMPLES_MAX: Final = 500_000
"""Latencies that are kept; with more records, only each second, third... one is measured, as by Kafka's tool."""
_MEBI: Final = 1024 * 1024
_PAYLOADS: Final = 64
"""Different values of random bytes: enough that batches do not compress to nothing."""


@dataclass(frozen=True)
class Load:
    """What to send.

    Attributes:
        topic: the topic.
        records_count: number of records.
        payloads: values, chosen at random.
        records_per_second: None for no limit.
        transactional_id: None for no transactions.
        transaction_s: duration of a transaction.
    """

    topic: str
    records_count: int
    payloads: Sequence[bytes]
    records_per_second: float | None
    transactional_id: str | None
    transaction_s: float


def payloads(size_bytes: int | None, file: str | None) -> list[bytes]:
    """Return the values to choose from: random bytes of one size, or the lines of a file.

    Raises:
        UsageError: the file has no lines.
    """
    if file is None:
        return [os.urandom(size_bytes or 0) for _ in range(_PAYLOADS)]
    lines = Path(file).read_bytes().splitlines()
    if not lines:
        raise UsageError(f"--payload-file {file} is empty")
    return lines


@dataclass
class _Latencies:
    """Latencies in milliseconds, of all records and since the last report."""

    all_ms: list[float] = field(default_factory=list)
    recent_ms: list[float] = field(default_factory=list)

    def watch(self, ticket: Ticket, sent_at: float) -> None:
        """Measure one record; its callback runs on the producer's loop."""

        def acknowledged(done: Ticket) -> None:
            if done.exception() is None:
                took_ms = (time.monotonic() - sent_at) * 1000
                self.all_ms.append(took_ms)
                self.recent_ms.append(took_ms)

        ticket.add_done_callback(acknowledged)


def measure_producing(cluster: Cluster, stop: Stop, load: Load, *, as_json: bool) -> None:
    """Send the records, and print reports.

    Raises:
        DeliveryError: records could not be delivered.
        KafkaError: another error of the client.
    """
    settings = cluster.settings(ProducerConfig, transactional_id=load.transactional_id)
    latencies, chosen = _Latencies(), random.Random(0)
    every = max(1, load.records_count // _SAMPLES_MAX)
    count = size_bytes = 0
    with Producer(runtime=None, **settings) as producer:
        producer.partitions_for(load.topic)  # connecting is not measured
        transactions = _Transactions(producer, load)
        began = report_at = time.monotonic()
        reported = reported_bytes = 0
        with stop.noted(), transactions:
            while count < load.records_count and not stop.asked:
                now = time.monotonic()
                if load.records_per_second is not None:
                    due = began + count / load.records_per_second
                    if due > now:
                        time.sleep(min(due - now, 0.1))
                        continue
                transactions.note(now)
                value = chosen.choice(load.payloads)
                ticket = producer.send(load.topic, value)
                if count % every == 0:
                    latencies.watch(ticket, now)
                count += 1
                size_bytes += len(value)
                if now - report_at >= _REPORT_EVERY_S:
                    if not as_json:
                        recent, latencies.recent_ms = latencies.recent_ms, []
                        click.echo(_line(count - reported, size_bytes - reported_bytes, now - report_at, recent))
                    report_at, reported, reported_bytes = now, count, size_bytes
        producer.flush()
        took_s = time.monotonic() - began
    if as_json:
        click.echo(json.dumps(_result(count, size_bytes, took_s, latencies.all_ms)))
    else:
        click.echo(_line(count, size_bytes, took_s, latencies.all_ms, percentiles=True))


class _Transactions:
    """Begins and commits transactions, if there are any; as a context it ends the last one."""

    def __init__(self, producer: Producer, load: Load) -> None:
        self._producer, self._load = producer, load
        self._began: float | None = None
        if load.transactional_id is not None:
            producer.init_transactions()

    def note(self, now: float) -> None:
        """Take note of the time before a record is sent."""
        if self._load.transactional_id is None:
            return
        if self._began is not None and now - self._began >= self._load.transaction_s:
            self._producer.commit_transaction()
            self._began = None
        if self._began is None:
            self._producer.begin_transaction()
            self._began = now

    def __enter__(self) -> None:
        """Begin nothing: the first record does."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._began is not None and kind is None:
            self._producer.commit_transaction()
        elif self._began is not None:
            with contextlib.suppress(Exception):  # the error that led here is raised
                self._producer.abort_transaction()


def _result(count: int, size_bytes: int, took_s: float, latencies_ms: list[float]) -> dict[str, float]:
    found = sorted(latencies_ms) or [0.0]
    at = {f"p{name}_ms": found[min(len(found) - 1, int(len(found) * share))] for name, share in _PERCENTILES}
    return {
        "records": count,
        "records_per_s": count / took_s,
        "mb_per_s": size_bytes / _MEBI / took_s,
        "latency_avg_ms": sum(found) / len(found),
        "latency_max_ms": found[-1],
    } | at


_PERCENTILES: Final = (("50", 0.5), ("95", 0.95), ("99", 0.99), ("99.9", 0.999))


def _line(count: int, size_bytes: int, took_s: float, latencies_ms: list[float], *, percentiles: bool = False) -> str:
    """Return a line of kafka-producer-perf-test.sh."""
    result = _result(count, size_bytes, took_s, latencies_ms)
    text = (
        f"{count} records sent, {result['records_per_s']:.{6 if percentiles else 1}f} records/sec "
        f"({result['mb_per_s']:.2f} MB/sec), {result['latency_avg_ms']:.{2 if percentiles else 1}f} ms avg latency, "
        f"{result['latency_max_ms']:.{2 if percentiles else 1}f} ms max latency"
    )
    if not percentiles:
        return f"{text}."
    return ", ".join([text, *(f"{result[f'p{name}_ms']:.0f} ms {name}th" for name, _ in _PERCENTILES)]) + "."


@dataclass(frozen=True)
class Reading:
    """What to read.

    Attributes:
        topic: the topic.
        records_count: stop after this many records.
        group: read as a member of this group; None for all partitions.
        reset: `auto_offset_reset`.
        timeout_s: stop if no record comes for this time.
    """

    topic: str
    records_count: int
    group: str | None
    reset: str
    timeout_s: float


def measure_consuming(cluster: Cluster, stop: Stop, reading: Reading, *, header: bool, as_json: bool) -> None:
    """Read the records, and print the result: a line of kafka-consumer-perf-test.sh, or JSON.

    Raises:
        KafkaError: an error of the client.
    """
    group, records_count = reading.group, reading.records_count
    settings = cluster.settings(ConsumerConfig, group_id=group, auto_offset_reset=reading.reset)
    count = size_bytes = 0
    with Consumer(runtime=None, **settings) as consumer:
        began_at, began = datetime.now(), time.monotonic()
        if group is None:
            consumer.assign(consumer.partitions_for(reading.topic))
        else:
            consumer.subscribe([reading.topic])
        joined = last = began
        with stop.noted():
            while count < records_count and not stop.asked:
                batches = consumer.poll(timeout=0.2, max_records=records_count - count)
                now = time.monotonic()
                if count == 0 and not batches and not consumer.assignment():
                    joined = now
                if batches:
                    last = now
                elif now - last >= reading.timeout_s:
                    waited = f"{reading.timeout_s:g} s"
                    click.echo(f"% no records for {waited}: {count} of {records_count} were read", err=True)
                    break
                for batch in batches.values():
                    for record in batch:
                        size_bytes += len(record.key or b"") + len(record.value or b"")
                        count += 1
        took_s = max(time.monotonic() - began, 1e-9)
    mb, joining_s = size_bytes / _MEBI, joined - began
    fetching_s = max(took_s - joining_s, 1e-9)
    names = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    numbers = (mb, mb / took_s, count, count / took_s, joining_s * 1000, fetching_s * 1000, mb / fetching_s)
    if as_json:
        keys = ("mb", "mb_per_s", "records", "records_per_s", "rebalance_ms", "fetch_ms", "fetch_mb_per_s")
        click.echo(json.dumps(dict(zip(keys, numbers, strict=True)) | {"fetch_records_per_s": count / fetching_s}))
        return
    if header:
        click.echo(names)
    times = ", ".join(f"{at:%Y-%m-%d %H:%M:%S}:{at.microsecond // 1000:03d}" for at in (began_at, datetime.now()))
    click.echo(
        f"{times}, {mb:.4f}, {numbers[1]:.4f}, {count}, {numbers[3]:.4f}, {numbers[4]:.0f}, {numbers[5]:.0f}, "
        f"{numbers[6]:.4f}, {count / fetching_s:.4f}"
    )
