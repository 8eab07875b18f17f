"""What is fuzzed of capture files, and what must hold for any bytes.

An input is one byte of choices and then a capture. The rules: reading ends, with exchanges and remarks or a UsageError,
never anything else; no more bytes of frames come out than the file has; what is read has a name, and its bodies are
decoded or say why not; drawing, comparing and exporting take whatever was read.
"""

from __future__ import annotations

import io
import random

from kafkaraw.errors import UsageError
from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.differences import compare
from kafkaraw.inspect.exchanges import Exchange
from kafkaraw.inspect.exporting import source_of
from kafkaraw.inspect.sequences import as_svg, as_text, sequence_of
from kafkaraw.inspect.tap.lines import Lines
from tests.inspect.conversations import random_turns
from tests.inspect.packet_writing import COOKED, COOKED_2, ETHERNET, NULL, RAW, packets_of, pcap, pcapng

FILE_HEAD_SIZE = 25
DRAWN, WITH_KEYS = 1, 2
KEYS = b"CLIENT_RANDOM %b %b\n" % (b"00" * 32, b"11" * 48)


def check(data: bytes) -> None:
    """Hold one input to the rules; an AssertionError, or any error but UsageError, is a finding."""
    if not data:
        return
    choices, capture = data[0], data[1:]
    try:
        reader = CaptureReader(io.BytesIO(capture), tls_key_log=KEYS if choices & WITH_KEYS else b"")
    except UsageError:
        return
    items = list(reader.read())
    exchanges = [item for item in items if isinstance(item, Exchange)]
    frames = [frame for one in exchanges for frame in (one.request, one.response) if frame is not None]
    assert sum(len(frame.data) for frame in frames) <= len(capture)
    assert all(len(frame.data) <= frame.size_bytes for frame in frames)
    lines = Lines(2)
    for one in exchanges:
        assert one.name and isinstance(one.problem, str)
        assert lines.text(one) and lines.json(one)
    if choices & DRAWN:
        drawn = sequence_of(exchanges)
        assert as_svg(drawn) and list(as_text(drawn)) is not None
        assert compare(exchanges, exchanges).is_equal
        if any(one.request_body is not None and not one.problem for one in exchanges):
            compile(source_of(exchanges, title="A capture.", name="capture"), "capture", "exec")


def seed_input(rng: random.Random) -> bytes:
    """A good capture of one or two connections."""
    packets = []
    for number in range(rng.randrange(1, 3)):
        turns = random_turns(rng.randrange(10_000), rng.randrange(1, 5))
        client = (("fd00::1", "fd00::2") if rng.random() < 0.2 else ("10.0.0.1", "10.0.0.2"))[0], 40_000 + number
        server = ("fd00::2" if ":" in client[0] else "10.0.0.2"), 9092
        packets += packets_of(
            turns, segment_size=rng.choice((90, 1448)), opened=rng.random() < 0.7, client=client, server=server
        )
    write = rng.choice((pcap, pcapng))
    return bytes([rng.randrange(4)]) + write(packets, link=rng.choice((NULL, ETHERNET, RAW, COOKED, COOKED_2)))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A capture with a few changes: flips, cuts, repeats, and numbers that tell."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(1 if rng.random() < 0.05 else min(FILE_HEAD_SIZE, len(changed)), len(changed) + 1)
        size = rng.choice((0, 1, 1, 2, 4, 16, 70, 500))
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = changed[at : at + size * 2]
            case 3:
                changed[at : at + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4), b"\0\0\0\x08"))
            case _:
                changed[at : at + size] = rng.randbytes(size)
    return bytes(changed)
