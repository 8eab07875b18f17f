"""`kafkaraw log-dirs`: the log directories of running brokers, and moves of replicas between those of one broker."""

from __future__ import annotations

from typing import Any, Final

import click

from kafkaraw.cli.changes import Change, change_options, count_of
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.rendering import TABLE, output_option, show

MOVE_EPILOG: Final = """\b
Examples:
  kafkaraw log-dirs move -b localhost:9092 --broker 1 --to /disk2/kafka flights:0
  kafkaraw log-dirs move -b localhost:9092 --broker 1 --to /disk2/kafka flights:1,2 trips:0
"""


@click.group("log-dirs")
def log_dirs() -> None:
    """Log directories of running brokers: describe them, move replicas."""


@log_dirs.command()
@cluster_options
@click.option("--broker", "brokers", type=int, multiple=True, metavar="ID", help="Only this broker.  [default: all]")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic.  [default: all]")
@click.option("--dirs", "only_dirs", is_flag=True, help="Show the directories, without their replicas.")
@output_option
def describe(cluster: Cluster, brokers: tuple[int, ...], topics: tuple[str, ...], only_dirs: bool, output: str) -> None:
    """Print the replicas in each log directory, with their size in bytes.

    LAG is how far a replica is behind, in offsets; a FUTURE replica replaces the current one once it has caught up.
    """
    with cluster.admin() as admin:
        found = admin.describe_log_dirs(brokers or None)
    rows: list[dict[str, Any]] = []
    for broker, directories in found.items():
        for directory in directories:
            error = None if directory.error is None else str(directory.error)
            replicas = {key: info for key, info in directory.replicas.items() if not topics or key.topic in topics}
            row: dict[str, Any] = {"BROKER": broker, "LOG-DIR": directory.path}
            if only_dirs:
                rows.append(
                    {
                        **row,
                        "REPLICAS": len(replicas),
                        "SIZE": sum(info.size_bytes for info in replicas.values()),
                        "TOTAL": directory.total_bytes,
                        "USABLE": directory.usable_bytes,
                        "CORDONED": directory.is_cordoned,
                        "ERROR": error,
                    }
                )
                continue
            rows.extend(
                {
                    **row,
                    "TOPIC": key.topic,
                    "PARTITION": key.partition,
                    "SIZE": info.size_bytes,
                    "LAG": info.offset_lag,
                    "FUTURE": info.is_future,
                }
                for key, info in sorted(replicas.items())
            )
            if error is not None:
                click.echo(f"broker {broker}: {error}", err=True)
    show(rows, output)


@log_dirs.command(epilog=MOVE_EPILOG)
@cluster_options
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC:PARTITION[,...]...")
@click.option("--broker", type=int, required=True, metavar="ID", help="The broker with the replicas.")
@click.option("--to", "path", required=True, metavar="DIRECTORY", help="One of the broker's log directories.")
@change_options
def move(cluster: Cluster, partitions: tuple[str, ...], broker: int, path: str, change: Change) -> None:
    """Move replicas to another log directory of their broker.

    The command ends when the moves have begun; `describe` shows FUTURE replicas until they are complete.
    """
    from kafkaraw.client.admin.log_dirs import TopicPartitionReplica

    replicas = [TopicPartitionReplica(topic, number, broker) for topic, number in parse_partitions(partitions)]
    with cluster.admin() as admin:
        if change.dry_run:
            current = admin.describe_replica_log_dirs(replicas)
            rows = [
                {"BROKER": key.broker, "TOPIC": key.topic, "PARTITION": key.partition, "LOG-DIR": at.path, "TO": path}
                for key, at in current.items()
            ]
            show(rows, TABLE)
        if change.allows(f"Move {count_of(len(replicas), 'replica')}?"):
            admin.alter_replica_log_dirs(dict.fromkeys(replicas, path))


def parse_partitions(given: tuple[str, ...]) -> list[tuple[str, int]]:
    """Parse TOPIC:PARTITION[,...].

    Raises:
        click.BadParameter: one has no partition, or one that is no number.
    """
    found = []
    for text in given:
        topic, _, numbers = text.rpartition(":")
        if not topic or not all(number.isascii() and number.isdigit() for number in numbers.split(",")):
            raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION, such as flights:0 or flights:0,2")
        found += [(topic, int(number)) for number in numbers.split(",")]
    return found
