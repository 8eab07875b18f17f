"""The work of `kafkaraw schemas check` and `diff`, with exit codes for CI."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from contextlib import closing
from enum import IntEnum
from pathlib import Path

import click

from kafkaraw.cli.registries import RegistryAddress
from kafkaraw.cli.schema_files import FileOptions, pretty, read_schema
from kafkaraw.errors import AuthenticationError, UsageError
from kafkaraw.schemas.blocking import Registry
from kafkaraw.schemas.errors import (
    InvalidSchemaError,
    NotARegistryError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaParseError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaBundle
from kafkaraw.schemas.rest import readable_reasons


class Exit(IntEnum):
    """Exit codes of `check`."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    REGISTRY = 3


def check_registry(
    address: RegistryAddress,
    subject: str | None,
    file: str | None,
    version: str | None,
    options: FileOptions,
    *,
    normalize: bool,
) -> Exit:
    """Check the registry, then the subject, or whether a file could be registered as its next version.

    Returns:
        the exit code; the reasons are printed.

    Raises:
        click.UsageError: the file cannot be read, or an option is wrong.
    """
    schema = None if file is None else read_schema(file, **options)
    try:
        with closing(address.connect()) as registry:
            registry.check(subject if schema is None else None)
            if schema is None or subject is None:
                return _fine("The registry answers" if subject is None else f"Subject {subject} exists")
            problems = _problems(registry, subject, schema, version, normalize=normalize)
            return _verdict(str(file), problems, f"subject {subject}")
    except (NotARegistryError, RegistryUnavailableError, RegistryAuthorizationError, AuthenticationError) as error:
        return _failed(error, Exit.REGISTRY)
    except (RegistryError, SchemaParseError) as error:
        return _failed(error, Exit.REFUSED)


def _problems(
    registry: Registry, subject: str, schema: Schema, version: str | None, *, normalize: bool
) -> tuple[str, ...]:
    try:
        return registry.incompatibilities(subject, schema, version=version, normalize=normalize)
    except (SubjectNotFoundError, VersionNotFoundError):
        if version is not None:
            raise
        return ()  # some registries say so of a subject without versions, with which every schema is compatible
    except SchemaNotFoundError:
        raise InvalidSchemaError(f"a reference of the schema for {subject!r} does not exist") from None


def check_against_files(file: str, earlier: Sequence[str], level: str, options: FileOptions) -> Exit:
    """Compare a file with older files, without a registry.

    Returns:
        the exit code; the reasons are printed.

    Raises:
        click.UsageError: a file cannot be read, or an option is wrong.
    """
    from kafkaraw.schemas.languages import check, parse

    if level.upper() not in CompatibilityLevel.__members__:
        raise click.UsageError(f"--level {level}: must be one of {', '.join(CompatibilityLevel)}")
    if options["references"]:
        raise click.UsageError("--reference needs a registry; without one, a schema must be complete")
    parsed = []
    for path in (*earlier, file):
        try:
            parsed.append(parse(SchemaBundle(read_schema(path, **options))))
        except SchemaParseError as error:
            return _failed(f"{path}: {error}", Exit.REFUSED)
    problems = check(parsed[-1], parsed[:-1], CompatibilityLevel(level.upper()))
    return _verdict(file, problems, ", ".join(earlier))


def _verdict(file: str, problems: Sequence[str], what: str) -> Exit:
    if not problems:
        return _fine(f"{file} is compatible with {what}")
    sys.stderr.write(f"{file} is not compatible with {what}:\n")
    sys.stdout.write("".join(f"  {reason}\n" for reason in readable_reasons(problems)))
    return Exit.REFUSED


def _fine(text: str) -> Exit:
    sys.stderr.write(f"{text}.\n")
    return Exit.OK


def _failed(reason: object, code: Exit) -> Exit:
    sys.stderr.write(f"Error: {reason}\n")
    return code


def show_difference(registry: Registry, subject: str, old: str | None, new: str, schema_type: str | None) -> int:
    """Print the lines in which two schemas differ.

    Args:
        registry: has the versions.
        subject: name of the subject.
        old: a version, or a file; None is the version before the latest one.
        new: a version, or a file.
        schema_type: language of files.

    Returns:
        1 if they differ, else 0.

    Raises:
        UsageError: there is only one version.
    """
    if old is None:
        numbers = registry.versions(subject)
        if len(numbers) < 2:
            raise UsageError(f"subject {subject!r} has one version only: give a file to compare it with")
        old = str(numbers[-2])
    before, before_name = _schema_of(registry, subject, old, schema_type)
    after, after_name = _schema_of(registry, subject, new, schema_type)
    texts = [pretty(schema).splitlines(keepends=True) for schema in (before, after)]
    lines = list(difflib.unified_diff(texts[0], texts[1], before_name, after_name))
    sys.stdout.write("".join(lines))
    return 1 if lines else 0


def _schema_of(registry: Registry, subject: str, which: str, schema_type: str | None) -> tuple[Schema, str]:
    if which == "latest" or which.isdigit():
        found = registry.version(subject, which)
        return found.schema, f"{subject} version {found.version}"
    if not Path(which).exists():
        raise click.UsageError(f"{which}: neither a version nor a file")
    return read_schema(which, schema_type=schema_type, references=(), metadata=()), which
