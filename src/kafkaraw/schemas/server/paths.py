"""URLs of the REST API: contexts in front of a path, aliases, and subjects with any character. Pure.

`/contexts/.staging/subjects/orders` is `/subjects/:.staging:orders`. Segments are decoded one by one, so a subject may
have a slash (`%2F`). Start at `RequestPath`. Source: Confluent's `ContextFilter` and `AliasFilter`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.server.names import ANY_CONTEXT, context_name_prefix

_CONTEXTS: Final = "contexts"
_ROOT_SETTINGS: Final = frozenset({"config", "mode"})
_SUBJECT_FOLLOWS: Final = frozenset({"subjects"})
_PREFIX_LISTS: Final = (["schemas"], ["subjects"])


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The path and the query of a request.

    Attributes:
        segments: of the path, decoded.
        query: names and values, decoded.
    """

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, path: str, query: str) -> Self:
        """Read a path and a query as they stand in the request."""
        segments = tuple(unquote(segment) for segment in path.strip("/").split("/")) if path.strip("/") else ()
        return cls(segments, tuple(parse_qsl(query, keep_blank_values=True)))

    @property
    def encoded_path(self) -> str:
        """The path with every segment encoded, so that each slash ends a segment."""
        return "/" + "/".join(quote(segment, safe="") for segment in self.segments)

    @property
    def encoded_query(self) -> str:
        """The query, encoded."""
        return urlencode(self.query)

    def in_context(self) -> RequestPath:
        """Return the path that a context in front of it means.

        Raises:
            ValueError: the context's name has a colon.
        """
        if len(self.segments) < 2 or self.segments[0] != _CONTEXTS:
            return self
        prefix, rest = context_name_prefix(self.segments[1]), self.segments[2:]
        if not rest:
            return RequestPath((_CONTEXTS, prefix) if prefix else (), self.query)
        segments = list(_with_subject(rest, lambda subject: _in_context(prefix, subject)))
        if len(rest) == 1 and rest[0] in _ROOT_SETTINGS and prefix:
            segments.append(prefix)
        return RequestPath(tuple(segments), self._query_in(prefix, segments))

    def _query_in(self, prefix: str, segments: Sequence[str]) -> tuple[tuple[str, str], ...]:
        if segments[:2] == ["schemas", "ids"]:
            name = "subject"
        elif list(segments) in _PREFIX_LISTS:
            name = "subjectPrefix"
        else:
            return self.query
        given = [value for key, value in self.query if key == name] or [""]
        rest = tuple((key, value) for key, value in self.query if key != name)
        return (*rest, *((name, _in_context(prefix, value)) for value in given))

    def with_aliases(self, alias_of: Callable[[str], str]) -> RequestPath:
        """Return the path with the subjects that names stand for."""
        segments = list(self.segments)
        for index in range(1, len(segments)):
            if segments[index - 1] in _SUBJECT_FOLLOWS and segments[index]:
                segments[index] = alias_of(segments[index])
                break
        query = self.query
        if segments[:2] == ["schemas", "ids"]:
            query = tuple((key, alias_of(value) if key == "subject" and value else value) for key, value in query)
        return RequestPath(tuple(segments), query)


def _with_subject(segments: Sequence[str], change: Callable[[str], str]) -> Sequence[str]:
    changed = list(segments)
    for index in range(1, len(segments)):
        before = segments[index - 1]
        if before in _SUBJECT_FOLLOWS or (index == 1 and before in _ROOT_SETTINGS):
            changed[index] = change(segments[index])
            break
    return changed


def _in_context(prefix: str, subject: str) -> str:
    return subject if subject.startswith((":.", ANY_CONTEXT)) else prefix + subject
