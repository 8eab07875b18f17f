"""The configuration of confluent-kafka's serializers, as arguments of ours: `from_confluent(conf)`.

A dictionary that was written for its `AvroSerializer`, `JSONSerializer`, `ProtobufSerializer` or their deserializers
works: `AvroSerializer(registry, schema, **from_confluent(conf))`. Names without a counterpart are refused, because to
ignore one would change what is written. Start at `from_confluent`.

Source: confluent-kafka-python 2.16, the tables of its serializers.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.schemas.subjects import AssociatedName

_PLAIN: Final = {
    "auto.register.schemas": "auto_register",
    "normalize.schemas": "normalize",
    "use.schema.id": "use_schema_id",
    "use.latest.version": "use_latest_version",
    "use.latest.with.metadata": "use_latest_with_metadata",
    "validate": "validate",
    "skip.known.types": "skip_known_types",
}
_TYPES: Final = {
    "auto_register": bool,
    "normalize": bool,
    "use_schema_id": int,
    "use_latest_version": bool,
    "use_latest_with_metadata": dict,
    "validate": bool,
    "skip_known_types": bool,
}
_STRATEGIES: Final = {"TOPIC": "topic", "RECORD": "record", "TOPIC_RECORD": "topic-record"}
_ASSOCIATED: Final = "ASSOCIATED"
_CLUSTER_ID: Final = "subject.name.strategy.kafka.cluster.id"
_FALLBACK: Final = "subject.name.strategy.fallback.type"
_BY_FUNCTION: Final = {
    "topic_subject_name_strategy": "topic",
    "record_subject_name_strategy": "record",
    "topic_record_subject_name_strategy": "topic-record",
}
_ID_FUNCTIONS: Final = {"prefix_schema_id_serializer": "prefix", "header_schema_id_serializer": "header"}
_OTHERS: Final = (
    "subject.name.strategy",
    "subject.name.strategy.type",
    "subject.name.strategy.conf",
    "schema.id.serializer",
    "schema.id.deserializer",
    "validate.strict",
    "validate.strict.allow.default",
    "reference.subject.name.strategy",
    "use.deprecated.format",
    "validation.rules.execution",
    "validation.rules.fail.fast",
    "validation.rules.executor",
)


def from_confluent(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a serializer or a deserializer that a configuration of confluent-kafka stands for.

    Args:
        conf: names and values, such as `{"auto.register.schemas": False, "use.latest.version": True}`. None is as if
            the name were not there.

    Returns:
        named arguments for `AvroSerializer`, `JsonSchemaSerializer`, `ProtobufSerializer` or their deserializers.

    Raises:
        ConfigError: a name is unknown or has no counterpart, or a value does not fit.
    """
    made: dict[str, Any] = {}
    for name, value in conf.items():
        if name not in _PLAIN and name not in _OTHERS:
            near = difflib.get_close_matches(str(name), (*_PLAIN, *_OTHERS), n=1)
            raise ConfigError(
                f"{name!r} is no setting of confluent-kafka's serializers"
                + (f"; the nearest one is {near[0]!r}" if near else "")
            )
        if value is None:
            continue
        if name in _PLAIN:
            made[_PLAIN[name]] = _checked(name, value, _TYPES[_PLAIN[name]])
        elif name.startswith("subject.name.strategy"):
            _set_subject(made, conf, name)
        elif name in _SPECIAL:
            _SPECIAL[name](made, name, value)
    if made.get("use_latest_version") is False:
        del made["use_latest_version"]  # its default; a serializer with a schema would look as if it selected one
    return made


def _checked(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{name} must be of type {kind.__name__}, not {value!r}")
    return value


def _set_subject(made: dict[str, Any], conf: Mapping[str, Any], name: str) -> None:
    function = conf.get("subject.name.strategy")
    if function is not None:  # takes precedence, as there
        if not callable(function):
            raise ConfigError(f"subject.name.strategy must be a function, not {function!r}")
        made["subject"] = _BY_FUNCTION.get(getattr(function, "__name__", ""), function)
        return
    given = conf.get("subject.name.strategy.type")
    kind = _ASSOCIATED if given is None else _name_of(given)
    if kind == _ASSOCIATED:
        made["subject"] = _associated(conf.get("subject.name.strategy.conf"))
    elif kind in _STRATEGIES:
        made["subject"] = _STRATEGIES[kind]
    else:
        raise ConfigError(
            f"subject.name.strategy.type={kind}: use {', '.join(_STRATEGIES)} or {_ASSOCIATED}, or pass a function as "
            f"subject.name.strategy"
        )


def _name_of(given: Any) -> str:
    return str(getattr(given, "value", given)).upper()


def _associated(conf: Mapping[str, Any] | None) -> AssociatedName:
    conf = conf or {}
    unknown = set(conf) - {_CLUSTER_ID, _FALLBACK}
    if unknown:
        raise ConfigError(f"subject.name.strategy.conf has {_CLUSTER_ID} and {_FALLBACK}, not {min(unknown)!r}")
    name = _name_of(conf.get(_FALLBACK) or "TOPIC")
    if name not in (*_STRATEGIES, "NONE"):
        raise ConfigError(f"{_FALLBACK}={name}: use {', '.join(_STRATEGIES)} or NONE")
    fallback: Any = _STRATEGIES.get(name)
    return AssociatedName(str(conf.get(_CLUSTER_ID) or "-"), fallback)


def _set_framing(made: dict[str, Any], name: str, value: Any) -> None:
    found = _ID_FUNCTIONS.get(getattr(value, "__name__", ""))
    if found is None:
        raise ConfigError(f"{name}: kafkaraw has {' and '.join(_ID_FUNCTIONS)}, not {value!r}")
    made["framing"] = found


def _accept_reader(made: dict[str, Any], name: str, value: Any) -> None:
    if getattr(value, "__name__", "") not in ("dual_schema_id_deserializer", "prefix_schema_id_deserializer"):
        raise ConfigError(f"{name}: kafkaraw reads both framings; remove it instead of {value!r}")


def _set_strict(made: dict[str, Any], name: str, value: Any) -> None:
    if _checked(name, value, bool) and made.get("strict") is not True:
        made["strict"] = True if name == "validate.strict" else "allow-defaults"


def _refuse_if_set(made: dict[str, Any], name: str, value: Any) -> None:
    if value and str(getattr(value, "value", value)) != "DISABLED":
        raise ConfigError(f"{name}={value!r}: kafkaraw does not have this; remove it")


def _set_reference_subject(made: dict[str, Any], name: str, value: Any) -> None:
    if not callable(value):
        raise ConfigError(f"{name} must be a function, not {value!r}")
    if getattr(value, "__name__", "") != "reference_subject_name_strategy":
        made["reference_subject"] = lambda context, imported: value(context, _Named(imported))


class _Named:
    """What confluent-kafka passes for an imported file: something with a name."""

    def __init__(self, name: str) -> None:
        self.name = name


_SPECIAL: Final[dict[str, Callable[[dict[str, Any], str, Any], None]]] = {
    "schema.id.serializer": _set_framing,
    "schema.id.deserializer": _accept_reader,
    "validate.strict": _set_strict,
    "validate.strict.allow.default": _set_strict,
    "reference.subject.name.strategy": _set_reference_subject,
    "use.deprecated.format": _refuse_if_set,
    "validation.rules.execution": _refuse_if_set,
    "validation.rules.fail.fast": _refuse_if_set,
    "validation.rules.executor": _refuse_if_set,
}
