"""`Validator`: checks objects against a JSON schema with jsonschema-rs, offline and with bounded patterns."""

from __future__ import annotations

from typing import Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.schemas.languages import ParsedSchema

BACKTRACKS_MAX: Final = 100_000
"""Steps back that a pattern may take for one text."""


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
        documents = dict(getattr(parsed, "documents", {}))
        self._validator = jsonschema_rs.validator_for(
            native,
            validate_formats=False,
            retriever=_refuse_to_fetch,
            registry=jsonschema_rs.Registry(list(documents.items())) if documents else None,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX),
        )
        self._is_valid = self._validator.is_valid

    def check(self, value: Any) -> None:
        """Check an object.

        Raises:
            InvalidObjectError: it does not fit; says where and why.
        """
        try:
            self._validator.validate(value)
        except self._error as error:
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            text = error.message if len(error.message) <= 300 else error.message[:297] + "..."
            raise InvalidObjectError(f"{where.lstrip('.') or 'the object'}: {text}") from None


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri}, which is none of its references; nothing is fetched from elsewhere")
