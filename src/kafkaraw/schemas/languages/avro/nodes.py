"""The types of an Avro schema as objects; a named type is one object, however often the schema uses it.

`reading` makes them and `AvroSchema` owns them; no code changes them after that. They can form circles (a record that
contains itself), so nothing here compares or hashes by content: `Node.key` does, where it is set.
"""

from __future__ import annotations

from typing import Any, Final

PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED: Final = frozenset(("record", "enum", "fixed"))


class Node:
    """A type.

    Attributes:
        kind: Avro's name of the type, `record` for errors, too.
        props: attributes that Avro does not know, and those of logical types, in their order.
        key: equal for types that are equal in everything that matters to readers; None for types that contain
            themselves and for types that cannot read what they wrote themselves.
    """

    __slots__ = ("key", "kind", "props")

    def __init__(self, kind: str, props: dict[str, Any] | None = None) -> None:
        self.kind: str = kind
        self.props: dict[str, Any] = props or {}
        self.key: bytes | None = None

    @property
    def type_name(self) -> str:
        """What tells the branches of a union apart."""
        return self.kind

    def children(self) -> list[Node]:
        """Return the types that this one consists of."""
        return []


class Named(Node):
    """A type with a name: record, enum or fixed."""

    __slots__ = ("aliases", "doc", "name", "space")

    def __init__(self, kind: str, name: str, space: str | None, doc: str | None) -> None:
        super().__init__(kind)
        self.name: str = name
        self.space: str | None = space
        self.doc: str | None = doc
        self.aliases: tuple[tuple[str, str | None], ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return self.name if self.space is None else f"{self.space}.{self.name}"

    @property
    def type_name(self) -> str:
        """What tells the branches of a union apart."""
        return self.full_name

    @property
    def alias_names(self) -> list[str]:
        """The aliases as Java's `getAliases` returns them: without a namespace they start with a dot."""
        return [
            f".{name}" if space is None and self.space is not None else name if space is None else f"{space}.{name}"
            for name, space in self.aliases
        ]


class Field:
    """A field of a record. `default` is meaningful if `has_default`."""

    __slots__ = ("aliases", "default", "doc", "has_default", "name", "order", "position", "props", "type")

    def __init__(self, name: str, type_: Node, doc: str | None, order: str) -> None:
        self.name: str = name
        self.type: Node = type_
        self.doc: str | None = doc
        self.order: str = order
        self.position: int = 0
        self.has_default: bool = False
        self.default: Any = None
        self.aliases: tuple[str, ...] = ()
        self.props: dict[str, Any] = {}


class Record(Named):
    """A record, or an error."""

    __slots__ = ("aliased", "by_name", "fields", "is_error")

    def __init__(self, name: str, space: str | None, doc: str | None, *, is_error: bool) -> None:
        super().__init__("record", name, space, doc)
        self.is_error: bool = is_error
        self.fields: tuple[Field, ...] = ()
        self.by_name: dict[str, Field] = {}
        self.aliased: tuple[Field, ...] = ()

    def children(self) -> list[Node]:
        """Return the types that this one consists of."""
        return [field.type for field in self.fields]


class Enum(Named):
    """An enum."""

    __slots__ = ("default", "symbols")

    def __init__(self, name: str, space: str | None, doc: str | None, symbols: tuple[str, ...]) -> None:
        super().__init__("enum", name, space, doc)
        self.symbols: tuple[str, ...] = symbols
        self.default: str | None = None


class Fixed(Named):
    """A fixed."""

    __slots__ = ("size",)

    def __init__(self, name: str, space: str | None, doc: str | None, size: int) -> None:
        super().__init__("fixed", name, space, doc)
        self.size: int = size


class Container(Node):
    """An array or a map."""

    __slots__ = ("items",)

    def __init__(self, kind: str, items: Node) -> None:
        super().__init__(kind)
        self.items: Node = items

    def children(self) -> list[Node]:
        """Return the types that this one consists of."""
        return [self.items]


class Union(Node):
    """A union."""

    __slots__ = ("branches",)

    def __init__(self, branches: list[Node]) -> None:
        super().__init__("union")
        self.branches: list[Node] = branches

    def children(self) -> list[Node]:
        """Return the types that this one consists of."""
        return self.branches


class Unresolved(Node):
    """A name that was used before its definition; `reading` replaces it when the text is read."""

    __slots__ = ("full_name", "path")

    def __init__(self, full_name: str, path: str) -> None:
        super().__init__("unresolved")
        self.full_name: str = full_name
        self.path: str = path

    @property
    def type_name(self) -> str:
        """What tells the branches of a union apart."""
        return self.full_name
