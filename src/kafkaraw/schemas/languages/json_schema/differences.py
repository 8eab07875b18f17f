"""Compare two versions of a JSON schema: the rules and messages of Confluent's registry.

Source: `io.confluent.kafka.schemaregistry.json.diff` (8.x). A difference has a type and a path; the tables `COMPATIBLE`
and `LENIENT` say which types are compatible, and only the others are kept. Pairs of schemas are compared once; a pair
that is met inside itself counts as compatible, and the comparison is repeated until no such assumption turns out wrong.
Must not do I/O. Start at `compare_json`.

Schemas refer to each other in long chains, so comparing is not recursive: each comparison is a generator that asks for
the differences of a pair by yielding it, and `_Comparison.run` keeps them on a stack of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final

import re2

from kafkaraw.schemas.languages.java_order import in_hash_order
from kafkaraw.schemas.languages.json_schema.matching import matching_size
from kafkaraw.schemas.languages.json_schema.messages import COMPATIBLE, LENIENT, template_of
from kafkaraw.schemas.languages.json_schema.nodes import EMPTY_KINDS, Node
from kafkaraw.schemas.languages.parsed import Incompatibility

PAIRS_MAX: Final = 60_000
"""Of schemas that one comparison looks at; combinations multiply."""
DIFFERENCES_MAX: Final = 5_000
PASSES_MAX: Final = 50

_Difference = tuple[str, tuple[str, ...]]
_Found = list[_Difference]
_Steps = Generator[tuple[Node | None, Node | None], _Found, _Found]


class ComparisonError(Exception):
    """Two schemas cannot be compared within the limits; the registry reports the text as an incompatibility."""


def compare_json(
    original: Node,
    update: Node,
    *,
    lenient: bool = False,
    same_draft: bool = True,
    properties: frozenset[str] | None = None,
) -> tuple[Incompatibility, ...]:
    """Return why data of the original schema may not be data of the update; nothing if it always is.

    Args:
        original: the writer's schema.
        update: the reader's schema.
        lenient: the compatibility policy LENIENT.
        same_draft: whether both are of the same draft, so that equal texts mean the same.
        properties: compare only these properties of the two objects; everything without.
    """
    try:
        compatible = LENIENT if lenient else COMPATIBLE
        found = differences(original, update, compatible, same_draft=same_draft, properties=properties)
    except ComparisonError as error:
        return (
            Incompatibility("UNEXPECTED_EXCEPTION", "", f"Unexpected exception during compatibility check: {error}"),
        )
    return tuple(
        Incompatibility(kind, path, f'{{errorType:"{kind}", description:"{template_of(kind, path)}\'}}')
        for kind, path in found
    )


def differences(
    original: Node,
    update: Node,
    compatible: frozenset[str],
    *,
    keep_all: bool = False,
    same_draft: bool = True,
    properties: frozenset[str] | None = None,
) -> list[tuple[str, str]]:
    """Return types and paths of the differences: the incompatible ones, or all.

    Raises:
        ComparisonError: the comparison exceeds a limit.
    """
    known: dict[tuple[int, int], _Found] = {}
    for _ in range(PASSES_MAX):
        comparison = _Comparison(compatible, known, keep_all=keep_all, shortcuts=same_draft and not keep_all)
        found = comparison.run(original, update, properties)
        incompatible = comparison.incompatible_pairs() if comparison.assumed else known
        if incompatible.keys() == known.keys():
            return [(kind, "#/" + "/".join(path)) for kind, path in found]
        known = incompatible
    raise ComparisonError(f"the references of the schemas form circles that {PASSES_MAX} passes did not settle")


class _Comparison:
    def __init__(
        self, compatible: frozenset[str], known: dict[tuple[int, int], _Found], *, keep_all: bool, shortcuts: bool
    ) -> None:
        self._compatible = compatible
        self._known = known
        self._keep_all = keep_all
        self._shortcuts = shortcuts
        self._results: dict[tuple[int, int], _Found] = {}
        self._count = 0
        self.assumed = False
        self._simple: dict[str, Callable[[Node, Node], _Found]] = {
            "string": self._string,
            "number": self._number,
            "const": self._const,
            "enum": self._enum,
        }
        self._nested: dict[str, Callable[[Node, Node], _Steps]] = {
            "not": self._not,
            "combined": self._combined,
            "array": self._array,
            "object": self._object,
        }

    def run(self, original: Node, update: Node, properties: frozenset[str] | None) -> _Found:
        """Return the differences of a pair, with paths from it."""
        stack: list[tuple[tuple[int, int], _Steps]] = []
        open_pairs: set[tuple[int, int]] = set()
        if properties is None:
            answer = self._known_answer(original, update, open_pairs, stack)
        elif not properties:
            return []
        else:
            answer = None
            stack.append(((id(original), id(update)), self._some_properties(original, update, properties)))
        while stack:
            pair, steps = stack[-1]
            try:
                asked = steps.send(answer) if answer is not None else next(steps)
            except StopIteration as done:
                stack.pop()
                open_pairs.discard(pair)
                answer = self._results[pair] = done.value
                continue
            answer = self._known_answer(*asked, open_pairs, stack)
        assert answer is not None
        return answer

    def _known_answer(
        self, original: Node | None, update: Node | None, open_pairs: set[tuple[int, int]], stack: list[Any]
    ) -> _Found | None:
        """Return the differences of a pair, or start to compare it and return None."""
        if original is None or update is None:
            if original is update:
                return []
            return self._kept("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED")
        original, update = original.followed(), update.followed()
        if self._shortcuts and original.is_closed and update.is_closed and original.identity == update.identity:
            return []
        pair = (id(original), id(update))
        result = self._results.get(pair)
        if result is not None:
            return result
        if pair in open_pairs:
            known = self._known.get(pair)
            if known is None:
                self.assumed = True
                return []
            return known
        self._count += 1
        if self._count > PAIRS_MAX:
            raise ComparisonError(
                f"the comparison needs more than {PAIRS_MAX} pairs of schemas; make the schemas simpler"
            )
        open_pairs.add(pair)
        stack.append((pair, self._pair(original, update)))
        return None

    def incompatible_pairs(self) -> dict[tuple[int, int], _Found]:
        """Return the pairs with incompatible differences."""
        return {pair: found for pair, found in self._results.items() if not self._fits(found)}

    def _fits(self, found: _Found) -> bool:
        return all(kind in self._compatible for kind, _ in found)

    def _kept(self, kind: str, *path: str) -> _Found:
        return [(kind, path)] if self._keep_all or kind not in self._compatible else []

    def _below(self, found: _Found, *path: str) -> _Found:
        if len(found) > DIFFERENCES_MAX:
            raise ComparisonError(f"the schemas have more than {DIFFERENCES_MAX} differences")
        return [(kind, path + rest) for kind, rest in found] if path else found

    def _pair(self, original: Node, update: Node) -> _Steps:
        found = yield from self._combined_with_single(original, update)
        if found is not None:
            return found
        if original.kind != update.kind:
            if original.kind == "false" or update.kind in EMPTY_KINDS:
                return []
            if original.about.get("connect.type") == "bytes" == update.about.get("connect.type"):
                return []
            return self._kept("TYPE_CHANGED")
        found = self._about(original, update)
        if original.kind in self._simple:
            found += self._simple[original.kind](original, update)
        elif original.kind in self._nested:
            found += yield from self._nested[original.kind](original, update)
        return found

    def _about(self, original: Node, update: Node) -> _Found:
        found: _Found = []
        if original.about != update.about:
            for name in ("$id", "title", "description", "default"):
                if original.about.get(name) != update.about.get(name):
                    found += self._kept(f"{name.strip('$').upper()}_CHANGED")
        return found

    def _combined_with_single(
        self, original: Node, update: Node
    ) -> Generator[tuple[Node | None, Node | None], _Found, _Found | None]:
        """Compare a combination with something else: one fitting part can be enough."""
        if (original.kind == "combined") == (update.kind == "combined"):
            return None
        extended = update.kind == "combined"
        combined = update if extended else original
        if len(combined.parts) > 1 and (combined.criterion == "allOf") is extended:
            return None
        if not extended and len(combined.parts) > 1 and combined.criterion != "allOf":
            return None
        for part in combined.parts:
            found = yield (original, part) if extended else (part, update)
            if self._fits(found):
                if len(combined.parts) == 1:
                    return found
                return found + self._kept("SUM_TYPE_EXTENDED" if extended else "PRODUCT_TYPE_NARROWED")
        return None

    # One method for each kind of schema.

    def _string(self, original: Node, update: Node) -> _Found:
        found = self._limits(original, update, "maxLength", "minLength")
        before, after = original.values.get("pattern"), update.values.get("pattern")
        if before != after:
            change = "ADDED" if before is None else "REMOVED" if after is None else "CHANGED"
            found += self._kept(f"PATTERN_{change}", "pattern")
        return found

    def _number(self, original: Node, update: Node) -> _Found:
        found = self._limits(original, update, "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
        found += self._multiple_of(original.values.get("multipleOf"), update.values.get("multipleOf"))
        if original.values.get("integer", False) != update.values.get("integer", False):
            found += self._kept("TYPE_EXTENDED" if "integer" in original.values else "TYPE_NARROWED")
        return found

    def _limits(self, original: Node, update: Node, *words: str) -> _Found:
        found: _Found = []
        for word in words:
            before, after = original.values.get(word), update.values.get(word)
            if before is None and after is None:
                continue
            change = "ADDED" if before is None else "REMOVED" if after is None else _change(before, after)
            if change:
                found += self._kept(f"{_upper(word)}_{change}", word)
        return found

    def _multiple_of(self, before: Any, after: Any) -> _Found:  # noqa: ANN401 - numbers of JSON
        if before is None and after is None:
            return []
        if before is None or after is None:
            return self._kept("MULTIPLE_OF_ADDED" if before is None else "MULTIPLE_OF_REMOVED", "multipleOf")
        before, after = Decimal(before), Decimal(after)
        if before == after:
            return []
        change = "EXPANDED" if _divides(before, after) else "REDUCED" if _divides(after, before) else "CHANGED"
        return self._kept(f"MULTIPLE_OF_{change}", "multipleOf")

    def _const(self, original: Node, update: Node) -> _Found:
        return self._kept("ENUM_ARRAY_CHANGED", "const") if original.values != update.values else []

    def _enum(self, original: Node, update: Node) -> _Found:
        before, after = original.values["enum"], update.values["enum"]
        if before == after:
            return []
        change = "EXTENDED" if before < after else "NARROWED" if after < before else "CHANGED"
        return self._kept(f"ENUM_ARRAY_{change}", "enum")

    def _not(self, original: Node, update: Node) -> _Steps:
        found = yield update.values["not"], original.values["not"]
        return self._kept("NOT_TYPE_NARROWED" if self._fits(found) else "NOT_TYPE_EXTENDED", "not")

    def _combined(self, original: Node, update: Node) -> _Steps:
        before, after = _distinct(original.parts), _distinct(update.parts)
        found: _Found = []
        if original.criterion != update.criterion:
            single, single_after = len(original.parts) == 1, len(update.parts) == 1
            if not (
                update.criterion == "anyOf"
                or (single and (single_after or update.criterion == "oneOf"))
                or (single_after and original.criterion == "allOf")
            ):
                return self._kept("COMBINED_TYPE_CHANGED")
            found += self._kept("COMBINED_TYPE_EXTENDED")
        if len(before) < len(after):
            found += self._kept("PRODUCT_TYPE_EXTENDED" if update.criterion == "allOf" else "SUM_TYPE_EXTENDED")
        elif len(before) > len(after):
            found += self._kept("PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else "SUM_TYPE_NARROWED")
        edges: list[list[int]] = []
        of_edges: dict[tuple[int, int], _Found] = {}
        for row, one in enumerate(before):
            edges.append([])
            for column, other in enumerate(after):
                inside = yield one, other
                if self._fits(inside):
                    edges[row].append(column)
                    of_edges[row, column] = inside
        matching = matching_size(edges, len(after))
        for row, column in matching.items():
            found += self._below(of_edges[row, column], f"{original.criterion}/{row}")
        if len(matching) < min(len(before), len(after)):
            found += self._kept("COMBINED_TYPE_SUBSCHEMAS_CHANGED")
        return found

    def _array(self, original: Node, update: Node) -> _Steps:
        found = self._below((yield original.values.get("items"), update.values.get("items")), "items")
        found += yield from self._prefix_items(original, update)
        found += yield from self._additional(original, update, "additionalItems")
        found += yield from self._unevaluated(original, update, "unevaluatedItems")
        found += self._limits(original, update, "maxItems", "minItems")
        unique, unique_after = original.values.get("uniqueItems", False), update.values.get("uniqueItems", False)
        if unique != unique_after:
            found += self._kept("UNIQUE_ITEMS_REMOVED" if unique else "UNIQUE_ITEMS_ADDED", "uniqueItems")
        return found + self._limits(original, update, "maxContains", "minContains")

    def _prefix_items(self, original: Node, update: Node) -> _Steps:
        before, after = original.values.get("prefix", []), update.values.get("prefix", [])
        found: _Found = []
        for index in range(max(len(before), len(after))):
            path = f"items/{index}"
            if index >= len(after):
                inside = yield from self._removed("ITEM", before[index], _open_items(update), _partly_open(update))
            elif index >= len(before):
                inside = yield from self._added_item(original, after[index])
            else:
                inside = yield before[index], after[index]
            found += self._below(inside, path)
        return found

    def _added_item(self, original: Node, item: Node) -> _Steps:
        if _open_items(original):
            empty = item.kind in EMPTY_KINDS
            return self._kept(f"ITEM_{'WITH_EMPTY_SCHEMA_' if empty else ''}ADDED_TO_OPEN_CONTENT_MODEL")
        partly = _partly_open(original)
        if partly is None:
            return self._kept("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL")
        return (yield from self._covered("ITEM_ADDED", partly, item))

    def _covered(self, change: str, original: Node, update: Node) -> _Steps:
        found = yield original, update
        covered = "IS" if self._fits(found) else "NOT"
        return found + self._kept(f"{change}_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")

    def _removed(self, what: str, removed: Node, is_open: bool, partly: Node | None) -> _Steps:
        if is_open:
            return self._kept(f"{what}_REMOVED_FROM_OPEN_CONTENT_MODEL")
        if partly is not None:
            return (yield from self._covered(f"{what}_REMOVED", removed, partly))
        false = "WITH_FALSE_" if removed.kind == "false" else ""
        return self._kept(f"{what}_{false}REMOVED_FROM_CLOSED_CONTENT_MODEL")

    def _additional(self, original: Node, update: Node, word: str) -> _Steps:
        """Compare `additionalItems` or `additionalProperties`."""
        before, after = original.values.get(f"{word}Schema"), update.values.get(f"{word}Schema")
        permits, permits_after = _permits(original, word), _permits(update, word)
        name = _upper(word)
        if permits != permits_after:
            return self._kept(f"{name}_ADDED" if permits_after else f"{name}_REMOVED", word)
        if before is None and after is not None:
            return self._kept(f"{name}_NARROWED", word)
        if before is not None and after is None:
            return self._kept(f"{name}_EXTENDED", word)
        return self._below((yield before, after), word)

    def _unevaluated(self, original: Node, update: Node, word: str) -> _Steps:
        before, after = original.values.get(f"{word}Schema"), update.values.get(f"{word}Schema")
        if before is None and after is None:
            return []
        closed = before is not None and before.kind == "false"
        closed_after = after is not None and after.kind == "false"
        empty = before is None or before.kind in EMPTY_KINDS
        empty_after = after is None or after.kind in EMPTY_KINDS
        if closed != closed_after:
            change = "REMOVED" if closed_after else "ADDED"
        elif before is None or (empty and not empty_after):
            change = "NARROWED"
        elif after is None or (empty_after and not empty):
            change = "EXTENDED"
        else:
            return self._below((yield before, after), word)
        return self._kept(f"{_upper(word)}_{change}", word)

    def _object(self, original: Node, update: Node) -> _Steps:
        found = self._required(original, update)
        found += yield from self._properties(original, update)
        found += yield from self._dependencies(original, update)
        found += yield from self._additional(original, update, "additionalProperties")
        found += yield from self._unevaluated(original, update, "unevaluatedProperties")
        return found + self._limits(original, update, "maxProperties", "minProperties")

    def _required(self, original: Node, update: Node, only: frozenset[str] | None = None) -> _Found:
        names_before, names_after = original.values.get("required", ()), update.values.get("required", ())
        if names_before == names_after:
            return []
        before, after = set(names_before), set(names_after)
        properties, properties_after = original.values.get("properties", {}), update.values.get("properties", {})
        found: _Found = []
        names = (before ^ after) & properties.keys()
        for name in in_hash_order([properties], names if only is None else names & only):
            if name in properties_after:
                default = "_WITH_DEFAULT" if properties_after[name].has_default else ""
                change = "REMOVED" if name in before else f"{default[1:] + '_' if default else ''}ADDED"
                found += self._kept(f"REQUIRED_ATTRIBUTE_{change}", "required", name)
        return found

    def _some_properties(self, original: Node, update: Node, names: frozenset[str]) -> _Steps:
        return self._required(original, update, names) + (yield from self._properties(original, update, names))

    def _properties(self, original: Node, update: Node, only: frozenset[str] | None = None) -> _Steps:
        before, after = original.values.get("properties", {}), update.values.get("properties", {})
        names: Iterable[str] | None = None
        if only is not None:
            names = [name for name in only if name in before or name in after]
        elif self._shortcuts:
            (closed, others), (closed_after, others_after) = original.property_keys, update.property_keys
            names = {name for name, _ in closed ^ closed_after} | others | others_after
            if not names:
                return []
        found: _Found = []
        for name in in_hash_order([before, after], names):
            path = ("properties", name)
            if name not in after:
                partly = _partly_open_for(update, name)
                inside = yield from self._removed("PROPERTY", before[name], _open_properties(update), partly)
                found += self._below(inside, *path)
            elif name not in before:
                found += self._below((yield from self._added_property(original, update, name)), *path)
            else:
                one, other = before[name].followed(), after[name].followed()
                if one.kind == other.kind and one.kind in self._simple:  # what most changes are, without the stack
                    inside = self._about(one, other) + self._simple[one.kind](one, other)
                else:
                    inside = yield one, other
                found += self._below(inside, *path)
        return found

    def _added_property(self, original: Node, update: Node, name: str) -> _Steps:
        added = update.values["properties"][name]
        required = name in update.values.get("required", ())
        what = f"REQUIRED_PROPERTY{'_WITH_DEFAULT' if added.has_default else ''}" if required else "OPTIONAL_PROPERTY"
        if _open_properties(original):
            if added.kind in EMPTY_KINDS:
                return self._kept("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL")
            return self._kept(f"{what}_ADDED_TO_OPEN_CONTENT_MODEL")
        found: _Found = []
        partly = _partly_open_for(original, name)
        if partly is not None:
            found += yield from self._covered("PROPERTY_ADDED", partly, added)
        return found + self._kept(f"{what}_ADDED_TO_UNOPEN_CONTENT_MODEL")

    def _dependencies(self, original: Node, update: Node) -> _Steps:
        found: _Found = []
        before, after = original.values.get("propertyDependencies", {}), update.values.get("propertyDependencies", {})
        for name in in_hash_order([before, after]):
            one, other = before.get(name), after.get(name)
            if one != other:
                change = "REMOVED" if other is None else "ADDED" if one is None else _sets(one, other)
                found += self._kept(f"DEPENDENCY_ARRAY_{change}", "dependencies", name)
        before, after = original.values.get("schemaDependencies", {}), update.values.get("schemaDependencies", {})
        for name in in_hash_order([before, after]):
            if name not in after or name not in before:
                change = "REMOVED" if name in before else "ADDED"
                found += self._kept(f"DEPENDENCY_SCHEMA_{change}", "dependencies", name)
            else:
                found += self._below((yield before[name], after[name]), "dependencies", name)
        return found


@cache
def _upper(word: str) -> str:
    return "".join(f"_{one}" if one.isupper() else one for one in word).upper()


def _change(before: Any, after: Any) -> str:  # noqa: ANN401 - numbers of JSON
    return "INCREASED" if before < after else "DECREASED" if before > after else ""


def _sets(before: frozenset[str], after: frozenset[str]) -> str:
    return "EXTENDED" if before < after else "NARROWED" if after < before else "CHANGED"


def _divides(divisor: Decimal, number: Decimal) -> bool:
    try:
        return divisor != 0 and number % divisor == 0
    except InvalidOperation:  # the quotient has more digits than decimals have
        return False


def _distinct(parts: Sequence[Node]) -> list[Node]:
    return list({part.identity: part for part in reversed(parts)}.values())[::-1]


def _permits(node: Node, word: str) -> bool:
    if word == "additionalItems" and node.values.get("items") is not None:
        return True
    return bool(node.values.get(word, True))


def _open_items(node: Node) -> bool:
    return (
        _permits(node, "additionalItems")
        and node.values.get("additionalItemsSchema") is None
        and _is_open(node.values.get("unevaluatedItemsSchema"))
    )


def _open_properties(node: Node) -> bool:
    return (
        _permits(node, "additionalProperties")
        and node.values.get("additionalPropertiesSchema") is None
        and not node.values.get("patternProperties")
        and _is_open(node.values.get("unevaluatedPropertiesSchema"))
    )


def _is_open(unevaluated: Node | None) -> bool:
    return unevaluated is None or unevaluated.kind in EMPTY_KINDS


def _partly_open(node: Node, word: str = "additionalItems", unevaluated: str = "unevaluatedItems") -> Node | None:
    """Return the schema of further items or properties, if there is one that allows some and not all."""
    additional: Node | None = node.values.get(f"{word}Schema")
    if additional is not None or not _permits(node, word):
        return additional
    other: Node | None = node.values.get(f"{unevaluated}Schema")
    return None if other is None or other.kind in {"false", *EMPTY_KINDS} else other


def _partly_open_for(node: Node, name: str) -> Node | None:
    for pattern, schema in node.values.get("patternProperties", {}).items():
        try:
            found = re2.search(pattern, name)
        except re2.error:  # a pattern that RE2 does not know (see decision 0040) covers no property
            continue
        if found is not None:
            result: Node = schema
            return result
    return _partly_open(node, "additionalProperties", "unevaluatedProperties")
