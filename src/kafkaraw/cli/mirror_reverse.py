"""`kafkaraw mirror reverse`: let a flow begin behind what the flow in the other direction has copied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.changes import Change, change_options, count_of
from kafkaraw.cli.mirror_options import clients_of, flow_option
from kafkaraw.cli.rendering import output_option, show

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings

EPILOG: Final = """\b
Examples:
  kafkaraw mirror reverse -m back.properties --dry-run
  kafkaraw mirror reverse -m back.properties
"""


@click.command(epilog=EPILOG)
@flow_option
@change_options
@output_option
def reverse(mirror: MirrorSettings, flow: MirrorFlow, change: Change, output: str) -> None:
    """Let a new flow begin behind what the flow in the other direction has copied.

    For copies that keep their names (IdentityReplicationPolicy), after a failover: the flow back copies exactly the
    records that the former target has got by itself. Positions that the flow has already are left alone.
    """
    from kafkaraw.mirror.reversal import set_starts, starts_behind_copies

    del mirror
    clients = clients_of(flow)
    starts = asyncio.run(starts_behind_copies(flow, clients))
    show(
        [
            {
                "FLOW": flow.name,
                "TOPIC": each.source.topic,
                "PARTITION": each.source.partition,
                "POSITION": each.current,
                "NEW-POSITION": each.offset if each.current is None else each.current,
            }
            for each in starts
        ],
        output,
    )
    if change.allows(""):
        number = asyncio.run(set_starts(flow, clients, starts))
        click.echo(f"Set {count_of(number, 'position')} of {flow.name}.", err=True)
