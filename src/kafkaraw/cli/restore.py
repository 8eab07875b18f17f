"""`kafkaraw restore`: topics of a backup into a cluster."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.broker import parse_properties
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.copies import open_store, progress_bar
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.rendering import Row, output_option, show
from kafkaraw.cli.start_offsets import TIME_FORMS, timestamp_ms

if TYPE_CHECKING:
    from kafkaraw.mirror.backups.restore import Restored, Target

_RECORD_BYTES_MAX: Final = 1 << 30
"""The largest record that is sent; the topic's max.message.bytes is the limit that counts."""

EPILOG: Final = """\b
Examples:
  kafkaraw restore s3://backups/production -b other:9092 --dry-run
  kafkaraw restore s3://backups/production -b other:9092 'orders.*' --to-time 2026-11-21T10:00:00Z
  kafkaraw restore backups -b localhost:9092 orders --rename orders=orders-restored --no-groups
"""


@click.command(epilog=EPILOG)
@click.argument("location")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@cluster_options
@click.option("--topic", "more_topics", multiple=True, metavar="TOPIC", help="Restore this topic, or pattern.")
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="Restore a topic under another name.")
@click.option("--to-time", metavar="TIME", help=f"Leave out records with a later timestamp: {TIME_FORMS}.")
@click.option("--run", type=click.IntRange(1), help="Restore the backup as it was after this run.  [default: the last]")
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="Commit offsets of these groups.  [default: all]"
)
@click.option("--no-groups", is_flag=True, help="Commit no offsets.")
@click.option("--acls", is_flag=True, help="Create the ACLs of the restored topics and groups.")
@click.option("--append", is_flag=True, help="Write behind the records that a topic has.")
@click.option(
    "--topic-config", "configs", multiple=True, metavar="NAME=VALUE", help="Use this setting instead of the backup's."
)
@click.option("--without-config", "without", multiple=True, metavar="NAME", help="Leave out this setting.")
@click.option("--keep-settings", is_flag=True, help="Accept topics that exist with other settings.")
@click.option(
    "--replication-factor", type=click.IntRange(1), help="Replicas of new topics.  [default: the cluster's default]"
)
@click.option("--dry-run", is_flag=True, help="Read all files, and print what would be restored.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def restore(  # noqa: PLR0913
    cluster: Cluster,
    location: str,
    topics: tuple[str, ...],
    more_topics: tuple[str, ...],
    renames: tuple[str, ...],
    to_time: str | None,
    run: int | None,
    groups: tuple[str, ...],
    no_groups: bool,
    acls: bool,
    append: bool,
    configs: tuple[str, ...],
    without: tuple[str, ...],
    keep_settings: bool,
    replication_factor: int | None,
    dry_run: bool,
    quiet: bool,
    output: str,
) -> None:
    """Write topics of a backup into a cluster, with settings and committed offsets.

    Without TOPIC, all topics are restored. Records keep partition, key, value, headers and timestamp, and get new
    offsets; committed offsets of groups are translated exactly. A topic that has records is refused, so that no record
    is there twice.
    """
    store = open_store(location)
    from kafkaraw.mirror.backups.restore import RestoreOptions
    from kafkaraw.mirror.backups.restore import restore as restore_backup

    if no_groups and groups:
        raise click.UsageError("--group and --no-groups exclude each other")
    options = RestoreOptions(
        topics=(*topics, *more_topics) or ("*",),
        rename=_renames(renames),
        to_ms=None if to_time is None else timestamp_ms(to_time, round(time.time() * 1000), f"--to-time {to_time}"),
        run=run,
        groups=() if no_groups else groups or ("*",),
        acls=acls,
        append=append,
        configs={
            **{name: str(value) for name, value in parse_properties(configs).items()},
            **dict.fromkeys(without),
        },
        keep_settings=keep_settings,
        replication_factor=replication_factor or -1,
        dry_run=dry_run,
    )
    with Notes(quiet=quiet, shares_terminal=False) as notes, progress_bar("restore", quiet=quiet) as progress:
        found = asyncio.run(restore_backup(store, _target(cluster), options, progress))
        for notice in found.notices:
            notes.say(notice)
        count = sum(one.records_count for one in found.partitions)
        if dry_run:
            notes.say(f"{count:,} records would be restored; nothing was changed (--dry-run)")
        else:
            notes.say(f"restored {count:,} records, and committed offsets of {len(found.groups)} groups")
    _show(found, output)


def _renames(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not old or not equals or not new:
            raise click.UsageError(f"--rename {text}: must be OLD=NEW")
        found[old] = new
    return found


def _target(cluster: Cluster) -> Target:
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.config import AdminConfig, ConsumerConfig, ProducerConfig
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.client.producer import AsyncProducer
    from kafkaraw.mirror.backups.restore import Target

    more: dict[str, object] = {"allow_auto_create_topics": False}
    if not cluster.has("linger_ms"):
        more["linger_ms"] = 20
    if not cluster.has("compression_type"):
        more["compression_type"] = "lz4"
    if not cluster.has("max_request_size"):
        more["max_request_size"] = _RECORD_BYTES_MAX
    of_producer = cluster.settings(ProducerConfig, **more)
    of_consumer = cluster.settings(ConsumerConfig, group_id=None, allow_auto_create_topics=False)
    of_admin = cluster.settings(AdminConfig)
    return Target(
        lambda: AsyncProducer(runtime=None, **of_producer),
        lambda: AsyncConsumer(runtime=None, **of_consumer),
        lambda: AsyncAdmin(runtime=None, **of_admin),
    )


def _show(found: Restored, output: str) -> None:
    rows: list[Row] = [
        {
            "TOPIC": one.target.topic,
            "PARTITION": one.target.partition,
            "RECORDS": one.records_count,
            "LEFT-OUT": one.left_out_count,
            "FIRST-OFFSET": one.first_offset,
            "END-OFFSET": one.first_offset + one.records_count,
        }
        for one in found.partitions
    ]
    offsets: list[Row] = [
        {"GROUP": group, "TOPIC": key.topic, "PARTITION": key.partition, "OFFSET": one.offset}
        for group, of in sorted(found.groups.items())
        for key, one in sorted(of.items())
    ]
    document = {
        "partitions": [{name.lower().replace("-", "_"): value for name, value in row.items()} for row in rows],
        "created": found.created,
        "groups": [{name.lower(): value for name, value in row.items()} for row in offsets],
        "acls": len(found.acls),
    }
    show(rows, output, document)
    if output == "table" and offsets:
        click.echo()
        show(offsets, output)
