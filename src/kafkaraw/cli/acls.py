"""`kafkaraw acls`: list, add and remove access control lists, with the options of kafka-acls.sh and rpk.

`AclOptions` are the options that select resources, principals and operations. Start at `bindings_of`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from kafkaraw.cli.changes import Change, change_options, count_of, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_groups, complete_topics
from kafkaraw.cli.rendering import Row, output_option, show

if TYPE_CHECKING:
    from kafkaraw.client.admin.acls import AclBinding, AclBindingFilter
    from kafkaraw.protocol.acl_codes import AclPermissionType, ResourceType


class AclOptions(TypedDict):
    """The options of all commands, by click's names."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    delegation_tokens: tuple[str, ...]
    user_principals: tuple[str, ...]
    on_cluster: bool
    pattern_type: str | None
    allow_principals: tuple[str, ...]
    deny_principals: tuple[str, ...]
    allow_hosts: tuple[str, ...]
    deny_hosts: tuple[str, ...]
    operations: tuple[str, ...]


_OPTIONS: Final = (
    click.option(
        "--topic", "topics", multiple=True, metavar="TOPIC", shell_complete=complete_topics, help="A topic; * is all."
    ),
    click.option(
        "--group", "groups", multiple=True, metavar="GROUP", shell_complete=complete_groups, help="A group; * is all."
    ),
    click.option(
        "--transactional-id", "transactional_ids", multiple=True, metavar="ID", help="A transactional id; * is all."
    ),
    click.option(
        "--delegation-token", "delegation_tokens", multiple=True, metavar="ID", help="A delegation token; * is all."
    ),
    click.option(
        "--user-principal", "user_principals", multiple=True, metavar="USER", help="A user, for operations on tokens."
    ),
    click.option("--cluster", "on_cluster", is_flag=True, help="The cluster."),
    click.option(
        "--resource-pattern-type",
        "pattern_type",
        type=click.Choice(["literal", "prefixed", "match", "any"], case_sensitive=False),
        help="Whether a name is literal or a prefix; match and any are for list and remove.  [default: literal]",
    ),
    click.option(
        "--allow-principal", "allow_principals", multiple=True, metavar="TYPE:NAME", help="Allowed, such as User:ada."
    ),
    click.option("--deny-principal", "deny_principals", multiple=True, metavar="TYPE:NAME", help="Denied."),
    click.option("--allow-host", "allow_hosts", multiple=True, metavar="IP", help="Allowed address.  [default: *]"),
    click.option("--deny-host", "deny_hosts", multiple=True, metavar="IP", help="Denied address.  [default: *]"),
    click.option(
        "--operation",
        "operations",
        multiple=True,
        metavar="OPERATION",
        help="An operation, such as read, write, create, delete, alter, describe.  [default: all]",
    ),
)
_RESOURCES: Final = {
    "topics": "TOPIC",
    "groups": "GROUP",
    "transactional_ids": "TRANSACTIONAL_ID",
    "delegation_tokens": "DELEGATION_TOKEN",
    "user_principals": "USER",
}
_PRODUCER: Final = {"TOPIC": ("WRITE", "DESCRIBE", "CREATE"), "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE")}
_CONSUMER: Final = {"TOPIC": ("READ", "DESCRIBE"), "GROUP": ("READ",)}

EPILOG: Final = """\b
Examples:
  kafkaraw acls add -b localhost:9092 --allow-principal User:ada --operation read --topic flights
  kafkaraw acls add -b localhost:9092 --allow-principal User:bob --consumer --topic flights --group billing
  kafkaraw acls list -b localhost:9092 --topic flights --resource-pattern-type match
  kafkaraw acls remove -b localhost:9092 --allow-principal User:ada --topic flights
"""


def _acl_options(command: Callable[..., object]) -> Callable[..., object]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(epilog=EPILOG)
def acls() -> None:
    """Access control lists: which principals may do which operations."""


@acls.command("list")
@cluster_options
@_acl_options
@output_option
def list_acls(cluster: Cluster, output: str, **options: Unpack[AclOptions]) -> None:
    """List ACLs: all of them, or those that match the options."""
    with cluster.admin() as admin:
        found = {acl for matching in filters_of(options) for acl in admin.describe_acls(matching)}
    show(_rows(found), output)


@acls.command("add")
@cluster_options
@_acl_options
@click.option("--producer", is_flag=True, help="What a producer needs on --topic and --transactional-id.")
@click.option("--consumer", is_flag=True, help="What a consumer needs on --topic and --group.")
@change_options
@output_option
def add_acls(
    cluster: Cluster, producer: bool, consumer: bool, change: Change, output: str, **options: Unpack[AclOptions]
) -> None:
    """Add ACLs for each combination of principal, host, operation and resource."""
    wanted = bindings_of(options, producer=producer, consumer=consumer)
    with cluster.admin() as admin:
        if change.dry_run:
            admin.describe_acls()  # the cluster answers, has an authorizer, and shows ACLs to this principal
        else:
            admin.create_acls(wanted)
    show(_rows(set(wanted)), output)
    if change.allows("Add?"):
        click.echo(f"Added {count_of(len(wanted), 'ACL')}.", err=True)


@acls.command("remove")
@cluster_options
@_acl_options
@click.option("--all", "all_acls", is_flag=True, help="Remove all ACLs.")
@destructive_options
@output_option
def remove_acls(cluster: Cluster, all_acls: bool, change: Change, output: str, **options: Unpack[AclOptions]) -> None:
    """Remove the ACLs that match the options, after they were shown."""
    if any(options.values()) == all_acls:
        raise click.UsageError("give options that select ACLs, such as --topic, or --all")
    filters = filters_of(options)
    with cluster.admin() as admin:
        found = {acl for matching in filters for acl in admin.describe_acls(matching)}
        show(_rows(found), output)
        if not found:
            click.echo("No ACL matches.", err=True)
        elif change.allows(f"Remove {count_of(len(found), 'ACL')}?"):
            removed = {acl for each in admin.delete_acls(filters).values() for acl in each}
            click.echo(f"Removed {count_of(len(removed), 'ACL')}.", err=True)


def bindings_of(options: AclOptions, *, producer: bool, consumer: bool) -> list[AclBinding]:
    """Return the ACLs that options describe.

    Raises:
        click.UsageError: no principal or no resource is given, or an option does not fit.
    """
    from kafkaraw.client.admin.acls import AclBinding, ResourcePattern
    from kafkaraw.protocol.acl_codes import WILDCARD, AclOperation, PatternType, ResourceType

    if options["pattern_type"] in ("match", "any"):
        raise click.UsageError(f"--resource-pattern-type {options['pattern_type']}: new ACLs are literal or prefixed")
    pattern_type = PatternType[(options["pattern_type"] or "literal").upper()]
    parties = list(_parties(options))
    if not parties:
        raise click.UsageError("no principal given: use --allow-principal User:NAME or --deny-principal User:NAME")
    found: dict[AclBinding, None] = {}
    for kind, name in _resources(options):
        literal = PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern_type
        operations = [AclOperation[name] for name in _operations(options, kind, producer, consumer)]
        for operation, (principal, host, permission) in itertools.product(operations, parties):
            pattern = ResourcePattern(kind, name, literal)
            found[AclBinding(pattern, principal, operation, permission, host or WILDCARD)] = None
    if not found:
        needed = "--topic" if producer or consumer else "--topic, --group, --transactional-id or --cluster"
        raise click.UsageError(f"no resource given: use {needed}")
    return list(found)


def filters_of(options: AclOptions) -> list[AclBindingFilter]:
    """Return filters for the ACLs that options select; without options, one for all.

    Raises:
        click.UsageError: an option does not fit.
    """
    from kafkaraw.client.admin.acls import AclBindingFilter
    from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

    resources: list[tuple[ResourceType, str | None]] = list(_resources(options))
    default = "literal" if resources else "any"
    pattern_type = PatternType[(options["pattern_type"] or default).upper()]
    parties: list[tuple[str | None, str | None, AclPermissionType]] = list(_parties(options))
    operations = [AclOperation[_operation(text)] for text in options["operations"]]
    return [
        AclBindingFilter(kind, name, pattern_type, principal, host, operation, permission)
        for (kind, name), (principal, host, permission), operation in itertools.product(
            resources or [(ResourceType.ANY, None)],
            parties or [(None, None, AclPermissionType.ANY)],
            operations or [AclOperation.ANY],
        )
    ]


def _resources(options: AclOptions) -> Iterator[tuple[ResourceType, str]]:
    from kafkaraw.protocol.acl_codes import CLUSTER_NAME, ResourceType

    for option, kind in _RESOURCES.items():
        names = options[option]  # type: ignore[literal-required]  # the keys of a table
        yield from ((ResourceType[kind], name) for name in names)
    if options["on_cluster"]:
        yield ResourceType.CLUSTER, CLUSTER_NAME


def _parties(options: AclOptions) -> Iterator[tuple[str, str | None, AclPermissionType]]:
    """Return principals, hosts and permissions; the host is None if none is given."""
    from kafkaraw.protocol.acl_codes import AclPermissionType

    for principals, hosts, permission in (
        (options["allow_principals"], options["allow_hosts"], AclPermissionType.ALLOW),
        (options["deny_principals"], options["deny_hosts"], AclPermissionType.DENY),
    ):
        for principal in principals:
            if ":" not in principal:
                raise click.UsageError(f"principal {principal!r}: must be TYPE:NAME, such as User:{principal}")
        if hosts and not principals:
            raise click.UsageError(f"host {hosts[0]}: give a principal with --{permission.name.lower()}-principal")
        yield from itertools.product(principals, hosts or (None,), [permission])


def _operations(options: AclOptions, kind: ResourceType, producer: bool, consumer: bool) -> list[str]:
    if not producer and not consumer:
        return [_operation(text) for text in options["operations"]] or ["ALL"]
    if options["operations"]:
        raise click.UsageError("--operation, and --producer or --consumer, exclude each other")
    roles = [role for role, given in ((_PRODUCER, producer), (_CONSUMER, consumer)) if given]
    return list(dict.fromkeys(name for role in roles for name in role.get(kind.name, ())))


def _operation(text: str) -> str:
    """Return Kafka's name: it accepts `DescribeConfigs`, `describe_configs` and `DESCRIBE_CONFIGS`."""
    from kafkaraw.protocol.acl_codes import AclOperation

    known = [each.name for each in AclOperation if each.name not in ("UNKNOWN", "ANY")]
    plain = {name.replace("_", ""): name for name in known}
    found = plain.get(text.replace("_", "").replace("-", "").upper())
    if found is None:
        raise click.UsageError(f"--operation {text}: must be one of {', '.join(name.lower() for name in known)}")
    return found


def _rows(found: set[AclBinding]) -> list[Row]:
    rows: list[Row] = [
        {
            "RESOURCE-TYPE": acl.pattern.resource_type.name,
            "RESOURCE-NAME": acl.pattern.name,
            "PATTERN-TYPE": acl.pattern.pattern_type.name,
            "PRINCIPAL": acl.principal,
            "HOST": acl.host,
            "OPERATION": acl.operation.name,
            "PERMISSION": acl.permission_type.name,
        }
        for acl in found
    ]
    return sorted(rows, key=lambda row: tuple(map(str, row.values())))
