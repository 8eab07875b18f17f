"""Documentation written once: a face takes over the texts of what it passes its calls on to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=type)


def documented_by(*sources: type) -> Callable[[C], C]:
    """Give public methods without a docstring that of the method of the same name in one of the sources.

    Raises:
        TypeError: no source has a method of that name.
    """

    def document(face: C) -> C:
        for name, value in vars(face).items():
            method = value.__func__ if isinstance(value, classmethod) else value
            if callable(method) and not name.startswith("_") and method.__doc__ is None:
                method.__doc__ = _text_of(name, face, sources)
        return face

    return document


def _text_of(name: str, face: type, sources: tuple[type, ...]) -> str | None:
    for source in sources:
        if hasattr(source, name):
            text: str | None = getattr(source, name).__doc__
            return text
    raise TypeError(f"{face.__name__}.{name} has no docstring, and no source of documentation has that method")
