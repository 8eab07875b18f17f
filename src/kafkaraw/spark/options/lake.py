"""The options of formats "kafkaraw.delta" and "kafkaraw.iceberg", checked when the DataFrame is written.

Every option is declared once, in `_COMMON`, `_DELTA` or `_ICEBERG`. Start at `parse_delta` and `parse_iceberg`.
Must not import pyspark, and must not open a table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options import texts
from kafkaraw.spark.options.unsupported import IGNORED

_SIZE: Final = re.compile(r"(\d{1,12})([kmg]?)b?")
_FILE_SIZE_MIN: Final = 1 << 10


class SaveMode(StrEnum):
    """What a batch write does if the table has rows already; the names are Spark's."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR_IF_EXISTS = "errorifexists"
    IGNORE = "ignore"


class Compression(StrEnum):
    """The codec of Parquet files."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class OnChangedBatch(StrEnum):
    """What happens to a micro-batch whose number is in the table already, with other rows."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class LakeOptions:
    """Checked options of one write.

    Attributes:
        table: where the table is: a path or URL (Delta), or NAMESPACE.NAME (Iceberg).
        partition_by: columns, or Iceberg's transforms of columns, by which a new table is partitioned.
        target_file_size: about how large a data file becomes, in bytes.
        merge_schema: whether columns that the table lacks are added.
        save_mode: of a batch write; None if not given.
        compression: of the data files.
        on_changed_batch: see `OnChangedBatch`.
        batch: for `foreachBatch`: the writer's query and the micro-batch.
        catalog: name of the Iceberg catalog.
        settings: of the object store (Delta) or the catalog (Iceberg), by the library's names.
    """

    table: str = ""
    partition_by: tuple[str, ...] = ()
    target_file_size: int = 128 << 20
    merge_schema: bool = False
    save_mode: SaveMode | None = None
    compression: Compression = Compression.ZSTD
    on_changed_batch: OnChangedBatch = OnChangedBatch.FAIL
    batch: tuple[str, int] | None = None
    catalog: str = "default"
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # may have secrets

    @property
    def hidden(self) -> str:
        """The table as messages show it, without the password of a URL."""
        return re.sub(r"(://[^/\s:@]*):[^/\s@]*@", r"\1:***@", self.table)


def _size(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip().lower())
    size = int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]] if found else 0
    if size < _FILE_SIZE_MIN:
        raise ConfigError(f'{name}={text!r}: must be a size such as "128m", or a number of bytes, at least 1k')
    return size


BATCH_OPTION: Final = "tableBatch"
"""Set by `foreachBatch` helpers: name of the writer and number of the micro-batch, as in "name/57"."""

KnownOptions: TypeAlias = Mapping[str, tuple[str, Callable[[str, str], object]]]
"""Option name -> field and how its text is read."""

_COMMON: Final[KnownOptions] = {
    "path": ("table", texts.name_of),
    "partitionBy": ("partition_by", texts.columns),
    "targetFileSize": ("target_file_size", _size),
    "mergeSchema": ("merge_schema", texts.boolean),
    "saveMode": ("save_mode", texts.one_of(SaveMode)),
    "compression": ("compression", texts.one_of(Compression)),
    "onChangedBatch": ("on_changed_batch", texts.one_of(OnChangedBatch)),
    BATCH_OPTION: ("batch", texts.named_batch),
}
_DELTA: Final[KnownOptions] = _COMMON
_ICEBERG: Final[KnownOptions] = {
    **_COMMON,
    "table": ("table", texts.name_of),
    "catalog": ("catalog", texts.name_of),
}
_STORAGE: Final = "storage."
_CATALOG: Final = "catalog."
_STORES: Final = (
    (
        re.compile(r"s3[an]?:"),
        "aws_region, aws_endpoint_url, aws_access_key_id, aws_secret_access_key",
        "s3.region, s3.endpoint, s3.access-key-id, s3.secret-access-key",
    ),
    (
        re.compile(r"(abfss?|wasbs?|azure|az|adl):"),
        "azure_storage_account_name, azure_storage_account_key, azure_storage_sas_token",
        "adls.account-name, adls.account-key, adls.sas-token",
    ),
    (re.compile(r"gc?s:"), "google_service_account, google_service_account_key", "gcs.oauth2.token, gcs.service.host"),
)
"""Schemes of object stores, and the settings that Delta and Iceberg need most for them."""

DESCRIPTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "path": (
        "delta, iceberg",
        "",
        "Delta: the table, a path or URL, as in `save(path)`. Iceberg: the same as `table`.",
    ),
    "table": ("iceberg", "", "The table, `namespace.name`."),
    "catalog": ("iceberg", "default", "Name of the catalog, as in `.pyiceberg.yaml`."),
    "catalog.NAME": ("iceberg", "", "Properties of the catalog and of its file system, by pyiceberg's names."),
    "storage.NAME": ("delta", "", "Settings of the object store, by deltalake's names, such as `storage.aws_region`."),
    "partitionBy": (
        "delta, iceberg",
        "",
        "Columns by which a new table is partitioned, `a,b`; for Iceberg also `year`, `month`, `day` and "
        "`hour(column)`, and `truncate(10,column)`.",
    ),
    "targetFileSize": ("delta, iceberg", "128m", "A task begins another data file at about this size."),
    "mergeSchema": ("delta, iceberg", "false", "Add columns that the table lacks."),
    "saveMode": (
        "delta, iceberg",
        "append",
        "Batch writes to a table that has rows: `append`, `overwrite`, `errorifexists` or `ignore`.",
    ),
    "compression": ("delta, iceberg", "zstd", "Codec of the data files: `zstd`, `snappy`, `gzip` or `none`."),
    "onChangedBatch": (
        "delta, iceberg",
        "fail",
        "A micro-batch whose number is in the table already, with another number of rows: `fail` or `skip` it.",
    ),
}
"""For the reference: for which formats, the default, and the meaning."""


def options_of_store(url: str, *, is_delta: bool) -> str:
    """Return the options with which a format finds an object store and its credentials, for messages.

    Args:
        url: of the table; any other place than an object store is possible.
        is_delta: whether it is a Delta table, as opposed to an Iceberg table.
    """
    named = next((settings[0 if is_delta else 1] for scheme, *settings in _STORES if scheme.match(url)), "")
    return f"{_STORAGE if is_delta else _CATALOG}NAME" + (f", such as {named}" if named else "")


def parse_delta(options: Mapping[str, str]) -> LakeOptions:
    """Check the options of a write to a Delta table; names in upper or lower case.

    Raises:
        ConfigError: an option is unknown, missing or has an invalid value.
    """
    return _parsed("kafkaraw.delta", options, _DELTA, _STORAGE, 'give the path or URL of the table: .save("...")')


def parse_iceberg(options: Mapping[str, str]) -> LakeOptions:
    """Check the options of a write to an Iceberg table; names in upper or lower case.

    Raises:
        ConfigError: an option is unknown, missing or has an invalid value.
    """
    parsed = _parsed("kafkaraw.iceberg", options, _ICEBERG, _CATALOG, 'give the option table="namespace.name"')
    if "." not in parsed.table.strip("."):
        raise ConfigError(f"table={parsed.table!r}: must be NAMESPACE.NAME, such as sales.flights")
    return parsed


def _parsed(
    kind: str, options: Mapping[str, str], known: KnownOptions, prefix: str, how_to_name_it: str
) -> LakeOptions:
    values, settings = read_options(kind, options, known, prefix)
    if "table" not in values:
        raise ConfigError(f"format {kind}: no table is named: {how_to_name_it}")
    return replace(LakeOptions(settings=settings), **values)  # type: ignore[arg-type]  # the table pairs field and type


def read_options(
    kind: str, options: Mapping[str, str], known: KnownOptions, prefix: str | None = None
) -> tuple[dict[str, object], dict[str, str]]:
    """Read the options of a format that writes tables; names in upper or lower case.

    Args:
        kind: the format.
        options: as given.
        known: the options that it has.
        prefix: of options that are passed on as they are; None if there are none.

    Returns:
        The values by the names of fields, and what is passed on, by names without the prefix.

    Raises:
        ConfigError: an option is unknown or has an invalid value.
    """
    names = {name.lower(): name for name in known}
    values: dict[str, object] = {}
    settings: dict[str, str] = {}
    for given, text in options.items():
        lower = given.lower()
        if lower in names:
            attribute, read = known[names[lower]]
            values[attribute] = read(names[lower], text)
        elif prefix is not None and lower.startswith(prefix):
            settings[lower.removeprefix(prefix)] = text
        elif lower not in IGNORED:
            near = difflib.get_close_matches(lower, names, n=1, cutoff=0.6)
            more = "" if prefix is None else f" and {prefix}NAME"
            hint = f"; did you mean {names[near[0]]}?" if near else f"; it has {', '.join(known)}{more}"
            raise ConfigError(f"unknown option {given!r} of format {kind}{hint}")
    return values, settings
