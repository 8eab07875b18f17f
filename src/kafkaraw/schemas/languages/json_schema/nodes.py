"""The types of a JSON schema as objects: what a schema's keywords mean, in the form in which versions are compared.

The form is the one of Everit's library, whose rules Confluent's registry compares by: keywords of one kind of value
(arrays, numbers, objects, strings) are one node of that kind, and a schema with several of them is a combination
(`allOf`) of their nodes. `loading` makes them. Must not do I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

MERGED_KINDS: Final = frozenset(("array", "number", "object", "string"))
EMPTY_KINDS: Final = frozenset(("empty", "true"))


class Node:
    """A schema inside a JSON schema.

    Attributes:
        kind: array, number, object, string, boolean, null, enum, const, not, combined, conditional, true, false, empty
            or reference.
        values: what the keywords of this kind say, by keyword.
        criterion: of a combination: allOf, anyOf or oneOf.
        parts: of a combination.
        generated: whether the combination is one only because its keywords are of several kinds.
        source: digest of the text that the node comes from; equal texts have equal digests.
        is_closed: whether nothing inside refers to another part of the schema, so that equal sources mean the same.
        about: title, description, $id and default, if they are there.
    """

    __slots__ = (
        "_property_keys",
        "_target",
        "about",
        "criterion",
        "generated",
        "is_closed",
        "kind",
        "parts",
        "source",
        "values",
    )

    def __init__(self, kind: str, values: dict[str, Any] | None = None) -> None:
        self.kind: str = kind
        self.values: dict[str, Any] = {} if values is None else values
        self.criterion: str = ""
        self.parts: list[Node] = []
        self.generated: bool = False
        self.source: bytes = b""
        self.is_closed: bool = False
        self.about: dict[str, Any] = {}
        self._target: Callable[[], Node] | None = None
        self._property_keys: tuple[frozenset[tuple[str, object]], frozenset[str]] | None = None

    @property
    def has_default(self) -> bool:
        """Whether the schema has a default."""
        return "default" in self.about

    def refer_to(self, target: Callable[[], Node]) -> None:
        """Make the node a reference. The function returns the schema that it refers to."""
        self._target = target

    def followed(self) -> Node:
        """Return the schema that a reference refers to, and any other schema itself."""
        return self if self._target is None else self._target()

    @property
    def identity(self) -> tuple[str, Any, bytes]:
        """Equal for closed schemas that mean the same."""
        return self.kind, self.values.get("integer"), self.source

    @property
    def property_keys(self) -> tuple[frozenset[tuple[str, object]], frozenset[str]]:
        """Names and identities of the closed properties of an object, and the names of the others."""
        if self._property_keys is None:
            properties: dict[str, Node] = self.values.get("properties", {})
            closed = frozenset((name, one.identity) for name, one in properties.items() if one.is_closed)
            self._property_keys = closed, frozenset(name for name, one in properties.items() if not one.is_closed)
        return self._property_keys

    def nodes_inside(self) -> list[Node]:
        """Return the schemas directly inside this one; those behind references are not inside."""
        found = list(self.parts)
        for value in self.values.values():
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, Node)]
            elif isinstance(value, dict):
                found += [item for item in value.values() if isinstance(item, Node)]
        return found


def combination(criterion: str, parts: list[Node], *, generated: bool = False) -> Node:
    """Return a combination; combinations inside come first, as in Everit's library."""
    node = Node("combined")
    node.criterion = criterion
    node.parts = sorted(parts, key=lambda part: part.kind != "combined")
    node.generated = generated
    return node
