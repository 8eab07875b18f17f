"""The connection log: what it prints, what it hides, and that it is not there when it is off."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kafkaraw.inspect import annotate, read_bytes, split_frames
from kafkaraw.net.frame_log import SHOWN_BYTES_MAX, FrameLog
from kafkaraw.net.wire_log import tapped
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.client.virtual_cluster import VirtualCluster, on_cluster

WHO = "node 1 (broker.test:9092)"
SECRET = b"\0alice\0open sesame"


def request(message: object, api_key: int, version: int, correlation_id: int = 1) -> bytes:
    return encode_request(RequestHeader(api_key, version, correlation_id, "kafkaraw/0.1"), message)


def written(log: FrameLog, frame: bytes) -> str:
    return log.text("Write", WHO, [frame])


def read(log: FrameLog, frame: bytes) -> str:
    return log.text("Read", WHO, [memoryview(frame)])


def test_an_entry_has_direction_size_node_api_and_the_bytes_twice():
    text = written(FrameLog("client"), request(ApiVersionsRequest(), 18, 0))
    assert text.splitlines() == [
        "Write[26] node 1 (broker.test:9092) ApiVersions v0 correlation 1",
        "    00 00 00 16 00 12 00 00 00 00 00 01 00 0C 6B 61 66 6B 61 72 61 77 2F 30 2E 31",
        r"    \x00\x00\x00\x16\x00\x12\x00\x00\x00\x00\x00\x01\x00\x0Ckafkaraw/0.1",
    ]


def test_an_answer_is_named_after_its_request():
    log = FrameLog("client")
    written(log, request(MetadataRequest(topics=[]), 3, 12, correlation_id=7))
    assert "Metadata v12 correlation 7" in read(log, b"\0\0\0\x07\0")
    assert "without a request" in read(log, b"\0\0\0\x08\0")


def test_a_long_frame_is_cut_and_the_limit_said():
    topics = [MetadataRequestTopic(name=f"topic-{number:05}") for number in range(1000)]
    frame = request(MetadataRequest(topics=topics), 3, 8)
    text = written(FrameLog("client"), frame)
    assert f"(the first {SHOWN_BYTES_MAX} bytes; {len(frame) + 4 - SHOWN_BYTES_MAX} more are not shown)" in text
    assert len(text) < 10 * SHOWN_BYTES_MAX


@pytest.mark.parametrize("version", [0, 1, 2])
def test_tokens_in_sasl_frames_are_masked_on_both_ends(version: int):
    for end, there, back in (("client", "Write", "Read"), ("broker", "Read", "Write")):
        log = FrameLog(end)
        asked = log.text(there, WHO, [request(SaslAuthenticateRequest(auth_bytes=SECRET), 36, version)])
        reply = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"v=secret proof")
        answered = log.text(back, WHO, [encode_response(ResponseHeader(1), reply, version)])
        for text in (asked, answered):
            assert "SaslAuthenticate" in text and "(token masked)" in text and "*masked*" in text
            assert not any(secret in text for secret in ("sesame", "alice", "proof", b"sesame".hex(" ").upper()))
        data, _ = read_bytes(asked.encode())
        assert annotate(data).is_sound


def test_raw_tokens_after_the_oldest_handshake_are_masked_until_requests_come_again():
    log = FrameLog("client")
    assert "SaslHandshake v0" in written(log, request(SaslHandshakeRequest(mechanism="PLAIN"), 17, 0))
    reply = encode_response(ResponseHeader(1), SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), 0)
    assert "SaslHandshake v0" in read(log, reply)
    for text in (written(log, SECRET), read(log, SECRET), written(log, b"r=nonce,p=proof")):
        assert "SASL token (masked)" in text
        assert "sesame" not in text and "proof" not in text and b"sesame".hex(" ").upper() not in text
    assert "Metadata v1 correlation 2" in written(log, request(MetadataRequest(topics=[]), 3, 1, 2))


def test_a_request_that_carries_passwords_is_shown_without_its_body():
    from kafkaraw.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )

    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"sesame"
    )
    message = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    text = written(FrameLog("client"), request(message, 51, 0))
    assert "not shown" in text and "sesame" not in text and b"sesame".hex(" ").upper() not in text


def test_off_it_is_not_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KAFKARAW_WIRE_LOG", raising=False)
    handler = object()
    assert tapped(handler, lambda: WHO, "client") is handler


def test_both_ends_log_every_frame_and_the_inspector_reads_it_all(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "kafkaraw.wire")

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer() as producer:
            await producer.send("t", b"hello")

    on_cluster(test)
    entries = [record.getMessage() for record in caplog.records if record.name == "kafkaraw.wire"]
    frames = [entry for entry in entries if entry.startswith(("Read[", "Write["))]
    assert sum("node " in entry for entry in frames) + sum("bootstrap" in entry for entry in frames) == len(frames) / 2
    assert sum("broker 0, client 127.0.0.1:" in entry for entry in frames) == len(frames) / 2
    (produce,) = [
        entry
        for entry in frames
        if entry.startswith("Write[") and " Produce v13 correlation" in entry and "hello" in entry
    ]
    assert "node 0 (127.0.0.1:9092)" in produce  # although it went over the connection that found the cluster
    assert any(entry.startswith("Disconnected ") for entry in entries)
    whole = [entry for entry in frames if "more are not shown" not in entry]
    for entry in whole:
        data, form = read_bytes(f"2026-11-21 05:00:00,000 kafkaraw.wire {entry}\n".encode())
        assert form == "log line"
        assert int(entry.partition("[")[2].partition("]")[0]) == len(data)
        assert len(split_frames(data)) == 1


def test_a_log_handler_that_raises_keeps_no_frame_from_its_way(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "kafkaraw.wire")
    raised: list[object] = []

    class Raises(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(record.getMessage().partition("[")[0])

    async def test(cluster: VirtualCluster) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(str(context["exception"]).split()[0]))
        began = loop.time()
        await cluster.create("t")
        async with cluster.producer() as producer:
            await producer.send("t", b"hello")
        assert loop.time() - began < 1, "no answer was waited for in vain"

    logger, handler = logging.getLogger("kafkaraw.wire"), Raises()
    logger.addHandler(handler)
    try:
        on_cluster(test)
    finally:
        logger.removeHandler(handler)
    assert set(raised) == {"Connected", "Write", "Read", "Disconnected"}


def test_the_environment_switches_it_on_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    logger = logging.getLogger("kafkaraw.wire")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    monkeypatch.setenv("KAFKARAW_WIRE_LOG", "1")

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")

    try:
        on_cluster(test)
        assert len(logger.handlers) == 1
    finally:
        logger.manager._clear_cache()
    assert "CreateTopics v7 correlation" in capsys.readouterr().err
