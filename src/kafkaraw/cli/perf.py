"""`kafkaraw perf`: measure how fast a cluster takes and returns records, with the output of Kafka's own tools."""

from __future__ import annotations

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.stopping import Stop


@click.group()
def perf() -> None:
    """Measure producing and consuming; prints what kafka-producer-perf-test.sh and its counterpart print."""


@perf.command()
@click.argument("topic")
@cluster_options
@click.option("--num-records", type=click.IntRange(1), required=True, metavar="N", help="Records to send.")
@click.option("--record-size", type=click.IntRange(0), metavar="BYTES", help="Size of each value, random bytes.")
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Send the lines of this file, chosen at random, instead.",
)
@click.option(
    "--throughput", type=float, default=-1, show_default=True, help="Records per second; negative for no limit."
)
@click.option("--transactional-id", metavar="ID", help="Send in transactions.")
@click.option(
    "--transaction-duration-ms", type=click.IntRange(1), default=3000, show_default=True, help="Length of one."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def produce(  # noqa: PLR0913 -- one for each option
    cluster: Cluster,
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: str | None,
    throughput: float,
    transactional_id: str | None,
    transaction_duration_ms: int,
    as_json: bool,
) -> None:
    """Send records, and print rate and latencies every 5 seconds and at the end.

    The latency of a record is the time from send() to its acknowledgement. Without a limit of the throughput it is
    mostly the time in the producer's buffer.
    """
    if (record_size is None) == (payload_file is None):
        raise click.UsageError("give either --record-size or --payload-file")
    with Stop() as stop:
        from kafkaraw.cli.measuring import Load, measure_producing, payloads

        load = Load(
            topic=topic,
            records_count=num_records,
            payloads=payloads(record_size, payload_file),
            records_per_second=throughput if throughput > 0 else None,
            transactional_id=transactional_id,
            transaction_s=transaction_duration_ms / 1000,
        )
        measure_producing(cluster, stop, load, as_json=as_json)


@perf.command()
@click.argument("topic")
@cluster_options
@click.option("--num-records", type=click.IntRange(1), required=True, metavar="N", help="Records to read.")
@click.option("-g", "--group", metavar="GROUP", help="Read as a member of this group; otherwise all partitions.")
@click.option("--from-latest", is_flag=True, help="Start at the end if the group has no committed offset.")
@click.option(
    "--timeout", type=click.IntRange(1), default=10_000, show_default=True, help="Milliseconds without records."
)
@click.option("--hide-header", is_flag=True, help="Print no headings.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def consume(
    cluster: Cluster,
    topic: str,
    num_records: int,
    group: str | None,
    from_latest: bool,
    timeout: int,
    hide_header: bool,
    as_json: bool,
) -> None:
    """Read records, and print one line with the rates at the end."""
    with Stop() as stop:
        from kafkaraw.cli.measuring import Reading, measure_consuming

        reading = Reading(topic, num_records, group, "latest" if from_latest else "earliest", timeout / 1000)
        measure_consuming(cluster, stop, reading, header=not hide_header, as_json=as_json)
