"""`kafkaraw mirror`: copies of topics in other clusters."""

from __future__ import annotations

from kafkaraw.cli import LazyGroup

mirror: LazyGroup = LazyGroup(
    "mirror",
    commands_table={"verify": "kafkaraw.cli.mirror_verify:verify"},
    help="Check copies of topics, whichever tool has made them.",
)
