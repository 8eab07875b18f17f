"""`kafkaraw spark`: run jobs on a Spark cluster whose machines have nothing installed.

Each command is imported when it is run or listed. A new command is one module and one line in COMMANDS.
"""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli import LazyGroup

COMMANDS: Final = {
    "pack": "kafkaraw.cli.spark_pack:pack",
    "submit": "kafkaraw.cli.spark_submit:submit",
}


@click.group(cls=LazyGroup, commands_table=COMMANDS)
def spark() -> None:
    """Spark clusters: pack this environment for executors, and submit jobs with it."""
