"""The command line, `kafkaraw`.

One module per command; each is imported when it is run or listed, and imports what it needs when it runs, so that
`kafkaraw --help` stays quick. A new command is one module and one line in COMMANDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from kafkaraw._version import __version__
from kafkaraw.errors import KafkaError

COMMANDS = {
    "acls": "kafkaraw.cli.acls:acls",
    "backup": "kafkaraw.cli.backup:backup",
    "broker": "kafkaraw.cli.broker:broker",
    "cluster": "kafkaraw.cli.cluster:cluster_group",
    "completion": "kafkaraw.cli.completing:completion",
    "configs": "kafkaraw.cli.configs:configs",
    "consume": "kafkaraw.cli.consume:consume",
    "console": "kafkaraw.cli.console:console",
    "copy": "kafkaraw.cli.copy:copy",
    "demo": "kafkaraw.cli.demo:demo",
    "doctor": "kafkaraw.cli.doctor:doctor",
    "groups": "kafkaraw.cli.groups:groups",
    "log": "kafkaraw.cli.log:log",
    "log-dirs": "kafkaraw.cli.log_dirs:log_dirs",
    "metadata": "kafkaraw.cli.metadata:metadata",
    "mirror": "kafkaraw.cli.mirror:mirror",
    "partitions": "kafkaraw.cli.partitions:partitions",
    "perf": "kafkaraw.cli.perf:perf",
    "pipelines": "kafkaraw.cli.pipelines:pipelines",
    "produce": "kafkaraw.cli.produce:produce",
    "profiles": "kafkaraw.cli.profiles:profiles",
    "protocol": "kafkaraw.cli.protocol:protocol",
    "quotas": "kafkaraw.cli.quotas:quotas",
    "registry": "kafkaraw.cli.registry:registry",
    "restore": "kafkaraw.cli.restore:restore",
    "schemas": "kafkaraw.cli.schemas:schemas",
    "spark": "kafkaraw.cli.spark:spark",
    "sql": "kafkaraw.cli.sql:sql",
    "tables": "kafkaraw.cli.tables:tables",
    "top": "kafkaraw.cli.top:top",
    "topics": "kafkaraw.cli.topics:topics",
    "transactions": "kafkaraw.cli.transactions:transactions",
    "users": "kafkaraw.cli.users:users",
    "wire": "kafkaraw.cli.wire:wire",
}

_INTERRUPTED = 130  # the exit code that shells report for a process ended by Ctrl-C


class LazyGroup(click.Group):
    """A group of commands that are imported on first use. Only here are errors turned into one line.

    Args:
        name: of the group.
        commands_table: name of each command -> MODULE:ATTRIBUTE.
        shown: returns an expected error as click shows it, with its exit code; by default 1.
        settings: those of `click.Group`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        commands_table: Mapping[str, str],
        shown: Callable[[KafkaError], click.ClickException] = lambda error: click.ClickException(str(error)),
        **settings: Any,  # noqa: ANN401 - as click passes them
    ) -> None:
        super().__init__(name, **settings)
        self._table = commands_table
        self._shown = shown

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if cmd_name not in self._table:
            return None
        module, _, name = self._table[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; show an expected error as one line, without a traceback."""
        try:
            return super().invoke(ctx)
        except KafkaError as error:
            raise self._shown(error) from error
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            ctx.exit(_INTERRUPTED)


class _Main(LazyGroup):
    """The command line as a whole; `-L` anywhere before a command is kcat's name of `metadata`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] and args[0].startswith("-") and "-L" in args:
            args.remove("-L")
            args.insert(0, "metadata")
        return super().parse_args(ctx, args)


EPILOG = """\b
Connections: every command that connects to a cluster takes -b HOST:PORT, -F FILE, -X PROPERTY=VALUE and --profile NAME.
\b
Exit codes:
    0  the command has done what was asked
    1  it failed, or you answered no; stderr has the reason
    2  invalid options, or a change that needs --yes
  130  stopped by Ctrl-C
`doctor` has codes of its own, for each stage of a connection.
"""


@click.group(
    cls=_Main, commands_table=COMMANDS, context_settings={"help_option_names": ["--help", "-h"]}, epilog=EPILOG
)
@click.version_option(__version__, prog_name="kafkaraw")
def main() -> None:
    """Apache Kafka from the wire up: client, embedded broker, and a Spark data source without a JAR."""
