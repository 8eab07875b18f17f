"""`kafkaraw configs`: show, set and unset the settings of topics, brokers, groups and client metrics subscriptions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.changes import Change, change_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_groups, complete_topics
from kafkaraw.cli.rendering import TABLE, Row, output_option, show

if TYPE_CHECKING:
    from kafkaraw.client.admin.configs import ConfigChange, ConfigResource

_RESOURCES: Final = (
    click.option("-t", "--topic", metavar="TOPIC", shell_complete=complete_topics, help="The settings of this topic."),
    click.option("--broker", type=int, metavar="ID", help="The settings of this broker."),
    click.option("--broker-defaults", is_flag=True, help="The settings that hold for all brokers."),
    click.option("--broker-logger", type=int, metavar="ID", help="The levels of this broker's loggers."),
    click.option("-g", "--group", metavar="GROUP", shell_complete=complete_groups, help="The settings of this group."),
    click.option("--client-metrics", metavar="NAME", help="This subscription to metrics of clients."),
)
_FORMS: Final = "NAME=VALUE, NAME+=VALUE or NAME-=VALUE"

EPILOG: Final = """\b
Examples:
  kafkaraw configs get -b localhost:9092 --topic flights
  kafkaraw configs get -b localhost:9092 --broker 1 log.retention.ms num.io.threads
  kafkaraw configs set -b localhost:9092 --topic flights retention.ms=86400000 cleanup.policy+=compact
  kafkaraw configs unset -b localhost:9092 --topic flights retention.ms
"""


def resource_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add `--topic`, `--broker` and so on to a command; it gets the one that is given as `resource`."""

    @functools.wraps(command)
    def with_resource(
        *arguments: object,
        topic: str | None,
        broker: int | None,
        broker_defaults: bool,
        broker_logger: int | None,
        group: str | None,
        client_metrics: str | None,
        **others: object,
    ) -> object:
        from kafkaraw.client.admin.configs import ConfigResource

        given = [
            *([ConfigResource.topic(topic)] if topic is not None else []),
            *([ConfigResource.broker(broker)] if broker is not None else []),
            *([ConfigResource.broker()] if broker_defaults else []),
            *([ConfigResource.broker_logger(broker_logger)] if broker_logger is not None else []),
            *([ConfigResource.group(group)] if group is not None else []),
            *([ConfigResource.client_metrics(client_metrics)] if client_metrics is not None else []),
        ]
        if len(given) != 1:
            raise click.UsageError(
                "give one of --topic, --broker, --broker-defaults, --broker-logger, --group and --client-metrics"
            )
        return command(*arguments, resource=given[0], **others)

    for option in reversed(_RESOURCES):
        with_resource = option(with_resource)
    return with_resource


@click.group(epilog=EPILOG)
def configs() -> None:
    """Settings of topics, brokers, groups and client metrics subscriptions."""


@configs.command("get")
@click.argument("names", nargs=-1, metavar="[SETTING]...")
@cluster_options
@resource_options
@click.option("--all", "with_defaults", is_flag=True, help="Show defaults and the brokers' static settings, too.")
@click.option("--documentation", is_flag=True, help="Show the broker's description of each setting.")
@click.option("--synonyms", is_flag=True, help="Show the values of all sources, the one in force first.")
@output_option
def get_configs(
    cluster: Cluster,
    resource: ConfigResource,
    names: tuple[str, ...],
    with_defaults: bool,
    documentation: bool,
    synonyms: bool,
    output: str,
) -> None:
    """Show settings: those that were set, or the named ones. Values of secrets are not shown."""
    from kafkaraw.errors import UsageError
    from kafkaraw.protocol.config_codes import ConfigSource

    with cluster.admin() as admin:
        found = admin.describe_configs([resource], names=names or None, synonyms=synonyms, documentation=documentation)[
            resource
        ]
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(f"{shown_resource(resource)} has no setting {missing[0]!r}; --all shows all settings")
    rows: list[Row] = []
    static = (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)
    for name, entry in sorted(found.items()):
        if not names and not with_defaults and entry.source in static:
            continue
        row: Row = {
            "NAME": name,
            "VALUE": "[hidden]" if entry.is_sensitive and output == TABLE else entry.value,
            "SOURCE": entry.source.name,
            "READ-ONLY": entry.is_read_only,
            "SENSITIVE": entry.is_sensitive,
        }
        if synonyms:
            row["SYNONYMS"] = [f"{one.source.name}:{one.name}={one.value}" for one in entry.synonyms]
        if documentation:
            row["DOCUMENTATION"] = entry.documentation
        rows.append(row)
    show(rows, output)
    if not rows:
        click.echo(f"Nothing is set for {shown_resource(resource)}; --all shows defaults.", err=True)


@configs.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="SETTING=VALUE...")
@cluster_options
@resource_options
@change_options
@output_option
def set_configs(
    cluster: Cluster, resource: ConfigResource, assignments: tuple[str, ...], change: Change, output: str
) -> None:
    """Set settings. SETTING+=VALUE and SETTING-=VALUE add and remove entries of a list."""
    _alter(cluster, resource, [_change_of(text) for text in assignments], change, output)


@configs.command("unset")
@click.argument("names", nargs=-1, required=True, metavar="SETTING...")
@cluster_options
@resource_options
@change_options
@output_option
def unset_configs(
    cluster: Cluster, resource: ConfigResource, names: tuple[str, ...], change: Change, output: str
) -> None:
    """Remove settings, so that the value of the next source counts, such as the default."""
    from kafkaraw.client.admin.configs import ConfigChange
    from kafkaraw.protocol.config_codes import AlterOperation

    _alter(cluster, resource, [ConfigChange(name, None, AlterOperation.DELETE) for name in names], change, output)


def _alter(cluster: Cluster, resource: ConfigResource, wanted: list[ConfigChange], change: Change, output: str) -> None:
    """Alter settings, and print them before and after."""
    names = [each.name for each in wanted]
    with cluster.admin() as admin:
        before = admin.describe_configs([resource], names=names)[resource]
        admin.alter_configs({resource: wanted}, validate_only=change.dry_run)
    rows: list[Row] = []
    for each in wanted:
        entry = before.get(each.name)
        is_secret = entry is not None and entry.is_sensitive
        rows.append(
            {
                "NAME": each.name,
                "OLD-VALUE": entry and entry.value,
                "CHANGE": each.operation.name,
                "VALUE": "[hidden]" if is_secret else each.value,
            }
        )
    show(rows, output)
    if change.allows("Change settings?"):
        click.echo(f"Changed {shown_resource(resource)}.", err=True)


def _change_of(text: str) -> ConfigChange:
    from kafkaraw.client.admin.configs import ConfigChange
    from kafkaraw.protocol.config_codes import AlterOperation

    name, equals, value = text.partition("=")
    operations = {"+": AlterOperation.APPEND, "-": AlterOperation.SUBTRACT}
    operation = operations.get(name[-1:], AlterOperation.SET)
    name = name.rstrip("+-")
    if not equals or not name:
        raise click.UsageError(f"{text}: must be {_FORMS}, such as retention.ms=60000")
    return ConfigChange(name, value, operation)


def shown_resource(resource: ConfigResource) -> str:
    """Return text such as "topic 'flights'"."""
    return f"{resource.kind.name.lower().replace('_', ' ')} {resource.name!r}" if resource.name else "all brokers"
