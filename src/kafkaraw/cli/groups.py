"""`kafkaraw groups`: list, describe, reset and delete consumer groups and share groups."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_groups
from kafkaraw.cli.rendering import TABLE, output_option, show

if TYPE_CHECKING:
    from kafkaraw.cli.group_reset import ResetOptions
    from kafkaraw.client.admin.group_descriptions import GroupState, GroupType

_WAIT_S: Final = 3600.0
_EXECUTE: Final = click.option(
    "-y", "--yes", "--execute", "execute", is_flag=True, help="Make the change; without it, the change is only shown."
)
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only show the change (the default).")
_QUIET: Final = click.option("-q", "--quiet", is_flag=True, help="Print names only.")
_ALL_GROUPS: Final = click.option("--all-groups", is_flag=True, help="All consumer groups.")
_NAMES: Final = click.argument("names", nargs=-1, metavar="GROUP...", shell_complete=complete_groups)
_MORE_NAMES: Final = click.option(
    "-g", "--group", "more_names", multiple=True, metavar="GROUP", help="A group, the same as an argument."
)

RESET_EPILOG: Final = """\b
Examples:
  kafkaraw groups reset -b localhost:9092 billing --topic flights --to-earliest
  kafkaraw groups reset -b localhost:9092 billing --topic flights:0,2 --shift-by -100 --execute
  kafkaraw groups reset -b localhost:9092 billing --all-topics --to-datetime 2026-11-21T10:00:00Z --execute
  kafkaraw groups reset -b localhost:9092 billing --all-topics --to-current --export > saved.csv
  kafkaraw groups reset -b localhost:9092 billing --from-file saved.csv --execute
"""


@click.group()
def groups() -> None:
    """Consumer groups and share groups: list, describe, reset, delete.

    Commands that change groups only show the change unless --execute is given.
    """


@groups.command("list")
@cluster_options
@click.option("--state", "states", metavar="STATE[,...]", help="Only groups in these states, such as Stable or Empty.")
@click.option(
    "--type", "types", metavar="TYPE[,...]", help="Only groups of these types: classic, consumer, share, streams."
)
@_QUIET
@output_option
def list_groups(cluster: Cluster, states: str | None, types: str | None, quiet: bool, output: str) -> None:
    """List the groups of the cluster."""
    from kafkaraw.cli.group_tables import listing
    from kafkaraw.client.admin.group_descriptions import GroupState, GroupType

    found = listing(cluster, _words(states, "--state", GroupState), _words(types, "--type", GroupType))
    if quiet and output == TABLE:
        click.echo("".join(f"{group['GROUP']}\n" for group in found), nl=False)
    else:
        show(found, output)


@groups.command()
@_NAMES
@cluster_options
@_MORE_NAMES
@click.option("--all-groups", is_flag=True, help="All consumer groups and share groups.")
@click.option("--offsets", "what", flag_value="offsets", default="offsets", help="Show offsets and lag (the default).")
@click.option("--members", "what", flag_value="members", help="Show the members.")
@click.option("--state", "what", flag_value="state", help="Show the state and the coordinator.")
@click.option("-v", "--verbose", is_flag=True, help="Show epochs and assignments, too.")
@output_option
@click.pass_context
def describe(
    ctx: click.Context,
    cluster: Cluster,
    names: tuple[str, ...],
    more_names: tuple[str, ...],
    all_groups: bool,
    what: str,
    verbose: bool,
    output: str,
) -> None:
    """Describe groups: their lag, their members, or their state.

    LAG is the number of offsets between the committed offset and the end of the partition. A share group has start
    offsets, and its LAG is the number of records that are not processed. The exit code is 1 if a group does not exist.
    """
    from kafkaraw.cli.group_tables import describe_all

    _check_scope(names + more_names, all_groups)
    if not describe_all(cluster, names + more_names, what, all_groups=all_groups, verbose=verbose, output=output):
        ctx.exit(1)


@groups.command(epilog=RESET_EPILOG)
@_NAMES
@cluster_options
@_MORE_NAMES
@_ALL_GROUPS
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:P,...]", help="Reset this topic, or these partitions of it."
)
@click.option("--all-topics", is_flag=True, help="Reset all topics with committed offsets.")
@click.option("--to-earliest", "to", flag_value="earliest", help="To the first record.")
@click.option("--to-latest", "to", flag_value="latest", help="To the end, after the last record.")
@click.option("--to-current", "to", flag_value="current", help="To the committed offset; if there is none, to the end.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="Forward by N offsets; back if N is negative.")
@click.option("--to-datetime", metavar="TIME", help="To the first record at or after this time; UTC if it has no zone.")
@click.option("--by-duration", metavar="PT1H", help="To the first record within this duration before now.")
@click.option(
    "--from-file", type=click.Path(exists=True, dir_okay=False), help="To the offsets in a file written by --export."
)
@_DRY_RUN
@_EXECUTE
@click.option("--export", is_flag=True, help="Print the plan as CSV, in the format of kafka-consumer-groups.sh.")
@output_option
@click.pass_context
def reset(ctx: click.Context, cluster: Cluster, **options: Unpack[ResetOptions]) -> None:
    """Set the offsets of groups without members.

    Prints the plan: for each partition the committed offset, the new offset, and the new lag. An offset outside of
    the partition's range becomes its beginning or end. Of a share group, the start offset is set: all records from
    there on are delivered, also those that were accepted or rejected.
    """
    from kafkaraw.cli.group_reset import reset as run

    _check_scope(options["names"] + options["more_names"], options["all_groups"])
    if options["execute"] and options["dry_run"]:
        raise click.UsageError("--execute and --dry-run exclude each other")
    ctx.exit(run(cluster, **options))


@groups.command()
@_NAMES
@cluster_options
@_MORE_NAMES
@_DRY_RUN
@_EXECUTE
@output_option
def delete(
    cluster: Cluster, names: tuple[str, ...], more_names: tuple[str, ...], dry_run: bool, execute: bool, output: str
) -> None:
    """Delete groups without members, and their committed offsets."""
    from kafkaraw.cli.group_changes import delete_groups

    _check_scope(names + more_names, False)
    _report(delete_groups(cluster, names + more_names, execute=execute and not dry_run, output=output))


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@cluster_options
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,...]",
    help="Delete the offsets of this topic, or of these partitions.",
)
@_DRY_RUN
@_EXECUTE
@output_option
def delete_offsets(
    cluster: Cluster, name: str, topics: tuple[str, ...], dry_run: bool, execute: bool, output: str
) -> None:
    """Delete committed offsets of topics to which no member is subscribed.

    Of a share group without members, the offsets of whole topics are deleted.
    """
    from kafkaraw.cli.group_changes import delete_group_offsets

    _report(delete_group_offsets(cluster, name, topics, execute=execute and not dry_run, output=output))


@groups.command("remove-members")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@cluster_options
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="ID",
    help="Remove the static member with this group.instance.id; repeatable.",
)
@click.option("--all-members", is_flag=True, help="Remove all members.")
@_DRY_RUN
@_EXECUTE
@output_option
def remove_members(
    cluster: Cluster,
    name: str,
    instances: tuple[str, ...],
    all_members: bool,
    dry_run: bool,
    execute: bool,
    output: str,
) -> None:
    """Remove members from a group, such as static members whose process has ended.

    Members that are still running rejoin.
    """
    from kafkaraw.cli.group_changes import remove_group_members

    if bool(instances) == all_members:
        raise click.UsageError("give either --instance ID or --all-members")
    chosen = None if all_members else instances
    _report(remove_group_members(cluster, name, chosen, execute=execute and not dry_run, output=output))


@groups.command()
@click.argument("patterns", nargs=-1, metavar="[GROUP]...")
@cluster_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--port", default=9308, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for a free port.")
@click.option(
    "--timeout",
    "timeout_s",
    default=8.0,
    show_default=True,
    type=click.FloatRange(0.5, 600),
    help="Seconds in which the cluster must answer a request of Prometheus; less than its scrape_timeout.",
)
def export(cluster: Cluster, patterns: tuple[str, ...], host: str, port: int, timeout_s: float) -> None:
    """Serve the lag of groups to Prometheus, at /metrics.

    GROUP is a name, or a pattern with * and ?; without one, all groups. The first line printed is url=http://HOST:PORT.
    Ctrl-C or SIGTERM stops the command. The lag in seconds is an estimate: it knows the time since the first request.
    """
    from kafkaraw.cli.stopping import Stop

    with Stop() as stop:
        from kafkaraw.cli.group_export import export as run

        running, listening = run(cluster, patterns, host, port, timeout_s)
        try:
            click.echo(f"url=http://{host}:{listening}/metrics")
            while not stop.asked:
                threading.Event().wait(_WAIT_S)  # a signal ends it
        finally:
            running.close()


def _words(text: str | None, option: str, kind: type[GroupState | GroupType]) -> list[str]:
    """Return the values that a comma-separated list names, in any case."""
    known = {each.lower(): each.value for each in kind}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word.lower() not in known:
            raise click.UsageError(f"{option} {word}: must be one of {', '.join(known.values())}")
    return [known[word.lower()] for word in words]


def _check_scope(names: tuple[str, ...], all_groups: bool) -> None:
    if bool(names) == all_groups:
        raise click.UsageError("name one or more groups, or give --all-groups if the command has it, but not both")


def _report(done: bool) -> None:
    if not done:
        click.echo("Nothing was changed: give --execute to make the change.", err=True)
