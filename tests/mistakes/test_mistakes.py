"""What users are told about their mistakes: every row of the tables beside this file, on both faces in turn.

A message says where it failed, with which value, and what to do, within the time that the row gives. `mistake.py` says
what a row is. Kept out: names of arguments that do not exist (`poll(timeout_ms=1)`), of which Python itself speaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import ResponseHeader, decode_request_header, encode_response
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.mistakes import administering, clients, connecting, consuming, producing, tools
from tests.mistakes.mistake import PASSWORD, Desk, Mistake, Places, drive
from tests.rotation import rotating

TABLE = [
    mistake
    for module in (clients, producing, consuming, connecting, administering, tools)
    for mistake in module.MISTAKES
]
ROWS = [
    pytest.param(*face.values, mistake, id=f"{mistake.what}, {face.values[0]}", marks=face.marks)
    for mistake in TABLE
    for face in rotating(mistake.faces, 1)
]
PYTHONS_OWN = ("object has no attribute", "not supported between", "positional argument", "to unpack", "unhashable")


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


@contextlib.contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """A server of another kind: it answers what comes first, and closes; with None it says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    frame = connection.recv(1 << 16)
                    connection.sendall(controllers_answer(frame) if answer == b"controller" else answer or b"")
                    connection.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    if answer is not None:
        thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    if answer is not None:
        thread.join(10)


def controllers_answer(frame: bytes) -> bytes:
    """What a controller's listener says to ApiVersions: it offers Vote, Fetch and the like, and no Metadata."""
    header, _ = decode_request_header(memoryview(frame)[4:])
    offer = [ApiVersion(api_key=key, min_version=0, max_version=0) for key in (18, 52, 53, 54, 55, 62, 63)]
    answer = ApiVersionsResponse(error_code=0, api_keys=offer)
    return_frame = encode_response(ResponseHeader(header.correlation_id), answer, header.api_version)
    return len(return_frame).to_bytes(4, "big") + bytes(return_frame)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """One broker with four listeners, and servers that are no brokers."""
    folder = tmp_path_factory.mktemp("mistakes")
    authority, stranger = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    for name, content in (("authority.pem", pem(authority.cert_pem)), ("stranger.pem", pem(stranger.cert_pem))):
        (folder / name).write_text(content)
    (folder / "text").write_text("no certificate, and no folder")
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")),
        "auto.create.topics.enable": "false",
        "num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
    }
    with contextlib.ExitStack() as servers:
        broker = servers.enter_context(EmbeddedBroker(properties=properties, users={"ada": PASSWORD}))
        plain, sasl, tls, sasl_tls = broker.bootstrap_servers.split(",")
        fill(plain)
        free = servers.enter_context(socket.socket())
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        yield Places(
            plain=plain,
            sasl=sasl,
            tls=tls,
            sasl_tls=sasl_tls,
            other_name=tls.replace("127.0.0.1", "localhost"),
            closed=f"127.0.0.1:{free.getsockname()[1]}",
            silent=servers.enter_context(server(None)),
            web=servers.enter_context(server(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
            alert=servers.enter_context(server(b"\x15\x03\x03\x00\x02\x02\x46")),
            controller=servers.enter_context(server(b"controller")),
            authority=str(folder / "authority.pem"),
            stranger=str(folder / "stranger.pem"),
            folder=Path(folder),
        )


def fill(address: str) -> None:
    topics = [
        NewTopic("t"),
        NewTopic("small", 1, configs={"max.message.bytes": "1000"}),
        NewTopic("compacted", 1, configs={"cleanup.policy": "compact"}),
        NewTopic("filled", 1),
    ]
    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics(topics)
    with Producer(bootstrap_servers=address) as producer:
        producer.send("filled", b"no JSON")


def made(mistake: Mistake, desk: Desk, face: str) -> BaseException:
    """Make a mistake; gives the error."""

    async def call() -> object:
        return await mistake.call(desk)

    with pytest.raises(mistake.error) as caught:
        if face == "blocking":
            drive(call())
        else:
            asyncio.run(call())
    return caught.value


@pytest.mark.parametrize(("face", "mistake"), ROWS)
def test_a_mistake_is_told_with_stage_value_and_remedy(places: Places, face: str, mistake: Mistake) -> None:
    desk = Desk(face, places)
    began = time.monotonic()
    error = made(mistake, desk, face)
    seconds = time.monotonic() - began
    told = str(error)
    assert isinstance(error, mistake.error)
    assert desk.named(mistake.stage) in told
    assert desk.named(mistake.value) in told
    assert desk.named(mistake.remedy) in told
    assert not any(words in told for words in PYTHONS_OWN)
    assert seconds <= mistake.seconds


def test_the_table_has_a_hundred_rows_of_different_names() -> None:
    assert len(TABLE) >= 100
    assert [name for name, count in Counter(mistake.what for mistake in TABLE).items() if count > 1] == []
