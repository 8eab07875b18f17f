"""Conversations of other clients and ours with Apache Kafka and the embedded broker, read by other tools.

tshark with the exported dissector, the parser that Kaitai's compiler makes of the exported format, and ImHex's
interpreter with the exported pattern, read every frame with the values of our decoder.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkaraw import Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.inspect.frames import FrameKind
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, Api
from kafkaraw.protocol.frames import decode_message, decode_request_header, response_header_version
from kafkaraw.protocol_exports.imhex import imhex_pattern
from tests.cases import Cases
from tests.interop.apache_kafka import why_missing
from tests.interop.capture import Recorder, Relay, recorded_kafka, run_java
from tests.interop.java_tools import why_no_java_client
from tests.protocol_exports import plcli
from tests.protocol_exports.kaitai import assert_same, compiled, stream, why_no_kaitai
from tests.protocol_exports.packets import Conversation, write_capture
from tests.protocol_exports.plcli import run_frames, why_no_plcli
from tests.protocol_exports.tshark import LEFT_OVER, dissect, expected_values, values_of, why_no_tshark, write_dissector

pytestmark = [pytest.mark.timeout(300)]
needs_tshark = pytest.mark.skipif(why_no_tshark() is not None, reason=why_no_tshark() or "")
needs_plcli = pytest.mark.skipif(why_no_plcli() is not None, reason=why_no_plcli() or "")

ROOT = Path(__file__).parents[2]
UNSUPPORTED_VERSION = b"\x00\x23"
TOO_LONG = {"Metadata", "AlterUserScramCredentials"}
"""The requests that librdkafka ends with one or three bytes too many."""


class Frame(NamedTuple):
    """A frame with its size prefix, and what it is."""

    data: bytes
    api: Api
    version: int
    kind: FrameKind


def our_clients(plain_port: int, sasl_port: int) -> None:
    """Use our own producer and consumer, with a group, a transaction and each codec."""
    servers = f"127.0.0.1:{plain_port}"
    for codec in ("none", "gzip", "snappy", "lz4"):
        with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            for number in range(20):
                producer.send("golden-ours", b"value %d" % number, key=b"key", headers=[("h", b"x")])
    with Producer(bootstrap_servers=servers, transactional_id="golden-ours") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("golden-ours", b"in a transaction")
    settings = {"group_id": "golden-ours", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.subscribe(["golden-ours"])
        assert len(list(itertools.islice(consumer, 81))) == 81
        consumer.commit()


def other_client(name: str) -> Callable[[int, int], None]:
    """A client in a process of its own, since not every client closes all that it opens."""

    def run(plain_port: int, sasl_port: int) -> None:
        program = f"from tests.interop import traffic; traffic.{name}({plain_port}, {sasl_port})"
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=200)

    return run


@contextlib.contextmanager
def recorded_embedded_broker(recorder: Recorder) -> Iterator[tuple[int, int]]:
    """The embedded broker behind relays: the ports for plain and for SASL connections."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = [listening.getsockname()[1] for listening in sockets]
    plain, sasl = relays = [Relay(recorder, port) for port in ports]
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL://127.0.0.1:{ports[1]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain.port},SASL://127.0.0.1:{sasl.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
    }
    try:
        with EmbeddedBroker(properties=properties, users={"alice": "alice-secret"}):
            yield plain.port, sasl.port
    finally:
        for relay in relays:
            relay.close()


def frames_of(sent: list[tuple[bool, bytes]]) -> Iterator[Frame]:
    """What the frames of a connection are."""
    asked: dict[int, tuple[Api, int]] = {}
    for by_client, data in sent:
        if by_client:
            api, version = API_BY_KEY[int.from_bytes(data[4:6])], int.from_bytes(data[6:8])
            asked[int.from_bytes(data[8:12])] = api, version
            yield Frame(data, api, version, FrameKind.REQUEST)
        else:
            api, version = asked.pop(int.from_bytes(data[4:8]))
            if api.name == "ApiVersions" and data[8:10] == UNSUPPORTED_VERSION:
                version = 0
            yield Frame(data, api, version, FrameKind.RESPONSE)


@pytest.fixture(scope="module")
def kaitai(tmp_path_factory: pytest.TempPathFactory) -> Any:
    missing = why_no_kaitai()
    if missing is not None:
        pytest.skip(missing)
    return compiled(API_TABLE, tmp_path_factory.mktemp("kaitai"))


@pytest.fixture(scope="module", params=[recorded_kafka, recorded_embedded_broker], ids=["apache", "embedded"])
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[Recorder, tuple[int, int]]]:
    missing = why_missing()
    if request.param is recorded_kafka and missing is not None:
        pytest.skip(missing)
    recorder = Recorder()
    with request.param(recorder) as ports:
        yield recorder, ports


@needs_tshark
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(our_clients, id="ours"),
        pytest.param(other_client("confluent"), id="confluent-kafka"),
        pytest.param(other_client("kafka_python"), id="kafka-python"),
        pytest.param(other_client("aio_kafka"), id="aiokafka"),
        pytest.param(run_java, id="java", marks=pytest.mark.soak),  # a minute or more
    ],
)
def test_every_frame_of_a_client_is_read_with_the_values_of_our_decoder(
    broker: tuple[Recorder, tuple[int, int]],
    client: Callable[[int, int], None],
    kaitai: Any,
    tmp_path: Path,
) -> None:
    if client is run_java and why_no_java_client() is not None:
        pytest.skip(why_no_java_client() or "")
    recorder, ports = broker
    recorder.connections.clear()
    client(*ports)
    connections = [list(sent) for sent in recorder.connections]  # those that are open may go on
    write_capture(
        tmp_path / "capture.pcap",
        [
            Conversation(client=("10.0.0.1", 20_000 + number), server=("10.0.0.2", 19_092), sent=sent)
            for number, sent in enumerate(connections)
        ],
    )
    shown = dissect(write_dissector(tmp_path), tmp_path / "capture.pcap")
    frames = [frame for sent in connections for frame in frames_of(sent)]
    assert len(frames) > 50
    with Cases() as case:
        for each, frame in zip(shown, frames, strict=True):
            with case(each.title):
                may_be_too_long = client is not our_clients and frame.api.name in TOO_LONG
                allowed = ("does not decompress", *[LEFT_OVER] * may_be_too_long)
                assert not [problem for problem in each.problems if not any(text in problem for text in allowed)]
                assert values_of(each) == expected_values(*frame)
                assert_kaitai_reads(kaitai, frame, may_be_too_long)


@needs_plcli
def test_the_pattern_of_imhex_reads_every_frame_of_a_client_with_the_values_of_our_decoder(
    broker: tuple[Recorder, tuple[int, int]], tmp_path: Path
) -> None:
    recorder, ports = broker
    recorder.connections.clear()
    other_client("confluent")(*ports)
    frames = [frame for sent in list(recorder.connections) for frame in frames_of(list(sent))]
    assert len(frames) > 50
    (pattern,) = imhex_pattern(API_TABLE).values()
    given = [
        frame.data if frame.kind is FrameKind.REQUEST else (frame.data, frame.api.key, frame.version)
        for frame in frames
    ]
    with Cases() as case:
        for parsed, frame in zip(run_frames(pattern, given, tmp_path), frames, strict=True):
            with case(f"{frame.api.name} v{frame.version}"):
                assert "rest" not in parsed or frame.api.name in TOO_LONG
                message = message_of(frame, frame.api.name in TOO_LONG)
                plcli.assert_same(message, parsed["body"], frame.version, frame.api.name)


def message_of(frame: Frame, may_be_too_long: bool) -> object:
    data = frame.data[4:]
    if frame.kind is FrameKind.REQUEST:
        _, at = decode_request_header(data)
        return decode_message(frame.api.request, frame.version, data, at, allow_trailing_bytes=may_be_too_long)
    at = 5 if response_header_version(frame.api.key, frame.version) else 4
    return decode_message(frame.api.response, frame.version, data, at, allow_trailing_bytes=may_be_too_long)


def assert_kaitai_reads(kaitai: Any, frame: Frame, may_be_too_long: bool) -> None:
    data = frame.data[4:]
    if frame.kind is FrameKind.REQUEST:
        parsed = kaitai.Request(stream(data))
    else:
        parsed = kaitai.Response(frame.api.key, frame.version, stream(data))
    assert_same(message_of(frame, may_be_too_long), parsed.body, frame.version, frame.api.name)
    assert parsed.body._io.is_eof() or may_be_too_long
