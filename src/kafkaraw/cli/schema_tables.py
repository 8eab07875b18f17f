"""The work of `kafkaraw schemas list`, `show`, `register`, `delete`, `compatibility` and `mode`."""

from __future__ import annotations

import json
import sys

import click

from kafkaraw.cli.rendering import Row, print_rows
from kafkaraw.cli.schema_files import pretty
from kafkaraw.errors import UsageError
from kafkaraw.schemas.blocking import Registry
from kafkaraw.schemas.errors import NotARegistryError, SchemaNotFoundError, SubjectNotFoundError, VersionNotFoundError
from kafkaraw.schemas.model import RegisteredSchema, Schema
from kafkaraw.schemas.rest import nearest


def list_subjects(registry: Registry, prefix: str, *, deleted: bool, quiet: bool, as_json: bool) -> None:
    """Print the subjects, each with its latest version."""
    if quiet and not as_json:
        click.echo("".join(f"{name}\n" for name in sorted(registry.subjects(prefix, deleted=deleted))), nl=False)
        return
    try:
        latest = registry.schemas(prefix, deleted=deleted, latest_only=True)
    except NotARegistryError:  # registries of others that lack this endpoint
        latest = tuple(registry.version(name, deleted=deleted) for name in registry.subjects(prefix, deleted=deleted))
    rows: list[Row] = [
        {"SUBJECT": found.subject, "TYPE": str(found.schema.schema_type), "VERSION": found.version, "ID": found.id}
        for found in sorted(latest, key=lambda found: found.subject or "")
    ]
    print_rows(rows, as_json=as_json)


def list_versions(registry: Registry, subject: str, *, deleted: bool, quiet: bool, as_json: bool) -> None:
    """Print the versions of a subject."""
    numbers = _versions(registry, subject, deleted=deleted)
    if quiet and not as_json:
        click.echo("".join(f"{number}\n" for number in numbers), nl=False)
        return
    live = _live(registry, subject) if deleted else set(numbers)
    rows: list[Row] = []
    for number in numbers:
        found = registry.version(subject, number, deleted=deleted)
        row: Row = {"VERSION": number, "ID": found.id, "TYPE": str(found.schema.schema_type), "GUID": found.guid}
        if deleted:
            row["DELETED"] = "no" if number in live else "yes"
        rows.append(row)
    print_rows(rows, as_json=as_json)


def _versions(registry: Registry, subject: str, *, deleted: bool) -> tuple[int, ...]:
    try:
        return registry.versions(subject, deleted=deleted)
    except SubjectNotFoundError as error:
        raise UsageError(f"{error}{nearest(subject, registry.subjects())}") from error


def _live(registry: Registry, subject: str) -> set[int]:
    """Return the versions that are not deleted."""
    try:
        return set(registry.versions(subject))
    except SubjectNotFoundError:
        return set()


def show_schema(found: RegisteredSchema, *, raw: bool, as_json: bool) -> None:
    """Print one schema: its text, or everything as JSON."""
    if as_json:
        fields = {
            "subject": found.subject, "version": found.version, "id": found.id, "guid": found.guid,
            "schemaType": found.schema.schema_type.value, **found.schema.to_json(),
        }  # fmt: skip
        click.echo(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    place = [] if found.subject is None else [f"subject {found.subject}, version {found.version}"]
    guid = [] if found.guid is None else [f"GUID {found.guid}"]
    _say(", ".join([*place, f"id {found.id}", *guid, found.schema.schema_type.value]))
    for reference in found.schema.references:
        _say(f"references {reference.name} = {reference.subject}:{reference.version}")
    if found.schema.metadata is not None:
        for name, value in found.schema.metadata.properties.items():
            _say(f"metadata {name} = {value}")
    if found.schema.rule_set:
        _say("has rules, which kafkaraw does not execute")
    click.echo(found.schema.text if raw else pretty(found.schema), nl=raw and not found.schema.text.endswith("\n"))


def _say(line: str) -> None:
    sys.stderr.write(f"% {line}\n")


def register_schema(registry: Registry, subject: str, schema: Schema, *, normalize: bool, as_json: bool) -> None:
    """Register a schema and print its version and id."""
    is_new = False
    try:
        found = registry.lookup(subject, schema, normalize=normalize)
    except (SubjectNotFoundError, SchemaNotFoundError):
        is_new = True
        found = registry.register(subject, schema, normalize=normalize)
        if found.version is None:  # the answer of an older registry has the id only
            registry.clear_caches()
            found = registry.lookup(subject, schema, normalize=normalize)
    if as_json:
        fields = {"subject": subject, "version": found.version, "id": found.id, "guid": found.guid, "new": is_new}
        click.echo(json.dumps(fields, indent=2, ensure_ascii=False))
    else:
        what = "Registered" if is_new else "Already registered"
        click.echo(f"{what}: subject {subject}, version {found.version}, id {found.id}")


def delete_schemas(registry: Registry, subject: str, version: str | None, *, permanent: bool, execute: bool) -> bool:
    """Delete a subject or one version.

    Returns:
        whether it was deleted; else it was only shown.

    Raises:
        UsageError: it does not exist, or is in use.
        RegistryError: the registry refuses.
    """
    there = registry.versions(subject, deleted=True) if permanent else _versions(registry, subject, deleted=False)
    numbers = there if version is None else (_number(registry, subject, version, there),)
    live = _live(registry, subject)
    rows: list[Row] = []
    users: set[int] = set()
    for number in numbers:
        found = registry.version(subject, number, deleted=True)
        using = registry.referenced_by(subject, number)
        users |= set(using)
        state = "live" if number in live else "deleted softly"
        rows.append(
            {"SUBJECT": subject, "VERSION": number, "ID": found.id, "STATE": state, "REFERENCED-BY": len(using)}
        )
    print_rows(rows, as_json=False)
    if users:
        raise UsageError(f"schemas with the ids {', '.join(map(str, sorted(users)))} reference it: delete them first")
    if permanent and live & set(numbers):
        raise UsageError("delete it softly first: give the command without --permanent")
    if execute:
        if version is None:
            registry.delete_subject(subject, permanent=permanent)
        else:
            registry.delete_version(subject, numbers[0], permanent=permanent)
        sys.stderr.write(f"Deleted {len(numbers)} version{'' if len(numbers) == 1 else 's'}.\n")
    return execute


def _number(registry: Registry, subject: str, version: str, there: tuple[int, ...]) -> int:
    found = registry.version(subject, version, deleted=True).version
    if found is None or found not in there:
        raise VersionNotFoundError(f"subject {subject!r} has no version {version}; there are {there}")
    return found


def compatibility_of(registry: Registry, subject: str | None, level: str | None, *, unset: bool) -> str:
    """Change the compatibility level if asked to, and return it."""
    if level is not None:
        registry.set_compatibility(level.upper(), subject)
    elif unset:
        registry.delete_config(subject)
    return str(registry.compatibility(subject))


def mode_of(registry: Registry, subject: str | None, name: str | None, *, unset: bool, force: bool) -> str:
    """Change the mode if asked to, and return it."""
    if name is not None:
        registry.set_mode(name.upper(), subject, force=force)
    elif unset:
        registry.delete_mode(subject)
    return str(registry.mode(subject))
