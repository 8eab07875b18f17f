"""`kafkaraw copy`: copy a topic, within a cluster or to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options, to_cluster_options
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.cli.copying import CopyOptions


@click.command()
@click.argument("source", metavar="TOPIC")
@click.argument("target", metavar="[TARGET]", required=False)
@cluster_options
@to_cluster_options
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="The group whose committed offsets say how far the copy is.  [default: copy.TOPIC.TARGET]",
)
@click.option("--follow", is_flag=True, help="Go on with new records, until stopped.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether to leave out records of aborted transactions.",
)
@click.option("--at-least-once", is_flag=True, help="Within one cluster: without transactions; faster.")
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def copy(cluster: Cluster, to_cluster: Cluster | None, **options: Unpack[CopyOptions]) -> None:
    """Copy the records of a topic: keys, values, headers, timestamps and partitions.

    The target is created with as many partitions if it does not exist. Without --follow, the copy ends at the ends that
    the partitions had at the start.

    The copy commits the offsets of what the target has acknowledged, so the same command continues after any
    interruption. Within one cluster each record is copied exactly once: records and offsets are in one transaction.
    Between clusters, records since the last commit are copied again after a crash.
    """
    with Stop() as stop:
        from kafkaraw.cli.copying import copy as run

        run(cluster, to_cluster, stop, **options)
