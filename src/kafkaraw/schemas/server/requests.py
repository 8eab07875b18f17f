"""What the requests of the REST API say: bodies as typed objects, checked. Pure.

Start at `SchemaRequest.from_json`. Source: Confluent's RegisterSchemaRequest, ConfigUpdateRequest,
ModeUpdateRequest, RuleSet.validate, Rule.validate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from kafkaraw.light_classes import dataclass, replace
from kafkaraw.schemas.languages.java_order import in_text_order
from kafkaraw.schemas.model import Metadata, RuleSet, Schema, SchemaReference, SchemaType
from kafkaraw.schemas.server.api_errors import (
    ApiError,
    invalid_level,
    invalid_mode,
    invalid_rule_set,
    invalid_schema,
    invalid_version,
)
from kafkaraw.schemas.server.records import CONFIG_FIELDS, ConfigValue, RegistryMode, config_field
from kafkaraw.schemas.server.state import LATEST

UNASSIGNED: Final = -1
_CONFIG_JSON_NAMES: Final = {**CONFIG_FIELDS, "compatibility_level": "compatibility"}
"""Requests and their answers call the level `compatibility`, and reading it `compatibilityLevel`."""
_VERSION_MAX: Final = 2**31 - 1
_CONFLUENT_VERSION: Final = "confluent:version"


def bad_request(message: str) -> ApiError:
    """The body is no JSON object, or a field has the wrong type."""
    return ApiError(400, 400, message)


def object_of(body: object) -> dict[str, Any]:
    """Return a body that is a JSON object.

    Raises:
        ApiError: it is none.
    """
    if body is None:
        raise ApiError(422, 422, "request may not be null")
    if not isinstance(body, dict):
        raise bad_request(f"the body must be a JSON object, not {type(body).__name__}")
    return body


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema that is to be registered, looked up or compared.

    Attributes:
        text: the schema; None or blank repeats that of the latest version.
        schema_type: the language's name, which may be unknown.
        references: the other schemas that it uses.
        metadata: tags and properties; None takes those of the latest version.
        rule_set: rules; None takes those of the latest version.
        version: the version to register it as; 0 for the next one, -1 for the latest one.
        id: the id to register it with, in an import; -1 for the next one.
    """

    text: str | None
    schema_type: str = SchemaType.AVRO.value
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    version: int = 0
    id: int = UNASSIGNED

    @property
    def is_empty(self) -> bool:
        """Whether it has no text of its own."""
        return self.text is None or not self.text.strip()

    @classmethod
    def from_json(cls, body: object) -> Self:
        """Read a request.

        Raises:
            ApiError: a field has the wrong type; or the rule set is not accepted.
        """
        fields = object_of(body)
        for name in ("schemaTagsToAdd", "schemaTagsToRemove"):
            if fields.get(name):
                raise invalid_schema(f"{name} is not supported by this registry: write the tags into the schema")
        try:
            found = fields.get("references") or ()
            if not isinstance(found, list | tuple):
                raise bad_request("references must be an array")
            metadata, rule_set = fields.get("metadata"), fields.get("ruleSet")
            request = cls(
                _text(fields, "schema"),
                _text(fields, "schemaType") or SchemaType.AVRO.value,
                tuple(map(SchemaReference.from_json, found)),
                None if metadata is None else ordered(Metadata.from_json(metadata)),
                None if rule_set is None else RuleSet.from_json(rule_set),
                _number(fields, "version", 0),
                _number(fields, "id", UNASSIGNED),
            )
            for reference in request.references:
                _number({"version of a reference": reference.version}, "version of a reference", LATEST)
        except ValueError as error:
            raise bad_request(str(error)) from error
        if request.rule_set is None:
            return request
        check_rule_set(request.rule_set)
        return replace(request, rule_set=ordered_rules(request.rule_set))

    def to_schema(self) -> Schema:
        """Return the schema.

        Raises:
            ApiError: the language is unknown, or the text is missing.
        """
        if self.schema_type not in SchemaType.__members__:
            raise invalid_schema(f"Invalid schema type {self.schema_type}")
        if self.is_empty or self.text is None:
            raise invalid_schema("Empty schema")
        return Schema(self.text, SchemaType(self.schema_type), self.references, self.metadata, self.rule_set)


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad_request(f"{name} must be a string, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise bad_request(f"{name} has half a surrogate pair at character {error.start}") from error
    return value


def _number(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= _VERSION_MAX:
        raise bad_request(f"{name} must be an integer of 32 bits, not {value!r}")
    return value


def version_of(text: str) -> int:
    """Return the version that a URL names; `LATEST` for "latest" and -1.

    Raises:
        ApiError: it is no version.
    """
    stripped = text.strip()
    if stripped.lower() == "latest":
        return LATEST
    sign = stripped[:1] if stripped[:1] in ("-", "+") else ""
    digits = stripped[len(sign) :]
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > len(str(_VERSION_MAX)):
        raise invalid_version(text)
    number = int(stripped)
    if number > _VERSION_MAX:
        raise invalid_version(text)
    if number <= 0 and number != LATEST:
        raise invalid_version(str(number))
    return number


# -- configurations and modes


def updated_config(old: ConfigValue | None, body: object) -> ConfigValue:
    """Return a configuration with the fields that a request has: a value sets a field, null resets it.

    Raises:
        ApiError: a field has the wrong type or value.
    """
    fields = object_of(body)
    changes: dict[str, Any] = {}
    for name, json_name in _CONFIG_JSON_NAMES.items():
        if json_name not in fields:
            continue
        try:
            changes[name] = config_field(name, fields[json_name])
        except ValueError as error:
            raise (invalid_level() if name == "compatibility_level" else bad_request(str(error))) from error
        if isinstance(changes[name], Metadata):
            changes[name] = ordered(changes[name])
        if isinstance(changes[name], RuleSet):
            check_rule_set(changes[name])
            changes[name] = ordered_rules(changes[name])
    policy = changes.get("compatibility_policy")
    if policy is not None:
        # Confluent's registry takes an unknown policy for none, too.
        changes["compatibility_policy"] = policy.upper() if policy.upper() in _POLICIES else None
    return replace(old or ConfigValue(), **changes)


def config_answer(config: ConfigValue) -> dict[str, Any]:
    """Return the answer to a change of a configuration."""
    fields = config.to_json()
    by_json_name = {CONFIG_FIELDS[name]: json_name for name, json_name in _CONFIG_JSON_NAMES.items()}
    return {by_json_name[name]: value for name, value in fields.items()}


def mode_of(body: object) -> RegistryMode | None:
    """Return the mode that a request sets; None resets it.

    Raises:
        ApiError: there is no such mode.
    """
    value = object_of(body).get("mode")
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad_request(f"mode must be a string, not {type(value).__name__}")
    if value.upper() not in RegistryMode.__members__:
        raise invalid_mode()
    return RegistryMode(value.upper())


# -- metadata and rules


def ordered(metadata: Metadata) -> Metadata:
    """Return metadata in the one order in which it is stored and hashed."""
    return Metadata(
        {path: tuple(in_text_order(set(metadata.tags[path]))) for path in in_text_order(metadata.tags)},
        {name: metadata.properties[name] for name in in_text_order(metadata.properties)},
        tuple(in_text_order(set(metadata.sensitive))),
    )


def ordered_rules(rule_set: RuleSet) -> RuleSet:
    """Return rules with Confluent's defaults and order of fields; fields that it does not know come last.

    A registry of Confluent's that takes the topic over fails at a rule without kind or mode.
    """
    return RuleSet(
        tuple(map(_ordered_rule, rule_set.migration_rules)),
        tuple(map(_ordered_rule, rule_set.domain_rules)),
        tuple(map(_ordered_rule, rule_set.encoding_rules)),
        rule_set.enable_at,
    )


def _ordered_rule(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {name: value for name, value in rule.items() if value not in (None, "", [], {})}
    tags, params = given.get("tags", ()), given.get("params", {})
    found = _RULE_DEFAULTS | given | {"tags": in_text_order(set(tags))}
    found["params"] = {name: params[name] for name in in_text_order(params)}
    names = [*_RULE_FIELDS, *(name for name in found if name not in _RULE_FIELDS)]
    return {name: found[name] for name in names if found.get(name) not in (None, [], {})}


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Return both together; where both name something, the new one counts."""
    if old is None or new is None:
        return old if new is None else new
    return ordered(
        Metadata(
            {**old.tags, **new.tags}, {**old.properties, **new.properties}, tuple({*old.sensitive, *new.sensitive})
        )
    )


def merged_rules(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """Return both together; a new rule replaces an old one of the same name."""
    if old is None or new is None:
        return old if new is None else new

    def merge(
        before: tuple[Mapping[str, Any], ...], after: tuple[Mapping[str, Any], ...]
    ) -> tuple[Mapping[str, Any], ...]:
        names = {rule.get("name") for rule in after}
        return (*(rule for rule in before if rule.get("name") not in names), *after)

    return RuleSet(
        merge(old.migration_rules, new.migration_rules),
        merge(old.domain_rules, new.domain_rules),
        merge(old.encoding_rules, new.encoding_rules),
        old.enable_at if new.enable_at is None else new.enable_at,
    )


def confluent_version(metadata: Metadata | None) -> str | None:
    """Return the version that metadata names."""
    return None if metadata is None else metadata.properties.get(_CONFLUENT_VERSION)


def with_confluent_version(metadata: Metadata | None, version: int) -> Metadata:
    """Return metadata that names a version."""
    base = metadata or Metadata()
    return ordered(Metadata(base.tags, {**base.properties, _CONFLUENT_VERSION: str(version)}, base.sensitive))


def without_confluent_version(metadata: Metadata | None) -> Metadata | None:
    """Return metadata that names no version."""
    if metadata is None:
        return None
    properties = {name: value for name, value in metadata.properties.items() if name != _CONFLUENT_VERSION}
    return Metadata(metadata.tags, properties, metadata.sensitive)


_NAME_MAX: Final = 256
_RULE_FIELDS: Final = (
    "name",
    "doc",
    "kind",
    "mode",
    "type",
    "tags",
    "params",
    "expr",
    "onSuccess",
    "onFailure",
    "disabled",
)
_KINDS: Final = ("TRANSFORM", "CONDITION")
_POLICIES: Final = ("LOGICAL", "STRICT", "LENIENT")
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_OTHER_MODES: Final = ("WRITE", "READ", "WRITEREAD")
_MODE: Final = "WRITEREAD"
"""The mode of rules that name none, of migration rules, too: Confluent's registry refuses those then."""
_RULE_DEFAULTS: Final = {"kind": "TRANSFORM", "mode": _MODE, "disabled": False}
_TWO_WAY_MODES: Final = ("UPDOWN", "WRITEREAD")


def check_rule_set(rule_set: RuleSet) -> None:
    """Check names, types and modes of rules, as Confluent's registry does.

    Raises:
        ApiError: a rule is wrong.
    """
    names: set[str] = set()
    for what, rules, modes in (
        ("Migration", rule_set.migration_rules, _MIGRATION_MODES),
        ("Domain", rule_set.domain_rules, _OTHER_MODES),
        ("Encoding", rule_set.encoding_rules, _OTHER_MODES),
    ):
        for rule in rules:
            name = rule.get("name")
            if name in names:
                raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
            _check_rule(rule)
            names.add(str(name))
            if (rule.get("mode") or _MODE) not in modes:
                raise invalid_rule_set(f"{what} rules can only be {', '.join(modes)}")
            if (rule.get("kind") or _KINDS[0]) not in _KINDS:
                raise bad_request(f"the kind of rule {name!r} must be {' or '.join(_KINDS)}, not {rule['kind']!r}")


def _check_rule(rule: Mapping[str, Any]) -> None:
    name = rule.get("name")
    if not isinstance(name, str):
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if len(name) > _NAME_MAX:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(character.isalnum() or character in "_-" for character in name[1:]):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")
    if rule.get("type") is None:
        raise invalid_rule_set("Missing rule type")
    if rule.get("mode") not in (None, *_TWO_WAY_MODES):
        for action in ("onSuccess", "onFailure"):
            if "," in str(rule.get(action) or ""):
                raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")
