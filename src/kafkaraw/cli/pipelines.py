"""`kafkaraw pipelines`: define, check, test, run and repair pipelines.

Each command is imported when it is run or listed. A new command is one module and one line in COMMANDS. Exit codes:
0 success; 1 a flow or test failed, or the next run would be refused; 2 a definition, a setting or an option is wrong.
"""

from __future__ import annotations

from typing import Final

import click

from kafkaraw.cli import LazyGroup
from kafkaraw.errors import ConfigError, KafkaError

COMMANDS: Final = {
    "checkpoint": "kafkaraw.cli.pipelines_checkpoint:checkpoint",
    "dead-letters": "kafkaraw.cli.pipelines_dead_letters:dead_letters",
    "init": "kafkaraw.cli.pipelines_plan:init",
    "plan": "kafkaraw.cli.pipelines_plan:plan",
    "run": "kafkaraw.cli.pipelines_run:run",
    "status": "kafkaraw.cli.pipelines_run:status",
    "submit": "kafkaraw.cli.pipelines_submit:submit",
    "tables": "kafkaraw.cli.pipelines_tables:tables",
    "test": "kafkaraw.cli.pipelines_test:test",
}


class _WrongDefinition(click.ClickException):
    exit_code = 2


def _shown(error: KafkaError) -> click.ClickException:
    kind = _WrongDefinition if isinstance(error, ConfigError) else click.ClickException
    return kind(str(error))


@click.group(cls=LazyGroup, commands_table=COMMANDS, shown=_shown)
def pipelines() -> None:
    """Pipelines of Spark Declarative Pipelines files, with Kafka topics: define, check, test, run, repair.

    A pipeline is a folder with a spark-pipeline.yml. Commands take the folder, and without one use the current folder
    or the nearest folder above it that has one.
    """
