"""The options of typed columns: `value.format`, `key.format`, which schema, and `schema.registry.*`.

`value.format=avro` makes the column `value` a struct instead of bytes. The registry's settings have the names of Java's
serializers and of confluent-kafka (`schema.registry.url`, `schema.registry.basic.auth.user.info`). Pure: checks texts,
asks no registry. Start at `parse_schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options import texts
from kafkaraw.spark.options.client import Settings

REGISTRY_PREFIX: Final = "schema.registry."
_URL: Final = "schema.registry.url"
FORMATS: Final = ("avro", "protobuf", "json-schema")
COLUMNS: Final = ("key", "value")
LATEST: Final = "latest"
ERROR_SUFFIX: Final = "_error"
"""Of the columns with reasons: `value_error`."""
RAW_SUFFIX: Final = "_raw"
"""Of the columns with the bytes that typed columns were decoded from: value_raw and key_raw."""
JSON_COLUMN: Final = "json"
"""The column of JSON values that could be decoded while they were read; see `reading.json_values`."""
_ERRORS: Final = "decodeErrors"
_DEPTH: Final = "recursiveFieldMaxDepth"
_REGISTER: Final = "autoRegisterSchemas"
_IGNORE_RULES: Final = "ignoreSchemaRules"
_RAW: Final = "includeRaw"

# Per column: the option's name behind "key." or "value.".
_FORMAT: Final = "format"
_TEXT: Final = "schema"
_VERSION: Final = "schema.version"
_SUBJECT: Final = "schema.subject"
_MESSAGE: Final = "schema.message"

NAMES: Final = (
    *(f"{column}.{name}" for column in COLUMNS for name in (_FORMAT, _TEXT, _VERSION, _SUBJECT, _MESSAGE)),
    _ERRORS,
    _DEPTH,
    _REGISTER,
    _IGNORE_RULES,
    _RAW,
)
"""All names but those of the registry's settings."""


class DecodeErrors(StrEnum):
    """What happens to a record that cannot be decoded."""

    FAIL = "fail"
    """The query fails; the message has topic, partition and offset."""
    COLUMN = "column"
    """The column is null, and `value_error` or `key_error` has the reason."""
    DEAD_LETTER = "deadLetter"
    """The record goes to the topic `deadLetterTopic`, unchanged, with the reason in its headers, and has no row."""


class RegistrySettings(Settings):
    """Settings of a registry client as text. Its `repr` has names only: values may be secrets, the URL too."""

    def __repr__(self) -> str:
        return repr(dict.fromkeys(self, "[hidden]"))


@dataclass(frozen=True)
class ColumnSchema:
    """How one column is decoded or encoded.

    Attributes:
        name: "key" or "value".
        format: one of `FORMATS`.
        text: the schema itself; None to take it from the registry.
        version: which version of the subject; "latest" is the latest one when the DataFrame is made. None if not given:
            the source reads the latest one; the sink registers a schema if there is none.
        subject: the subject; None is that of the topic, `TOPIC-value` or `TOPIC-key`.
        message: of Protobuf: full name of the message; "" is the first one of the schema.
    """

    name: str
    format: str
    text: str | None = None
    version: int | str | None = None
    subject: str | None = None
    message: str = ""


@dataclass(frozen=True)
class SchemaOptions:
    """Which columns have a type, and where their schemas are.

    Attributes:
        columns: the columns with a format.
        registry: settings of the registry's client.
        errors: what happens to records that cannot be decoded.
        recursion_max: how often a record may contain itself.
        auto_register: whether the sink registers schemas, or only looks them up.
        ignore_rules: whether schemas with rules, such as encryption, are used without running these.
        include_raw: whether typed columns are there as bytes, too.
    """

    columns: tuple[ColumnSchema, ...]
    registry: RegistrySettings
    errors: DecodeErrors = DecodeErrors.FAIL
    recursion_max: int = 0
    auto_register: bool = True
    ignore_rules: bool = False
    include_raw: bool = False


def parse_schemas(given: Mapping[str, str], registry: Mapping[str, str]) -> SchemaOptions | None:
    """Check the options of typed columns; return None if no column has a format.

    Args:
        given: options in `NAMES`.
        registry: options that begin with `REGISTRY_PREFIX`.

    Raises:
        ConfigError: an option is wrong, or has no effect without another one.
    """
    columns = tuple(_column(name, given) for name in COLUMNS if f"{name}.{_FORMAT}" in given)
    if not columns:
        needless = sorted({*given, *registry})
        if needless:
            raise ConfigError(f"{', '.join(needless)} needs value.format or key.format, such as value.format=avro")
        return None
    without = sorted(name for name in given if name.startswith(("key.", "value.")) and _format_of(name) not in given)
    if without:
        raise ConfigError(f"{', '.join(without)} needs {', '.join(sorted({_format_of(name) for name in without}))}")
    if not registry.get(_URL, "").strip():
        raise ConfigError(f'the option {_URL} is missing: give "http://host:8081", the schemas are there')
    settings = RegistrySettings(registry)
    _check_registry(settings)
    depth = texts.count(_DEPTH, given.get(_DEPTH, "0"))
    register = texts.boolean(_REGISTER, given.get(_REGISTER, "true"))
    ignore = texts.boolean(_IGNORE_RULES, given.get(_IGNORE_RULES, "false"))
    raw = texts.boolean(_RAW, given.get(_RAW, "false"))
    return SchemaOptions(columns, settings, _errors(given), depth, register, ignore, raw)


def _format_of(name: str) -> str:
    return f"{name.partition('.')[0]}.{_FORMAT}"


def _column(name: str, given: Mapping[str, str]) -> ColumnSchema:
    def option(suffix: str) -> str | None:
        text = given.get(f"{name}.{suffix}")
        return None if text is None else texts.name_of(f"{name}.{suffix}", text)

    format_text = (option(_FORMAT) or "").lower()
    if format_text not in FORMATS:
        raise ConfigError(f"{name}.{_FORMAT}={format_text!r}: must be {', '.join(FORMATS)}")
    text, version = option(_TEXT), option(_VERSION)
    if text is not None and version is not None:
        raise ConfigError(f"{name}.{_TEXT} is a schema itself: leave out {name}.{_VERSION}")
    message = option(_MESSAGE) or ""
    if message and format_text != "protobuf":
        raise ConfigError(f"{name}.{_MESSAGE} is for {name}.{_FORMAT}=protobuf")
    return ColumnSchema(name, format_text, text, _version(f"{name}.{_VERSION}", version), option(_SUBJECT), message)


def _version(name: str, text: str | None) -> int | str | None:
    if text is None:
        return None
    if text.lower() == LATEST:
        return LATEST
    try:
        return texts.positive(name, text)
    except ConfigError:
        raise ConfigError(f'{name}={text!r}: must be a version of the subject, from 1, or "{LATEST}"') from None


def _errors(given: Mapping[str, str]) -> DecodeErrors:
    text = given.get(_ERRORS, DecodeErrors.FAIL).strip()
    found = {each.lower(): each for each in DecodeErrors}.get(text.lower())
    if found is None:
        raise ConfigError(f"{_ERRORS}={text!r}: must be {' or '.join(DecodeErrors)}")
    return found


def _check_registry(settings: RegistrySettings) -> None:
    from kafkaraw.schemas.registry_config import settings_from_config

    try:
        settings_from_config(settings)
    except ConfigError as error:
        raise ConfigError(f"the options {REGISTRY_PREFIX}*: {error}") from None


def check_decoding(schemas: SchemaOptions | None, dead_letter_topic: str | None, *, is_read: bool) -> None:
    """Check the rules that involve the dead-letter topic of a read.

    Args:
        schemas: the options of typed columns.
        dead_letter_topic: the topic.
        is_read: whether the read includes this topic.

    Raises:
        ConfigError: records that cannot be decoded have no topic to go to, or one that is read itself.
    """
    if schemas is None or schemas.errors is not DecodeErrors.DEAD_LETTER:
        return
    if dead_letter_topic is None:
        raise ConfigError(f"{_ERRORS}=deadLetter needs deadLetterTopic, the topic for records that cannot be decoded")
    if is_read:
        raise ConfigError(
            f"deadLetterTopic={dead_letter_topic} is one of the topics that are read: a stream would read its dead "
            "letters and send them again without an end; name another topic"
        )


def typed_names(schemas: SchemaOptions | None) -> frozenset[str]:
    """Return the names of columns whose types depend on schemas, those of the reasons and of the bytes among them."""
    if schemas is None:
        return frozenset()
    names = {each.name for each in schemas.columns}
    if schemas.errors is DecodeErrors.COLUMN:
        names |= {f"{each.name}{ERROR_SUFFIX}" for each in schemas.columns}
    if schemas.include_raw:
        names |= {f"{each.name}{RAW_SUFFIX}" for each in schemas.columns}
    return frozenset(names)
