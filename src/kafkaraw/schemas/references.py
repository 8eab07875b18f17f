"""Fetches everything that a schema references, within limits, so that a language can parse it without I/O.

References may form circles and diamonds, and a registry may be hostile: the depth, the number and the size of all
schemas together are limited, and each version is fetched once. Start at `References.bundle`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kafkaraw.schemas.errors import SchemaReferenceError
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaReference

REFERENCE_DEPTH_MAX: Final = 32
REFERENCES_MAX: Final = 1_000


def context_of(subject: str | None) -> str:
    """Return the context in a subject's name, as in `:.context:name`; empty without one."""
    return subject[1:].partition(":")[0] if subject is not None and subject[:1] == ":" else ""


class References:
    """Fetches the references of one schema.

    Args:
        fetch: returns a version of a subject.
        context: where subjects without a context are; empty for the client's.
        characters_max: limit of all texts together.
    """

    def __init__(
        self, fetch: Callable[[str, int], Awaitable[RegisteredSchema]], context: str, characters_max: int
    ) -> None:
        self._fetch = fetch
        self._context = context
        self._characters_left = characters_max
        self._found: dict[tuple[str, int], SchemaBundle] = {}
        self._path: list[SchemaReference] = []

    async def bundle(self, schema: Schema) -> SchemaBundle:
        """Return the schema with its references, and theirs.

        Raises:
            SchemaReferenceError: a circle, or a limit.
        """
        self._characters_left -= len(schema.text)
        if self._characters_left < 0:
            raise SchemaReferenceError(f"the schemas behind {self._route()} are larger than answer_size_max together")
        references: dict[str, SchemaBundle] = {}
        for reference in schema.references:
            self._path.append(reference)
            references[reference.name] = await self._referenced(reference)
            self._path.pop()
        return SchemaBundle(schema, references)

    async def _referenced(self, reference: SchemaReference) -> SchemaBundle:
        key = (reference.subject, reference.version)
        if any((step.subject, step.version) == key for step in self._path[:-1]):
            raise SchemaReferenceError(
                f"the references form a circle: {self._route()}; register the schemas without it"
            )
        if key in self._found:
            return self._found[key]
        if len(self._path) > REFERENCE_DEPTH_MAX or len(self._found) >= REFERENCES_MAX:
            raise SchemaReferenceError(
                f"the references are deeper than {REFERENCE_DEPTH_MAX} or more than {REFERENCES_MAX}: {self._route()}"
            )
        subject = reference.subject
        if self._context and not subject.startswith(":"):
            subject = f":{self._context}:{subject}"
        found = await self._fetch(subject, reference.version)
        bundle = self._found[key] = await self.bundle(found.schema)
        return bundle

    def _route(self) -> str:
        steps = [f"{step.subject} version {step.version}" for step in self._path]
        return " -> ".join(steps if len(steps) <= 8 else [*steps[:4], "...", *steps[-3:]]) or "the schema"
