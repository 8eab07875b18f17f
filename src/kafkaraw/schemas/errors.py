"""Exceptions of schemas and registries, split by what the caller can do about them.

    KafkaError
    +-- RegistryError                  the registry refused a request; has `status`, `error_code` and `url`
    |   +-- SubjectNotFoundError       register a schema first, or fix the subject's name
    |   +-- VersionNotFoundError       the subject has no such version
    |   +-- SchemaNotFoundError        no schema with this id, GUID or text
    |   +-- IncompatibleSchemaError    the compatibility level forbids the schema; `messages` has the rules and paths
    |   +-- InvalidSchemaError         the registry cannot parse the schema
    |   +-- RegistryAuthenticationError  the credentials are wrong or missing (also an AuthenticationError)
    |   +-- RegistryAuthorizationError the user may not do this
    |   +-- NotARegistryError          the URL answers, but not as a schema registry does
    |   +-- RegistryUnavailableError   cannot be reached, or has no answer now (also a RetriableError)
    |       +-- RegistryTimeoutError   ... before the deadline of the call (also a KafkaTimeoutError)
    +-- SchemaReferenceError           references in a circle, too deep, or too many
    +-- SchemaParseError               the text of a schema is wrong, or exceeds a limit; says where
    +-- FramingError                   bytes or headers carry no schema id; says what they look like

Like those of `kafkaraw.errors`, a message says what failed, where, with which value, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kafkaraw.errors import AuthenticationError, KafkaError, KafkaTimeoutError, RetriableError


class RegistryError(KafkaError):
    """The registry refused a request, or could not be asked.

    Args:
        message: what failed, where, and what to do.
        status: HTTP status of the answer; None without an answer.
        error_code: the registry's own code, such as 40401; None if the answer has none.
        url: the request's URL, without credentials and query.
    """

    def __init__(
        self, message: str, *, status: int | None = None, error_code: int | None = None, url: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.url = url

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(type(self), status=self.status, error_code=self.error_code, url=self.url)
        return (make, (str(self),))


class SubjectNotFoundError(RegistryError):
    """The registry has no such subject (40401), or only deleted softly (40404)."""


class VersionNotFoundError(RegistryError):
    """The subject has no such version (40402), or only deleted softly (40406)."""


class SchemaNotFoundError(RegistryError):
    """The registry has no schema with this id, GUID or text (40403)."""


class IncompatibleSchemaError(RegistryError):
    """The compatibility level of the subject forbids the schema (HTTP status 409).

    Args:
        message: as for RegistryError.
        messages: the violated rules with their paths, as the registry sends them; empty if it sends none.
        status: as for RegistryError.
        error_code: as for RegistryError.
        url: as for RegistryError.
    """

    def __init__(
        self,
        message: str,
        *,
        messages: Sequence[str] = (),
        status: int | None = None,
        error_code: int | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(message, status=status, error_code=error_code, url=url)
        self.messages: tuple[str, ...] = tuple(messages)

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(type(self), messages=self.messages, status=self.status, error_code=self.error_code, url=self.url)
        return (make, (str(self),))


class InvalidSchemaError(RegistryError):
    """The registry cannot parse the schema, or does not accept its references or rules (42201, 42210)."""


class RegistryAuthenticationError(RegistryError, AuthenticationError):
    """The registry does not accept the credentials, or needs some (HTTP status 401)."""


class RegistryAuthorizationError(RegistryError):
    """The registry knows the user and does not allow this to them (HTTP status 403)."""


class NotARegistryError(RegistryError):
    """The URL answers, but not as a schema registry does: an HTML page, another API, a redirect to another host."""


class RegistryUnavailableError(RegistryError, RetriableError):
    """The registry cannot be reached, or has no answer at the moment (HTTP status 429 or 5xx)."""


class RegistryTimeoutError(RegistryUnavailableError, KafkaTimeoutError):
    """The registry did not answer before the deadline of the call."""


class SchemaReferenceError(KafkaError):
    """References of a schema form a circle, are nested too deep, or are too many."""


class SchemaParseError(KafkaError):
    """The text of a schema is wrong, or exceeds a limit that protects against hostile schemas.

    Args:
        message: what is wrong and what to do.
        path: the part of the schema, as in `fields[3].type`; empty when it is not about one part.
        line: line of the text, from 1; None when not known.
        column: column of the line, from 1; None when not known.
    """

    def __init__(self, message: str, *, path: str = "", line: int | None = None, column: int | None = None) -> None:
        where = path or ", ".join(f"{name} {at}" for name, at in (("line", line), ("column", column)) if at is not None)
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(type(self), path=self.path, line=self.line, column=self.column), (self.message,))


class FramingError(KafkaError):
    """Bytes carry no schema id in front, and the record no header with one. The message says what they look like."""
