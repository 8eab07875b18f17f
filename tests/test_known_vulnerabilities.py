"""What went wrong in other Kafka software, tried here: a test for each class, named after it.

The table in docs/security.md names them, and those that stand beside the code they are about.
"""

from __future__ import annotations

import ast
import hmac
import inspect
import random
import re
import struct
import tracemalloc
from types import ModuleType

import lz4.frame
import pytest

import kafkaraw.broker.security.sasl_authenticator
import kafkaraw.core.sasl.plain
import kafkaraw.core.sasl.scram
from kafkaraw.broker import BrokerConfig
from kafkaraw.client.network.connection import FRAME_SIZE_MAX
from kafkaraw.core.sasl.plain import PlainServer
from kafkaraw.core.sasl.scram import ScramClient, ScramServer, make_credential
from kafkaraw.errors import (
    AuthenticationError,
    BatchTooLargeError,
    ConfigError,
    CorruptBatchError,
    DeliveryTimeoutError,
    ProtocolError,
)
from kafkaraw.protocol import FrameReader
from kafkaraw.records import codec_by_name
from tests.client.virtual_cluster import VirtualCluster, on_cluster

LIMIT = 1_000_000
OAUTH = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize(
    "checked",
    [
        {},
        {"sasl.oauthbearer.jwks.endpoint.url": "https://idp.example/keys"},
        {"sasl.oauthbearer.expected.issuer": "https://idp.example"},
        {"sasl.oauthbearer.expected.audience": "kafka"},
    ],
)
def test_kafka_9c7fad33973_no_configuration_takes_a_token_whose_signature_issuer_or_audience_is_not_checked(checked):
    """Our broker cannot check any of them: whoever asks for that is refused, not half served."""
    with pytest.raises(ConfigError):
        BrokerConfig.parse(OAUTH | checked)


def test_cve_2026_35554_a_buffer_in_flight_is_never_written_to_again():
    """Batches time out while their bytes wait for a silent broker, and others are built meanwhile."""

    async def test(cluster: VirtualCluster) -> None:
        for topic in ("first", "second"):
            await cluster.create(topic)
        limits = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000, "batch_size": 4000, "linger_ms": 0}
        async with cluster.producer(**limits) as producer:
            for topic in ("first", "second"):
                await (await producer.send(topic, b"begin"))
            cluster.silence()
            late = [await producer.send("first", b"first" * 100) for _ in range(50)]
            for ticket in late:
                with pytest.raises(DeliveryTimeoutError):
                    await ticket
            other = [await producer.send("second", b"second" * 100) for _ in range(50)]
            cluster.silence(False)
            for ticket in other:
                await ticket
        async with cluster.consumer() as consumer:
            for topic in ("first", "second"):
                ends = await consumer.end_offsets(await consumer.partitions_for(topic))
                found = [record.value for record in await cluster.read(topic, sum(ends.values()))]
                assert len(found) == sum(ends.values())
                assert set(found) <= {b"begin", topic.encode() * 100}, topic
        assert len(found) == 51  # all of the second topic's

    on_cluster(test)


@pytest.mark.parametrize("limit", [FRAME_SIZE_MAX, 512 * 1024, 104_857_600])
def test_kip_498_a_tls_alert_is_no_size_and_allocates_nothing(limit: int):
    alert = b"\x15\x03\x03\x00\x02\x02\x46"
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="speaks TLS and sent an alert"):
            FrameReader(limit).feed(alert)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watching(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watching)
    with pytest.raises(AuthenticationError):
        PlainServer({"ada": "opensesame"}).step(b"\0ada\0opensesama")
    assert (b"opensesame", b"opensesama") in compared
    compared.clear()
    server = scram_server()
    client = ScramClient("SCRAM-SHA-256", "ada", "wrong", nonce="n")
    with pytest.raises(AuthenticationError):
        server.step(client.step(server.step(client.step(None) or b"")) or b"")
    assert compared


@pytest.mark.parametrize(
    "module", [kafkaraw.core.sasl.plain, kafkaraw.core.sasl.scram, kafkaraw.broker.security.sasl_authenticator]
)
def test_cve_2021_38153_no_secret_stands_beside_an_equals_sign(module: ModuleType):
    secret = re.compile(r"password|secret|proof|signature|stored_key|server_key")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            assert not secret.search(ast.unparse(node)), ast.unparse(node)


def scram_server() -> ScramServer:
    credential = make_credential("SCRAM-SHA-256", "opensesame", b"salt" * 4)
    return ScramServer("SCRAM-SHA-256", {"ada": credential}.get, nonce="s")


def test_cve_2017_12610_nobody_becomes_another_by_asking():
    with pytest.raises(AuthenticationError, match="authorization id that is not its own"):
        PlainServer({"ada": "opensesame"}).step(b"admin\0ada\0opensesame")
    with pytest.raises(AuthenticationError):
        scram_server().step(b"n,a=admin,n=ada,r=nonce")


@pytest.mark.parametrize(
    "data",
    [
        XERIAL + struct.pack(">i", 0x7FFFFFFF) + b"x",
        XERIAL + struct.pack(">i", -1) + b"x",
        XERIAL + struct.pack(">i", 5) + b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x0f" + bytes(20),
    ],
    ids=["chunk of 2 GiB", "negative chunk", "chunk that claims 4 GiB", "raw that claims 4 GiB"],
)
def test_cve_2023_34455_and_2023_43642_snappy_chunk_lengths_allocate_nothing(data: bytes):
    tracemalloc.start()
    try:
        with pytest.raises((CorruptBatchError, BatchTooLargeError)):
            codec_by_name("snappy").decompress(data, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < LIMIT


def lz4_frame(block: bytes) -> bytes:
    """A frame with one block of these bytes; its header is a real one."""
    header = lz4.frame.compress(b"", store_size=False)[:7]
    return header + struct.pack("<I", len(block)) + block + bytes(4)


def test_cve_2025_12183_and_2025_66566_lz4_copies_from_before_the_beginning_are_refused():
    """A match that points outside of what was written would show somebody else's memory."""
    assert codec_by_name("lz4").decompress(lz4_frame(b"\x50hello"), LIMIT) == b"hello"
    with pytest.raises(CorruptBatchError):
        codec_by_name("lz4").decompress(lz4_frame(b"\x1fA\xff\xff\x00\x50hello"), LIMIT)


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_cve_2026_59949_and_2026_44302_short_hostile_frames_come_to_an_end(name: str):
    """The seed is fixed, the suite's time limit is the judge: a decoder that does not get on hangs here."""
    codec, rng = codec_by_name(name), random.Random(44302)
    beginning = codec.compress(b"some text, some text", None)
    for _ in range(2000):
        frame = bytearray(beginning[: rng.randrange(4, 16)])
        frame += rng.randbytes(15 - len(frame)) if len(frame) < 15 else b""
        try:
            assert len(codec.decompress(bytes(frame), LIMIT)) <= LIMIT
        except (CorruptBatchError, BatchTooLargeError):
            continue
