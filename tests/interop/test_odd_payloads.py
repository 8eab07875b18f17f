"""How records may be compressed: what Apache Kafka's classes read, we read, and what they refuse, we refuse."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from kafkaraw.errors import CorruptBatchError
from kafkaraw.records import Batch, codec_by_name
from tests.interop.apache_kafka import why_missing
from tests.interop.java_tools import shared_tools
from tests.interop.odd_batches import batch, record
from tests.interop.test_old_formats import java_hash

TIMEOUT_SECONDS = 60
RECORDS = b"".join(record(at, value=b"value %d " % at * 500) for at in range(40))
HALF = len(RECORDS) // 2
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def packed(codec: int, payload: bytes, *, count: int = 40) -> bytes:
    """A batch whose records are these bytes, said to be of a codec."""
    return batch(payload, 1_700_000_000_000, count=count, attributes=codec)


def own(name: str) -> bytes:
    return bytes(codec_by_name(name).compress(memoryview(RECORDS), None))


def xerial(*blocks: bytes) -> bytes:
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    packed_blocks = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return head + b"".join(struct.pack(">i", len(one)) + one for one in packed_blocks)


def pieces(size: int) -> list[bytes]:
    return [RECORDS[at : at + size] for at in range(0, len(RECORDS), size)]


def lz4_frame(**settings: object) -> bytes:
    return bytes(lz4.frame.compress(RECORDS, **{"block_linked": False, "block_size": 4, **settings}))


def zstd_stream(payload: bytes) -> bytes:
    """A frame that does not say how much it holds."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(payload) + stream.flush()


def deflated_without_header() -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(RECORDS) + deflate.flush()


READ: dict[str, Callable[[], bytes]] = {
    "our gzip": lambda: packed(GZIP, own("gzip")),
    "our snappy": lambda: packed(SNAPPY, own("snappy")),
    "our lz4": lambda: packed(LZ4, own("lz4")),
    "our zstd": lambda: packed(ZSTD, own("zstd")),
    "gzip of two members": lambda: packed(GZIP, gzip.compress(RECORDS[:HALF]) + gzip.compress(RECORDS[HALF:])),
    "gzip of a thousand members": lambda: packed(GZIP, b"".join(map(gzip.compress, pieces(len(RECORDS) // 1000)))),
    "gzip with rubbish behind it": lambda: packed(GZIP, gzip.compress(RECORDS) + b"rubbish"),
    "gzip with an empty member": lambda: packed(GZIP, gzip.compress(b"") + gzip.compress(RECORDS)),
    "raw snappy": lambda: packed(SNAPPY, bytes(cramjam.snappy.compress_raw(RECORDS))),
    "snappy of one block": lambda: packed(SNAPPY, xerial(RECORDS)),
    "snappy of many blocks": lambda: packed(SNAPPY, xerial(*pieces(999))),
    "snappy streams one after the other": lambda: packed(SNAPPY, xerial(RECORDS[:HALF]) + xerial(RECORDS[HALF:])),
    "lz4 of blocks of 4 MB": lambda: packed(LZ4, lz4_frame(block_size=7)),
    "lz4 with checksums": lambda: packed(LZ4, lz4_frame(content_checksum=True, block_checksum=True)),
    "lz4 that says its size": lambda: packed(LZ4, lz4_frame(store_size=True)),
    "lz4 that does not": lambda: packed(LZ4, lz4_frame(store_size=False)),
    "zstd without its size": lambda: packed(ZSTD, zstd_stream(RECORDS)),
    "zstd frames": lambda: packed(ZSTD, zstd_stream(RECORDS[:HALF]) + zstandard.compress(RECORDS[HALF:])),
    "zstd with a skippable frame": lambda: packed(
        ZSTD, struct.pack("<II", 0x184D2A50, 5) + b"hello" + zstandard.compress(RECORDS)
    ),
    "zstd with a checksum": lambda: packed(ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(RECORDS)),
}  # fmt: skip
REFUSED: dict[str, Callable[[], bytes]] = {
    "lz4 of blocks that depend on each other": lambda: packed(LZ4, lz4_frame(block_linked=True)),
    "lz4 with a wrong header checksum": lambda: packed(LZ4, changed(own("lz4"), 6)),
    "lz4 without a frame": lambda: packed(LZ4, own("lz4")[7:]),
    "gzip without its head": lambda: packed(GZIP, deflated_without_header()),
    "zlib instead of gzip": lambda: packed(GZIP, zlib.compress(RECORDS)),
    "gzip cut short": lambda: packed(GZIP, own("gzip")[:-20]),
    "gzip with a wrong checksum": lambda: packed(GZIP, changed(own("gzip"), -6)),
    "snappy cut short": lambda: packed(SNAPPY, own("snappy")[:-20]),
    "zstd cut short": lambda: packed(ZSTD, own("zstd")[:-20]),
    "too few records": lambda: packed(GZIP, gzip.compress(RECORDS), count=41),
    "too many records": lambda: packed(GZIP, gzip.compress(RECORDS), count=39),
    "the codec of another": lambda: packed(LZ4, own("zstd")),
    "nothing at all": lambda: packed(ZSTD, b""),
}


def changed(data: bytes, at: int) -> bytes:
    made = bytearray(data)
    made[at] ^= 0x55
    return bytes(made)


def ours(data: bytes) -> str:
    try:
        found = [
            f"{one.offset} {one.timestamp_ms} {len(one.value or b'')} {java_hash(one.value or b'')};"
            for one in Batch("t", 0, memoryview(data), start_offset=0)
        ]
    except CorruptBatchError:
        return "refused"
    return "read " + "".join(found)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Apache Kafka's classes say of each."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("payloads")
    cases = {**READ, **REFUSED}
    for number, make in enumerate(cases.values()):
        (folder / f"{number:02}.hex").write_text(make().hex())
    files = sorted(map(str, folder.iterdir()))
    printed = shared_tools().run(Path(__file__).with_name("ReadBatches.java"), *files)
    return dict(zip(cases, printed.splitlines(), strict=True))


@pytest.mark.parametrize("name", READ)
def test_what_java_reads_we_read(name: str, theirs: dict[str, str]) -> None:
    assert theirs[name].startswith("read ")
    assert ours(READ[name]()) == theirs[name].strip()


@pytest.mark.parametrize("name", REFUSED)
def test_what_java_refuses_we_refuse(name: str, theirs: dict[str, str]) -> None:
    assert theirs[name].startswith("refused"), theirs[name][:200]
    assert ours(REFUSED[name]()) == "refused"
