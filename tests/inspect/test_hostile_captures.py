"""No bytes of a capture file make the reader fail, or take memory that the file does not have."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc

import pytest

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.exchanges import Exchange
from kafkaraw.inspect.tap.lines import Lines
from tests.inspect.conversations import random_turns
from tests.inspect.packet_writing import packets_of, pcap, pcapng

SEEDS_QUICK, SEEDS_LONG = 25, 1500
MEMORY_BYTES_MAX = 100 << 20
NUMBERS = (0, 1, 3, 4, 0x7FFF, 0xFFFF, 0x10_0000, 0x0FFF_FFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The same capture with other lengths, bits, blocks, or a part of it missing or repeated."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 12)):
        # Most of what a reader trusts is in the headers of the file and of its first packets.
        at = rng.randrange(min(len(found), rng.choice((64, 400, 1 << 30)))) if found else 0
        way = rng.randrange(6)
        if way == 0:
            found[at : at + 4] = struct.pack(rng.choice(("<I", ">I")), rng.choice(NUMBERS))
        elif way == 1:
            found[at : at + 2] = struct.pack(rng.choice(("<H", ">H")), rng.choice(NUMBERS) & 0xFFFF)
        elif way == 2 and found:
            found[at] ^= 1 << rng.randrange(8)
        elif way == 3:
            del found[at : at + rng.randrange(1, 200)]
        elif way == 4:
            found[at:at] = found[rng.randrange(len(found) + 1) :][: rng.randrange(400)]
        else:
            found[at:at] = rng.randbytes(rng.randrange(1, 40))
    return bytes(found)


def read(data: bytes) -> int:
    """Read a capture to its end, as `wire read` does; return how many exchanges it has."""
    count = 0
    lines = Lines(1)
    try:
        for item in CaptureReader(io.BytesIO(data)).read():
            if isinstance(item, Exchange):
                count += 1
                lines.text(item)
    except KafkaError as error:
        assert str(error)
    return count


@pytest.mark.parametrize(
    "seeds", [range(SEEDS_QUICK), pytest.param(range(SEEDS_QUICK, SEEDS_LONG), marks=pytest.mark.soak)]
)
def test_damaged_captures_are_read_as_far_as_they_go(seeds):
    turns = random_turns(1)
    packets = packets_of(turns, segment_size=200)
    whole = [pcap(packets), pcapng(packets)]
    assert all(read(data) > 3 for data in whole)
    tracemalloc.start()
    try:
        for seed in seeds:
            rng = random.Random(seed)
            tracemalloc.reset_peak()
            read(damaged(rng.choice(whole), rng))
            assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX, f"seed {seed}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", NUMBERS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_claimed_sizes_of_blocks_and_packets_take_no_memory(size, order):
    magic = 0xA1B2_C3D4
    tracemalloc.start()
    try:
        header = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 262_144, 101)
        read(header + struct.pack(order + "IIII", 1, 1, size, size) + bytes(64))
        section = struct.pack(order + "IIIHHqI", 0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, 0, -1, 28)
        interface = struct.pack(order + "IIHHII", 1, 20, 101, 0, 262_144, 20)
        read(section + interface + struct.pack(order + "IIIIIII", 6, size, 0, 1, 1, size, size) + bytes(64))
        read(struct.pack(order + "III", 0x0A0D_0D0A, size, 0x1A2B_3C4D) + bytes(64))
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()
