"""`kafkaraw mirror`: copies of topics in other clusters.

Each command is imported when it is run or listed. A new command is one module and one line in COMMANDS.
"""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli import LazyGroup

COMMANDS: Final = {
    "failback": "kafkaraw.cli.mirror_failover:failback",
    "failover": "kafkaraw.cli.mirror_failover:failover",
    "reverse": "kafkaraw.cli.mirror_reverse:reverse",
    "run": "kafkaraw.cli.mirror_run:run",
    "snapshot": "kafkaraw.cli.mirror_snapshot:snapshot",
    "status": "kafkaraw.cli.mirror_status:status",
    "topics": "kafkaraw.cli.mirror_topics:topics",
    "translate": "kafkaraw.cli.mirror_translate:translate",
    "verify": "kafkaraw.cli.mirror_verify:verify",
}


@click.group(cls=LazyGroup, commands_table=COMMANDS)
def mirror() -> None:
    """Copy topics to other clusters and to directories, move groups there and back, and check copies."""
