"""`kafkaraw pipelines`: define, check, test, run and repair pipelines.

Each command is imported when it is run or listed. A new command is one module and one line in COMMANDS. Exit codes:
0 success; 1 a flow or test failed, or the next run would be refused; 2 a definition, a setting or an option is wrong.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from kafkaraw.errors import ConfigError, KafkaError

COMMANDS: Final = {
    "checkpoint": "kafkaraw.cli.pipelines_checkpoint:checkpoint",
    "dead-letters": "kafkaraw.cli.pipelines_dead_letters:dead_letters",
    "init": "kafkaraw.cli.pipelines_plan:init",
    "plan": "kafkaraw.cli.pipelines_plan:plan",
    "run": "kafkaraw.cli.pipelines_run:run",
    "status": "kafkaraw.cli.pipelines_run:status",
    "test": "kafkaraw.cli.pipelines_test:test",
}


class _WrongDefinition(click.ClickException):
    exit_code = 2


class _PipelineCommands(click.Group):
    """The commands; an error of a definition has an exit code of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; errors are shown without a traceback."""
        try:
            return super().invoke(ctx)
        except KafkaError as error:
            kind = _WrongDefinition if isinstance(error, ConfigError) else click.ClickException
            raise kind(str(error)) from error


@click.group(cls=_PipelineCommands)
def pipelines() -> None:
    """Pipelines of Spark Declarative Pipelines files, with Kafka topics: define, check, test, run, repair.

    A pipeline is a folder with a spark-pipeline.yml. Commands take the folder, and without one use the current folder
    or the nearest folder above it that has one.
    """
