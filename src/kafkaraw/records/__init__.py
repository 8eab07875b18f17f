"""Bytes <-> records: the batches that topics are made of. Pure: no socket, no thread, no clock.

Reading: `Batch` for the records of a Fetch, `fill` for columns, `iter_headers` for callers that need only headers.
Writing: `OpenBatches` for producers, `encode_batch` for one batch in one call. The parts that run once per record exist
twice, compiled and in plain Python (`IMPLEMENTATION` names the one in use). Nothing here decides when something is sent
or fetched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkaraw.records._implementation import IMPLEMENTATION
from kafkaraw.records.header import (
    HEADER_SIZE,
    BatchHeader,
    OldFormatError,
    Wire,
    emptied,
    iter_headers,
    parse_header,
    patch_header,
    stamp_create_time,
    unpack_header,
    unstamped,
    verify_crc,
)
from kafkaraw.records.record import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NONE,
    Header,
    Headers,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from kafkaraw.records._implementation import BatchBuilder, Record, Rows, SendFastPath, Ticket, fill, render_records
    from kafkaraw.records.batch import ARROW_COLUMNS, ARROW_DATA_BYTES, Batch, batches_of, encode_batch
    from kafkaraw.records.columns import Columns
    from kafkaraw.records.compression import CODECS, DECOMPRESSED_SIZE_MAX_BYTES, Codec, codec_by_id, codec_by_name
    from kafkaraw.records.control import (
        ControlType,
        Marker,
        control_type,
        control_type_of,
        encode_control_batch,
        marker_of,
    )
    from kafkaraw.records.interface import KEY_SIZE_SAFE, AppendStatus, TimestampUnit
    from kafkaraw.records.legacy import modern
    from kafkaraw.records.memory import keep_freed_memory, make_columns_in_huge_pages
    from kafkaraw.records.open_batches import OpenBatches
    from kafkaraw.records.partitioning import (
        PARTITIONERS,
        KeyHash,
        Partitioner,
        PartitionerName,
        PartitionFunction,
        murmur2,
        partition_for_key,
        whole_number,
    )
    from kafkaraw.records.promise import BatchPromise, PromiseState, Waiter
    from kafkaraw.records.rows import (
        UNSOUND,
        BadRow,
        BytesColumn,
        Fault,
        HeadersColumn,
        NumbersColumn,
        RowColumns,
        SentPart,
    )
    from kafkaraw.records.sealed import SealedBatch, WireBatch
    from kafkaraw.records.splitting import split_batch

__all__ = [
    "ARROW_COLUMNS",
    "ARROW_DATA_BYTES",
    "CODECS",
    "DECOMPRESSED_SIZE_MAX_BYTES",
    "HEADER_SIZE",
    "IMPLEMENTATION",
    "KEY_SIZE_SAFE",
    "PARTITIONERS",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NONE",
    "UNSOUND",
    "AppendStatus",
    "BadRow",
    "Batch",
    "BatchBuilder",
    "BatchHeader",
    "BatchPromise",
    "BytesColumn",
    "Codec",
    "Columns",
    "ControlType",
    "Fault",
    "Header",
    "Headers",
    "HeadersColumn",
    "KeyHash",
    "Marker",
    "NumbersColumn",
    "OldFormatError",
    "OpenBatches",
    "PartitionFunction",
    "Partitioner",
    "PartitionerName",
    "PromiseState",
    "Record",
    "RecordMetadata",
    "RowColumns",
    "Rows",
    "SealedBatch",
    "SendFastPath",
    "SentPart",
    "Ticket",
    "TimestampUnit",
    "TopicPartition",
    "Waiter",
    "Wire",
    "WireBatch",
    "batches_of",
    "codec_by_id",
    "codec_by_name",
    "control_type",
    "control_type_of",
    "emptied",
    "encode_batch",
    "encode_control_batch",
    "fill",
    "iter_headers",
    "keep_freed_memory",
    "make_columns_in_huge_pages",
    "marker_of",
    "modern",
    "murmur2",
    "parse_header",
    "partition_for_key",
    "patch_header",
    "render_records",
    "split_batch",
    "stamp_create_time",
    "unpack_header",
    "unstamped",
    "verify_crc",
    "whole_number",
]

# Imported on first use. Consumers and brokers need nothing of producers, and producers read nothing; few programs send
# columns, or read topics with messages from before Kafka 0.11.
_HOMES: Final = {
    "_implementation": ("BatchBuilder", "Record", "Rows", "SendFastPath", "Ticket", "fill", "render_records"),
    "batch": ("ARROW_COLUMNS", "ARROW_DATA_BYTES", "Batch", "batches_of", "encode_batch"),
    "columns": ("Columns",),
    "compression": ("CODECS", "DECOMPRESSED_SIZE_MAX_BYTES", "Codec", "codec_by_id", "codec_by_name"),
    "control": ("ControlType", "Marker", "control_type", "control_type_of", "encode_control_batch", "marker_of"),
    "interface": ("KEY_SIZE_SAFE", "AppendStatus", "TimestampUnit"),
    "legacy": ("modern",),
    "memory": ("keep_freed_memory", "make_columns_in_huge_pages"),
    "open_batches": ("OpenBatches",),
    "partitioning": (
        "PARTITIONERS",
        "KeyHash",
        "PartitionFunction",
        "Partitioner",
        "PartitionerName",
        "PartitionerName",
        "murmur2",
        "partition_for_key",
        "whole_number",
    ),
    "promise": ("BatchPromise", "PromiseState", "Waiter"),
    "rows": ("UNSOUND", "BadRow", "BytesColumn", "Fault", "HeadersColumn", "NumbersColumn", "RowColumns", "SentPart"),
    "sealed": ("SealedBatch", "WireBatch"),
    "splitting": ("split_batch",),
}
_MODULES: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
