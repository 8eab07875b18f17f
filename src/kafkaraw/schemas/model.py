"""The data of a schema registry: schemas, their references and versions, levels and modes.

Every part of `kafkaraw.schemas` uses these classes: the client, the languages, the serializers and the server. All are
frozen and hashable. `to_json` and `from_json` translate between them and the registry's JSON. Must not do I/O and must
not look into the text of a schema: that is the work of `schemas.languages`. Start at `Schema`.

Source: Confluent's REST API (`io.confluent.kafka.schemaregistry.client.rest.entities`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from kafkaraw.light_classes import dataclass, field


class SchemaType(StrEnum):
    """The language of a schema, in the registry's spelling."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class CompatibilityLevel(StrEnum):
    """What a new version of a subject must be compatible with.

    A subject without a level of its own has the global one.
    """

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Mode(StrEnum):
    """Which changes a registry, a context or a subject accepts."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise ValueError(f"{name} must be an object, not {_shown(value)}")


def _list(value: object, name: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise ValueError(f"{name} must be an array, not {_shown(value)}")


def _text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{name} must be a string, not {_shown(value)}")


def _integer(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be an integer, not {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """Another schema that a schema uses.

    Attributes:
        name: the name in the text: a full name in Avro, an import path in Protobuf, a URL in JSON Schema.
        subject: the subject with the other schema.
        version: its version; -1 means the latest one.
    """

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the registry's JSON object."""
        return {"name": self.name, "subject": self.subject, "version": self.version}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the registry's JSON object.

        Raises:
            ValueError: a field is missing or has the wrong type.
        """
        fields = _mapping(value, "a reference")
        return cls(
            _text(fields.get("name"), "name of a reference"),
            _text(fields.get("subject"), "subject of a reference"),
            _integer(fields.get("version"), "version of a reference"),
        )


@dataclass(frozen=True, slots=True)
class Metadata:
    """What an owner says about a schema: a data contract's tags and properties.

    Attributes:
        tags: path inside the schema (`**.ssn`) to the tags of what is there.
        properties: name to value; `latest_with_metadata` selects versions by them.
        sensitive: names of properties whose values the registry encrypts.
    """

    tags: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sensitive: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((frozenset(self.tags.items()), frozenset(self.properties.items()), self.sensitive))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self.tags), dict(self.properties), self.sensitive))

    def to_json(self) -> dict[str, Any]:
        """Return the registry's JSON object."""
        fields: dict[str, Any] = {}
        if self.tags:
            fields["tags"] = {path: list(tags) for path, tags in self.tags.items()}
        if self.properties:
            fields["properties"] = dict(self.properties)
        if self.sensitive:
            fields["sensitive"] = list(self.sensitive)
        return fields

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the registry's JSON object.

        Raises:
            ValueError: a field has the wrong type.
        """
        fields = _mapping(value, "metadata")
        tags = _mapping(fields.get("tags") or {}, "metadata.tags")
        properties = _mapping(fields.get("properties") or {}, "metadata.properties")
        return cls(
            {path: tuple(_text(tag, "a tag") for tag in _list(found, "tags")) for path, found in tags.items()},
            {name: _text(found, "a property") for name, found in properties.items()},
            tuple(_text(name, "a sensitive property") for name in _list(fields.get("sensitive") or (), "sensitive")),
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a data contract, as the registry sends them. Nothing in this package executes rules.

    Attributes:
        migration_rules: how data of one version becomes data of another.
        domain_rules: conditions and transformations of values.
        encoding_rules: transformations of bytes, such as the encryption of a payload.
        enable_at: where the rules are executed: ALL, CLIENT, GATEWAY, SERVER or NONE; None if it is not said.
    """

    migration_rules: tuple[Mapping[str, Any], ...] = ()
    domain_rules: tuple[Mapping[str, Any], ...] = ()
    encoding_rules: tuple[Mapping[str, Any], ...] = ()
    enable_at: str | None = None

    def __bool__(self) -> bool:
        return bool(self.migration_rules or self.domain_rules or self.encoding_rules)

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def to_json(self) -> dict[str, Any]:
        """Return the registry's JSON object."""
        found = {
            "migrationRules": self.migration_rules,
            "domainRules": self.domain_rules,
            "encodingRules": self.encoding_rules,
        }
        fields: dict[str, Any] = {name: [dict(rule) for rule in rules] for name, rules in found.items() if rules}
        return fields if self.enable_at is None else fields | {"enableAt": self.enable_at}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the registry's JSON object.

        Raises:
            ValueError: a field has the wrong type.
        """
        fields = _mapping(value, "ruleSet")

        def rules(name: str) -> tuple[Mapping[str, Any], ...]:
            found = _list(fields.get(name) or (), name)
            return tuple(_rule(rule, f"a rule of {name}") for rule in found)

        enable_at = fields.get("enableAt")
        if enable_at is not None and enable_at not in _ENVIRONMENTS:
            raise ValueError(f"enableAt must be {', '.join(_ENVIRONMENTS)}, not {_shown(enable_at)}")
        return cls(rules("migrationRules"), rules("domainRules"), rules("encodingRules"), enable_at)


_ENVIRONMENTS = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")


def _rule(value: object, name: str) -> Mapping[str, Any]:
    """Read a rule; unknown fields are kept. Raises ValueError if a known one has the wrong type."""
    fields = _mapping(value, name)
    for field_name in _RULE_TEXTS:
        if fields.get(field_name) is not None:
            _text(fields[field_name], f"{field_name} of {name}")
    for tag in _list(fields.get("tags") or (), f"tags of {name}"):
        _text(tag, f"a tag of {name}")
    for parameter in _mapping(fields.get("params") or {}, f"params of {name}").values():
        _text(parameter, f"a parameter of {name}")
    if not isinstance(fields.get("disabled") or False, bool):
        raise ValueError(f"disabled of {name} must be true or false, not {_shown(fields['disabled'])}")
    return fields


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that may or may not be registered.

    Attributes:
        text: the schema in its language.
        schema_type: the language.
        references: the other schemas that the text uses.
        metadata: tags and properties; None without.
        rule_set: rules of the data contract; None without.
    """

    text: str
    schema_type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def __hash__(self) -> int:
        return hash(self.text)  # a str remembers its hash; schemas of one text and other references are rare

    def to_json(self) -> dict[str, Any]:
        """Return the fields that the registry's requests and answers have. Avro needs no `schemaType`."""
        fields: dict[str, Any] = {"schema": self.text}
        if self.schema_type is not SchemaType.AVRO:
            fields["schemaType"] = self.schema_type.value
        if self.references:
            fields["references"] = [reference.to_json() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = self.metadata.to_json()
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set.to_json()
        return fields

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read a schema out of a registry's request or answer. Other fields are ignored.

        Raises:
            ValueError: a field is missing or has the wrong type, or the language is none that this package knows.
        """
        fields = _mapping(value, "a schema")
        name = fields.get("schemaType") or SchemaType.AVRO.value
        if not isinstance(name, str) or name not in SchemaType.__members__:
            raise ValueError(f"schemaType must be {', '.join(SchemaType)}, not {_shown(name)}")
        metadata, rule_set = fields.get("metadata"), fields.get("ruleSet")
        return cls(
            _text(fields.get("schema"), "schema"),
            SchemaType(name),
            tuple(map(SchemaReference.from_json, _list(fields.get("references") or (), "references"))),
            None if metadata is None else Metadata.from_json(metadata),
            None if rule_set is None else RuleSet.from_json(rule_set),
        )


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema that the registry has.

    Attributes:
        subject: the subject of this version; None when the schema was asked for by its id and no subject is known.
        version: the version in the subject, from 1; None like `subject`.
        id: the number that framed bytes carry; unique in its context.
        guid: the identifier that header framing carries; None if the registry sends none (older than 8.0).
        schema: the schema.
        deleted: whether this version is deleted softly.
    """

    subject: str | None
    version: int | None
    id: int
    guid: str | None
    schema: Schema
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SchemaBundle:
    """A schema with everything that it references, so that a language can parse it without I/O.

    Attributes:
        schema: the schema.
        references: the name of each reference to its schema, with that schema's own references.
    """

    schema: Schema
    references: Mapping[str, SchemaBundle] = field(default_factory=lambda: MappingProxyType({}))

    def __hash__(self) -> int:
        return hash((self.schema, frozenset(self.references.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.schema, dict(self.references)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectConfig:
    """The configuration of a subject, a context or the whole registry; None where nothing is set.

    Attributes:
        compatibility: what a new version must be compatible with.
        normalize: normalize schemas when they are registered and looked up.
        alias: the subject that this name stands for.
        compatibility_group: name of the metadata property that separates versions into groups which need not be
            compatible with each other.
        default_metadata: metadata of schemas that have none.
        override_metadata: metadata that replaces that of schemas.
        default_rule_set: rules of schemas that have none.
        override_rule_set: rules that replace those of schemas.
    """

    compatibility: CompatibilityLevel | None = None
    normalize: bool | None = None
    alias: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the body of a change. Answers have the level as `compatibilityLevel`."""
        level = self.compatibility
        values: dict[str, Any] = {
            "compatibility": None if level is None else level.value,
            "normalize": self.normalize,
            "alias": self.alias,
            "compatibilityGroup": self.compatibility_group,
        }
        parts: dict[str, Metadata | RuleSet | None] = {
            "defaultMetadata": self.default_metadata,
            "overrideMetadata": self.override_metadata,
            "defaultRuleSet": self.default_rule_set,
            "overrideRuleSet": self.override_rule_set,
        }
        values |= {name: part.to_json() for name, part in parts.items() if part is not None}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read a request or an answer.

        Raises:
            ValueError: a field has the wrong type, or the level is unknown.
        """
        fields = _mapping(value, "a configuration")
        level = fields.get("compatibilityLevel") or fields.get("compatibility")
        if level is not None and (not isinstance(level, str) or level not in CompatibilityLevel.__members__):
            raise ValueError(f"compatibility must be {', '.join(CompatibilityLevel)}, not {_shown(level)}")

        def part(name: str, kind: Any) -> Any:  # noqa: ANN401 - Metadata or RuleSet
            found = fields.get(name)
            return None if found is None else kind.from_json(found)

        normalize = fields.get("normalize")
        if normalize is not None and not isinstance(normalize, bool):
            raise ValueError(f"normalize must be true or false, not {_shown(normalize)}")
        alias, group = fields.get("alias"), fields.get("compatibilityGroup")
        return cls(
            compatibility=None if level is None else CompatibilityLevel(level),
            normalize=normalize,
            alias=None if alias is None else _text(alias, "alias"),
            compatibility_group=None if group is None else _text(group, "compatibilityGroup"),
            default_metadata=part("defaultMetadata", Metadata),
            override_metadata=part("overrideMetadata", Metadata),
            default_rule_set=part("defaultRuleSet", RuleSet),
            override_rule_set=part("overrideRuleSet", RuleSet),
        )
