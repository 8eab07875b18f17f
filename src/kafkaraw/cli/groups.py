"""`kafkaraw groups`: consumer groups, how far they are behind, and where they are to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options

if TYPE_CHECKING:
    from kafkaraw.cli.group_reset import ResetOptions
    from kafkaraw.client.admin.group_descriptions import GroupState, GroupType

_EXECUTE: Final = click.option("--execute", is_flag=True, help="Do it; without, it is only shown what would be done.")
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only show what would be done, which is the default.")
_QUIET: Final = click.option("-q", "--quiet", is_flag=True, help="Print names only.")
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_ALL_GROUPS: Final = click.option("--all-groups", is_flag=True, help="Every group of consumers.")
_NAMES: Final = click.argument("names", nargs=-1, metavar="GROUP...")
_MORE_NAMES: Final = click.option("-g", "--group", "more_names", multiple=True, metavar="GROUP", help="The same.")

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
    """Consumer groups: list, describe, reset, delete.

    Nothing is changed without --execute.
    """


@groups.command("list")
@cluster_options
@click.option("--state", "states", metavar="STATE[,...]", help="Only those that are Stable, Empty, Dead ...")
@click.option("--type", "types", metavar="TYPE[,...]", help="Only those of a type: classic, consumer, share, streams.")
@_QUIET
@_JSON
def list_groups(cluster: Cluster, states: str | None, types: str | None, quiet: bool, as_json: bool) -> None:
    """List the groups of the cluster."""
    from kafkaraw.cli.group_tables import listing, print_rows
    from kafkaraw.client.admin.group_descriptions import GroupState, GroupType

    found = listing(cluster, _words(states, "--state", GroupState), _words(types, "--type", GroupType))
    if quiet and not as_json:
        click.echo("".join(f"{group['GROUP']}\n" for group in found), nl=False)
    else:
        print_rows(found, as_json=as_json)


@groups.command()
@_NAMES
@cluster_options
@_MORE_NAMES
@_ALL_GROUPS
@click.option("--offsets", "what", flag_value="offsets", default="offsets", help="Where it is, and how far behind.")
@click.option("--members", "what", flag_value="members", help="Who is in it.")
@click.option("--state", "what", flag_value="state", help="What it is doing, and who coordinates it.")
@click.option("-v", "--verbose", is_flag=True, help="Tell more: epochs and assignments.")
@_JSON
@click.pass_context
def describe(
    ctx: click.Context,
    cluster: Cluster,
    names: tuple[str, ...],
    more_names: tuple[str, ...],
    all_groups: bool,
    what: str,
    verbose: bool,
    as_json: bool,
) -> None:
    """Describe groups: their lag, their members, or their state.

    LAG is how many offsets there are between the group's and the end of the partition. Exits with 1 when a group does
    not exist.
    """
    from kafkaraw.cli.group_tables import describe_all

    _check_scope(names + more_names, all_groups)
    if not describe_all(cluster, names + more_names, what, all_groups=all_groups, verbose=verbose, as_json=as_json):
        ctx.exit(1)


@groups.command(epilog=RESET_EPILOG)
@_NAMES
@cluster_options
@_MORE_NAMES
@_ALL_GROUPS
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,...]", help="Of this topic, or some partitions.")
@click.option("--all-topics", is_flag=True, help="Of all topics that the group has offsets of.")
@click.option("--to-earliest", "to", flag_value="earliest", help="To the first record there is.")
@click.option("--to-latest", "to", flag_value="latest", help="Behind the last one.")
@click.option("--to-current", "to", flag_value="current", help="To where they are; where there is none, to the end.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To an offset.")
@click.option("--shift-by", type=int, metavar="N", help="N further; back when it is negative.")
@click.option("--to-datetime", metavar="TIME", help="To the first record since a time, UTC unless it names a zone.")
@click.option("--by-duration", metavar="PT1H", help="To the first record of the last hour, or so.")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="To what --export has written.")
@_DRY_RUN
@_EXECUTE
@click.option("--export", is_flag=True, help="Print the plan as CSV, as Kafka's tool does.")
@_JSON
@click.pass_context
def reset(ctx: click.Context, cluster: Cluster, **options: Unpack[ResetOptions]) -> None:
    """Set the offsets of groups without members.

    Prints the plan: where each partition is, where it would go on, and the lag from there. Offsets outside of a
    partition become its beginning or end.
    """
    from kafkaraw.cli.group_reset import reset as run

    _check_scope(options["names"] + options["more_names"], options["all_groups"])
    if options["execute"] and options["dry_run"]:
        raise click.UsageError("--execute and --dry-run: give one of them")
    ctx.exit(run(cluster, **options))


@groups.command()
@_NAMES
@cluster_options
@_MORE_NAMES
@_DRY_RUN
@_EXECUTE
def delete(cluster: Cluster, names: tuple[str, ...], more_names: tuple[str, ...], dry_run: bool, execute: bool) -> None:
    """Delete groups without members, with all their offsets."""
    from kafkaraw.cli.group_changes import delete_groups

    _check_scope(names + more_names, False)
    _report(delete_groups(cluster, names + more_names, execute=execute and not dry_run))


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@cluster_options
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC[:P,...]", help="Whose offsets.")
@_DRY_RUN
@_EXECUTE
def delete_offsets(cluster: Cluster, name: str, topics: tuple[str, ...], dry_run: bool, execute: bool) -> None:
    """Delete the offsets that a group has of topics which no member reads just now."""
    from kafkaraw.cli.group_changes import delete_group_offsets

    _report(delete_group_offsets(cluster, name, topics, execute=execute and not dry_run))


@groups.command("remove-members")
@click.argument("name", metavar="GROUP")
@cluster_options
@click.option("--instance", "instances", multiple=True, metavar="ID", help="Static members by group.instance.id.")
@click.option("--all-members", is_flag=True, help="Every member, static or not.")
@_DRY_RUN
@_EXECUTE
def remove_members(
    cluster: Cluster, name: str, instances: tuple[str, ...], all_members: bool, dry_run: bool, execute: bool
) -> None:
    """Remove members from a group, as static ones that will not come back soon.

    Members that still run notice, and join again.
    """
    from kafkaraw.cli.group_changes import remove_group_members

    if bool(instances) == all_members:
        raise click.UsageError("Which members? Give --instance ID, or --all-members.")
    chosen = None if all_members else instances
    _report(remove_group_members(cluster, name, chosen, execute=execute and not dry_run))


def _words(text: str | None, option: str, kind: type[GroupState | GroupType]) -> list[str]:
    """What a list with commas names, however it is written there."""
    known = {each.lower(): each.value for each in kind}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word.lower() not in known:
            raise click.UsageError(f"{option} {word}: must be one of {', '.join(known.values())}")
    return [known[word.lower()] for word in words]


def _check_scope(names: tuple[str, ...], all_groups: bool) -> None:
    if bool(names) == all_groups:
        raise click.UsageError("Which groups? Name them, or give --all-groups where there is that option.")


def _report(done: bool) -> None:
    if not done:
        click.echo("Nothing is changed yet: give --execute to do it.", err=True)
