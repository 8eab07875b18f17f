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

    __slots__ = ("_target", "about", "criterion", "generated", "is_closed", "kind", "parts", "source", "values")

    def __init__(self, kind: str, values: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.values = {} if values is None else values
        self.criterion = ""
        self.parts: list[Node] = []
        self.generated = False
        self.source = b""
        self.is_closed = False
        self.about: dict[str, Any] = {}
        self._target: Callable[[], Node] | None = None

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
