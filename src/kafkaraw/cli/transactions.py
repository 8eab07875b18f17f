"""`kafkaraw transactions`: list, describe and abort transactions, and find those that no coordinator will end."""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli.changes import Change, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_topics
from kafkaraw.cli.rendering import Row, output_option, show, time_text

_TIMEOUT_MINUTES: Final = 15  # transaction.max.timeout.ms of brokers, and the default of Kafka's tool

EPILOG: Final = """\b
Examples:
  kafkaraw transactions list -b localhost:9092 --state Ongoing
  kafkaraw transactions abort -b localhost:9092 load-1
  kafkaraw transactions find-hanging -b localhost:9092
  kafkaraw transactions abort -b localhost:9092 --topic flights --partition 0 --start-offset 17
"""


@click.group(epilog=EPILOG)
def transactions() -> None:
    """Transactions: list, describe, abort, find hanging ones."""


@transactions.command("list")
@cluster_options
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state, such as Ongoing.")
@click.option("--producer-id", "producer_ids", multiple=True, type=int, metavar="ID", help="Only of this producer.")
@click.option(
    "--duration-filter", "longer_than_ms", type=click.IntRange(0), metavar="MS", help="Only those open for longer."
)
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that this RE2 regex matches.")
@output_option
def list_transactions(
    cluster: Cluster,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
    output: str,
) -> None:
    """List transactional ids with their producers and states."""
    with cluster.admin() as admin:
        found = admin.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )
    rows: list[Row] = [
        {"TRANSACTIONAL-ID": one.transactional_id, "PRODUCER-ID": one.producer_id, "STATE": one.state} for one in found
    ]
    show(rows, output)


@transactions.command()
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
@cluster_options
@output_option
def describe(cluster: Cluster, ids: tuple[str, ...], output: str) -> None:
    """Describe transactional ids: coordinator, producer, state, and the partitions of the open transaction."""
    with cluster.admin() as admin:
        found = admin.describe_transactions(ids)
    rows: list[Row] = [
        {
            "TRANSACTIONAL-ID": one.transactional_id,
            "COORDINATOR": one.coordinator,
            "PRODUCER-ID": one.producer_id,
            "PRODUCER-EPOCH": one.producer_epoch,
            "STATE": one.state,
            "TIMEOUT-MS": one.timeout_ms,
            "START": time_text(one.start_time_ms),
            "PARTITIONS": [f"{key.topic}-{key.partition}" for key in sorted(one.partitions)],
        }
        for one in found.values()
    ]
    show(rows, output)


@transactions.command("describe-producers")
@click.argument("texts", nargs=-1, required=True, metavar="TOPIC[:P,...]...", shell_complete=complete_topics)
@cluster_options
@output_option
def describe_producers(cluster: Cluster, texts: tuple[str, ...], output: str) -> None:
    """List the producers that have written to partitions with idempotence or in transactions."""
    from kafkaraw.cli.topic_tables import partitions_chosen

    with cluster.admin() as admin:
        found = admin.describe_producers(partitions_chosen(admin, texts))
    rows: list[Row] = [
        {
            "TOPIC": key.topic,
            "PARTITION": key.partition,
            "PRODUCER-ID": one.producer_id,
            "PRODUCER-EPOCH": one.producer_epoch,
            "LAST-SEQUENCE": one.last_sequence if one.last_sequence >= 0 else None,
            "LAST-TIMESTAMP": time_text(one.last_timestamp_ms),
            "COORDINATOR-EPOCH": one.coordinator_epoch,
            "START-OFFSET": one.transaction_start_offset,
        }
        for key, producers in found.items()
        for one in producers
    ]
    show(rows, output)


@transactions.command()
@click.argument("ids", nargs=-1, metavar="[TRANSACTIONAL-ID]...")
@cluster_options
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="For a hanging transaction: its topic,")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="... its partition,")
@click.option("--start-offset", type=click.IntRange(0), metavar="OFFSET", help="... and its first offset.")
@destructive_options
@output_option
def abort(
    cluster: Cluster,
    ids: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    change: Change,
    output: str,
) -> None:
    """Abort transactions: those of transactional ids, whose producers are fenced; or a hanging one in a partition."""
    from kafkaraw.cli.transaction_work import abort_hanging, fence

    of_partition = (topic, partition, start_offset)
    if bool(ids) == any(part is not None for part in of_partition):
        raise click.UsageError("give transactional ids, or --topic, --partition and --start-offset")
    if ids:
        fence(cluster, ids, change, output)
        return
    if topic is None or partition is None or start_offset is None:
        raise click.UsageError("a hanging transaction is named by --topic, --partition and --start-offset together")
    abort_hanging(cluster, topic, partition, start_offset, change, output)


@transactions.command("find-hanging")
@click.argument("texts", nargs=-1, metavar="[TOPIC[:P,...]]...", shell_complete=complete_topics)
@cluster_options
@click.option("--broker-id", type=int, metavar="ID", help="Only partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0),
    default=_TIMEOUT_MINUTES,
    show_default=True,
    metavar="MINUTES",
    help="Only transactions that have been open for longer: transaction.max.timeout.ms of the brokers.",
)
@output_option
def find_hanging(
    cluster: Cluster, texts: tuple[str, ...], broker_id: int | None, max_transaction_timeout: int, output: str
) -> None:
    """Find transactions that are open in a partition, but unknown to their coordinator.

    They stop consumers that read committed records until `transactions abort --start-offset` ends them.
    """
    from kafkaraw.cli.transaction_work import show_hanging

    show_hanging(cluster, texts, broker_id, max_transaction_timeout * 60_000, output)
