"""Names of subjects and contexts: `orders-value` in the default context, `:.staging:orders-value` in another one. Pure.

Start at `QualifiedSubject`. Source: Confluent's `QualifiedSubject` (with the tenant "default" only).
"""

from __future__ import annotations

from typing import Final, Self

from kafkaraw.light_classes import dataclass

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
"""A context that has only a configuration and a mode, which all other contexts inherit."""
ANY_CONTEXT: Final = ":*:"
_PREFIX: Final = ":."
_RESERVED_SUBJECTS: Final = frozenset({"__GLOBAL", "__EMPTY"})
_FIRST_PRINTABLE, _DELETE, _LAST_CONTROL = 0x20, 0x7F, 0x9F


@dataclass(frozen=True, slots=True)
class QualifiedSubject:
    """A subject with its context.

    Attributes:
        context: its name, which begins with a dot; "." is the default context.
        subject: the name inside of the context; empty for the context itself.
    """

    context: str
    subject: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a name as it stands in a URL or a record. Every text is a valid name."""
        if text.startswith(_PREFIX):
            context, _, subject = text[1:].partition(":")
            return cls(context, subject)
        if text.startswith(ANY_CONTEXT):
            return cls("*", text[len(ANY_CONTEXT) :])
        return cls(DEFAULT_CONTEXT, text)

    @property
    def prefix(self) -> str:
        """The context as it stands in front of a subject: empty for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def __str__(self) -> str:
        return self.prefix + self.subject


def normalize(subject: str) -> str:
    """Return the one spelling of a subject: `:.:orders` is `orders`."""
    return str(QualifiedSubject.parse(subject)) if subject.startswith(":") else subject


def context_of(subject: str) -> str:
    """Return the name of a subject's context."""
    return QualifiedSubject.parse(subject).context if subject.startswith(":") else DEFAULT_CONTEXT


def context_prefix(subject: str | None) -> str:
    """Return a subject's context as it stands in front of it; empty for the default context and for None."""
    return "" if subject is None else QualifiedSubject.parse(subject).prefix


def in_context_of(parent: str, subject: str) -> str:
    """Return a subject that a reference or an alias names: without a context of its own, it is in the parent's."""
    named = QualifiedSubject.parse(subject)
    if named.context != DEFAULT_CONTEXT:
        return str(named)
    return str(QualifiedSubject(context_of(parent), subject))


def context_name_prefix(context: str) -> str:
    """Return `:.staging:` for any spelling of the context's name: `staging`, `.staging`, `:.staging:`.

    Raises:
        ValueError: the name has a colon inside.
    """
    name = context.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError(f"Context name '{name}' cannot contain a colon")
    if not name.startswith("."):
        name = "." + name
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def is_default_context(subject: str | None) -> bool:
    """Return whether a configuration or mode of this subject is that of the default context."""
    return subject is None or QualifiedSubject.parse(subject) == QualifiedSubject(DEFAULT_CONTEXT, "")


def is_context(subject: str | None) -> bool:
    """Return whether the name is that of a context, and not of a subject in it."""
    return subject is None or not QualifiedSubject.parse(subject).subject


def is_valid(subject: str, *, for_config: bool = False) -> bool:
    """Return whether the registry accepts a name.

    Args:
        subject: the name.
        for_config: whether it is for a configuration or a mode, which the global context may have.
    """
    if any(_is_control(ord(character)) for character in subject):
        return False
    named = QualifiedSubject.parse(subject)
    if named.subject in _RESERVED_SUBJECTS:
        return False
    return for_config or named.context != GLOBAL_CONTEXT


def _is_control(code: int) -> bool:
    surrogate = 0xD800 <= code <= 0xDFFF  # no UTF-8 text has one
    return code < _FIRST_PRINTABLE or _DELETE <= code <= _LAST_CONTROL or surrogate


class SubjectFilter:
    """Selects subjects by a prefix, which may name a context: `:.staging:ord`, `:*:ord` for all contexts.

    Args:
        prefix: the prefix; `ord` alone selects in the default context.
    """

    def __init__(self, prefix: str) -> None:
        named = QualifiedSubject.parse(prefix)
        self._context, self._subject = named.context, named.subject
        # A prefix that ends inside of the context's name selects all contexts that begin with it.
        self._open = prefix.startswith(_PREFIX) and ":" not in prefix[1:]

    def __call__(self, subject: str) -> bool:
        """Return whether a subject is selected."""
        named = QualifiedSubject.parse(subject)
        if self._context != "*":
            if self._open:
                return named.context.startswith(self._context)
            if named.context != self._context:
                return False
        return named.subject.startswith(self._subject)


def matches(subject: str, wanted: str | None) -> bool:
    """Return whether a subject is the wanted one, or is in the wanted context; None wants all subjects."""
    if wanted is None or subject == wanted:
        return True
    named = QualifiedSubject.parse(wanted)
    return not named.subject and named.context in (GLOBAL_CONTEXT, context_of(subject))
