"""Columns of any DataFrame with schemas of a registry: `from_schema` decodes framed bytes, `to_schema` encodes.

For DataFrames that the source or the sink of this package do not make, such as a Parquet copy of a topic. They are
Arrow UDFs, so they need Spark 4.1. Must not be imported before pyspark is needed. Start at `from_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkaraw.errors import ConfigError, DeserializationError
from kafkaraw.schemas.arrow.decode import FORMATS, ColumnDecoder
from kafkaraw.schemas.arrow.encode import ColumnEncoder
from kafkaraw.schemas.arrow.plans import Texts, columns_for
from kafkaraw.schemas.arrow.sources import check_rules
from kafkaraw.schemas.blocking import Registry
from kafkaraw.schemas.model import RegisteredSchema, Schema
from kafkaraw.spark.options.schemas import LATEST, RegistrySettings
from kafkaraw.spark.reading.typed_columns import registries, spark_type
from kafkaraw.spark.versions import running

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_SINCE: Final = (4, 1)
_URL: Final = "schema.registry.url"


def from_schema(  # noqa: PLR0913 - one option per question
    column: Column | str,
    registry: str | Mapping[str, str],
    *,
    subject: str | None = None,
    version: int | str = LATEST,
    schema: str | None = None,
    format: str = "avro",
    on_error: Literal["fail", "null", "struct"] = "fail",
    message: str = "",
    recursive_field_max_depth: int = 0,
    ignore_rules: bool = False,
) -> Column:
    """Decode a column of framed bytes into the type of a schema.

    Args:
        column: the column, binary.
        registry: URL of the registry, or settings by the names of the options `schema.registry.*`.
        subject: the subject with the schema of the result; records of other versions are resolved to it.
        version: its version, "latest" is the latest one now.
        schema: the schema of the result itself, instead of a subject.
        format: "avro", "protobuf" or "json-schema".
        on_error: what happens to bytes that cannot be decoded: "fail", "null", or "struct": then the column is a struct
            of `value` and `error`, the reason.
        message: of Protobuf: full name of the message; "" is the first one of the schema.
        recursive_field_max_depth: how often a record may contain itself.
        ignore_rules: decode bytes whose schemas have rules, such as encryption, without running them; otherwise such
            bytes cannot be decoded.

    Raises:
        ConfigError: Spark is older than 4.1, neither subject nor schema is given, or the format is another one.
        RegistryError: the registry has no such schema, or cannot be asked.
    """
    if on_error not in ("fail", "null", "struct"):
        raise ConfigError(f"on_error={on_error!r}: must be fail, null or struct")
    settings = _settings(registry)
    _checked(format)
    with Registry.from_config(settings) as client:
        found = _given(client, format, subject, version, schema)
        if found.schema_type is not FORMATS[format]:
            raise ConfigError(f"format={format}: subject {subject!r} has a schema of {found.schema_type.value}")
        texts = Texts.of(client.bundle(found), message)
    kind = spark_type(columns_for(texts, recursive_field_max_depth))

    def decode(framed: pa.Array) -> pa.Array:
        import pyarrow as pa

        with registries.borrow(settings) as client:
            decoder = ColumnDecoder(
                client, format, texts, "column", recursive_field_max_depth, ignore_rules=ignore_rules
            )
            decoded = decoder.decode(framed)
        if on_error == "struct":
            return pa.StructArray.from_arrays([decoded.array, decoded.reasons_array()], names=["value", "error"])
        if on_error == "fail" and decoded.reasons:
            row = min(decoded.reasons)
            raise DeserializationError(
                f"from_schema: {decoded.reasons[row]}. To go on without such bytes, give on_error='null' or 'struct'",
                topic="",
                partition=-1,
                offset=-1,
            )
        return decoded.array

    from pyspark.sql import types

    if on_error == "struct":
        fields = [types.StructField("value", kind), types.StructField("error", types.StringType())]
        kind = types.StructType(fields)
    made: Column = _arrow_function("from_schema", decode, kind)(column)
    return made


def to_schema(  # noqa: PLR0913 - one option per question
    column: Column | str,
    registry: str | Mapping[str, str],
    *,
    subject: str,
    version: int | str = LATEST,
    schema: str | None = None,
    format: str = "avro",
    message: str = "",
    recursive_field_max_depth: int = 0,
    ignore_rules: bool = False,
) -> Column:
    """Encode a column as framed bytes.

    Args:
        column: the column, of a type that fits the schema.
        registry: as for `from_schema`.
        subject: the subject of the schema.
        version: its version, if no schema is given.
        schema: a schema to register in the subject.
        format: "avro", "protobuf" or "json-schema".
        message: of Protobuf: full name of the message; "" is the first one of the schema.
        recursive_field_max_depth: of Protobuf: how often a message may contain itself; deeper fields are not written.
        ignore_rules: write with a schema that has rules, such as encryption, without running them.

    Raises:
        ConfigError: Spark is older than 4.1, or the format is unknown.
        UsageError: the schema has rules, or is of another format.
        RegistryError: the registry refuses the schema, has none, or cannot be asked.
    """
    settings = _settings(registry)
    _checked(format)
    with Registry.from_config(settings) as client:
        found: RegisteredSchema
        if schema is None:
            found = client.version(subject, version)
        else:
            found = client.register(subject, Schema(schema, FORMATS[format]))
        texts = Texts.of(client.bundle(found.schema, subject=subject), message)
    check_rules(found, ignore_rules=ignore_rules)
    schema_id = found.id
    ColumnEncoder(format, schema_id, texts, "column", recursive_field_max_depth)  # refuses what tasks would refuse

    def encode(typed: pa.Array) -> pa.Array:
        return ColumnEncoder(format, schema_id, texts, "column", recursive_field_max_depth).encode(typed)

    from pyspark.sql import types

    made: Column = _arrow_function("to_schema", encode, types.BinaryType())(column)
    return made


def _settings(registry: str | Mapping[str, str]) -> RegistrySettings:
    return RegistrySettings({_URL: registry} if isinstance(registry, str) else registry)


def _checked(format: str) -> None:
    if format not in FORMATS:
        raise ConfigError(f"format={format!r}: must be {' or '.join(FORMATS)}")


def _given(client: Registry, format: str, subject: str | None, version: int | str, schema: str | None) -> Schema:
    if (subject is None) is (schema is None):
        raise ConfigError("from_schema: give either subject or schema, the schema of the result")
    if schema is not None:
        return Schema(schema, FORMATS[format])
    assert subject is not None
    return client.version(subject, version).schema


def _arrow_function(name: str, function: Any, kind: Any) -> Any:  # noqa: ANN401 - pyspark's types are as loose
    if running() < _SINCE:
        found, least = (".".join(map(str, each)) for each in (running(), _SINCE))
        raise ConfigError(
            f"{name} needs Arrow functions, which Spark has since {least}; this is {found}. The options value.format "
            "of the source and the sink work there"
        )
    import pyarrow as pa
    from pyspark.sql import functions

    function.__name__ = name
    function.__annotations__ = dict.fromkeys(function.__annotations__, pa.Array)  # classes: Spark evaluates no names
    return getattr(functions, "arrow_udf")(function, kind)  # noqa: B009 - older versions do not have it
