"""`kafkaraw partitions`: elect leaders, move replicas between brokers, list and cancel moves."""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli.changes import Change, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_topics
from kafkaraw.cli.rendering import Row, output_option, show

EPILOG: Final = """\b
Examples:
  kafkaraw partitions elect -b localhost:9092 --all-topic-partitions
  kafkaraw partitions reassign -b localhost:9092 flights --to-brokers 1,2,3 --dry-run
  kafkaraw partitions reassign -b localhost:9092 flights --replication-factor 3 --yes
  kafkaraw partitions reassign -b localhost:9092 flights:0 --cancel
  kafkaraw partitions reassignments -b localhost:9092
"""


@click.group(epilog=EPILOG)
def partitions() -> None:
    """Leaders and replicas of partitions: elect, reassign, list reassignments."""


@partitions.command()
@click.argument("texts", nargs=-1, metavar="[TOPIC[:P,...]]...", shell_complete=complete_topics)
@cluster_options
@click.option(
    "--election-type",
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    default="preferred",
    show_default=True,
    help="Elect the first replica, or a replica that is not in sync for partitions without a leader.",
)
@click.option("--all-topic-partitions", "everywhere", is_flag=True, help="All partitions that need it.")
@destructive_options
@output_option
def elect(
    cluster: Cluster, texts: tuple[str, ...], election_type: str, everywhere: bool, change: Change, output: str
) -> None:
    """Elect leaders of partitions. An unclean election may lose records, and asks first."""
    from kafkaraw.cli.partition_moves import elect_leaders

    if bool(texts) == everywhere:
        raise click.UsageError("give TOPIC or TOPIC:0,2, or else --all-topic-partitions")
    elect_leaders(cluster, texts, election_type.upper(), change, output)


@partitions.command()
@click.argument("texts", nargs=-1, required=True, metavar="TOPIC[:P,...]...", shell_complete=complete_topics)
@cluster_options
@click.option("--to-brokers", metavar="ID[,...]", help="Brokers that may have the replicas.  [default: all that run]")
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Number of replicas of each partition.  [default: as many as now]",
)
@click.option("--cancel", is_flag=True, help="Cancel moves in progress.")
@destructive_options
@output_option
def reassign(
    cluster: Cluster,
    texts: tuple[str, ...],
    to_brokers: str | None,
    replication_factor: int | None,
    cancel: bool,
    change: Change,
    output: str,
) -> None:
    """Move replicas of partitions to brokers, or change their number.

    The plan moves as few replicas as possible, spreads replicas and preferred leaders evenly over the brokers, and the
    replicas of a partition over racks. The command ends when the moves have begun; `reassignments` shows them.
    """
    from kafkaraw.cli.partition_moves import cancel_moves, reassign_partitions

    if cancel == (to_brokers is not None or replication_factor is not None):
        raise click.UsageError("give --to-brokers, --replication-factor or both, or else --cancel")
    if cancel:
        cancel_moves(cluster, texts, change, output)
    else:
        reassign_partitions(cluster, texts, _ids(to_brokers), replication_factor, change, output)


@partitions.command()
@click.argument("texts", nargs=-1, metavar="[TOPIC[:P,...]]...", shell_complete=complete_topics)
@cluster_options
@output_option
def reassignments(cluster: Cluster, texts: tuple[str, ...], output: str) -> None:
    """List moves of replicas that are in progress."""
    from kafkaraw.cli.topic_tables import partitions_chosen

    with cluster.admin() as admin:
        found = admin.list_partition_reassignments(partitions_chosen(admin, texts) if texts else None)
    rows: list[Row] = [
        {
            "TOPIC": key.topic,
            "PARTITION": key.partition,
            "REPLICAS": list(one.replicas),
            "ADDING": list(one.adding_replicas),
            "REMOVING": list(one.removing_replicas),
        }
        for key, one in sorted(found.items())
    ]
    show(rows, output)
    if not rows:
        click.echo("No reassignment is in progress.", err=True)


def _ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.UsageError(f"--to-brokers {text}: must be ids of brokers, such as 1,2,3")
    return [int(word) for word in words]
