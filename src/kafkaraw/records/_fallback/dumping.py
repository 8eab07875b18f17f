"""The lines of a dump, in plain Python; the compiled twin is `records/_dumping.py`. Start at `render_records`."""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.records._fallback.reader import read_records
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES
from kafkaraw.records.header import BatchHeader

_SEQUENCES = 1 << 31


def render_records(
    batch: memoryview,
    batch_header: BatchHeader,
    time_type: str,
    text: Callable[[bytes], str] | None,
    *,
    skip_metadata: bool = False,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> str:
    """Return the lines of the records of a wire batch. See `interface.RenderRecords`.

    Raises:
        CorruptBatchError: the batch is damaged.
        BatchTooLargeError: its records exceed the limit.
    """
    first_sequence = batch_header.base_sequence - batch_header.base_offset
    has_sequence = batch_header.base_sequence >= 0
    lines = []
    for record in read_records(batch, batch_header, "", 0, size_max_bytes=size_max_bytes):
        offset, key, value, headers = record.offset, record.key, record.value, record.headers
        line = ""
        if not skip_metadata:
            line = (
                f"| offset: {offset} {time_type}: {record.timestamp_ms} "
                f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)} "
                f"sequence: {(first_sequence + offset) % _SEQUENCES if has_sequence else -1} "
                f"headerKeys: [{','.join([name for name, _ in headers]) if headers else ''}]"
            )
        elif text is not None and (key is not None or value is not None):
            line = "|"
        if text is not None:
            shown_key = "" if key is None else f" key: {text(key)}"
            shown_value = "" if value is None else f" payload: {text(value)}"
            line = f"{line}{shown_key}{shown_value}"
        lines.append(line)
    return "\n".join(lines)
