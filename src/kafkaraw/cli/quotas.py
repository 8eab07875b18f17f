"""`kafkaraw quotas`: list, set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.changes import Change, change_options, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.rendering import Row, output_option, show

if TYPE_CHECKING:
    from kafkaraw.client.admin.quotas import QuotaEntity, QuotaName

_PARTS: Final = (
    click.option("--user", metavar="USER", help="A user, without User:."),
    click.option("--user-defaults", is_flag=True, help="All users without a quota of their own."),
    click.option("--client-id", metavar="ID", help="A client id."),
    click.option("--client-defaults", is_flag=True, help="All client ids without a quota of their own."),
    click.option("--ip", metavar="ADDRESS", help="An address, for connection_creation_rate."),
    click.option("--ip-defaults", is_flag=True, help="All addresses without a quota of their own."),
)
NAMES: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)

EPILOG: Final = """\b
Examples:
  kafkaraw quotas set -b localhost:9092 --user ada producer_byte_rate=1048576 consumer_byte_rate=2097152
  kafkaraw quotas set -b localhost:9092 --user ada --client-id etl request_percentage=50
  kafkaraw quotas remove -b localhost:9092 --user ada producer_byte_rate
"""


def _entity_options(command: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(command)
    def with_entity(
        *arguments: object,
        user: str | None,
        user_defaults: bool,
        client_id: str | None,
        client_defaults: bool,
        ip: str | None,
        ip_defaults: bool,
        **others: object,
    ) -> object:
        from kafkaraw.client.admin.quotas import QuotaEntity

        entity = QuotaEntity(
            _part("--user", user, user_defaults),
            _part("--client-id", client_id, client_defaults),
            _part("--ip", ip, ip_defaults),
        )
        return command(*arguments, entity=entity, **others)

    for option in reversed(_PARTS):
        with_entity = option(with_entity)
    return with_entity


def _part(option: str, name: str | None, defaults: bool) -> str | QuotaName | None:
    from kafkaraw.client.admin.quotas import QuotaName

    if name is not None and defaults:
        raise click.UsageError(f"{option} {name} and the option of its defaults exclude each other")
    return QuotaName.DEFAULT if defaults else name


@click.group(epilog=EPILOG)
def quotas() -> None:
    """Quotas of users, client ids and addresses."""


@quotas.command("list")
@cluster_options
@_entity_options
@click.option("--strict", is_flag=True, help="Leave out entities with other parts, such as a user with a client id.")
@output_option
def list_quotas(cluster: Cluster, entity: QuotaEntity, strict: bool, output: str) -> None:
    """List quotas: all of them, or those of an entity."""
    matching = entity if entity.parts() else None
    with cluster.admin() as admin:
        found = admin.describe_client_quotas(matching, strict=strict and matching is not None)
    rows: list[Row] = [
        {**_named(each), "QUOTA": name, "VALUE": value}
        for each, values in found.items()
        for name, value in sorted(values.items())
    ]
    show(sorted(rows, key=lambda row: tuple(map(str, row.values()))), output)


@quotas.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@cluster_options
@_entity_options
@change_options
@output_option
def set_quotas(
    cluster: Cluster, entity: QuotaEntity, assignments: tuple[str, ...], change: Change, output: str
) -> None:
    """Set quotas of an entity: producer_byte_rate and consumer_byte_rate (bytes per second), request_percentage,
    controller_mutation_rate, and for an address connection_creation_rate.
    """  # noqa: D205 - one sentence
    _alter(cluster, entity, dict(map(_quota, assignments)), change, output)


@quotas.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="QUOTA...")
@cluster_options
@_entity_options
@destructive_options
@output_option
def remove_quotas(cluster: Cluster, entity: QuotaEntity, names: tuple[str, ...], change: Change, output: str) -> None:
    """Remove quotas of an entity, so that the quotas of the defaults count."""
    _alter(cluster, entity, dict.fromkeys(names), change, output)


def _alter(cluster: Cluster, entity: QuotaEntity, values: dict[str, float | None], change: Change, output: str) -> None:
    """Change quotas, and print them before and after."""
    if not entity.parts():
        raise click.UsageError("give an entity: --user, --client-id, --ip, or one of their defaults")
    with cluster.admin() as admin:
        before = admin.describe_client_quotas(entity, strict=True).get(entity, {})
        admin.alter_client_quotas({entity: values}, validate_only=True)
        rows: list[Row] = [
            {**_named(entity), "QUOTA": name, "OLD-VALUE": before.get(name), "VALUE": value}
            for name, value in values.items()
        ]
        show(rows, output)
        if change.allows(f"Change the quotas of {_text(entity)}?"):
            admin.alter_client_quotas({entity: values})
            click.echo(f"Changed the quotas of {_text(entity)}.", err=True)


def _quota(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if equals and name:
            return name, float(value)
    except ValueError:
        pass
    raise click.UsageError(
        f"{text}: must be QUOTA=NUMBER, such as producer_byte_rate=1048576; quotas: {', '.join(NAMES)}"
    )


def _named(entity: QuotaEntity) -> Row:
    """Return the columns of an entity: its names, `<default>` as Kafka's tool prints it."""
    names = {kind: name if isinstance(name, str) else "<default>" for kind, name in entity.parts().items()}
    return {"USER": names.get("user"), "CLIENT-ID": names.get("client-id"), "IP": names.get("ip")}


def _text(entity: QuotaEntity) -> str:
    return ", ".join(
        f"{kind} {name if isinstance(name, str) else '<default>'}" for kind, name in entity.parts().items()
    )
