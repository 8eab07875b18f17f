"""The texts that a JSON schema consists of: which draft it is of, and what a `$ref` refers to.

A `$ref` can name a part of the schema, a schema of the bundle, or a metaschema of JSON Schema, which are part of this
package's dependencies. Nothing else is looked up: a URL is never fetched. Must not do I/O. Start at `Documents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.limits import Json

if TYPE_CHECKING:
    from referencing import Registry
    from referencing._core import Resolver

DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": "draft-04",
    "http://json-schema.org/draft-06/schema": "draft-06",
    "http://json-schema.org/draft-07/schema": "draft-07",
    "http://json-schema.org/draft/2019-09/schema": "2019-09",
    "http://json-schema.org/draft/2020-12/schema": "2020-12",
}
_METASCHEMAS: Final = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
DEFAULT_DRAFT: Final = "draft-07"
MODERN_DRAFTS: Final = frozenset(("2019-09", "2020-12"))


def draft_of(schema: Json) -> str:
    """Return the draft that `$schema` names; draft 7 for schemas that name none, or one that is not known."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(name, str):
        return DEFAULT_DRAFT
    return DRAFTS.get(name.rstrip("#").replace("https://", "http://", 1), DEFAULT_DRAFT)


@cache
def _metaschemas() -> Registry[Any]:
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        raise SchemaParseError("JSON schemas need the package `jsonschema`; pip install 'kafkaraw[schemas]'") from None
    registry: Registry[Any] = REGISTRY
    return registry


class Documents:
    """A schema and the schemas that it references, by their URLs.

    Args:
        schema: the schema.
        references: the name and the schema of each reference.

    Raises:
        SchemaParseError: an `$id` or a reference's name is no URL.
    """

    def __init__(self, schema: Json, references: Sequence[tuple[str, Json]]) -> None:
        from referencing.jsonschema import specification_with

        registry = _metaschemas()
        root = specification_with(_METASCHEMAS[draft_of(schema)]).create_resource(with_definitions(schema))
        try:
            self.uri: str = root.id() or ""
            for name, reference in references:
                specification = specification_with(_METASCHEMAS[draft_of(reference)])
                other = specification.create_resource(with_definitions(reference))
                registry = registry.with_resources(
                    [(uri, other) for uri in {name, urljoin(self.uri, name), f"./{name}"} if uri]
                )
            self.registry: Registry[Any] = registry.with_resource(self.uri, root).crawl()
        except ValueError as error:
            raise SchemaParseError(f"the schema has an identifier that is no URL: {error}; fix $id") from None
        except (AttributeError, TypeError):
            raise SchemaParseError(
                "a keyword that holds schemas holds something else; in 2020-12 `items` is one schema, and "
                "`prefixItems` an array of schemas",
                path=_misplaced(schema, "#") or "#",
            ) from None
        self.root: Json = root.contents
        self._around: dict[str, str] = {}
        for uri, document in [(self.uri, schema), *references]:
            keyword = "id" if draft_of(document) == "draft-04" else "$id"
            self._around |= dict.fromkeys(_identifiers_inside(document, keyword, uri), uri)

    def resolver(self) -> Resolver[Any]:
        """Return what resolves a `$ref` of the schema's root."""
        return self.registry.resolver(self.uri)

    def around(self, resolver: Resolver[Any]) -> Resolver[Any] | None:
        """Return what resolves a `$ref` at the root of the text around a schema that has an `$id` of its own."""
        uri = self._around.get(resolver._base_uri)  # noqa: SLF001 - the URI has no other name
        return None if uri is None else self.registry.resolver(uri)


def _misplaced(schema: Json, path: str) -> str | None:
    """Return where a keyword has no schemas, as far as that is easily found."""
    waiting = [(schema, path)]
    while waiting:
        value, path = waiting.pop()
        if not isinstance(value, dict):
            continue
        for word in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
            inner = value.get(word, {})
            if not isinstance(inner, dict):
                return f"{path}/{word}"
            waiting += [(one, f"{path}/{word}/{name}") for name, one in inner.items()]
        for word in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
            if word in value and not isinstance(value[word], dict | bool):
                return f"{path}/{word}"
            waiting.append((value.get(word), f"{path}/{word}"))
    return None


def _identifiers_inside(document: Json, keyword: str, base: str) -> set[str]:
    """Return the URIs of the schemas inside a text that have an identifier of their own."""
    found: set[str] = set()
    waiting = [(document, base)]
    while waiting:
        value, uri = waiting.pop()
        if isinstance(value, dict):
            own = value.get(keyword)
            if value is not document and isinstance(own, str) and not own.startswith("#"):
                try:
                    uri = urljoin(uri, own)
                except ValueError:
                    continue
                found.add(uri)
            waiting += [(inner, uri) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, uri) for inner in value]
    return found


def with_definitions(schema: Json) -> Json:
    """Return the schema with its `definitions` in `$defs`, too: references may use either name, as in Confluent's."""
    if not isinstance(schema, dict):
        return schema
    old, new = schema.get("definitions"), schema.get("$defs", {})
    if not isinstance(old, dict) or not old or not isinstance(new, dict):
        return schema
    return {**schema, "$defs": {**old, **new}}


def looked_up(resolver: Resolver[Any], reference: str, path: str) -> tuple[Json, Resolver[Any]]:
    """Return what a `$ref` refers to, and the resolver for references inside it.

    Raises:
        SchemaParseError: it refers to nothing that is there.
    """
    from referencing.exceptions import Unresolvable

    try:
        found = resolver.lookup(reference)
    except (Unresolvable, ValueError, KeyError, TypeError, AttributeError):
        remote = reference.partition(":")[0].lower() in {"http", "https", "ftp", "file"}
        raise SchemaParseError(
            f"the $ref {reference[:200]!r} refers to nothing in the schema or its references; "
            + ("URLs are not fetched: register that schema and add a reference to it" if remote else "fix it"),
            path=path,
        ) from None
    return found.contents, found.resolver
