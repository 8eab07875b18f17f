"""`map_records()`: a Python function of the user for each row; rows for which it raises are dead letters.

Must not read topics. Start at `map_records`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.pipelines.evaluation import current_evaluation, declared_columns
from kafkaraw.pipelines.expectations import definition_location
from kafkaraw.pipelines.judging import observed
from kafkaraw.pipelines.letters import Reason, bad_rows
from kafkaraw.pipelines.model import RECORD_COLUMN, PipelineError
from kafkaraw.pipelines.subjects import add_bad_rows
from kafkaraw.pipelines.topics import RESERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

Function = Callable[[Any], "tuple[object, ...] | Mapping[str, object]"]
_MAPPED: Final = "_mapped"
_ROW, _ERROR = "row", "error"
_ERROR_MAX: Final = 1_000  # characters


def map_records(frame: DataFrame, function: Function, schema: str | StructType) -> DataFrame:
    """Return the results of a Python function, one row for each row.

    Rows for which the function raises, or returns something that is no row of the schema, are dead letters with the
    reason `function`; the dead letter has the exception and its line. The query of the dead letters calls the function,
    too, so it must depend on its argument only, and change nothing.

    Args:
        frame: rows of `topic()`, with the column `_record`.
        function: gets a `Row` with all columns but `_record`, and returns a tuple of the columns of the schema, or a
            mapping (missing columns are null).
        schema: columns of the result, as DDL or StructType. The columns `_key`, `_timestamp`, `_tombstone` and
            `_record` of the frame follow them.

    Raises:
        PipelineError: the frame has no column `_record`, or the schema is wrong.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    evaluation, location = current_evaluation(), definition_location()
    if RECORD_COLUMN not in frame.columns:
        raise PipelineError(
            f"map_records: the rows have no column {RECORD_COLUMN}, the record as it was read, so those that the "
            "function cannot map cannot become dead letters: keep the column that topic() adds (select it, too)",
            location=location,
        )
    result = (
        schema
        if isinstance(schema, StructType)
        else declared_columns(schema, f"map_records: schema={schema!r}", location=location)
    )
    taken = set(RESERVED) & set(result.names)
    if taken:
        raise PipelineError(
            f"map_records: the schema has the column {min(taken)!r}, which the rows of the topic have: rename it",
            location=location,
        )
    either = StructType([StructField(_ROW, result), StructField(_ERROR, StringType())])
    call = F.udf(_guarded(function, result), either, useArrow=False).asNondeterministic()  # called once for each row
    given = F.struct(*(F.col(f"`{name}`") for name in frame.columns if name != RECORD_COLUMN))
    kept = [name for name in RESERVED if name in frame.columns]
    mapped = frame.select(call(given).alias(_MAPPED), *kept)
    failure = F.col(_MAPPED).getField(_ERROR)
    add_bad_rows(evaluation, lambda: bad_rows(mapped.where(failure.isNotNull()), Reason.FUNCTION, F.lit(""), failure))
    counted = observed(mapped, "function", evaluation, failures=f"count_if({_MAPPED}.{_ERROR} IS NOT NULL)")
    columns = (F.col(_MAPPED).getField(_ROW).getField(name).alias(name) for name in result.names)
    return counted.where(failure.isNull()).select(*columns, *kept)


def _guarded(function: Function, schema: StructType) -> Callable[[Row], tuple[object, str | None]]:
    """Return a function that returns the result of another one, or the text of its error."""
    from pyspark.sql.types import _make_type_verifier

    verify, names = _make_type_verifier(schema), schema.names

    def call(row: Row) -> tuple[object, str | None]:
        try:
            result = function(row)
            if isinstance(result, Mapping):
                unknown = result.keys() - set(names)
                if unknown:
                    raise TypeError(f"the result has {sorted(map(str, unknown))}, which the schema does not name")
                result = tuple(result.get(name) for name in names)
            if not isinstance(result, tuple):
                raise TypeError(f"the function returned {type(result).__name__}, not a tuple or a mapping")
            verify(result)
        except Exception as error:  # noqa: BLE001 -- any error of the user's function
            line = traceback.extract_tb(error.__traceback__)[1:2]
            place = f" ({line[0].name}, line {line[0].lineno})" if line else ""
            return None, f"{type(error).__name__}: {error}{place}"[:_ERROR_MAX]
        return result, None

    return call
