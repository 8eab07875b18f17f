"""Where records go: in pieces that are cut between wire batches, whole, and quietly when nobody reads any more."""

from __future__ import annotations

import os
from typing import BinaryIO, cast

import pytest

from kafkaraw.cli import outputs
from kafkaraw.cli.formats import TextRenderer, parse_format
from kafkaraw.cli.outputs import ColumnsOutput, StreamOutput, discard_pending, is_gone, pieces_of, write_all
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch, encode_batch


def batch_of(*counts: int, start: int = 0) -> Batch:
    """A batch of wire batches with so many records each; values are the offsets."""
    data, base = b"", 0
    for count in counts:
        data += encode_batch([(1, None, b"%d" % (base + at), None) for at in range(count)], base_offset=base)
        base += count
    return Batch("t", 0, memoryview(data), start_offset=start)


@pytest.mark.parametrize(
    ("counts", "start", "sizes"),
    [
        ((3, 3, 3), 0, [6, 3]),
        ((5, 5, 1), 0, [5, 5, 1]),
        ((1, 1), 0, [2]),
        ((9,), 0, [9]),
        ((5, 5, 5), 7, [3, 5]),
        ((5, 5, 5), 5, [5, 5]),
        ((5, 5), 12, [0]),
    ],
)
def test_pieces_are_cut_between_wire_batches(
    counts: tuple[int, ...], start: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outputs, "_PIECE_RECORDS", 4)
    batch = batch_of(*counts, start=start)
    pieces = list(pieces_of(batch))
    assert [len(piece.values()) for piece in pieces] == sizes
    assert [value for piece in pieces for value in piece.values()] == batch.values()


def test_an_output_counts_records_and_bytes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outputs, "_PIECE_RECORDS", 2)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as out, os.fdopen(writer, "wb") as stream:
        output = StreamOutput(TextRenderer(parse_format("%s,")), stream)
        assert output.write(batch_of(2, 2, 1)) == 5
        output.flush()
        assert output.size_bytes == 10 and out.read(10) == b"0,1,2,3,4,"


def test_a_stream_with_short_writes_receives_everything():
    taken: list[bytes] = []

    class Slow:
        def write(self, data: bytes) -> int:
            taken.append(bytes(data[:2]))
            return len(taken[-1])

    write_all(cast("BinaryIO", Slow()), b"hello")
    assert taken == [b"he", b"ll", b"o"]


def test_a_broken_pipe_is_detected_and_its_pending_bytes_are_discarded():
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as stream:
        assert not is_gone(stream)
        os.close(reader)
        assert is_gone(stream)
        stream.write(b"for nobody")
        discard_pending(stream)  # pending bytes are dropped, without an error at exit


def test_columns_are_not_written_to_terminals():
    class Terminal:
        def isatty(self) -> bool:
            return True

    with pytest.raises(UsageError, match="redirect it"):
        ColumnsOutput("arrow", cast("BinaryIO", Terminal()))
