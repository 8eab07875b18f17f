"""The page of the exceptions: when each one is raised, and what to do; from the docstrings of `errors.py` and others."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import kafkaraw
from docs.generate.tables import notice, sentence, text
from kafkaraw import errors
from kafkaraw.errors import KafkaError

PAGE: Final = "exceptions.md"
_ABOUT: Final = """\
Every exception that kafkaraw raises on purpose is a `KafkaError`. Those of `kafkaraw` can be imported from there. Argument
errors that Python itself finds are a `TypeError`, as usual. The message names what failed, the stage, the broker, the
value, and what to do.

`RetriableError` marks those where the same call may succeed later. An error of a broker has the attributes `code`, `name`
(Kafka's), and `retriable`.
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
    public = hasattr(kafkaraw, kind.__name__)
    bases = ", ".join(
        f"[{base.__name__}](#{base.__name__.lower()})" if issubclass(base, KafkaError) else f"`{base.__name__}`"
        for base in kind.__bases__
        if base not in (Exception, object)
    )
    return f"`{'kafkaraw' if public else kind.__module__}.{kind.__name__}`" + (f", a {bases}." if bases else ".")


def _described(docstring: str) -> Iterator[str]:
    """A docstring in Google's form: paragraphs, and attributes as a list."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if re.match(r"(Args|Attributes):\n", paragraph):
            yield "Attributes:"
            yield ""
            for entry in re.split(r"\n(?=    \w)", paragraph.partition("\n")[2]):
                name, _, meaning = entry.strip().partition(":")
                yield f"- `{name}`: {sentence(text(' '.join(meaning.split())))}"
            yield ""
        else:
            yield from (text(" ".join(paragraph.split())), "")
