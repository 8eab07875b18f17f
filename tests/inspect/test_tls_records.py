"""Captured TLS sessions are decrypted with a key log; without keys, or with holes, the reader says why they are not."""

from __future__ import annotations

import contextlib
import io
import random
import ssl
import struct
from functools import cache
from pathlib import Path

import pytest
import trustme

from kafkaraw.inspect.captures import CaptureReader, CaptureReport
from kafkaraw.inspect.exchanges import Exchange
from tests.inspect.conversations import random_turns
from tests.inspect.packet_writing import Packet, Turn, packets_of, pcap, pcapng


@cache
def authority() -> trustme.CA:
    return trustme.CA()


def encrypted(turns: list[Turn], keys: Path, version: ssl.TLSVersion, cipher: str = "") -> list[Turn]:
    """A conversation as OpenSSL encrypts it; the client's library logs its keys."""
    client_context, server_context = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().configure_trust(client_context)
    authority().issue_cert("kafka").configure_cert(server_context)
    client_context.keylog_filename = str(keys)
    client_context.minimum_version = client_context.maximum_version = version
    if cipher:
        client_context.set_ciphers(cipher)
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    client = client_context.wrap_bio(to_client, from_client, server_hostname="kafka")
    server = server_context.wrap_bio(to_server, from_server, server_side=True)
    out: list[Turn] = []

    def moved(is_client: bool) -> None:
        data = (from_client if is_client else from_server).read()
        if data:
            out.append((is_client, data))
            (to_server if is_client else to_client).write(data)

    for _ in range(4):
        for side, is_client in ((client, True), (server, False)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            moved(is_client)
    for is_client, data in turns:
        (client if is_client else server).write(data)
        moved(is_client)
    return out


def read(data: bytes, keys: bytes = b"") -> tuple[CaptureReport, list[bytes]]:
    reader = CaptureReader(io.BytesIO(data), tls_key_log=keys)
    exchanges = [item for item in reader.read() if isinstance(item, Exchange)]
    frames = [frame for one in exchanges for frame in (one.request, one.response) if frame is not None]
    return reader.report, [frame.size_bytes.to_bytes(4) + bytes(frame.data) for frame in frames]


SUITES = [
    (ssl.TLSVersion.TLSv1_3, ""),
    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305"),
]


@pytest.mark.parametrize(("version", "cipher"), SUITES, ids=["1.3", "1.2 AES-128", "1.2 AES-256", "1.2 ChaCha20"])
def test_a_session_is_decrypted_with_its_keys(version: ssl.TLSVersion, cipher: str, tmp_path: Path):
    turns = random_turns(4, 6)
    keys = tmp_path / "keys"
    packets = packets_of(encrypted(turns, keys, version, cipher), segment_size=500)
    report, frames = read(pcap(packets), b"# a comment\nCLIENT_RANDOM zz\n" + keys.read_bytes())
    assert frames == [data for _, data in turns]
    assert (report.kafka, report.encrypted, report.connections) == (1, 0, 1)


def test_keys_within_a_pcapng_file_are_used(tmp_path: Path):
    turns = random_turns(4, 2)
    keys = tmp_path / "keys"
    data = pcapng(packets_of(encrypted(turns, keys, ssl.TLSVersion.TLSv1_3)))
    log = keys.read_bytes()
    padded = log + bytes(-len(log) % 4)
    size = 20 + len(padded)
    block = struct.pack("<IIII", 10, size, 0x544C534B, len(log)) + padded + struct.pack("<I", size)
    assert read(data[:28] + block + data[28:])[1] == [frame for _, frame in turns]


def test_without_keys_or_with_a_hole_the_report_says_why(tmp_path: Path):
    turns = random_turns(4, 6)
    keys = tmp_path / "keys"
    packets = packets_of(encrypted(turns, keys, ssl.TLSVersion.TLSv1_3), segment_size=500)
    assert read(pcap(packets))[0].encrypted == 1
    other = keys.read_bytes().replace(b"TRAFFIC_SECRET", b"TRAFFIC_OTHER")
    assert read(pcap(packets), other)[0].tls_problems == {"the key log does not have its keys": 1}
    data = [packet for packet in packets if packet.payload]
    lost: Packet = data[-4]
    report, frames = read(pcap([packet for packet in packets if packet is not lost]), keys.read_bytes())
    assert report.tls_problems == {"the capture does not have all of its bytes": 1}
    assert 0 < len(frames) < len(turns)


def test_any_change_of_a_session_is_read(tmp_path: Path):
    rng = random.Random(5)
    keys = tmp_path / "keys"
    good = pcap(packets_of(encrypted(random_turns(4, 3), keys, ssl.TLSVersion.TLSv1_3)))
    for _ in range(40):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(24, len(data))] = rng.randrange(256)
        read(bytes(data), keys.read_bytes())
