"""`kafkaraw topics`: list, describe, create, alter and delete topics, show their offsets, delete their records."""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli.changes import Change, change_options, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_topics
from kafkaraw.cli.rendering import TABLE, Row, output_option, show

_NAMES: Final = click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
_PARTITIONS: Final = click.argument(
    "texts", nargs=-1, required=True, metavar="TOPIC[:P,...]...", shell_complete=complete_topics
)

EPILOG: Final = """\b
Examples:
  kafkaraw topics create -b localhost:9092 flights -p 6 -r 3 -c retention.ms=86400000
  kafkaraw topics describe -b localhost:9092 flights
  kafkaraw topics truncate -b localhost:9092 flights:0 --before 2026-11-21T10:00:00Z --dry-run
"""


@click.group(epilog=EPILOG)
def topics() -> None:
    """Topics: list, describe, create, alter, delete, show offsets, delete records."""


@topics.command("list")
@cluster_options
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics, such as __consumer_offsets.")
@click.option("-q", "--quiet", is_flag=True, help="Print names only.")
@output_option
def list_topics(cluster: Cluster, exclude_internal: bool, quiet: bool, output: str) -> None:
    """List the topics that you may describe."""
    with cluster.admin() as admin:
        found = [each for each in admin.list_topics() if not (exclude_internal and each.is_internal)]
    if quiet and output == TABLE:
        click.echo("".join(f"{each.name}\n" for each in found), nl=False)
        return
    rows: list[Row] = [
        {"TOPIC": each.name, "PARTITIONS": each.partitions, "INTERNAL": each.is_internal, "TOPIC-ID": each.topic_id}
        for each in found
    ]
    show(rows, output)


@topics.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@cluster_options
@click.option(
    "--under-replicated-partitions", "under_replicated", is_flag=True, help="Only partitions with replicas out of sync."
)
@click.option("--unavailable-partitions", "unavailable", is_flag=True, help="Only partitions without a leader.")
@output_option
def describe(cluster: Cluster, names: tuple[str, ...], under_replicated: bool, unavailable: bool, output: str) -> None:
    """Describe topics: settings, and the leader and replicas of each partition. Without a name, all topics."""
    from kafkaraw.cli.topic_tables import describe_topics

    describe_topics(cluster, names, under_replicated=under_replicated, unavailable=unavailable, output=output)


@topics.command()
@_NAMES
@cluster_options
@click.option(
    "-p", "--partitions", type=click.IntRange(1), metavar="N", help="Number of partitions.  [default: the broker's]"
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Number of replicas of each partition.  [default: the broker's]",
)
@click.option("-c", "--topic-config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave topics that exist as they are, without an error.")
@change_options
@output_option
def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    change: Change,
    output: str,
) -> None:
    """Create topics. With --dry-run, the broker checks the request, and creates nothing."""
    from kafkaraw.cli.topic_tables import create_topics
    from kafkaraw.client.admin.topics import NewTopic

    settings = _settings(configs)
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, settings) for name in names]
    create_topics(cluster, wanted, change, if_not_exists=if_not_exists, output=output)


@topics.command()
@_NAMES
@cluster_options
@click.option(
    "-p", "--partitions", type=click.IntRange(1), required=True, metavar="N", help="New number of partitions."
)
@change_options
@output_option
def alter(cluster: Cluster, names: tuple[str, ...], partitions: int, change: Change, output: str) -> None:
    """Add partitions to topics. The number of partitions cannot be reduced.

    Afterwards, records with the same key may go to another partition than before. `kafkaraw configs set --topic`
    changes settings.
    """
    with cluster.admin() as admin:
        described = admin.describe_topics(names)
        rows: list[Row] = [
            {"TOPIC": name, "PARTITIONS": len(topic.partitions), "NEW-PARTITIONS": partitions}
            for name, topic in described.items()
        ]
        admin.create_partitions(dict.fromkeys(names, partitions), validate_only=change.dry_run)
    show(rows, output)
    change.allows("Add partitions?")


@topics.command()
@_NAMES
@cluster_options
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@destructive_options
@output_option
def delete(cluster: Cluster, names: tuple[str, ...], if_exists: bool, change: Change, output: str) -> None:
    """Delete topics with all their records."""
    from kafkaraw.cli.topic_tables import delete_topics

    delete_topics(cluster, names, change, if_exists=if_exists, output=output)


@topics.command()
@_PARTITIONS
@cluster_options
@click.option(
    "--time",
    "at",
    metavar="WHERE",
    help="Show the offset at earliest, latest, max-timestamp, earliest-local, latest-tiered, or of the first record at "
    "or after a time: a timestamp in ms, ISO 8601, or a duration ago such as -PT1H.  [default: earliest and latest]",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    show_default=True,
    help="With read_committed, latest is before open transactions.",
)
@output_option
def offsets(cluster: Cluster, texts: tuple[str, ...], at: str | None, isolation_level: str, output: str) -> None:
    """Show offsets of partitions: the first one and the end, or where a time is.

    OFFSETS counts offsets. Compaction and transactions leave offsets without records.
    """
    from kafkaraw.cli.topic_tables import show_offsets

    show_offsets(cluster, texts, at, isolation_level, output)


@topics.command()
@_PARTITIONS
@cluster_options
@click.option(
    "--before-offset", type=click.IntRange(0), metavar="OFFSET", help="Delete the records before this offset."
)
@click.option(
    "--before", "before_time", metavar="TIME", help="Delete the records before the first one at or after TIME."
)
@click.option("--all", "all_records", is_flag=True, help="Delete all records that exist now.")
@destructive_options
@output_option
def truncate(
    cluster: Cluster,
    texts: tuple[str, ...],
    before_offset: int | None,
    before_time: str | None,
    all_records: bool,
    change: Change,
    output: str,
) -> None:
    """Delete records from the beginning of partitions, as kafka-delete-records.sh and `rpk topic trim-prefix` do."""
    from kafkaraw.cli.topic_tables import delete_records

    if [before_offset is not None, before_time is not None, all_records].count(True) != 1:
        raise click.UsageError("give one of --before-offset OFFSET, --before TIME and --all")
    delete_records(cluster, texts, before_offset, before_time, change, output)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `name=value`; a value may be empty.

    Raises:
        click.UsageError: a text has no name or no `=`.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.UsageError(f"-c {text}: must be NAME=VALUE, such as retention.ms=60000")
        settings[name] = value
    return settings
