"""`kafkaraw mirror failover` and `failback`: move groups to the other side of a flow, at their translated offsets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.changes import Change, change_options, count_of
from kafkaraw.cli.mirror_options import clients_of, complete_groups_of, flow_option
from kafkaraw.cli.mirror_translate import rows_of, warn
from kafkaraw.cli.rendering import output_option, show

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings

_CODES: Final = """\b
Exit codes: 0 if all groups were moved, 1 if one was not, 2 for invalid options.
"""
EPILOG: Final = f"""\b
Examples:
  kafkaraw mirror failover billing --dry-run
  kafkaraw mirror failover billing shipping
{_CODES}"""
BACK_EPILOG: Final = f"""\b
Examples:
  kafkaraw mirror failback billing --dry-run
  kafkaraw mirror failback billing
{_CODES}"""

_FORCE: Final = click.option("--force", is_flag=True, help="Move groups that still have members where they are.")
_TIMESTAMP: Final = click.option(
    "--timestamp",
    "by_timestamp",
    is_flag=True,
    help="Where no offset is known, use the time of the group's next record.",
)


def _options(*, back: bool) -> Callable[[Callable[..., None]], Callable[..., object]]:
    """Return what adds the arguments and options of both commands."""
    groups = click.argument(
        "groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups_of(back=back)
    )

    def add(command: Callable[..., None]) -> Callable[..., object]:
        return groups(flow_option(_TIMESTAMP(_FORCE(change_options(output_option(command))))))

    return add


@click.command(epilog=EPILOG)
@_options(back=False)
def failover(
    mirror: MirrorSettings,
    flow: MirrorFlow,
    groups: tuple[str, ...],
    by_timestamp: bool,
    force: bool,
    change: Change,
    output: str,
) -> None:
    """Commit the offsets of groups in the target, so that their consumers can go on there.

    Stop the consumers first. Offsets are translated as by `kafkaraw mirror translate`; if the source does not answer,
    the last checkpoints are used. A group that has members in the target is not changed, and no offset moves backwards.
    """
    _move(mirror, flow, groups, change, output, back=False, by_timestamp=by_timestamp, force=force)


@click.command(epilog=BACK_EPILOG)
@_options(back=True)
def failback(
    mirror: MirrorSettings,
    flow: MirrorFlow,
    groups: tuple[str, ...],
    by_timestamp: bool,
    force: bool,
    change: Change,
    output: str,
) -> None:
    """Commit the offsets that groups have reached in the target in the source, so that their consumers can go back.

    Offsets of copies become those of their sources. Offsets of topics of the target itself become those of their copies
    in the source, if a flow in the other direction copies them.
    """
    _move(mirror, flow, groups, change, output, back=True, by_timestamp=by_timestamp, force=force)


def _move(
    mirror: MirrorSettings,
    flow: MirrorFlow,
    groups: tuple[str, ...],
    change: Change,
    output: str,
    *,
    back: bool,
    by_timestamp: bool,
    force: bool,
) -> None:
    from kafkaraw.mirror.translation import GroupTranslator

    reverse = mirror.reverse_of(flow)
    translator = GroupTranslator(flow, clients_of(flow), reverse, back=back, by_timestamp=by_timestamp)
    plan = asyncio.run(translator.plan(groups))
    show(rows_of(plan), output)
    warn(plan, translator.origin_alias)
    for name in plan.active_at_destination:
        click.echo(
            f"Error: group {name!r} has members in {translator.destination_alias}: stop them, and move it then",
            err=True,
        )
    if not force:
        for name in plan.active_at_origin:
            click.echo(
                f"Error: group {name!r} has members in {translator.origin_alias}, which go on reading: stop them, "
                "or give --force",
                err=True,
            )
    unknown = [each for each in plan.offsets if each.translated is None]
    for each in unknown:
        click.echo(
            f"Error: offset {each.offset} of {each.origin.topic} [{each.origin.partition}] of group {each.group_id!r} "
            "cannot be translated: no flow of this mirror has copied it to the topic that is there now; --timestamp "
            "uses the time of the next record",
            err=True,
        )
    if plan.missing or plan.active_at_destination or unknown or (plan.active_at_origin and not force):
        sys.exit(1)
    if change.allows(""):
        committed = asyncio.run(translator.commit(plan))
        for name in groups:
            where = translator.destination_alias
            number = committed.get(name, 0)
            kept = sum(each.group_id == name for each in plan.offsets) - number
            text = f"Set {count_of(number, 'offset')} of group {name!r} in {where}"
            click.echo(f"{text}; as far already: {kept}." if kept else f"{text}.", err=True)
