"""`kafkaraw schemas`: the schemas of a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.registries import registry_options

if TYPE_CHECKING:
    from kafkaraw.cli.registries import RegistryAddress
    from kafkaraw.cli.schema_files import FileOptions

_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_DELETED: Final = click.option("--deleted", is_flag=True, help="Include what is deleted softly.")
_EXECUTE: Final = click.option("--execute", is_flag=True, help="Make the change; without it, the change is only shown.")
_NORMALIZE: Final = click.option(
    "--normalize",
    is_flag=True,
    help="Let the registry normalize the schema, so that its order and spaces do not count.",
)
_TYPE: Final = click.option(
    "--type",
    "schema_type",
    type=click.Choice(["avro", "json", "protobuf"]),
    help="Language of the schema.  [default: by the file's name: .avsc, .json, .proto]",
)
_REFERENCES: Final = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that this one uses by NAME; repeatable.",
)
_PROPERTIES: Final = click.option(
    "--metadata",
    "metadata",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the schema's metadata; repeatable.",
)
_LEVELS: Final = (
    "NONE, BACKWARD, BACKWARD_TRANSITIVE, FORWARD, FORWARD_TRANSITIVE, FULL or FULL_TRANSITIVE"  # CompatibilityLevel
)

EPILOG: Final = """\b
Examples:
  kafkaraw schemas list -r http://localhost:8081                      the subjects
  kafkaraw schemas show -r http://localhost:8081 orders-value         the latest version
  kafkaraw schemas check -r http://localhost:8081 orders-value order.avsc
  kafkaraw schemas register -r http://localhost:8081 orders-value order.avsc
"""
CHECK_EPILOG: Final = """\b
Examples:
  kafkaraw schemas check -r URL                              the URL and the credentials
  kafkaraw schemas check -r URL orders-value                 ... and that the subject exists
  kafkaraw schemas check -r URL orders-value order.avsc      whether the file could be registered
  kafkaraw schemas check order.avsc --against old.avsc --level FULL     without a registry
\b
Exit codes:
    0  everything is in order
    1  the schema is invalid or incompatible, or the subject does not exist; the reasons are printed
    2  invalid options, or a file that cannot be read
    3  the registry cannot be asked: it is down, refuses the credentials, or the URL is wrong
"""


@click.group(epilog=EPILOG)
def schemas() -> None:
    """Schemas in a registry: list, show, register, check, diff, delete, configure."""


@schemas.command("list")
@click.argument("subject", required=False)
@registry_options
@click.option("--prefix", default="", metavar="TEXT", help="Only subjects that begin with TEXT.")
@_DELETED
@click.option("-q", "--quiet", is_flag=True, help="Print names, or numbers of versions, only.")
@_JSON
def list_schemas(
    address: RegistryAddress, subject: str | None, prefix: str, deleted: bool, quiet: bool, as_json: bool
) -> None:
    """List the subjects, or the versions of SUBJECT."""
    from kafkaraw.cli.schema_tables import list_subjects, list_versions

    with address.connect() as registry:
        if subject is None:
            list_subjects(registry, prefix, deleted=deleted, quiet=quiet, as_json=as_json)
        else:
            list_versions(registry, subject, deleted=deleted, quiet=quiet, as_json=as_json)


@schemas.command()
@click.argument("subject", required=False)
@click.argument("version", default="latest")
@registry_options
@click.option("--id", "schema_id", type=click.IntRange(0), metavar="ID", help="Show the schema with this id.")
@click.option("--guid", metavar="GUID", help="Show the schema with this GUID.")
@_DELETED
@click.option("--raw", is_flag=True, help="Print the text as it is registered, not indented.")
@_JSON
def show(
    address: RegistryAddress,
    subject: str | None,
    version: str,
    schema_id: int | None,
    guid: str | None,
    deleted: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Print a schema: VERSION of SUBJECT (by default the latest), or the one with an id or a GUID.

    The text goes to standard output; subject, version, id and references go to standard error.
    """
    from kafkaraw.cli.schema_tables import show_schema

    if (subject is not None) + (schema_id is not None) + (guid is not None) != 1:
        raise click.UsageError("give SUBJECT [VERSION], --id ID or --guid GUID")
    with address.connect() as registry:
        if schema_id is not None:
            found = registry.schema_by_id(schema_id)
        elif guid is not None:
            found = registry.schema_by_guid(guid)
        else:
            assert subject is not None
            found = registry.version(subject, version, deleted=deleted)
        show_schema(found, raw=raw, as_json=as_json)


@schemas.command()
@click.argument("subject")
@click.argument("file", type=click.Path(allow_dash=True))
@registry_options
@_TYPE
@_REFERENCES
@_PROPERTIES
@_NORMALIZE
@_JSON
def register(
    address: RegistryAddress, subject: str, file: str, normalize: bool, as_json: bool, **options: Unpack[FileOptions]
) -> None:
    """Register the schema in FILE (- is standard input) as a new version of SUBJECT.

    If a version has the schema already, nothing changes. The exit code is 1 if the registry refuses the schema.
    """
    from kafkaraw.cli.schema_files import read_schema
    from kafkaraw.cli.schema_tables import register_schema

    schema = read_schema(file, **options)
    with address.connect() as registry:
        register_schema(registry, subject, schema, normalize=normalize, as_json=as_json)


@schemas.command(epilog=CHECK_EPILOG)
@click.argument("arguments", nargs=-1, metavar="[SUBJECT] [FILE]")
@registry_options
@click.option(
    "--against",
    "earlier",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Compare with this file instead of a registry's versions; repeatable, from old to new.",
)
@click.option("--level", metavar="LEVEL", help=f"Compatibility level with --against: {_LEVELS}.  [default: BACKWARD]")
@click.option("--version", metavar="VERSION", help="Compare with this version only: a number, or latest.")
@_TYPE
@_REFERENCES
@_PROPERTIES
@_NORMALIZE
@click.pass_context
def check(
    ctx: click.Context,
    address: RegistryAddress,
    arguments: tuple[str, ...],
    earlier: tuple[str, ...],
    level: str | None,
    version: str | None,
    normalize: bool,
    **options: Unpack[FileOptions],
) -> None:
    """Check a registry, a subject, or whether a schema could be registered; nothing is changed."""
    from kafkaraw.cli.schema_checks import check_against_files, check_registry

    if earlier or level is not None:
        if len(arguments) != 1 or not earlier:
            raise click.UsageError("give one FILE, and --against FILE")
        ctx.exit(check_against_files(arguments[0], earlier, level or "BACKWARD", options))
    if len(arguments) > 2:
        raise click.UsageError("give SUBJECT and FILE, or less")
    subject, file = (*arguments, None, None)[:2]
    ctx.exit(check_registry(address, subject, file, version, options, normalize=normalize))


@schemas.command()
@click.argument("subject")
@click.argument("old", required=False)
@click.argument("new", default="latest")
@registry_options
@_TYPE
@click.pass_context
def diff(
    ctx: click.Context, address: RegistryAddress, subject: str, old: str | None, new: str, schema_type: str | None
) -> None:
    """Show what changed between two versions of SUBJECT: by default the latest two.

    OLD and NEW are versions, or files. With OLD only, it is compared with the latest version. Indented texts are
    compared. The exit code is 1 if they differ.
    """
    from kafkaraw.cli.schema_checks import show_difference

    with address.connect() as registry:
        ctx.exit(show_difference(registry, subject, old, new, schema_type))


@schemas.command()
@click.argument("subject")
@click.argument("version", required=False)
@registry_options
@click.option("--permanent", is_flag=True, help="Remove what is deleted softly; data with its id becomes unreadable.")
@_EXECUTE
def delete(address: RegistryAddress, subject: str, version: str | None, permanent: bool, execute: bool) -> None:
    """Delete SUBJECT, or a version of it.

    Without --permanent it is deleted softly: consumers can still read data by its id, and registering the schema again
    restores it. What is deleted softly can be deleted permanently.
    """
    from kafkaraw.cli.schema_tables import delete_schemas

    with address.connect() as registry:
        if not delete_schemas(registry, subject, version, permanent=permanent, execute=execute):
            click.echo("Nothing was changed: give --execute to make the change.", err=True)


@schemas.command()
@click.argument("subject", required=False)
@registry_options
@click.option("--set", "level", metavar="LEVEL", help=f"Set the level: {_LEVELS}.")
@click.option("--unset", is_flag=True, help="Let SUBJECT have the level of the registry again.")
def compatibility(address: RegistryAddress, subject: str | None, level: str | None, unset: bool) -> None:
    """Print or set the compatibility level of SUBJECT, or of the whole registry."""
    from kafkaraw.cli.schema_tables import compatibility_of

    _check_change(subject, level, unset=unset)
    with address.connect() as registry:
        click.echo(compatibility_of(registry, subject, level, unset=unset))


@schemas.command()
@click.argument("subject", required=False)
@registry_options
@click.option(
    "--set", "mode_name", metavar="MODE", help="Set the mode: READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."
)
@click.option("--unset", is_flag=True, help="Let SUBJECT have the mode of the registry again.")
@click.option("--force", is_flag=True, help="Change to IMPORT although there are schemas.")
def mode(address: RegistryAddress, subject: str | None, mode_name: str | None, unset: bool, force: bool) -> None:
    """Print or set the mode of SUBJECT, or of the whole registry: which changes it accepts."""
    from kafkaraw.cli.schema_tables import mode_of

    _check_change(subject, mode_name, unset=unset)
    with address.connect() as registry:
        click.echo(mode_of(registry, subject, mode_name, unset=unset, force=force))


def _check_change(subject: str | None, value: str | None, *, unset: bool) -> None:
    if unset and (subject is None or value is not None):
        raise click.UsageError("--unset needs SUBJECT, and excludes --set")
