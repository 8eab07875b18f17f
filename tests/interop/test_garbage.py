"""Garbage on a connection, compared with Apache Kafka: what is answered, and what closes the connection."""

from __future__ import annotations

import logging
import socket
import struct
from dataclasses import dataclass

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import RequestHeader, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.odd_batches import batch
from tests.interop.test_odd_batches import request as produce_request

TIMEOUT_SECONDS = 20.0
METADATA, PRODUCE, API_VERSIONS = 3, 0, 18
CORRELATION_ID = 7
GOOD_ID = 99


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def header(api_key: int, version: int, *, client: bytes = b"\0\1x", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", api_key, version, CORRELATION_ID) + client + tags


def whole(request: object, version: int, correlation_id: int = CORRELATION_ID) -> bytes:
    return encode_request(RequestHeader(api_of(request).key, version, correlation_id, "x"), request)


def metadata(version: int = 12) -> bytes:
    topics = [MetadataRequestTopic(name="no-such-topic")]
    return whole(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)


GOOD = framed(whole(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, GOOD_ID))
"""Sent behind the garbage, to see whether the connection still answers."""

SENT: dict[str, bytes] = {
    "nothing wrong": framed(metadata()),
    "a frame of length 0": framed(b""),
    "a frame of length -1": struct.pack(">i", -1),
    "a frame above the limit": struct.pack(">i", 104_857_601),
    "a frame of 2 GiB": struct.pack(">i", 2**31 - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("160301010001000000fc0303") + bytes(240),
    "three bytes of a header": framed(b"\0\3\0"),
    "a header without a client id": framed(struct.pack(">hhi", METADATA, 12, CORRELATION_ID)),
    "an API key that does not exist": framed(header(999, 0) + b"\0" * 20),
    "an API key below 0": framed(header(-1, 0) + b"\0" * 20),
    "a version above the last": framed(header(METADATA, 99, tags=b"\0") + b"\0" * 20),
    "a version that was removed": framed(header(METADATA, 0) + struct.pack(">i", 0)),
    "a version below 0": framed(header(METADATA, -1) + b"\0" * 20),
    "Produce 2": framed(header(PRODUCE, 2) + struct.pack(">hii", 1, 1000, 0)),
    "ApiVersions of a version above the last": framed(header(API_VERSIONS, 99, tags=b"\0") + b"\0" * 20),
    "a client id that is too long": framed(header(METADATA, 12, client=b"\x7f\xff") + metadata()[11:]),
    "a body cut short": framed(metadata()[:-6]),
    "no body": framed(header(METADATA, 12, tags=b"\0")),
    "an array of 2 GiB": framed(header(METADATA, 12, tags=b"\0") + b"\xff\xff\xff\xff\x07" + bytes(8)),
    "an array that ends too early": framed(header(METADATA, 12, tags=b"\0") + b"\x09" + bytes(30)),
    "a length varint of eleven bytes": framed(header(METADATA, 12, tags=b"\0") + b"\x80" * 11 + b"\x01"),
    "a name that is longer than the frame": framed(header(METADATA, 12, tags=b"\0") + b"\x02" + bytes(16) + b"\x7fabc"),
    "tags in the header cut short": framed(header(METADATA, 12, tags=b"\x05\x01")),
    "null where there must be a name": framed(whole(FindCoordinatorRequest(key_type=0, key="k"), 3)[:-3] + b"\0\0\0"),
    "half a Produce request": framed(whole(produce_request("stamped", {0: batch()}), 9)[:40]),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """The correlation ids of the answers, and whether the connection was closed then."""

    answers: tuple[int, ...]
    closed: bool


def told(servers: str, sent: bytes) -> Told:
    host, _, port = servers.rpartition(":")
    answers: list[int] = []
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as link:
        try:
            link.sendall(sent + GOOD)
            while GOOD_ID not in answers:
                (size,) = struct.unpack(">i", exactly(link, 4))
                answers.append(struct.unpack(">i", exactly(link, size)[:4])[0])
        except (ConnectionError, EOFError):
            return Told(tuple(answers), closed=True)
    return Told(tuple(answers), closed=False)


def exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@pytest.fixture(scope="module")
def ours() -> object:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.mark.parametrize("name", SENT)
def test_garbage_is_treated_as_apache_kafka_treats_it(
    name: str, apache_kafka: ApacheKafka, ours: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kafkaraw.broker"):
        own = told(ours.bootstrap_servers, SENT[name])
    assert own == told(apache_kafka.bootstrap_servers, SENT[name])
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == (1 if own.closed else 0), caplog.text
    assert all(record.levelno == logging.WARNING for record in lines), "garbage is no fault of the broker's"


def test_the_broker_is_none_the_worse_for_it(ours: EmbeddedBroker) -> None:
    assert told(ours.bootstrap_servers, b"") == Told((GOOD_ID,), closed=False)
