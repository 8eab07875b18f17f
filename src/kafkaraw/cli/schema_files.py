"""Schemas in files: the language by the file's name, references and metadata by options.

Start at `read_schema`; `pretty` is the form in which people read a schema's text.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from kafkaraw.schemas.model import Metadata, Schema, SchemaReference, SchemaType

_TYPES: Final = {".avsc": SchemaType.AVRO, ".json": SchemaType.JSON, ".proto": SchemaType.PROTOBUF}
FILE_SIZE_MAX: Final = 16 * 1024 * 1024


class FileOptions(TypedDict):
    """The options about a file, by click's names."""

    schema_type: str | None
    references: tuple[str, ...]
    metadata: tuple[str, ...]


def read_schema(file: str, **options: Unpack[FileOptions]) -> Schema:
    """Read a schema.

    Args:
        file: path of a file; "-" is standard input.
        options: the command's options about it.

    Raises:
        click.UsageError: the file cannot be read, its language is not known, or an option is wrong.
    """
    kind = _type_of(file, options["schema_type"])
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            content = stream.read(FILE_SIZE_MAX + 1)
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
    if len(content) > FILE_SIZE_MAX:
        raise click.UsageError(f"{file}: a schema may have {FILE_SIZE_MAX} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    properties = dict(_pair("--metadata", given, "NAME=VALUE") for given in options["metadata"])
    return Schema(
        text.removeprefix("\ufeff"),
        kind,
        tuple(map(_reference, options["references"])),
        Metadata(properties=properties) if properties else None,
    )


def _type_of(file: str, given: str | None) -> SchemaType:
    if given is not None:
        return SchemaType(given.upper())
    if file == "-":
        raise click.UsageError("a schema from standard input needs --type")
    kind = _TYPES.get(Path(file).suffix.lower())
    if kind is None:
        raise click.UsageError(f"{file}: the name does not say the language ({', '.join(_TYPES)}); give --type")
    return kind


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option} {text}: must be {form}")
    return name, value


def _reference(text: str) -> SchemaReference:
    form = "NAME=SUBJECT:VERSION"
    name, place = _pair("--reference", text, form)
    subject, colon, version = place.rpartition(":")
    if not colon or not subject or not (version.isdigit() and int(version) > 0):
        raise click.UsageError(f"--reference {text}: must be {form}, with a version from 1")
    return SchemaReference(name, subject, int(version))


def pretty(schema: Schema) -> str:
    """Return a schema's text as people read it: JSON indented, other languages as they are; ends with a newline."""
    text = schema.text
    if schema.schema_type is not SchemaType.PROTOBUF:
        with contextlib.suppress(ValueError, RecursionError):  # no JSON: shown as it is
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text if text.endswith("\n") else text + "\n"
