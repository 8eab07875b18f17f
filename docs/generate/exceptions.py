"""The page of the exceptions: when each one is raised, and what to do; from their docstrings. Start at `exceptions`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from docs.generate.python_names import names_of
from docs.generate.tables import notice, sentence, text
from kafkaraw import errors
from kafkaraw.errors import KafkaError

PAGE: Final = "exceptions.md"
_ABOUT: Final = """\
Every exception that kafkaraw raises on purpose is a `KafkaError`. Argument errors that Python itself finds are a
`TypeError`, as usual. The message names what failed, the stage, the broker, the value, and what to do.

`RetriableError` marks those where the same call may succeed later. An error of a broker has the attributes `code`,
`name` (Kafka's), and `retriable`.
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def exceptions() -> list[type[KafkaError]]:
    """Every public exception, in the order of the sources, those of `kafkaraw.errors` first."""
    found: dict[type[KafkaError], None] = {}
    for source in (errors, *_others()):
        for name, value in vars(source).items():
            if inspect.isclass(value) and issubclass(value, KafkaError) and not name.startswith("_"):
                found.setdefault(value, None)
    return list(found)


def _others() -> Iterator[object]:
    from kafkaraw.schemas import errors as of_schemas
    from kafkaraw.spark import errors as of_spark

    yield of_schemas
    yield of_spark


def _lines() -> Iterator[str]:
    yield from (notice("the docstrings of src/kafkaraw/errors.py"), "", "# Exceptions", "", _ABOUT)
    yield from ("## Tree", "", "```", *_tree(KafkaError, exceptions(), 0), "```", "")
    for kind in exceptions():
        yield from (f"## {kind.__name__}", "", _where(kind), "")
        yield from _described(inspect.getdoc(kind) or "")


def _tree(kind: type[BaseException], kinds: list[type[KafkaError]], depth: int) -> Iterator[str]:
    yield "    " * depth + kind.__name__
    for each in kinds:
        if each.__bases__[0] is kind:
            yield from _tree(each, kinds, depth + 1)


def _where(kind: type[KafkaError]) -> str:
    homes = ("kafkaraw", "kafkaraw.schemas", "kafkaraw.spark")
    home = next((home for home in homes if kind.__name__ in _names(home)), kind.__module__)
    bases = ", ".join(_base(base) for base in kind.__bases__ if base not in (Exception, object))
    return f"`{home}.{kind.__name__}`" + (f", a {bases}." if bases else ".")


@functools.cache
def _names(module: str) -> list[str]:
    return names_of(import_module(module))


def _base(base: type) -> str:
    name = base.__name__
    return f"[{name}](#{name.lower()})" if issubclass(base, KafkaError) else f"`{name}`"


def _described(docstring: str) -> Iterator[str]:
    """A docstring in Google's form: paragraphs, and attributes as a list."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if re.match(r"(Args|Attributes):\n", paragraph):
            entries = [each.strip().partition(":") for each in re.split(r"\n(?=    \w)", paragraph.partition("\n")[2])]
            others = [(name, meaning) for name, _, meaning in entries if name != "message"]  # that is its `str()`
            if others:
                yield from ("Attributes:", "")
                yield from (f"- `{name}`: {sentence(text(' '.join(meaning.split())))}" for name, meaning in others)
                yield ""
        else:
            yield from (text(" ".join(paragraph.split())), "")
