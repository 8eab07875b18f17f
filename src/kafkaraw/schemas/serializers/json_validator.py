"""`Validator`: checks objects against a JSON schema with jsonschema-rs, offline and with bounded patterns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

from kafkaraw.errors import ConfigError
from kafkaraw.schemas.languages import ParsedSchema

Written = TypeVar("Written", str | bytes, bytes)

DEPTH_MAX: Final = 1_024
"""Lists and objects within each other; jsonschema-rs recurses, and a deeper object could overflow its stack."""
BACKTRACKS_MAX: Final = 100_000
"""Steps back that a pattern may take for one text."""
_NO_BASE: Final = "json-schema:///"


class InvalidObjectError(Exception):
    """An object does not fit the schema; says where."""


class Validator:
    """Checks objects against a schema.

    Args:
        parsed: the schema, with its references.

    Raises:
        ConfigError: jsonschema-rs is not installed.
    """

    def __init__(self, parsed: ParsedSchema) -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise ConfigError("JSON Schema needs jsonschema-rs: pip install 'kafkaraw[schemas]'") from None
        native: Any = parsed.native
        self._error = jsonschema_rs.ValidationError
        base = native.get("$id", native.get("id", "")) if isinstance(native, dict) else ""
        documents: dict[str, Any] = {}
        for name, bundle in getattr(parsed, "references", ()):
            document = json.loads(bundle.schema.text)
            documents |= dict.fromkeys((name, urljoin(str(base), name), f"{_NO_BASE}{name}"), document)
        self._validator = jsonschema_rs.validator_for(
            native,
            validate_formats=False,  # as in confluent-kafka: `format` only describes
            retriever=partial(_referenced, documents),
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX),
        )
        self._is_valid = self._validator.is_valid

    def check(self, value: Any) -> None:
        """Check an object of any depth.

        Raises:
            InvalidObjectError: it does not fit, is nested too deep, or contains itself; says where and why.
        """
        check_depth(value)
        self.check_shallow(value)

    def check_shallow(self, value: Any) -> None:
        """Check an object that is known to be nested at most `DEPTH_MAX` deep, as what orjson reads or writes.

        Raises:
            InvalidObjectError: it does not fit; says where and why.
        """
        try:
            self._validator.validate(value)
        except self._error as error:
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            text = error.message if len(error.message) <= 300 else error.message[:297] + "..."
            raise InvalidObjectError(f"{where.lstrip('.') or 'the object'}: {text}") from None


def dump_valid(
    validator: Validator | None, value: Any, write: Callable[[Any], Written], *, bounds_depth: bool
) -> Written:
    """Check an object and write it as JSON.

    Args:
        validator: checks the object; None does not.
        value: the object.
        write: writes it.
        bounds_depth: whether `write` refuses deep objects with a TypeError, as orjson does; else they are counted.

    Raises:
        InvalidObjectError: it does not fit, is nested too deep, or contains itself; says where and why.
        TypeError, ValueError, RecursionError: it cannot be written.
    """
    if validator is None:
        return write(value)
    if not bounds_depth:
        validator.check(value)
        return write(value)
    try:
        made = write(value)
    except TypeError:
        validator.check(value)  # which says where
        raise
    validator.check_shallow(value)
    return made


def check_depth(value: Any) -> None:
    """Refuse an object that is nested too deep, or contains itself, without recursion.

    Raises:
        InvalidObjectError: it is nested more than `DEPTH_MAX` deep.
    """
    levels = [iter((value,))]
    while levels:
        for item in levels[-1]:
            if isinstance(item, dict):
                levels.append(iter(item.values()))
                break
            if isinstance(item, list | tuple):
                levels.append(iter(item))
                break
        else:
            levels.pop()
        if len(levels) > DEPTH_MAX + 1:
            raise InvalidObjectError(f"the object is nested more than {DEPTH_MAX} deep, or contains itself")


def _referenced(documents: Mapping[str, Any], uri: str) -> Any:
    if uri in documents:
        return documents[uri]
    raise ValueError(f"the schema refers to {uri}, which is none of its references; nothing is fetched from elsewhere")
