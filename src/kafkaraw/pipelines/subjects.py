"""The names that datasets have in dead letters, and where the bad rows of an evaluation go.

A dead letter names what has missed its record: a view, or a flow. The flows that read a view miss the records that the
view finds bad, so a replay for the view is read by all of them, a replay for a flow by that one only. Must not read
topics. Start at `Subject`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.evaluation import Evaluation, Purpose

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Subject:
    """The view or flow whose dead letters an evaluation finds.

    Args:
        name: of the view or flow.
        readers: the views and flows that read it, directly or through others.
    """

    name: str
    readers: tuple[str, ...] = ()


_current: Final[ContextVar[Subject | None]] = ContextVar("kafkaraw_pipelines_subject", default=None)
_collected: Final[ContextVar[set[str] | None]] = ContextVar("kafkaraw_pipelines_collected", default=None)


@contextmanager
def finding(subject: Subject) -> Iterator[None]:
    """Find the dead letters of a view or flow."""
    token = _current.set(subject)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def collecting(names: set[str]) -> Iterator[None]:
    """Add the names of views and flows that may have dead letters, as they are evaluated."""
    token = _collected.set(names)
    try:
        yield
    finally:
        _collected.reset(token)


def subject_of(evaluation: Evaluation) -> str:
    """Return the name of the view or flow whose function is running."""
    return evaluation.chain[-1] if len(evaluation.chain) > 1 else _first(evaluation)


def _first(evaluation: Evaluation) -> str:
    subject = _current.get()
    if evaluation.purpose is not Purpose.DEAD_LETTERS:
        return evaluation.flow
    return evaluation.chain[0] if subject is None else subject.name


def missed_by(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the views and flows whose replayed records the running evaluation reads.

    A flow reads what itself, or a view that it reads, has missed. The dead-letter flow of a view also reads what was
    replayed for the view's readers: the view may find it bad now.
    """
    subject = _current.get()
    readers = () if subject is None or evaluation.purpose is not Purpose.DEAD_LETTERS else subject.readers
    return (_first(evaluation), *evaluation.chain[1:], *readers)


def add_bad_rows(evaluation: Evaluation, find: Callable[[], DataFrame]) -> None:
    """Register that the running function may have bad rows.

    Args:
        evaluation: the evaluation.
        find: returns them, by `letters.bad_rows`; called if their dead letters are wanted.
    """
    collected = _collected.get()
    if collected is not None:
        collected.add(subject_of(evaluation))
    if evaluation.purpose is Purpose.DEAD_LETTERS and len(evaluation.chain) == 1:
        evaluation.bad_rows.append(find())
