"""The records of the topic `_schemas`, in Confluent's format: keys and values are JSON objects. Pure.

Keys are written byte by byte as Confluent's registry writes them, because compaction compares bytes: field order
`keytype, subject, version, magic`, no spaces, UTF-8, absent instead of null. Values keep its field order, too. Start at
`encode` and `decode`. Source: Confluent's SchemaRegistrySerializer, SchemaKey, SchemaValue, ConfigKey,
ConfigValue, ModeKey, ModeValue, DeleteSubjectKey, ClearSubjectKey, ContextKey, NoopKey.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias

from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.model import CompatibilityLevel, Metadata, RuleSet, Schema

TENANT: Final = "default"
_SCHEMA_MAGIC, _OTHER_MAGIC = 1, 0
_READABLE_MAGIC: Final = frozenset({0, 1})
NUMBER_MAX: Final = 2**31 - 1
"""Of ids and versions: Java's int, and the four bytes of an id in front of a record."""


class RecordError(ValueError):
    """A record is none of a registry's, or is damaged; the message says where."""


class KeyType(StrEnum):
    """What a record is about: the field `keytype` of its key."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    NOOP = "NOOP"
    ASSOC = "ASSOC"


class RegistryMode(StrEnum):
    """Which changes a subject, a context or the registry accepts."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_import_or_forward(self) -> bool:
        """Whether schemas are copied from another registry, with their ids and without checks."""
        return self in (RegistryMode.IMPORT, RegistryMode.FORWARD)

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be registered or deleted."""
        return self in (RegistryMode.READONLY, RegistryMode.READONLY_OVERRIDE)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a record.

    Attributes:
        kind: what the record is about.
        subject: the subject; None for the global configuration or mode, and for NOOP and CONTEXT.
        version: the version, of SCHEMA only.
        context: the context's name, of CONTEXT, and of NOOP with a value.
    """

    kind: KeyType
    subject: str | None = None
    version: int | None = None
    context: str | None = None

    def __str__(self) -> str:
        """Return the key as Confluent's messages show a SCHEMA key."""
        magic = _SCHEMA_MAGIC if self.kind is KeyType.SCHEMA else _OTHER_MAGIC
        version = "" if self.version is None else f",version={self.version}"
        return f"{{magic={magic},keytype={self.kind},subject={self.subject}{version}}}"


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """One version of a subject: the value of a SCHEMA record.

    Attributes:
        subject: the subject, with its context.
        version: from 1.
        id: unique in the context.
        schema: the schema.
        deleted: whether the version is deleted softly.
        md5: the hash that some other registry has stored with it; None to compute it.
    """

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False
    md5: str | None = None

    @property
    def key(self) -> Key:
        """The key of the record."""
        return Key(KeyType.SCHEMA, self.subject, self.version)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The configuration of a subject, a context or the registry; None leaves a field to the next one.

    Attributes:
        alias: the subject that this name stands for.
        alias_for_deks: the same, for encryption keys; only kept.
        normalize: whether schemas are normalized before they are registered or looked up.
        validate_fields: whether reserved fields are checked.
        validate_new_schemas: whether new schemas are validated more strictly.
        validate_rules: only kept.
        compatibility_level: what a new version must be compatible with.
        compatibility_policy: STRICT or LENIENT; only kept.
        compatibility_group: a property of the metadata: only versions with the same value are compared.
        default_metadata: metadata that a schema gets where it has none of its own.
        override_metadata: metadata that replaces that of the schema.
        default_rule_set: rules that a schema gets in addition.
        override_rule_set: rules that replace those of the schema.
    """

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: CompatibilityLevel | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    @property
    def has_defaults_or_overrides(self) -> bool:
        """Whether it changes the metadata or the rules of a schema that is registered."""
        found = (self.default_metadata, self.override_metadata, self.default_rule_set, self.override_rule_set)
        return any(value is not None for value in found)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, under the registry's names."""
        fields: dict[str, Any] = {}
        for name, json_name in CONFIG_FIELDS.items():
            value = getattr(self, name)
            if value is None:
                continue
            fields[json_name] = value.to_json() if isinstance(value, Metadata | RuleSet) else value
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Read the registry's JSON object; unknown fields are ignored.

        Raises:
            ValueError: a field has the wrong type.
        """
        return cls(**{name: config_field(name, fields.get(json_name)) for name, json_name in CONFIG_FIELDS.items()})


CONFIG_FIELDS: Final = {
    "alias": "alias",
    "alias_for_deks": "aliasForDeks",
    "normalize": "normalize",
    "validate_fields": "validateFields",
    "validate_new_schemas": "validateNewSchemas",
    "validate_rules": "validateRules",
    "compatibility_level": "compatibilityLevel",
    "compatibility_policy": "compatibilityPolicy",
    "compatibility_group": "compatibilityGroup",
    "default_metadata": "defaultMetadata",
    "override_metadata": "overrideMetadata",
    "default_rule_set": "defaultRuleSet",
    "override_rule_set": "overrideRuleSet",
}
"""The registry's names of the fields of a configuration, in its order."""


def config_field(name: str, value: object) -> Any:  # noqa: ANN401 -- the types of the fields of ConfigValue
    """Return one field of a configuration from its JSON value.

    Raises:
        ValueError: it has the wrong type.
    """
    if value is None:
        return None
    if name == "compatibility_level":
        return CompatibilityLevel(str(value).upper())
    if name.endswith("_metadata"):
        return Metadata.from_json(value)
    if name.endswith("_rule_set"):
        return RuleSet.from_json(value)
    kind: type = bool if name in _BOOLEAN_FIELDS else str
    if not isinstance(value, kind):
        raise ValueError(f"{CONFIG_FIELDS[name]} must be a {kind.__name__}, not {value!r}")
    return value


_BOOLEAN_FIELDS: Final = frozenset({"normalize", "validate_fields", "validate_new_schemas", "validate_rules"})


@dataclass(frozen=True, slots=True)
class ModeValue:
    """The mode of a subject, a context or the registry."""

    mode: RegistryMode


@dataclass(frozen=True, slots=True)
class DeleteSubjectValue:
    """The soft deletion of a subject.

    Attributes:
        version: this version and all earlier ones are deleted.
    """

    version: int


@dataclass(frozen=True, slots=True)
class Marker:
    """The value of CLEAR_SUBJECT, CONTEXT and ASSOC records, which say nothing beyond their keys to this registry."""


@dataclass(frozen=True, slots=True)
class HighestId:
    """The highest id that a context has given: the value of a NOOP record whose key names the context.

    It remains when compaction has removed the schema with this id, so that the id is not given again. A registry of
    Confluent's reads the key as that of every NOOP record, and skips it.

    Attributes:
        id: the id.
    """

    id: int


Value: TypeAlias = SchemaValue | ConfigValue | ModeValue | DeleteSubjectValue | Marker | HighestId

NOOP: Final = Key(KeyType.NOOP)


@dataclass(frozen=True, slots=True)
class RegistryRecord:
    """A record of the topic; None as its value deletes what the key names."""

    key: Key
    value: Value | None


# -- writing


def encode_key(key: Key) -> bytes:
    """Return the bytes of a key, as Confluent's registry writes them."""
    fields: dict[str, object] = {"keytype": key.kind.value}
    if key.kind is KeyType.CONTEXT:
        fields |= {"tenant": TENANT, "context": key.context}
    elif key.context is not None:
        fields["context"] = key.context
    elif key.subject is not None:
        fields["subject"] = key.subject
    if key.version is not None:
        fields["version"] = key.version
    fields["magic"] = _SCHEMA_MAGIC if key.kind is KeyType.SCHEMA else _OTHER_MAGIC
    return _json(fields)


def encode_value(record: RegistryRecord) -> bytes | None:
    """Return the bytes of a record's value; None for a tombstone."""
    key, value = record.key, record.value
    if value is None:
        return None
    subject = {} if key.subject is None else {"subject": key.subject}
    if isinstance(value, SchemaValue):
        return _json(_schema_fields(value))
    if isinstance(value, ConfigValue):
        return _json(subject | value.to_json())
    if isinstance(value, ModeValue):
        return _json(subject | {"mode": value.mode.value})
    if isinstance(value, DeleteSubjectValue):
        return _json(subject | {"version": value.version})
    if isinstance(value, HighestId):
        return _json({"context": key.context, "maxId": value.id})
    return _json({"tenant": TENANT, "context": key.context} if key.kind is KeyType.CONTEXT else subject)


def _schema_fields(value: SchemaValue) -> dict[str, Any]:
    schema = value.schema
    fields: dict[str, Any] = {"subject": value.subject, "version": value.version, "id": value.id}
    if value.md5 is not None:
        fields["md5"] = value.md5
    fields["schemaType"] = schema.schema_type.value
    if schema.references:
        fields["references"] = [reference.to_json() for reference in schema.references]
    if schema.metadata is not None:
        fields["metadata"] = schema.metadata.to_json()
    if schema.rule_set is not None:
        fields["ruleSet"] = schema.rule_set.to_json()
    return fields | {"schema": schema.text, "deleted": value.deleted}


def _json(fields: dict[str, Any]) -> bytes:
    """Return JSON as Jackson writes it: characters beyond U+FFFF as two escapes, hexadecimal digits in upper case."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return _WRITTEN_OTHERWISE.sub(_as_jackson, text).encode("utf-8")


def _as_jackson(found: re.Match[str]) -> str:
    written = found[0]
    if written == "\\\\":
        return written
    if written[0] == "\\":
        return "\\u" + written[2:].upper()
    units = written.encode("utf-16-be").hex().upper()
    return f"\\u{units[:4]}\\u{units[4:]}"


_WRITTEN_OTHERWISE: Final = re.compile(r"\\\\|\\u00[01][0-9a-f]|[\U00010000-\U0010ffff]")
"""An escaped backslash, in order that what is behind it is no escape; control characters; and the others."""


# -- reading


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """Read a record.

    Raises:
        RecordError: it is none of a registry's, or is damaged.
    """
    parsed = decode_key(key)
    if value is None or parsed == NOOP:
        return RegistryRecord(parsed, None)
    fields = _object(value, "value")
    try:
        return RegistryRecord(parsed, _VALUES[parsed.kind](fields))
    except (ValueError, TypeError) as error:
        raise RecordError(f"the value of {encode_key(parsed).decode()} is damaged: {error}") from error


def decode_key(key: bytes | None) -> Key:
    """Read a key.

    Raises:
        RecordError: it is none of a registry's, or is damaged.
    """
    if key is None:
        raise RecordError("the record has no key")
    fields = _object(key, "key")
    kind = fields.get("keytype")
    if not isinstance(kind, str) or kind not in KeyType.__members__:
        raise RecordError(f"the keytype {kind!r} is unknown")
    kind = KeyType(kind)
    subject, version, context = fields.get("subject"), None, None
    if kind is KeyType.SCHEMA:
        version = _positive(fields.get("version"), "version")
        magic = fields.get("magic", 0)
        if not isinstance(magic, int) or magic not in _READABLE_MAGIC:
            raise RecordError(f"the magic byte {magic!r} of a SCHEMA key is unknown")
    if kind in (KeyType.SCHEMA, KeyType.DELETE_SUBJECT) and not isinstance(subject, str):
        raise RecordError(f"the {kind} key has no subject")
    if subject is not None and not isinstance(subject, str):
        raise RecordError(f"the subject {subject!r} of a {kind} key is no text")
    if kind is KeyType.NOOP:
        named = fields.get("context")
        return Key(kind, context=named if isinstance(named, str) else None)
    if kind is KeyType.CONTEXT:
        context = fields.get("context")
        if not isinstance(context, str):
            raise RecordError("the CONTEXT key has no context")
    return Key(kind, subject, version, context)


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the {what} is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise RecordError(f"the {what} is no JSON object")
    return parsed


def _positive(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= NUMBER_MAX:
        return value
    raise RecordError(f"{name} must be a number from 1 to 2^31-1, not {value!r}")


def _schema_value(fields: dict[str, Any]) -> SchemaValue:
    subject, md5 = fields.get("subject"), fields.get("md5")
    if not isinstance(subject, str):
        raise ValueError("it has no subject")
    if md5 is not None and not isinstance(md5, str):
        raise ValueError(f"md5 must be a string, not {md5!r}")
    number = fields.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"id must be a number from 0 to 2^31-1, not {number!r}")
    version = _positive(fields.get("version"), "version")
    deleted = fields.get("deleted") is True
    return SchemaValue(subject, version, number, Schema.from_json(fields), deleted, md5 or None)


_VALUES: Final[Mapping[KeyType, Callable[[dict[str, Any]], Value]]] = {
    KeyType.SCHEMA: _schema_value,
    KeyType.CONFIG: ConfigValue.from_json,
    KeyType.MODE: lambda fields: ModeValue(RegistryMode(str(fields.get("mode")))),
    KeyType.DELETE_SUBJECT: lambda fields: DeleteSubjectValue(_version_of(fields)),
    KeyType.CLEAR_SUBJECT: lambda fields: Marker(),
    KeyType.CONTEXT: lambda fields: Marker(),
    KeyType.ASSOC: lambda fields: Marker(),
    KeyType.NOOP: lambda fields: HighestId(_positive(fields.get("maxId"), "maxId")),
}


def _version_of(fields: dict[str, Any]) -> int:
    version = fields.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and 0 <= version <= NUMBER_MAX:
        return version
    raise ValueError(f"version must be a number from 0 to 2^31-1, not {version!r}")
