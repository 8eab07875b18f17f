"""`kafkaraw mirror`: copies of topics in other clusters.

Each command is imported when it is run or listed. A new command is one module and one line in COMMANDS.
"""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli import LazyGroup

COMMANDS: Final = {"verify": "kafkaraw.cli.mirror_verify:verify"}


@click.group(cls=LazyGroup, commands_table=COMMANDS)
def mirror() -> None:
    """Check copies of topics, whichever tool has made them."""
