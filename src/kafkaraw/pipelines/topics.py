"""Topics in pipelines: `topic()` reads one as rows, `to_topic()` and `create_topic()` make one a target of flows.

`topic()` reads the topic and the pipeline's replay topic, decodes the records with the pipeline's rules for bad ones
(decision in docs/pipelines/expectations.md), and keeps the replayed records that are for the datasets of the flow that
is evaluated. Bad records are never rows: the dead-letter flow of the dataset that called `topic()` finds them with the
same expressions.

Must not import pyspark at run time of this module. Start at `topic`, `read_topic` and `written_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.pipelines.evaluation import Evaluation, InputKind, Purpose, current_evaluation, message_of, stand_in
from kafkaraw.pipelines.expectations import active_registry, definition_location
from kafkaraw.pipelines.json_columns import JsonColumns
from kafkaraw.pipelines.judging import observed
from kafkaraw.pipelines.letters import (
    LARGEST_RECORD,
    REPLAYED_FOR,
    Reason,
    bad_rows,
    is_for,
    record_column,
    refused_headers,
)
from kafkaraw.pipelines.model import (
    KEY_COLUMN,
    RECORD_COLUMN,
    TIMESTAMP_COLUMN,
    TOMBSTONE_COLUMN,
    Location,
    Pipeline,
    PipelineError,
    TopicSource,
    TopicTarget,
    did_you_mean,
)
from kafkaraw.pipelines.subjects import add_bad_rows, missed_by

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

RESERVED: Final = (KEY_COLUMN, TIMESTAMP_COLUMN, TOMBSTONE_COLUMN, RECORD_COLUMN)
"""The columns that `topic()` adds to those of the value."""
_TYPED: Final = ("avro", "protobuf", "json-schema")
_VALUES: Final = ("bytes", "string", "json", *_TYPED)
_KEYS: Final = ("bytes", "string", *_TYPED)
_MODES: Final = ("append", "update", "complete")
_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
_ISOLATION: Final = "kafka.isolation.level"
_BAD, _PARSED, _ERROR = "_bad", "_parsed", "_error"


# -- what definition files call


def topic(
    name: str,
    *,
    value: str = "bytes",
    schema: str | StructType | None = None,
    key: str = "string",
    starting: str | Mapping[str, object] = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of a topic, as a stream.

    The columns are those of the value, and `_key`, `_timestamp`, `_tombstone` (whether the value is null) and `_record`
    (the record as it was read: key, value, headers, topic, partition, offset, timestamp). Records that cannot be
    decoded have no row: they become dead letters.

    Args:
        name: of the topic.
        value: format of values: "json" with a schema, "avro", "protobuf" or "json-schema" with the schema of the
            registry, "string" or "bytes" for one column `value`.
        schema: columns of JSON values, as DDL or StructType.
        key: format of keys: "string", "bytes", or one of the registry's.
        starting: where a flow without a checkpoint starts: "earliest", "latest", or offsets by partition.
        options: further options of format "kafkaraw".

    Raises:
        PipelineError: it is called outside of the function of a dataset, or an argument is wrong.
    """
    return _read(
        TopicSource(
            name,
            value,
            schema_text(schema),
            key,
            starting if isinstance(starting, str) else json.dumps(starting),
            dict(options or {}),
            definition_location(),
        )
    )


def schema_text(schema: str | StructType | None) -> str | None:
    """Return a schema as DDL."""
    return schema if isinstance(schema, str) or schema is None else str(schema.toDDL())


def _read(source: TopicSource) -> DataFrame:
    evaluation = current_evaluation()
    return evaluation.read_topic(source, evaluation)


def to_topic(
    name: str,
    *,
    key: str | Sequence[str] | None = None,
    value: str = "json",
    output_mode: str = "append",
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
    subject: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Callable[[Callable[[], DataFrame]], None]:
    """Write the rows of the function below to a topic, each exactly once.

    Args:
        name: of the topic; it is made if it does not exist.
        key: the column that is the key as text or bytes; several columns are a JSON object; None for no key.
        value: format of values: "json" (an object of all columns), "avro", "protobuf" or "json-schema" (registry),
            "string" or "bytes" for the only column, or the one with the name `value`.
        output_mode: "append", or "update" or "complete" for aggregations, as in Spark.
        partitions: number of partitions if the topic is made; None for the broker's default.
        config: configuration of the topic if it is made; checked if it exists.
        subject: of the schema in the registry; None for TOPIC-value.
        options: further options of format "kafkaraw".

    Raises:
        PipelineError: an argument is wrong.
    """
    location = definition_location()
    texts = dict(config or {}), subject, dict(options or {})
    target = _checked(TopicTarget(name, _keys(key), value, output_mode, partitions, *texts), location)

    def register(function: Callable[[], DataFrame]) -> None:
        if not callable(function):
            raise PipelineError(
                f"to_topic({name!r}) was applied to {type(function).__name__}: apply it to the function that returns "
                "the rows, below no decorator of dp",
                location=location,
            )
        _register(target, location, function)

    return register


def create_topic(
    name: str,
    *,
    key: str | Sequence[str] | None = None,
    value: str = "json",
    output_mode: str = "append",
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
    subject: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make a topic a target for several flows, `@dp.append_flow(target=name)`; arguments as for `to_topic`."""
    location = definition_location()
    texts = dict(config or {}), subject, dict(options or {})
    _register(_checked(TopicTarget(name, _keys(key), value, output_mode, partitions, *texts), location), location)


def _checked(target: TopicTarget, location: Location) -> TopicTarget:
    _check_one_of("value", target.value, _VALUES, target.name, location)
    _check_one_of("output_mode", target.output_mode, _MODES, target.name, location)
    if target.partitions is not None and target.partitions < 1:
        raise PipelineError(
            f"topic {target.name!r}: partitions={target.partitions}: must be at least 1", location=location
        )
    return target


def _keys(key: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    return key if key is None or isinstance(key, str) else tuple(key)


def _check_one_of(argument: str, value: str, known: Sequence[str], topic: str, location: Location | None) -> None:
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise PipelineError(
            f"topic {topic!r}: {argument}={value!r} is not one of {', '.join(known)}{hint}", location=location
        )


def _register(target: TopicTarget, location: Location, function: Callable[[], DataFrame] | None = None) -> None:
    """Register a target with the pipeline that is being loaded.

    Raises:
        PipelineError: none is being loaded, or Spark's own command loads it.
    """
    register = getattr(active_registry(), "register_topic", None)
    if register is None:
        raise PipelineError(
            f"topic {target.name!r}: topics as targets are defined while `kafkaraw pipelines` loads the files of a "
            "pipeline; Spark's own command does not know them",
            location=location,
        )
    register(target, location, function)


# -- reading


def read_topic(source: TopicSource, evaluation: Evaluation) -> DataFrame:
    """Return the rows of `topic()`: decoded, replays among them, without bad records.

    Args:
        source: the arguments of `topic()`.
        evaluation: with the purpose DEAD_LETTERS, for the first dataset of the chain, the bad records are added to
            `bad_rows`.

    Raises:
        PipelineError: an argument is wrong.
    """
    check(source)
    evaluation.note(source.name, InputKind.TOPIC, streaming=True)
    return _decoded(source, records_of(source, evaluation, streaming=True), evaluation)


def check(source: TopicSource) -> None:
    """Refuse wrong arguments.

    Raises:
        PipelineError: names the argument, its value and the remedy.
    """
    if not source.name:
        raise PipelineError(f"topic({source.name!r}): give the name of a topic", location=source.location)
    _check_one_of("value", source.value, _VALUES, source.name, source.location)
    _check_one_of("key", source.key, _KEYS, source.name, source.location)
    if source.value == "json" and source.schema is None:
        raise PipelineError(
            f'topic {source.name!r}: value="json" needs the columns: schema="id LONG, amount DOUBLE"',
            location=source.location,
        )
    if source.value != "json" and source.schema is not None:
        raise PipelineError(
            f"topic {source.name!r}: value={source.value!r} takes no schema: that of the registry counts, or there is "
            "one column",
            location=source.location,
        )


def records_of(source: TopicSource, evaluation: Evaluation, *, streaming: bool) -> DataFrame:
    """Return the records of the topic, and those of the replay topic that are for this evaluation."""
    if evaluation.read_records is not None:
        return evaluation.read_records(source, evaluation, streaming)
    spark, settings = evaluation.spark, evaluation.pipeline.settings
    options = {_ISOLATION: "read_committed"}  # a replay that was not committed is repeated
    options |= dict(settings.kafka) | (dict(settings.registry) if _is_typed(source) else {}) | dict(source.options)
    options |= {"includeHeaders": "true", "subscribe": source.name}
    options |= _typed_options(source)
    if evaluation.purpose is Purpose.PLAN:
        check_options(options, source.name, source.location)
        if not _is_typed(source):
            from kafkaraw.spark.reading.arrow import spark_schema

            name = f"topic {source.name}"
            return stand_in(spark, spark_schema(include_headers=True), evaluation, streaming=streaming, name=name)
    if not streaming:
        batch: DataFrame = spark.read.format("kafkaraw").options(**options).load()
        return batch
    options["subscribe"] = f"{source.name},{settings.replay_topic}"
    options["startingOffsets"] = _starting(source, evaluation)
    records: DataFrame = spark.readStream.format("kafkaraw").options(**options).load()
    return records.where(is_for(source.name, settings.replay_topic, missed_by(evaluation)))


def check_options(options: Mapping[str, str], topic: str, location: Location | None) -> None:
    """Check the options with which a topic is read or written.

    Raises:
        PipelineError: one is missing, unknown or wrong.
    """
    from kafkaraw.spark.options.parsing import parse_options

    if "kafka.bootstrap.servers" not in {name.lower() for name in options}:
        raise PipelineError(
            f"topic {topic!r}: no brokers are given: set `kafkaraw.kafka.bootstrap.servers: HOST:PORT` in the "
            "configuration of spark-pipeline.yml",
            location=location,
        )
    try:
        parse_options(options)
    except ConfigError as error:
        raise PipelineError(f"topic {topic!r}: {error}", location=location) from error


def _is_typed(source: TopicSource) -> bool:
    return source.value in _TYPED or source.key in _TYPED


def _typed_options(source: TopicSource) -> dict[str, str]:
    """Return the options that make the source decode with schemas of the registry, and keep bad records."""
    typed = {name: form for name, form in (("value", source.value), ("key", source.key)) if form in _TYPED}
    if not typed:
        return {}
    options = {"decodeErrors": "column", "includeRaw": "true"}
    for name, form in typed.items():
        options[f"{name}.format"] = form
        if f"{name}.schema" not in source.options and f"{name}.schema.subject" not in source.options:
            options[f"{name}.schema.subject"] = f"{source.name}-{name}"
    return options


def _starting(source: TopicSource, evaluation: Evaluation) -> str:
    """Return where a flow without a checkpoint starts. It reads no old replays: it reads the records themselves."""
    starting: dict[str, object] = {
        source.name: _start_of(source),
        evaluation.pipeline.settings.replay_topic: "latest",
    }
    for name, offsets in (evaluation.start_offsets or {}).items():
        if name in starting:
            starting[name] = {str(partition): offset for partition, offset in offsets.items()}
    return json.dumps(starting)


def _start_of(source: TopicSource) -> object:
    text = source.starting.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        raise PipelineError(
            f'topic {source.name!r}: starting={text!r}: must be "earliest", "latest", or offsets by partition, '
            '{"0": 23}',
            location=source.location,
        )
    return given.get(source.name, given)


def _decoded(source: TopicSource, records: DataFrame, evaluation: Evaluation) -> DataFrame:
    """Return the rows of the records, and register those that cannot be decoded."""
    from pyspark.sql import functions as F

    decoded = decode(source, records, evaluation)
    if decoded.may_be_bad:
        add_bad_rows(evaluation, decoded.bad)
    counted = observed(
        decoded.rows,
        "records",
        evaluation,
        records=F.count(F.lit(1)),
        undecodable=F.count_if(F.col(_BAD)),
        tombstones=F.count_if(F.col(TOMBSTONE_COLUMN)),
        replayed=F.count_if(F.col(RECORD_COLUMN).getField(REPLAYED_FOR).isNotNull()),
    )
    return replace(decoded, rows=counted).good()


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records of a topic, decoded as far as they can be.

    Args:
        rows: of all records.
        names: of the columns of the value.
        columns: of the value, for good rows.
        reason: returns why a row is bad, for bad rows. It takes many calls to make.
        may_be_bad: whether there are formats that a record may not have.
    """

    rows: DataFrame
    names: Sequence[str]
    columns: Sequence[Column]
    reason: Callable[[], Column]
    may_be_bad: bool

    def good(self) -> DataFrame:
        """Return the rows of records that could be decoded: the columns of the value, and the reserved ones."""
        from pyspark.sql import functions as F

        return self.rows.where(~F.col(_BAD)).select(*self.columns, *RESERVED)

    def bad(self) -> DataFrame:
        """Return the others, as `letter_columns` takes them."""
        from pyspark.sql import functions as F

        return bad_rows(self.rows.where(_BAD), Reason.DECODE, F.lit(""), self.reason())


def decode(source: TopicSource, records: DataFrame, evaluation: Evaluation) -> Decoded:
    """Decode the records of a topic.

    Raises:
        PipelineError: the schema cannot be used.
    """
    from pyspark.sql import functions as F

    form = _form(source, records)
    taken = set(RESERVED) & set(form.names)
    if taken:
        raise PipelineError(
            f"topic {source.name!r}: the value has the column {min(taken)!r}, a name that topic() uses itself; rename "
            "the field of the record",
            location=source.location,
        )
    rows = records.select(
        form.key.alias(KEY_COLUMN),
        F.col("timestamp").alias(TIMESTAMP_COLUMN),
        form.raw.isNull().alias(TOMBSTONE_COLUMN),
        record_column(source.name, evaluation.pipeline.settings.replay_topic, raw=form.raw, raw_key=form.raw_key),
        *(column.alias(name) for name, column in form.carried.items()),
    )
    record = F.col(RECORD_COLUMN)
    rows = rows.select("*", form.is_bad(record).alias(_BAD))
    may_be_bad = (source.value, source.key) != ("bytes", "bytes")
    return Decoded(rows, form.names, form.columns, lambda: form.reason(record), may_be_bad)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the records of one topic become rows.

    Args:
        key: the key, decoded.
        raw: bytes of the value.
        raw_key: bytes of the key.
        carried: columns that `columns`, `is_bad` and `reason` need, by name.
        names: of the columns of the value.
        columns: of the value.
        is_bad: returns whether a record cannot be decoded, given `_record`; never null.
        reason: returns why; for bad records only.
    """

    key: Column
    raw: Column
    raw_key: Column
    carried: Mapping[str, Column]
    names: Sequence[str]
    columns: Sequence[Column]
    is_bad: Callable[[Column], Column]
    reason: Callable[[Column], Column]


def _form(source: TopicSource, records: DataFrame) -> _Form:
    """Return how the records become rows."""
    from pyspark.sql import functions as F

    typed = [name for name, form in (("key", source.key), ("value", source.value)) if form in _TYPED]
    raw, raw_key = (F.col(f"{name}_raw" if name in typed else name) for name in ("value", "key"))
    key = F.col("key").cast("string") if source.key == "string" else F.col("key")
    carried = {f"{_ERROR}_{name}": F.col(f"{name}_error") for name in typed}

    def key_fault(record: Column) -> Column:
        text = record.getField("key").cast("string")
        return F.coalesce(~F.is_valid_utf8(text), F.lit(False)) if source.key == "string" else F.lit(False)

    def is_bad(record: Column) -> Column:
        bad = key_fault(record)
        for name in carried:
            bad |= F.col(name).isNotNull()
        return bad

    def reason(record: Column) -> Column:
        said = [F.when(key_fault(record), F.lit("the key is not valid UTF-8"))]
        said += [F.concat(F.lit(f"{name}: "), F.col(f"{_ERROR}_{name}")) for name in typed]
        return F.coalesce(*said)

    plain = _Form(key, raw, raw_key, carried, (), (), is_bad, reason)
    if source.value == "json":
        return _json_form(source, plain)
    if source.value in _TYPED:
        return _typed_form(records, plain)
    return _text_form(plain) if source.value == "string" else _bytes_form(plain)


def _json_form(source: TopicSource, plain: _Form) -> _Form:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(source.schema or "")
        assert isinstance(schema, StructType), "columns are a struct"
        decoder = JsonColumns(schema, "schema")
    except (ConfigError, PySparkException) as error:
        raise PipelineError(
            f"topic {source.name!r}: schema={source.schema!r}: {message_of(error)}", location=source.location
        ) from error
    parsed = F.col(_PARSED)

    def is_bad(record: Column) -> Column:
        value = record.getField("value")
        return plain.is_bad(record) | (value.isNotNull() & decoder.is_bad(parsed, value))

    def reason(record: Column) -> Column:
        return F.coalesce(plain.reason(record), decoder.reason(record.getField("value")))

    return replace(
        plain,
        carried={**plain.carried, _PARSED: decoder.parsed(plain.raw)},
        names=[field.name for field in schema.fields],
        columns=decoder.columns(parsed),
        is_bad=is_bad,
        reason=reason,
    )


def _typed_form(records: DataFrame, plain: _Form) -> _Form:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind, value = records.schema["value"].dataType, F.col(_PARSED)
    if isinstance(kind, StructType):
        columns = {field.name: value.getField(field.name).alias(field.name) for field in kind.fields}
    else:
        columns = {"value": value.alias("value")}
    carried = {**plain.carried, _PARSED: F.col("value")}
    return replace(plain, carried=carried, names=list(columns), columns=list(columns.values()))


def _text_form(plain: _Form) -> _Form:
    from pyspark.sql import functions as F

    def is_bad(record: Column) -> Column:
        text = record.getField("value").cast("string")
        return plain.is_bad(record) | F.coalesce(~F.is_valid_utf8(text), F.lit(False))

    def reason(record: Column) -> Column:
        return F.coalesce(plain.reason(record), F.lit("the value is not valid UTF-8"))

    column = F.col(RECORD_COLUMN).getField("value").cast("string").alias("value")
    return replace(plain, names=("value",), columns=(column,), is_bad=is_bad, reason=reason)


def _bytes_form(plain: _Form) -> _Form:
    from pyspark.sql import functions as F

    return replace(plain, names=("value",), columns=(F.col(RECORD_COLUMN).getField("value").alias("value"),))


# -- writing


def written_rows(frame: DataFrame, target: TopicTarget, pipeline: Pipeline) -> DataFrame:
    """Return the rows of a flow as records: the columns `key` and `value` of format "kafkaraw".

    Args:
        frame: the rows. If there is a column `_tombstone`, the value of rows for which it is true is null.
        target: the topic.
        pipeline: the pipeline.

    Raises:
        PipelineError: the rows do not have the columns that the target needs.
    """
    from pyspark.sql import functions as F

    columns = [name for name in frame.columns if name not in (RECORD_COLUMN, TOMBSTONE_COLUMN)]
    value = _written_value(frame, columns, target)
    if TOMBSTONE_COLUMN in frame.columns:
        value = F.when(~F.coalesce(F.col(TOMBSTONE_COLUMN), F.lit(False)), value)
    return frame.select(_written_key(columns, target).alias("key"), value.alias("value"))


def _written_key(columns: Sequence[str], target: TopicTarget) -> Column:
    from pyspark.sql import functions as F

    keys = (target.key,) if isinstance(target.key, str) else target.key or ()
    missing = [name for name in keys if name not in columns]
    if missing:
        raise PipelineError(
            f"topic {target.name!r}: key={target.key!r}: the rows have no column {missing[0]!r}, but "
            f"{', '.join(columns)}{did_you_mean(missing[0], columns)}"
        )
    if not keys:
        return F.lit(None).cast("binary")
    if len(keys) > 1:
        return F.to_json(F.struct(*(F.col(f"`{name}`") for name in keys)), dict(_TIMES)).cast("binary")
    return F.col(f"`{keys[0]}`").cast("string").cast("binary")


def _written_value(frame: DataFrame, columns: Sequence[str], target: TopicTarget) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    if target.value == "json":
        return F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns)), dict(_TIMES)).cast("binary")
    if target.value in _TYPED:
        return F.struct(*(F.col(f"`{name}`") for name in columns))
    keys = {target.key} if isinstance(target.key, str) else set(target.key or ())
    values = [name for name in columns if name not in keys]
    name = "value" if "value" in columns else values[0] if len(values) == 1 else None
    if name is None or not isinstance(frame.schema[name].dataType, (BinaryType, StringType)):
        raise PipelineError(
            f"topic {target.name!r}: value={target.value!r} needs rows with the column `value`, or one column beside "
            f'the key, of type string or binary; they have {", ".join(columns)}. Select it, or use value="json"'
        )
    return F.col(f"`{name}`").cast("binary")


def sink_options(pipeline: Pipeline, topic: str, flow: str, target: TopicTarget | None = None) -> dict[str, str]:
    """Return the options of format "kafkaraw" with which a flow writes to a topic: each row exactly once.

    Args:
        pipeline: the pipeline.
        topic: the topic.
        flow: name of the flow.
        target: arguments of `to_topic` for it; None for the dead-letter topic.
    """
    options = {"kafka.max.request.size": str(LARGEST_RECORD), "kafka.buffer.memory": str(2 * LARGEST_RECORD)}
    options |= dict(pipeline.settings.kafka) | {"topic": topic, "exactlyOnce": "true"}
    if target is None:
        return options | {"includeTimestamp": "true"}
    options |= {"deadLetterTopic": pipeline.settings.dead_letter_topic}
    options["deadLetterHeaders"] = json.dumps(refused_headers(pipeline.name, flow))
    if target.value in _TYPED:
        options |= dict(pipeline.settings.registry) | {"value.format": target.value}
        options["value.schema.subject"] = target.subject or f"{topic}-value"
    return options | dict(target.options)
