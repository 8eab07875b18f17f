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
from functools import cache, lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.pipelines.evaluation import (
    Evaluation,
    InputKind,
    Purpose,
    Undecoded,
    current_evaluation,
    declared_columns,
    stand_in,
)
from kafkaraw.pipelines.expectations import active_registry, definition_location
from kafkaraw.pipelines.json_columns import ROW, JsonColumns
from kafkaraw.pipelines.judging import observed
from kafkaraw.pipelines.letters import (
    LARGEST_RECORD,
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
from kafkaraw.spark.options.parsing import JSON_OPTION
from kafkaraw.spark.options.schemas import JSON_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

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
_BAD, _PARSED, _ERROR, _RAW, _KEY_FAULT, _REPLAYED = "_bad", "_parsed", "_error", "_raw", "_key_fault", "_replayed"
_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
"""Names of the time zone UTC in Spark's settings."""
_FORMS_MAX: Final = 64  # kept; each has some hundred columns


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
    target, location = _target(name, key, value, output_mode, partitions, config, subject, options)

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
    _register(*_target(name, key, value, output_mode, partitions, config, subject, options))


def _target(
    name: str,
    key: str | Sequence[str] | None,
    value: str,
    output_mode: str,
    partitions: int | None,
    config: Mapping[str, str] | None,
    subject: str | None,
    options: Mapping[str, str] | None,
) -> tuple[TopicTarget, Location]:
    """Check the arguments of a topic that is a target; return them with the line that gave them."""
    location = definition_location()
    _check_one_of("value", value, _VALUES, name, location)
    _check_one_of("output_mode", output_mode, _MODES, name, location)
    if partitions is not None and partitions < 1:
        raise PipelineError(f"topic {name!r}: partitions={partitions}: must be at least 1", location=location)
    keys = key if key is None or isinstance(key, str) else tuple(key)
    texts = dict(config or {}), subject, dict(options or {})
    return TopicTarget(name, keys, value, output_mode, partitions, *texts), location


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
    options |= _json_options(source, spark)
    if not streaming:
        batch: DataFrame = spark.read.format("kafkaraw").options(**options).load()
        return batch
    options["subscribe"] = f"{source.name},{settings.replay_topic}"
    options["startingOffsets"] = _starting(source, evaluation)
    records: DataFrame = spark.readStream.format("kafkaraw").options(**options).load()
    return records.where(is_for(source.name, settings.replay_topic, missed_by(evaluation)))


def planned_records(source: TopicSource, evaluation: Evaluation, streaming: bool) -> DataFrame:
    """Return no records, with the columns of `records_of`, for the plan of a query that finds dead letters."""
    plan = replace(evaluation, purpose=Purpose.PLAN, read_records=None)
    return records_of(source, plan, streaming=streaming)


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


def _json_options(source: TopicSource, spark: SparkSession) -> dict[str, str]:
    """Return the options that make the source decode the JSON values that are plain, if it can."""
    if source.value != "json" or _is_typed(source):
        return {}
    from kafkaraw.spark.reading.json_values import JsonValues

    where = f"topic {source.name!r}: schema={source.schema!r}"
    schema = declared_columns(source.schema or "", where, location=source.location)
    values = JsonValues.of(schema, utc=spark.conf.get("spark.sql.session.timeZone") in _UTC)
    return {} if values is None else {JSON_OPTION: values.to_text()}


def _starting(source: TopicSource, evaluation: Evaluation) -> str:
    """Return where a flow without a checkpoint starts. It reads no old replays: it reads the records themselves."""
    starting: dict[str, object] = {
        source.name: _start_of(source),
        evaluation.pipeline.settings.replay_topic: "latest",
    }
    for name, offsets in (evaluation.start_offsets or {}).items():
        if name in starting:
            starting[name] = {str(partition): offset for partition, offset in offsets.items()} or "earliest"
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
    decoded = decode(source, records, evaluation)
    if decoded.may_be_bad:
        add_bad_rows(evaluation, decoded.bad)
    counted = observed(
        decoded.rows,
        "records",
        evaluation,
        records="count(1)",
        undecodable=f"count_if({_BAD})",
        tombstones=f"count_if({TOMBSTONE_COLUMN})",
        replayed=f"count_if({_REPLAYED})",
    )
    good = replace(decoded, rows=counted).good()
    if evaluation.bad_rows and set(decoded.names).isdisjoint(decoded.rows.columns):
        every = decoded.rows.select("*", *decoded.columns)
        evaluation.undecoded = Undecoded(good, every, _BAD, decoded.reason)
    return good


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
        return self.rows.where(f"NOT {_BAD}").select(*self.columns, *RESERVED)

    def bad(self) -> DataFrame:
        """Return the others, as `letter_columns` takes them."""
        from pyspark.sql import functions as F

        return bad_rows(self.rows.where(_BAD), Reason.DECODE, F.lit(""), self.reason())


def decode(source: TopicSource, records: DataFrame, evaluation: Evaluation) -> Decoded:
    """Decode the records of a topic.

    Raises:
        PipelineError: the schema cannot be used.
    """
    form = _form(source, records, evaluation)
    taken = set(RESERVED) & set(form.names)
    if taken:
        raise PipelineError(
            f"topic {source.name!r}: the value has the column {min(taken)!r}, a name that topic() uses itself; rename "
            "the field of the record",
            location=source.location,
        )
    rows = records.select(*form.read).select("*", form.is_bad)
    may_be_bad = (source.value, source.key) != ("bytes", "bytes")
    return Decoded(rows, form.names, form.columns, form.reason, may_be_bad)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the records of one topic become rows.

    Args:
        read: of the records: the reserved columns, and those that the other fields of this class need. They could take
            them from `_record`, but then every row had it, needed or not.
        names: of the columns of the value.
        columns: of the value.
        is_bad: whether a record cannot be decoded; never null.
        reason: returns why; for bad records only.
    """

    read: Sequence[Column]
    names: Sequence[str]
    columns: Sequence[Column]
    is_bad: Column
    reason: Callable[[], Column]


def _form(source: TopicSource, records: DataFrame, evaluation: Evaluation) -> _Form:
    """Return how the records become rows.

    Raises:
        PipelineError: the schema cannot be used.
    """
    replay_topic = evaluation.pipeline.settings.replay_topic
    kind = records.schema["value"].dataType if source.value in _TYPED else None
    formats = source.key, source.value, source.schema
    is_decoded = source.value == "json" and JSON_COLUMN in records.columns
    try:
        return _made_form(evaluation.spark, source.name, replay_topic, *formats, kind, is_decoded=is_decoded)
    except PipelineError as error:
        raise PipelineError(error.what, location=source.location) from error


@lru_cache(_FORMS_MAX)
def _made_form(
    spark: SparkSession,
    topic: str,
    replay_topic: str,
    key: str,
    value: str,
    schema: str | None,
    kind: DataType | None,
    *,
    is_decoded: bool,
) -> _Form:
    """Make a form, once for a session: it takes thousands of calls to its JVM, and functions are evaluated often."""
    from pyspark.sql import functions as F

    typed = [name for name, form in (("key", key), ("value", value)) if form in _TYPED]
    raw, raw_key = (F.col(f"{name}_raw" if name in typed else name) for name in ("value", "key"))
    read = [
        (F.col("key").cast("string") if key == "string" else F.col("key")).alias(KEY_COLUMN),
        F.col("timestamp").alias(TIMESTAMP_COLUMN),
        raw.isNull().alias(TOMBSTONE_COLUMN),
        record_column(topic, replay_topic, raw=raw, raw_key=raw_key),
        (F.col("topic") == replay_topic).alias(_REPLAYED),
        raw.alias(_RAW),
        (F.coalesce(~F.is_valid_utf8(raw_key.cast("string")), F.lit(False)) if key == "string" else F.lit(False)).alias(
            _KEY_FAULT
        ),
        *(F.col(f"{name}_error").alias(f"{_ERROR}_{name}") for name in typed),
    ]
    key_fault = F.col(_KEY_FAULT)
    bad = reduce(or_, (F.col(f"{_ERROR}_{name}").isNotNull() for name in typed), key_fault)

    def reason() -> Column:
        said = [F.when(key_fault, F.lit("the key is not valid UTF-8"))]
        said += [F.concat(F.lit(f"{name}: "), F.col(f"{_ERROR}_{name}")) for name in typed]
        return F.coalesce(*said)

    plain = _Form(read, (), (), bad, cache(reason))
    if value == "json":
        made = _json_form(plain, raw, schema or "", f"topic {topic!r}: schema={schema!r}", is_decoded=is_decoded)
    elif value in _TYPED:
        made = _typed_form(plain, kind)
    else:
        made = _text_form(plain) if value == "string" else _bytes_form(plain)
    return replace(made, is_bad=made.is_bad.alias(_BAD))


def _json_form(plain: _Form, raw: Column, ddl: str, where: str, *, is_decoded: bool) -> _Form:
    """Return how JSON becomes rows: the source may have decoded the records that are plain."""
    from pyspark.sql import functions as F

    schema = declared_columns(ddl, where)
    try:
        decoder = JsonColumns(schema, "schema")
    except ConfigError as error:
        raise PipelineError(f"{where}: {error}") from error
    parsed, value = F.col(_PARSED), F.col(_RAW)
    reason = cache(lambda: F.coalesce(plain.reason(), decoder.reason(value)))
    form = replace(plain, names=[field.name for field in schema.fields], reason=reason)
    if not is_decoded:
        return replace(
            form,
            read=[*plain.read, decoder.parsed(raw).alias(_PARSED)],
            columns=decoder.columns(parsed),
            is_bad=plain.is_bad | (value.isNotNull() & decoder.is_bad(parsed, value)),
        )
    fields = {f"{_PARSED}_{number}": name for number, name in enumerate(form.names)}
    decoded = [F.col(JSON_COLUMN).getField(name).alias(column) for column, name in fields.items()]
    others = decoder.row(F.when(F.col(JSON_COLUMN).isNull(), raw))
    return replace(
        form,
        read=[*plain.read, *decoded, others.alias(_PARSED)],
        columns=[
            F.when(parsed.isNull(), F.col(column)).otherwise(parsed.getField(ROW).getField(name)).alias(name)
            for column, name in fields.items()
        ],
        is_bad=plain.is_bad | (parsed.isNotNull() & parsed.getField(ROW).isNull()),
    )


def _typed_form(plain: _Form, kind: DataType | None) -> _Form:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    value = F.col(_PARSED)
    if isinstance(kind, StructType):
        columns = {field.name: value.getField(field.name).alias(field.name) for field in kind.fields}
    else:
        columns = {"value": value.alias("value")}
    read = [*plain.read, F.col("value").alias(_PARSED)]
    return replace(plain, read=read, names=list(columns), columns=list(columns.values()))


def _text_form(plain: _Form) -> _Form:
    from pyspark.sql import functions as F

    text = F.col(_RAW).cast("string")
    return replace(
        plain,
        names=("value",),
        columns=(text.alias("value"),),
        is_bad=plain.is_bad | F.coalesce(~F.is_valid_utf8(text), F.lit(False)),
        reason=cache(lambda: F.coalesce(plain.reason(), F.lit("the value is not valid UTF-8"))),
    )


def _bytes_form(plain: _Form) -> _Form:
    from pyspark.sql import functions as F

    return replace(plain, names=("value",), columns=(F.col(_RAW).alias("value"),))


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
