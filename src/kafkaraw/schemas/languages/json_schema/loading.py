"""Make nodes out of a JSON schema: drafts 4, 6 and 7 as Everit's library reads them, 2019-09 and 2020-12 as json-sKema.

Confluent's registry reads schemas with these two libraries and compares what they made of them. The differences
matter: in the old drafts a `$ref` hides all keywords beside it, and the keywords of a kind are a part of a combination.
Must not do I/O. Start at `Loader.load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.json_schema.documents import DEFAULT_DRAFT, MODERN_DRAFTS, Documents, looked_up
from kafkaraw.schemas.languages.json_schema.nodes import MERGED_KINDS, Node, combination
from kafkaraw.schemas.languages.limits import Json, json_string, json_text

if TYPE_CHECKING:
    from referencing._core import Resolver

_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_INTEGER, _NUMBER, _STRING, _BOOLEAN, _STRINGS = (
    "an integer of 0 or more",
    "a number",
    "a string",
    "a boolean",
    "strings",
)
_SCHEMA, _SCHEMAS, _LIST, _ANY = "a schema", "an object of schemas", "an array of schemas", "anything"

# What the value of each keyword must be, by the kind of values that the keyword is about.
_KEYWORDS: Final = {
    "array": {
        "items": "a schema or an array of schemas",
        "additionalItems": _SCHEMA,
        "minItems": _INTEGER,
        "maxItems": _INTEGER,
        "uniqueItems": _BOOLEAN,
        "contains": _SCHEMA,
    },
    "object": {
        "properties": _SCHEMAS,
        "required": _STRINGS,
        "minProperties": _INTEGER,
        "maxProperties": _INTEGER,
        "dependencies": "an object of schemas or arrays",
        "patternProperties": _SCHEMAS,
        "additionalProperties": _SCHEMA,
        "propertyNames": _SCHEMA,
    },
    "number": {
        "minimum": _NUMBER,
        "maximum": _NUMBER,
        "exclusiveMinimum": _NUMBER,
        "exclusiveMaximum": _NUMBER,
        "multipleOf": _NUMBER,
    },
    "string": {"minLength": _INTEGER, "maxLength": _INTEGER, "pattern": _STRING, "format": _STRING},
}
_MODERN_KEYWORDS: Final = {
    "array": _KEYWORDS["array"]
    | {"prefixItems": _LIST, "minContains": _INTEGER, "maxContains": _INTEGER, "unevaluatedItems": _SCHEMA},
    "object": _KEYWORDS["object"]
    | {"dependentRequired": "an object of arrays", "dependentSchemas": _SCHEMAS, "unevaluatedProperties": _SCHEMA},
    "number": _KEYWORDS["number"],
    "string": _KEYWORDS["string"],
}
_SINCE_DRAFT_6: Final = frozenset(("contains", "propertyNames", "const"))
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
"""A dynamic reference is compared as what it refers to in its own schema, without the schemas around it."""
_COUNTS: Final = ("minContains", "maxContains")
_CONDITION: Final = ("if", "then", "else")
_REFERENCES_FOLLOWED_MAX: Final = 100


def digests(value: Json) -> dict[int, tuple[bytes, bool]]:
    """Return a digest of every object and array in a text, by `id()`, and whether it has no references inside."""
    found: dict[int, tuple[bytes, bool]] = {}
    _digest(value, found)
    return found


def _digest(value: Json, found: dict[int, tuple[bytes, bool]]) -> tuple[bytes, bool]:
    if isinstance(value, dict):
        inside = [
            (json_string(key).encode("utf-8", "surrogatepass"), _digest(value[key], found)) for key in sorted(value)
        ]
        closed = value.keys().isdisjoint(_REFERENCES) and all(is_closed for _, (_, is_closed) in inside)
        text = b"{" + b",".join(key + digest for key, (digest, _) in inside)
    elif isinstance(value, list):
        items = [_digest(item, found) for item in value]
        closed = all(is_closed for _, is_closed in items)
        text = b"[" + b",".join(digest for digest, _ in items)
    else:
        return json_text(value).encode("utf-8", "surrogatepass"), True
    result = found[id(value)] = blake2b(text, digest_size=16).digest(), closed
    return result


class Loader:
    """Makes the nodes of one schema. A part of the text that is referred to twice becomes one node.

    Args:
        documents: the schema and its references.
        draft: the schema's draft.
    """

    def __init__(self, documents: Documents, draft: str) -> None:
        self._documents = documents
        self._resolver = documents.resolver()
        self._root = documents.root
        self._modern = draft in MODERN_DRAFTS
        self._prefix_items = draft == "2020-12"
        self._draft_4 = draft == "draft-04"
        self._conditions = draft not in {"draft-04", "draft-06"}
        self._keywords = _MODERN_KEYWORDS if self._modern else _KEYWORDS
        self._referred: dict[int, Node] = {}
        self._contents: list[Json] = []
        self._pending: list[tuple[Node, str, Resolver[Any], str]] = []
        self._digests = digests(documents.root)
        self.patterns: set[str] = set()

    def load(self) -> Node:
        """Return the root's node; every reference in it, and behind it, is resolved.

        Raises:
            SchemaParseError: a keyword has a wrong value, or a reference refers to nothing.
        """
        root = self._referred_node(self._root, self._resolver, "#")
        while self._pending:
            node, reference, resolver, path = self._pending.pop()
            contents, inner = self._looked_up(resolver, reference, path)
            target = self._referred_node(contents, inner, reference)
            if target is node:
                raise SchemaParseError(
                    "a $ref refers to itself; let it refer to a schema with other keywords", path=path
                )
            node.refer_to(lambda target=target: target)  # type: ignore[misc]
        self._check_references(root)
        return root

    def _looked_up(self, resolver: Resolver[Any], reference: str, path: str) -> tuple[Json, Resolver[Any]]:
        """Return what a `$ref` refers to; in the old drafts `#/...` may be a part of the text around an `$id`."""
        try:
            return looked_up(resolver, reference, path)
        except SchemaParseError:
            around = None if self._modern or not reference.startswith("#/") else self._documents.around(resolver)
            if around is None:
                raise
            return looked_up(around, reference, path)

    def _referred_node(self, contents: Json, resolver: Resolver[Any], path: str) -> Node:
        if not isinstance(contents, dict | bool):
            raise SchemaParseError(f"a schema must be an object or a boolean, not {_shown(contents)}", path=path)
        if isinstance(contents, bool):
            return self._node(contents, resolver, path)
        node = self._referred.get(id(contents))
        if node is None:
            if id(contents) not in self._digests:
                self._digests |= digests(contents)
            self._contents.append(contents)  # keeps the object, and with it its id
            # The node must be known before its inside is read: it may refer to itself.
            node = self._referred[id(contents)] = Node("reference")
            made = self._node(contents, resolver, path)
            for name in Node.__slots__:
                setattr(node, name, getattr(made, name))
            for index, (waiting, *rest) in enumerate(self._pending):
                if waiting is made:
                    self._pending[index] = (node, *rest)  # type: ignore[assignment]
        return node

    def _check_references(self, root: Node) -> None:
        """Shorten references to references, and refuse circles that consist of references alone."""
        waiting, seen = [root], {id(root)}
        while waiting:
            node = waiting.pop()
            target = node.followed()
            if target is not node:
                for _ in range(_REFERENCES_FOLLOWED_MAX):
                    following = target.followed()
                    if following is target:
                        break
                    target = following
                else:
                    raise SchemaParseError(
                        f"a $ref refers to itself, or through more than {_REFERENCES_FOLLOWED_MAX} others; "
                        "let it refer to a schema with other keywords"
                    )
                node.refer_to(lambda target=target: target)  # type: ignore[misc]
            for inner in (*([] if target is node else [target]), *node.nodes_inside()):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    waiting.append(inner)

    def _node(self, schema: Json, resolver: Resolver[Any], path: str) -> Node:
        if isinstance(schema, bool):
            node = Node("true" if schema else "false")
            node.source, node.is_closed = str(schema).encode(), True
            return node
        if not isinstance(schema, dict):
            raise SchemaParseError(f"a schema must be an object or a boolean, not {_shown(schema)}", path=path)
        resolver = self._inner_resolver(schema, resolver, path)
        parts = list(
            self._modern_parts(schema, resolver, path) if self._modern else self._parts(schema, resolver, path)
        )
        if self._modern:
            parts = _joined(parts)
        node = (
            Node("empty") if not parts else parts[0] if len(parts) == 1 else combination("allOf", parts, generated=True)
        )
        node.about = {
            name: schema[name] for name in ("$id", "title", "description", "default", "connect.type") if name in schema
        }
        source, closed = self._digests[id(schema)]
        for one in (node, *node.parts):
            one.source, one.is_closed = one.source or source, closed
        return node

    def _inner_resolver(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Resolver[Any]:
        identifier = schema.get("id" if self._draft_4 else "$id")
        if schema is self._root or not isinstance(identifier, str) or identifier.startswith("#"):
            return resolver
        try:
            return looked_up(resolver, identifier, path)[1]
        except SchemaParseError:
            return resolver  # the keyword is inside an example or something else that is no schema

    # Drafts 4, 6 and 7.

    def _parts(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Iterator[Node]:
        if "$ref" in schema:
            yield self._reference(schema["$ref"], resolver, path)
            return
        yield from self._combined_parts(schema, resolver, path)
        read: set[str] = set()
        if "type" in schema:
            yield self._typed(schema, resolver, path)
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            read = {"number" if type_ == "integer" else type_ for type_ in types}
        for kind, keywords in self._keywords.items():
            if kind in read:
                continue
            if any(word in schema and not (self._draft_4 and word in _SINCE_DRAFT_6) for word in keywords):
                yield self._of_kind(kind, schema, resolver, path)
        if self._conditions and not schema.keys().isdisjoint(_CONDITION):
            yield self._conditional(schema, resolver, path)

    def _combined_parts(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Iterator[Node]:
        if "enum" in schema:
            yield _enum(schema["enum"], path)
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in schema:
                yield self._combination(criterion, schema[criterion], resolver, path)
        if "not" in schema:
            yield Node("not", {"not": self._node(schema["not"], resolver, f"{path}/not")})
        if "const" in schema and not self._draft_4:
            yield Node("const", {"const": json_text(_sorted(schema["const"]))})

    def _conditional(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Node:
        words = [word for word in _CONDITION if word in schema]
        return Node("conditional", {word: self._node(schema[word], resolver, f"{path}/{word}") for word in words})

    def _combination(self, criterion: str, value: Json, resolver: Resolver[Any], path: str) -> Node:
        _require(isinstance(value, list) and bool(value), criterion, "an array of at least one schema", value, path)
        parts = [self._node(one, resolver, f"{path}/{criterion}/{index}") for index, one in enumerate(value)]
        return combination(criterion, parts)

    def _reference(self, value: Json, resolver: Resolver[Any], path: str) -> Node:
        _require(isinstance(value, str), "$ref", "a string", value, path)
        node = Node("reference")
        self._pending.append((node, value, resolver, path))
        return node

    def _typed(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Node:
        type_ = schema["type"]
        if isinstance(type_, list):
            parts = [self._of_type(one, schema, resolver, path) for one in type_]
            for part in parts:
                part.source = part.kind.encode() + self._digests[id(schema)][0]
            return combination("anyOf", parts)
        return self._of_type(type_, schema, resolver, path)

    def _of_type(self, type_: Json, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Node:
        _require(type_ in _TYPES, "type", f"one of {', '.join(_TYPES)}", type_, path)
        if type_ in {"boolean", "null"}:
            return Node(type_)
        node = self._of_kind("number" if type_ == "integer" else type_, schema, resolver, path)
        if type_ == "integer":
            node.values["integer"] = True
        return node

    def _of_kind(self, kind: str, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Node:
        node = Node(kind)
        for word in self._keywords[kind]:
            if word in schema and not (self._draft_4 and word in _SINCE_DRAFT_6):
                self._read_keyword(node, word, schema, resolver, path)
        if kind == "array":
            for word in _COUNTS:  # these drafts do not know them; Confluent compares them anyway
                if isinstance(schema.get(word), int):
                    node.values[word] = schema[word]
        return node

    def _read_keyword(self, node: Node, word: str, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> None:
        value = schema[word]
        below = f"{path}/{word}"
        form = self._keywords[node.kind][word]
        if self._draft_4 and word in {"exclusiveMinimum", "exclusiveMaximum"} and isinstance(value, bool):
            return
        if form in {_INTEGER, _NUMBER, _BOOLEAN, _STRING, _STRINGS}:
            _check_simple(word, form, value, path)
            if word == "pattern":
                self.patterns.add(value)
            node.values[word] = value
        elif form == _SCHEMA:
            self._read_schema(node, word, value, resolver, below)
        elif form == _SCHEMAS:
            _require(isinstance(value, dict), word, form, value, path)
            if word == "patternProperties":
                self.patterns.update(value)
            name = "schemaDependencies" if word == "dependentSchemas" else word
            node.values.setdefault(name, {}).update(
                {name: self._node(one, resolver, f"{below}/{name}") for name, one in value.items()}
            )
        elif word in {"dependencies", "dependentRequired"}:
            _require(isinstance(value, dict), word, form, value, path)
            self._read_dependencies(node, value, resolver, below)
        else:
            self._read_items(node, word, value, resolver, below)

    def _read_schema(self, node: Node, word: str, value: Json, resolver: Resolver[Any], path: str) -> None:
        if isinstance(value, bool) and word in {"additionalItems", "additionalProperties"}:
            if not value:
                node.values[word] = False
            return
        node.values[f"{word}Schema"] = self._node(value, resolver, path)

    def _read_dependencies(self, node: Node, value: dict[str, Any], resolver: Resolver[Any], path: str) -> None:
        for name, one in value.items():
            if isinstance(one, list):
                node.values.setdefault("propertyDependencies", {})[name] = frozenset(map(str, one))
            else:
                found = self._node(one, resolver, f"{path}/{name}")
                node.values.setdefault("schemaDependencies", {})[name] = found

    def _read_items(self, node: Node, word: str, value: Json, resolver: Resolver[Any], path: str) -> None:
        if isinstance(value, list):
            node.values["prefix"] = [self._node(one, resolver, f"{path}/{index}") for index, one in enumerate(value)]
            return
        _require(word != "prefixItems", word, _LIST, value, path)
        node.values["items"] = self._node(value, resolver, path)

    # 2019-09 and 2020-12: every keyword counts, and those of one kind are joined in their order.

    def _modern_parts(self, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Iterator[Node]:
        kind_of = {word: kind for kind, keywords in self._keywords.items() for word in keywords}
        first = [word for word in ("properties", "patternProperties") if word in schema]
        last = [word for word in ("unevaluatedItems", "unevaluatedProperties") if word in schema]
        for word in (*first, *(word for word in schema if word not in (*first, *last)), *last):
            value = schema[word]
            if word in _REFERENCES:
                yield self._reference(value, resolver, path)
            elif word == "type":
                if isinstance(value, list):
                    parts = [self._bare(one, path) for one in value]
                    yield combination("anyOf", parts, generated=True)
                else:
                    yield self._bare(value, path)
            elif word == "enum":
                yield _enum(value, path)
            elif word in {"allOf", "anyOf", "oneOf"}:
                yield self._combination(word, value, resolver, path)
            elif word == "not":
                yield Node("not", {"not": self._node(value, resolver, f"{path}/not")})
            elif word == "const":
                yield Node("const", {"const": json_text(_sorted(value))})
            elif word == "if":
                yield self._conditional(schema, resolver, path)
            elif word in _COUNTS and "contains" not in schema:
                continue  # they count what `contains` finds
            elif word in kind_of and word != "format":
                yield self._modern_keyword(kind_of[word], word, schema, resolver, path)

    def _bare(self, type_: Json, path: str) -> Node:
        _require(type_ in _TYPES, "type", f"one of {', '.join(_TYPES)}", type_, path)
        return Node("number", {"integer": True}) if type_ == "integer" else Node(type_)

    def _modern_keyword(self, kind: str, word: str, schema: dict[str, Any], resolver: Resolver[Any], path: str) -> Node:
        node = Node(kind)
        self._read_keyword(node, word, schema, resolver, path)
        if word == "contains":
            node.values.setdefault("minContains", schema.get("minContains", 1))
        if word in {"items", "additionalProperties", "additionalItems"}:
            self._settle_items(node, word, schema)
        return node

    def _settle_items(self, node: Node, word: str, schema: dict[str, Any]) -> None:
        """Read `items` of 2020-12 behind `prefixItems` as the `additionalItems` that it is there."""
        inner = node.values.get("items")
        if word != "items" or inner is None:
            return
        if inner.kind in {"true", "false"} or (self._prefix_items and schema.get("prefixItems")):
            del node.values["items"]
            if inner.kind == "false":
                node.values["additionalItems"] = False
            elif inner.kind != "true":
                node.values["additionalItemsSchema"] = inner


def _joined(pieces: list[Node]) -> list[Node]:
    """Join what single keywords say: keywords of one kind are one node."""
    parts: list[Node] = []
    for piece in pieces:
        only = parts[0] if len(parts) == 1 else None
        if only is not None and _is_types(only) and any(part.kind == piece.kind for part in only.parts):
            _join_into(only.parts, piece)
        elif only is not None and _is_types(piece) and any(part.kind == only.kind for part in piece.parts):
            _join_into(piece.parts, only)
            parts = [piece]
        else:
            _join_into(parts, piece)
    return parts


def _is_types(node: Node) -> bool:
    return node.generated and node.criterion == "anyOf"


def _join_into(parts: list[Node], piece: Node) -> None:
    same = next((part for part in parts if part.kind == piece.kind and part.kind in MERGED_KINDS), None)
    if same is None:
        parts.append(piece)
        return
    for name, value in piece.values.items():
        known = same.values.get(name)
        same.values[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _enum(value: Json, path: str) -> Node:
    _require(isinstance(value, list), "enum", "an array", value, path)
    return Node("enum", {"enum": frozenset(json_text(_sorted(one)) for one in value)})


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    return value


def _check_simple(word: str, form: str, value: Json, path: str) -> None:
    number = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        _INTEGER: number or (isinstance(value, Decimal) and value == value.to_integral_value()),
        _NUMBER: not isinstance(value, bool | str | list | dict | None),
        _BOOLEAN: isinstance(value, bool),
        _STRING: isinstance(value, str),
        _STRINGS: isinstance(value, list) and all(isinstance(one, str) for one in value),
    }[form]
    _require(fits and not (form == _INTEGER and value < 0), word, form, value, path)


def _require(fits: bool, word: str, form: str, value: Json, path: str) -> None:
    if not fits:
        raise SchemaParseError(f'"{word}" must be {form}, not {_shown(value)}', path=path)


def _shown(value: Json) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = ["DEFAULT_DRAFT", "Loader", "digests"]
