"""Applies expectations to rows: counts, leaves out, fails, and finds the rows that become dead letters.

Conditions are computed once, as columns; `observe()` counts them, and a filter behind it uses the same columns. Spark
moves no filter through `observe()`, so what is in front of it is computed once, too. The counts are in the progress
of the query, under the names that `counts` reads.

The dead letters of a dataset are found by a query of their own, so a condition that quarantines must depend on the row
alone. Must not write anything. Start at `judged`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.pipelines.evaluation import Evaluation, Purpose, Undecoded, message_of
from kafkaraw.pipelines.letters import Reason, bad_rows
from kafkaraw.pipelines.model import (
    RECORD_COLUMN,
    TIMESTAMP_COLUMN,
    TOMBSTONE_COLUMN,
    Action,
    Dataset,
    Expectation,
    PipelineError,
)
from kafkaraw.pipelines.subjects import add_bad_rows, subject_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXPECTATIONS: Final = "expectations."
_RECORDS: Final = "records."
_FUNCTION: Final = "function."
_UNIQUE: Final = "unique."
_UNMET: Final = "unmet."
_FLAG: Final = "_unmet_"
_SAMPLE_MAX: Final = 1_000  # characters of a row in an error
_HIDDEN: Final = frozenset({RECORD_COLUMN, TOMBSTONE_COLUMN, TIMESTAMP_COLUMN})
_WATERMARK: Final = "spark.watermarkDelayMs"  # Spark's metadata of a column with a watermark


@dataclass(frozen=True, slots=True)
class DatasetCounts:
    """What was counted in a dataset.

    Args:
        records: read from topics by its function: of the topics, and replayed ones.
        tombstones: of these, without a value.
        replayed: of these, replayed.
        undecodable: of these, those that could not be decoded: dead letters.
        failures: records for which the function of `map_records` raised: dead letters.
        rows: that were judged.
        dropped: of these, left out by expectations.
        quarantined: of these, dead letters.
        unmet: rows that did not meet an expectation, by its name.
        actions: "warn", "drop", "fail" or "quarantine", by the name of the expectation.
    """

    records: int = 0
    tombstones: int = 0
    replayed: int = 0
    undecodable: int = 0
    failures: int = 0
    rows: int = 0
    dropped: int = 0
    quarantined: int = 0
    unmet: Mapping[str, int] = field(default_factory=dict)
    actions: Mapping[str, str] = field(default_factory=dict)

    @property
    def dead_letters(self) -> int:
        """The records of which the dataset's dead-letter flow makes dead letters."""
        return self.undecodable + self.failures + self.quarantined

    def __add__(self, other: DatasetCounts) -> DatasetCounts:
        """Return the sums."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _NUMBERS}
        unmet = {name: self.unmet.get(name, 0) + other.unmet.get(name, 0) for name in {**self.unmet, **other.unmet}}
        return DatasetCounts(**numbers, unmet=unmet, actions={**self.actions, **other.actions})


_NUMBERS: Final = (
    "records",
    "tombstones",
    "replayed",
    "undecodable",
    "failures",
    "rows",
    "dropped",
    "quarantined",
)


def counts(observed_metrics: Mapping[str, Any]) -> dict[str, DatasetCounts]:
    """Return what a query has counted, by dataset; counts of other observations are left out.

    Args:
        observed_metrics: `observedMetrics` of a query's progress: rows, or mappings, by the observation's name.
    """
    found: dict[str, DatasetCounts] = {}
    for path, counted in counts_by_path(observed_metrics).items():
        dataset = path.rpartition("/")[2]
        found[dataset] = found.get(dataset, DatasetCounts()) + counted
    return found


def counts_by_path(observed_metrics: Mapping[str, Any]) -> dict[str, DatasetCounts]:
    """Return what a query has counted, by the views through which it has read a dataset: A/B is B as A has read it.

    A view that is read on several paths counts the same records on each of them.
    """
    found: dict[str, DatasetCounts] = {}
    for name, row in observed_metrics.items():
        kind = next((each for each in (_EXPECTATIONS, _RECORDS, _FUNCTION, _UNIQUE) if name.startswith(each)), None)
        if kind is None or row is None:
            continue
        numbers = row.asDict() if hasattr(row, "asDict") else dict(row)
        path = name.removeprefix(kind).partition("#")[0]
        found[path] = found.get(path, DatasetCounts()) + _read(numbers)
    return found


def _read(numbers: Mapping[str, int]) -> DatasetCounts:
    plain = {name: int(numbers[name]) for name in _NUMBERS if name in numbers}
    unmet, actions = {}, {}
    for name, number in numbers.items():
        if name.startswith(_UNMET):
            action, _, expectation = name.removeprefix(_UNMET).partition(".")
            unmet[expectation], actions[expectation] = int(number), action
    return DatasetCounts(**plain, unmet=unmet, actions=actions)


def observed(frame: DataFrame, kind: str, evaluation: Evaluation, **numbers: str) -> DataFrame:
    """Return the frame with counts of its rows; kind is "records" or "function", the numbers are SQL.

    Counted is only what goes into a flow: the dead-letter flow of a dataset sees the same rows again.
    """
    from pyspark.sql import functions as F

    if evaluation.purpose is Purpose.DEAD_LETTERS:
        return frame
    sums = [F.expr(f"{number} AS {name}") for name, number in numbers.items()]
    return frame.observe(_name(f"{kind}.", evaluation), *sums)


_number = iter(range(2**62))


def _name(kind: str, evaluation: Evaluation) -> str:
    """Return a name that no other observation of the query has: a view may be read in several ways."""
    return f"{kind}{'/'.join((*evaluation.chain[1:-1], subject_of(evaluation)))}#{next(_number)}"


def judged(frame: DataFrame, dataset: Dataset, evaluation: Evaluation) -> DataFrame:
    """Return the rows that meet the expectations of a dataset, or whose expectations only count.

    Args:
        frame: the rows that its function returned.
        dataset: the dataset, with the expectations of this function.
        evaluation: with the purpose DEAD_LETTERS, for the first dataset of the chain, the rows that become dead letters
            are added to `bad_rows`.

    Raises:
        PipelineError: an expectation is no boolean expression of the rows, or cannot be applied to them.
    """
    conditions = tuple(each for each in dataset.expectations if each.unique_by is None)
    if conditions:
        frame = _judged_by_conditions(frame, dataset, conditions, evaluation)
    for each in dataset.expectations:
        if each.unique_by is not None:
            frame = _judged_by_uniqueness(frame, dataset, each, evaluation)
    return frame


def _judged_by_conditions(
    frame: DataFrame, dataset: Dataset, expectations: tuple[Expectation, ...], evaluation: Evaluation
) -> DataFrame:
    from pyspark.sql import functions as F

    conditions = _conditions(frame, dataset, expectations)
    names = [f"{_FLAG}{number}" for number in range(len(conditions))]
    flags = [(~F.coalesce(each, F.lit(False))).alias(name) for each, name in zip(conditions, names, strict=True)]
    flagged = frame.select("*", *flags)
    by_action = {
        action: [name for name, each in zip(names, expectations, strict=True) if each.action is action]
        for action in Action
    }
    # As SQL, an expression is one call to the JVM; as Columns, some ten.
    quarantined, dropped = _any(by_action[Action.QUARANTINE]), _any(by_action[Action.DROP])
    if by_action[Action.QUARANTINE]:
        columns, every = frame.columns, flagged
        _check_quarantine(columns, dataset, expectations, evaluation)
        undecoded = evaluation.undecoded
        if undecoded is not None and undecoded.good is frame and len(evaluation.bad_rows) == 1:
            evaluation.bad_rows[:] = [_bad_in_one_read(undecoded, flags, columns, quarantined, expectations)]
        else:
            add_bad_rows(evaluation, lambda: _quarantined(every, columns, quarantined, expectations))
    if evaluation.purpose is not Purpose.DEAD_LETTERS:
        flagged = flagged.observe(
            _name(_EXPECTATIONS, evaluation),
            F.expr("count(1) AS rows"),
            F.expr(f"count_if({dropped} AND NOT {quarantined}) AS dropped"),
            F.expr(f"count_if({quarantined}) AS quarantined"),
            *(
                F.expr(f"count_if({name})").alias(f"{_UNMET}{each.action.value}.{each.name}")
                for name, each in zip(names, expectations, strict=True)
            ),
        )
    kept = F.expr(f"NOT ({dropped} OR {quarantined})")
    for name, each in zip(names, expectations, strict=True):
        if each.action is Action.FAIL:
            kept &= F.when(F.col(name), F.raise_error(_failure(frame, dataset, each))).otherwise(F.lit(True))
    if by_action[Action.DROP] or by_action[Action.QUARANTINE] or by_action[Action.FAIL]:
        flagged = flagged.where(kept)
    return flagged.drop(*names)


def _any(flags: Iterable[str]) -> str:
    return f"({' OR '.join(flags) or 'false'})"


def _conditions(frame: DataFrame, dataset: Dataset, expectations: Iterable[Expectation]) -> list[Column]:
    """Return the conditions as columns.

    Raises:
        PipelineError: one is no boolean expression of the rows.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import BooleanType

    conditions = [_condition(dataset, each) for each in expectations]
    with suppress(PySparkException):
        found = frame.select(*(each.alias(f"{number}") for number, each in enumerate(conditions))).schema
        if all(isinstance(field.dataType, BooleanType) for field in found):
            return conditions
    for each, condition in zip(expectations, conditions, strict=True):
        _check_condition(frame, dataset, each, condition)
    return conditions


def _condition(dataset: Dataset, expectation: Expectation) -> Column:
    """Return the condition as a column.

    Raises:
        PipelineError: it is no expression.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    given = expectation.condition
    if not isinstance(given, (str, Column)):
        raise _error(dataset, expectation, f"{given!r} is neither SQL nor a Column")
    try:
        return F.expr(given) if isinstance(given, str) else given
    except PySparkException as error:
        raise _error(dataset, expectation, f"{_shown(given)}: {message_of(error)}") from error


def _check_condition(frame: DataFrame, dataset: Dataset, expectation: Expectation, condition: Column) -> None:
    """Refuse a condition that is no boolean expression of the rows.

    Raises:
        PipelineError: it is none.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import BooleanType

    given = expectation.condition
    assert given is not None, "expectations without a condition are about uniqueness"
    try:
        kind = frame.select(condition).schema[0].dataType
    except PySparkException as error:
        raise _error(dataset, expectation, f"{_shown(given)}: {message_of(error)}") from error
    if not isinstance(kind, BooleanType):
        raise _error(
            dataset,
            expectation,
            f"{_shown(given)} is {kind.simpleString()}, not boolean: write a condition that is true for good rows",
        )


def _shown(condition: str | Column) -> str:
    return condition if isinstance(condition, str) else str(condition)


def _error(dataset: Dataset, expectation: Expectation, what: str) -> PipelineError:
    location = expectation.location or dataset.location
    return PipelineError(f"expectation {expectation.name!r}: {what}", location=location, dataset=dataset.name)


def _check_quarantine(
    columns: Collection[str], dataset: Dataset, expectations: Iterable[Expectation], evaluation: Evaluation
) -> None:
    """Refuse rows whose record is not known, or that are judged with a table.

    A table changes, so a row could be good for the flow and bad for the query that finds the dead letters, or the other
    way round.
    """
    first = next(each for each in expectations if each.action is Action.QUARANTINE)
    if RECORD_COLUMN not in columns:
        raise _error(
            dataset,
            first,
            f"its rows have no column {RECORD_COLUMN}, the record as it was read, so they cannot become dead letters: "
            f"keep the column that topic() adds (select it, too), or use expect_or_drop",
        )
    tables = _tables_read(evaluation)
    if tables:
        raise _error(
            dataset,
            first,
            f"rows that are joined with a table ({', '.join(tables)}) cannot be quarantined, since the table changes: "
            "quarantine in a view that reads the topic, and join in another function; or use expect_or_drop",
        )


def _tables_read(evaluation: Evaluation) -> list[str]:
    """Return the tables that the running function, or a view that it reads, reads in batches."""
    readers: set[str] = set()
    new = {evaluation.chain[-1]}
    while new:
        readers |= new
        new = {each.name for each in evaluation.inputs if each.reader in readers} - readers
    return sorted({each.name for each in evaluation.inputs if each.reader in readers and not each.streaming})


def _quarantined(
    flagged: DataFrame, columns: Iterable[str], quarantined: str, expectations: tuple[Expectation, ...]
) -> DataFrame:
    return bad_rows(flagged.where(quarantined), Reason.EXPECTATION, _unmet(expectations), _sample(columns))


def _bad_in_one_read(
    undecoded: Undecoded,
    flags: Iterable[Column],
    columns: Iterable[str],
    quarantined: str,
    expectations: tuple[Expectation, ...],
) -> DataFrame:
    """Return the rows that are quarantined, and those that cannot be decoded and are not judged.

    Two frames would do, but Spark reads the topic for each.
    """
    from pyspark.sql import functions as F

    is_bad = F.col(undecoded.is_bad)
    judged = [F.when(~is_bad, flag).otherwise(F.lit(False)) for flag in flags]
    names = [f"{_FLAG}{number}" for number in range(len(judged))]
    flagged = undecoded.every.select("*", *(each.alias(name) for each, name in zip(judged, names, strict=True)))
    return bad_rows(
        flagged.where(f"{undecoded.is_bad} OR {quarantined}"),
        F.when(is_bad, F.lit(Reason.DECODE.value)).otherwise(F.lit(Reason.EXPECTATION.value)),
        F.when(~is_bad, _unmet(expectations)),
        F.when(is_bad, undecoded.error()).otherwise(_sample(columns)),
    )


def _unmet(expectations: Iterable[Expectation]) -> Column:
    """Return the names of the expectations that quarantine a row."""
    from pyspark.sql import functions as F

    return F.concat_ws(
        ", ",
        *(
            F.when(F.col(f"{_FLAG}{number}"), F.lit(each.name))
            for number, each in enumerate(expectations)
            if each.action is Action.QUARANTINE
        ),
    )


def _sample(columns: Iterable[str]) -> Column:
    from pyspark.sql import functions as F

    shown = [F.col(f"`{name}`") for name in columns if name not in _HIDDEN]
    return F.substring(F.to_json(F.struct(*shown)), 1, _SAMPLE_MAX)


def _failure(frame: DataFrame, dataset: Dataset, expectation: Expectation) -> Column:
    from pyspark.sql import functions as F

    said = [
        F.lit(f"dataset {dataset.name!r}: expectation {expectation.name!r} is not met by the row "),
        _sample(frame.columns),
    ]
    if RECORD_COLUMN in frame.columns:
        record = F.col(RECORD_COLUMN)
        place = [record.getField(name).cast("string") for name in ("topic", "partition", "offset")]
        said += [F.lit(" of "), place[0], F.lit("-"), place[1], F.lit(" at offset "), place[2]]
    return F.concat(*(F.coalesce(each, F.lit("null")) for each in said))


def _judged_by_uniqueness(
    frame: DataFrame, dataset: Dataset, expectation: Expectation, evaluation: Evaluation
) -> DataFrame:
    from pyspark.sql import functions as F

    columns = list(expectation.unique_by or ())
    missing = [each for each in columns if each not in frame.columns]
    if missing:
        raise _error(
            dataset, expectation, f"there is no column {missing[0]!r}; the rows have {', '.join(frame.columns)}"
        )
    if frame.isStreaming and expectation.action is Action.FAIL:
        raise _error(
            dataset,
            expectation,
            "a stream cannot fail at a repeated row: use expect_unique_or_drop, or expect_unique_or_fail on a "
            "materialized view",
        )
    if evaluation.purpose is Purpose.DEAD_LETTERS:
        return frame
    unmet = f"{_UNMET}{expectation.action.value}.{expectation.name}"
    if not frame.isStreaming:
        return _judged_in_a_batch(frame, dataset, expectation, _name(_UNIQUE, evaluation), unmet)
    # Spark does not report which rows it drops as duplicates: all rows are counted, and the kept ones are subtracted.
    drops = expectation.action is Action.DROP
    names = (unmet, "dropped") if drops else (unmet,)
    every = frame.observe(_name(_UNIQUE, evaluation), *(F.count(F.lit(1)).alias(name) for name in names))
    has_watermark = any(_WATERMARK in (each.metadata or {}) for each in frame.schema.fields)
    source = every if drops else frame
    first = source.dropDuplicatesWithinWatermark(columns) if has_watermark else source.dropDuplicates(columns)
    first = first.observe(_name(_UNIQUE, evaluation), *((-F.count(F.lit(1))).alias(name) for name in names))
    if drops:
        return first
    return every.unionByName(first.where(F.rand() < -1))  # no row, and Spark does not know that


def _judged_in_a_batch(
    frame: DataFrame, dataset: Dataset, expectation: Expectation, observation: str, unmet: str
) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    number = F.row_number().over(Window.partitionBy(*(expectation.unique_by or ())).orderBy(F.lit(1)))
    repeated = F.col(_FLAG)
    flagged = frame.withColumn(_FLAG, number > 1)
    measures = [F.count_if(repeated).alias(unmet)]
    if expectation.action is Action.DROP:
        measures.append(F.count_if(repeated).alias("dropped"))
    flagged = flagged.observe(observation, *measures)
    if expectation.action is Action.DROP:
        flagged = flagged.where(~repeated)
    if expectation.action is Action.FAIL:
        failed = F.raise_error(_failure(frame, dataset, expectation))
        flagged = flagged.where(F.when(repeated, failed).otherwise(F.lit(True)))
    return flagged.drop(_FLAG)
