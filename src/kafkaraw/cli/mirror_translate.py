"""`kafkaraw mirror translate`: what a group's offsets are on the other side of a flow."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.mirror_options import clients_of, complete_groups_of, flow_option
from kafkaraw.cli.rendering import Row, output_option, show

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings
    from kafkaraw.mirror.translation import GroupPlan

EPILOG: Final = """\b
Examples:
  kafkaraw mirror translate billing
  kafkaraw mirror translate billing --back
  kafkaraw mirror translate billing -m mm2.properties --flow east->west --timestamp
\b
Column HOW:
  exact        the position before the same record
  earlier      a position before it: some records are read again
  offset-sync  MirrorMaker's nearest offset sync before it
  checkpoint   the last checkpoint, since the cluster of the group does not answer
  timestamp    the first record that is not older than the group's next record
  unknown      none is known, or only one of an earlier topic of the same name
"""


@click.command(epilog=EPILOG)
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups_of(back=False))
@flow_option
@click.option("--back", is_flag=True, help="Translate offsets of the target to those of the source.")
@click.option(
    "--timestamp",
    "by_timestamp",
    is_flag=True,
    help="Where no offset is known, use the time of the group's next record.",
)
@output_option
def translate(
    mirror: MirrorSettings, flow: MirrorFlow, groups: tuple[str, ...], back: bool, by_timestamp: bool, output: str
) -> None:
    """Show the offsets of groups on the other side of a flow, without a change.

    Offsets of a flow of this mirror are translated exactly; for copies that MirrorMaker has made, its offset syncs are
    used.
    """
    from kafkaraw.mirror.translation import GroupTranslator

    reverse = mirror.reverse_of(flow)
    translator = GroupTranslator(flow, clients_of(flow), reverse, back=back, by_timestamp=by_timestamp)
    plan = asyncio.run(translator.plan(groups))
    show(rows_of(plan), output)
    warn(plan, translator.origin_alias)
    if plan.missing:
        sys.exit(1)


def rows_of(plan: GroupPlan) -> list[Row]:
    """Return a row for each offset."""
    return [
        {
            "GROUP": each.group_id,
            "TOPIC": each.origin.topic,
            "PARTITION": each.origin.partition,
            "OFFSET": each.offset,
            "TO-TOPIC": each.destination.topic,
            "NEW-OFFSET": each.translated,
            "HOW": str(each.how),
            "CURRENT-OFFSET": each.current,
            "NEW-LAG": None if each.translated is None or each.end is None else max(0, each.end - each.translated),
        }
        for each in plan.offsets
    ]


def warn(plan: GroupPlan, origin_alias: str) -> None:
    """Print what a user should know about a plan."""
    if plan.silent:
        click.echo(
            f"Warning: {origin_alias} does not answer, so its last checkpoints are used: {plan.silent}", err=True
        )
    for name in plan.missing:
        click.echo(f"Error: group {name!r} has no offset in {origin_alias} of a topic of this flow", err=True)
