"""The decorators of expectations, by Lakeflow's names, and what they leave on a function.

    @dp.temporary_view
    @kp.expect_or_quarantine("amount is positive", "amount > 0")
    def orders(): ...

A decorator stands below those of `dp`: it attaches the expectation to the function, which Spark's registry receives.
Must not import pyspark at run time, nor judge rows: `judging.py` does. Start at `expect`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaraw.pipelines.model import Action, Expectation, Location, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE: Final = "__expectations__"
_PACKAGE: Final = "kafkaraw.pipelines"


def expectations_of(function: object) -> tuple[Expectation, ...]:
    """Return the expectations of a function, in the order of its decorators from the top."""
    found: tuple[Expectation, ...] = getattr(function, _ATTRIBUTE, ())
    return found


def expect(name: str, condition: str | Column) -> Callable[[F], F]:
    """Count the rows that do not meet a condition, and keep them.

    A row for which the condition is NULL does not meet it.

    Args:
        name: of the expectation, unique in its function.
        condition: a boolean expression of SQL, or a Column.
    """
    return _attach([(name, condition)], Action.WARN)


def expect_or_drop(name: str, condition: str | Column) -> Callable[[F], F]:
    """Count the rows that do not meet a condition, and leave them out; arguments as for `expect`."""
    return _attach([(name, condition)], Action.DROP)


def expect_or_fail(name: str, condition: str | Column) -> Callable[[F], F]:
    """Fail the flow at the first row that does not meet a condition; arguments as for `expect`."""
    return _attach([(name, condition)], Action.FAIL)


def expect_or_quarantine(name: str, condition: str | Column) -> Callable[[F], F]:
    """Make dead letters of the rows that do not meet a condition; arguments as for `expect`.

    The rows need the column `_record`, which `topic()` adds: it has the record as it was read.
    """
    return _attach([(name, condition)], Action.QUARANTINE)


def expect_all(conditions: Mapping[str, str | Column]) -> Callable[[F], F]:
    """`expect` for several conditions, by name."""
    return _attach(list(conditions.items()), Action.WARN)


def expect_all_or_drop(conditions: Mapping[str, str | Column]) -> Callable[[F], F]:
    """`expect_or_drop` for several conditions, by name."""
    return _attach(list(conditions.items()), Action.DROP)


def expect_all_or_fail(conditions: Mapping[str, str | Column]) -> Callable[[F], F]:
    """`expect_or_fail` for several conditions, by name."""
    return _attach(list(conditions.items()), Action.FAIL)


def expect_all_or_quarantine(conditions: Mapping[str, str | Column]) -> Callable[[F], F]:
    """`expect_or_quarantine` for several conditions, by name."""
    return _attach(list(conditions.items()), Action.QUARANTINE)


def expect_unique(name: str, columns: str | Sequence[str]) -> Callable[[F], F]:
    """Count the rows whose columns are equal to those of an earlier row, and keep them.

    A stream keeps the values that it has seen in its state: until the watermark of the rows has passed them if they
    have one and its column is among `columns`, otherwise without an end.

    Args:
        name: of the expectation, unique in its function.
        columns: one column, or several.
    """
    return _attach_unique(name, columns, Action.WARN)


def expect_unique_or_drop(name: str, columns: str | Sequence[str]) -> Callable[[F], F]:
    """Leave out the rows whose columns are equal to those of an earlier row; arguments as for `expect_unique`."""
    return _attach_unique(name, columns, Action.DROP)


def expect_unique_or_fail(name: str, columns: str | Sequence[str]) -> Callable[[F], F]:
    """Fail the flow at a row whose columns are equal to those of an earlier one; arguments as for `expect_unique`."""
    return _attach_unique(name, columns, Action.FAIL)


def _attach(conditions: Sequence[tuple[str, str | Column]], action: Action) -> Callable[[F], F]:
    location = definition_location()
    for name, condition in conditions:
        _check_name(name, location)
        if isinstance(condition, str) and not condition.strip():
            raise PipelineError(
                f"expectation {name!r} has an empty condition: give SQL that is true for good rows", location=location
            )
        if repr(condition) in ("True", "False"):
            raise PipelineError(
                f"expectation {name!r}: the condition is the Python value {condition}, which does not depend on a row: "
                'give SQL, "amount > 0", or a Column, F.col("amount") > 0',
                location=location,
            )
    return _decorator([Expectation(name, condition, action, location=location) for name, condition in conditions])


def _attach_unique(name: str, columns: str | Sequence[str], action: Action) -> Callable[[F], F]:
    location = definition_location()
    _check_name(name, location)
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if not chosen:
        raise PipelineError(f"expectation {name!r} names no columns: give one or more", location=location)
    return _decorator([Expectation(name, "", action, unique_by=chosen, location=location)])


def _check_name(name: object, location: Location) -> None:
    if not isinstance(name, str) or not name.strip():
        raise PipelineError(
            f"an expectation has the name {name!r}: give it a text that is not empty", location=location
        )


def _decorator(added: Sequence[Expectation]) -> Callable[[F], F]:
    def attach(function: F) -> F:
        if not callable(function):
            raise PipelineError(
                f"the decorators of expectations were applied to {type(function).__name__}, what a decorator of dp has "
                "returned: put them below it, directly above the function",
                location=added[0].location,
            )
        present = expectations_of(function)
        names = {each.name for each in present}
        for each in added:
            if each.name in names:
                raise PipelineError(
                    f"two expectations of one function have the name {each.name!r}: rename one", location=each.location
                )
        setattr(function, _ATTRIBUTE, (*added, *present))
        return function

    return attach


def active_registry() -> Any:  # noqa: ANN401 -- of Spark, or ours, which must not be imported here
    """Return what collects the definitions of the pipeline that is being loaded; None if none is."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry

    try:
        return get_active_graph_element_registry()
    except PySparkRuntimeError:
        return None


def definition_location() -> Location:
    """Return the line of the file of a pipeline that calls a function of this package."""
    line_of = getattr(active_registry(), "line_of", None)
    if line_of is not None:
        found: Location = line_of(traceback.extract_stack())
        return found
    frame = sys._getframe(1)  # noqa: SLF001 -- what `inspect` uses, without its cost
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)
