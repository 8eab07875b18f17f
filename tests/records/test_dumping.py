"""Lines of a dump: what kafka-dump-log prints of a batch, from both implementations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import encode_batch, parse_header, render_records

TEXT = st.none() | st.binary(max_size=40) | st.text(max_size=40).map(str.encode) | st.just(b"a" * 70_000)
HEADERS = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=8)), max_size=3)
RECORDS = st.lists(st.tuples(st.integers(0, 2**62), TEXT, TEXT, HEADERS), min_size=1, max_size=8)


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def expected_line(offset: int, record: tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]) -> str:
    timestamp, key, value, headers = record
    sizes = [-1 if data is None else len(data) for data in (key, value)]
    names = ",".join(name for name, _ in headers)
    line = f"| offset: {offset} CreateTime: {timestamp} keySize: {sizes[0]} valueSize: {sizes[1]} sequence: "
    line += f"{(offset + 2**31 - 1) % 2**31} headerKeys: [{names}]"
    if key is not None:
        line += f" key: {decoded(key)}"
    if value is not None:
        line += f" payload: {decoded(value)}"
    return line


@given(RECORDS, st.sampled_from(["none", "lz4"]))
def test_lines_have_metadata_keys_and_values(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], codec: str
):
    batch = memoryview(encode_batch(records, codec=codec, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    header = parse_header(batch)
    wanted = [expected_line(offset, record) for offset, record in enumerate(records)]
    assert render_records(batch, header, "CreateTime", decoded) == "\n".join(wanted)


def test_lines_without_metadata_have_keys_and_values_only():
    pairs = [(b"k", b"v"), (None, b"v"), (b"k", None), (None, None), (b"", b"")]
    batch = memoryview(encode_batch([(0, key, value, None) for key, value in pairs]))
    found = render_records(batch, parse_header(batch), "CreateTime", decoded, skip_metadata=True)
    assert found.split("\n") == ["| key: k payload: v", "| payload: v", "| key: k", "", "| key:  payload: "]
    assert render_records(batch, parse_header(batch), "CreateTime", None, skip_metadata=True) == "\n" * 4


def test_batch_without_sequences_shows_minus_one_and_the_lowest_numbers_fit():
    batch = memoryview(encode_batch([(0, b"", None, None)], base_offset=2**62))
    header = parse_header(batch)._replace(base_timestamp=-(2**63))
    found = render_records(batch, header, "LogAppendTime", None)
    assert found == (
        f"| offset: {2**62} LogAppendTime: {-(2**63)} keySize: 0 valueSize: -1 sequence: -1 headerKeys: []"
    )


def test_damaged_and_too_large_batches_are_errors():
    content = bytearray(encode_batch([(0, b"key", b"value" * 100, None)] * 3))
    header = parse_header(memoryview(content))
    with pytest.raises(BatchTooLargeError):
        render_records(memoryview(content), header, "CreateTime", None, size_max_bytes=100)
    content[61] = 2
    with pytest.raises(CorruptBatchError):
        render_records(memoryview(content), header, "CreateTime", None)
