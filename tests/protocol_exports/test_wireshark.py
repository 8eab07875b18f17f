"""The dissector for Wireshark: tshark shows the values that our decoder reads, and names what it cannot read."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from kafkaraw.inspect.frames import FrameKind
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, API_TABLE, Api
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.fetch import FetchRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.cases import Cases
from tests.inspect.realistic import realistic_message
from tests.inspect.sample_frames import CODECS, ROWS, fetch, old_message_set, prefixed, produce
from tests.protocol.message_values import random_message
from tests.protocol_exports.packets import Conversation, write_capture
from tests.protocol_exports.tshark import (
    LEFT_OVER,
    Shown,
    dissect,
    expected_values,
    run_tshark,
    values_of,
    why_no_tshark,
    write_dissector,
)
from tests.rotation import rotating
from tests.simulation import seeds

pytestmark = pytest.mark.skipif(why_no_tshark() is not None, reason=why_no_tshark() or "")

API_VERSIONS, SASL_HANDSHAKE, PRODUCE = (API_BY_NAME[name] for name in ("ApiVersions", "SaslHandshake", "Produce"))
UNSUPPORTED_VERSION = 35
HOLDS_RECORDS = {"Produce", "Fetch", "ShareFetch", "FetchSnapshot"}
NOT_DECOMPRESSED = "does not decompress"
GOLDEN = Path(__file__).parents[1] / "protocol" / "golden"


class Frame(NamedTuple):
    """A frame with its size prefix, and what it is."""

    data: bytes
    api: Api
    version: int
    kind: FrameKind


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dissector(tmp_path_factory.mktemp("dissector"))


def request(message: object, version: int, correlation_id: int = 1, client_id: str | None = "test") -> Frame:
    api = next(api for api in API_TABLE if isinstance(message, api.request))
    data = encode_request(RequestHeader(api.key, version, correlation_id, client_id), message)
    return Frame(prefixed(data), api, version, FrameKind.REQUEST)


def response(message: object, version: int, correlation_id: int = 1) -> Frame:
    api = next(api for api in API_TABLE if isinstance(message, api.response))
    return Frame(
        prefixed(encode_response(ResponseHeader(correlation_id), message, version)), api, version, FrameKind.RESPONSE
    )


def exchanges(
    make: Callable[[type[object], int, random.Random], object], seed: int, port: int
) -> Iterator[tuple[Conversation, list[Frame]]]:
    """A connection for each API, with a request and a response in each version."""
    for api in API_TABLE:
        conversation = Conversation(client=("10.0.0.1", 40_000 + api.key), server=("10.0.0.2", port))
        frames = []
        for version in range(api.versions.min, api.versions.max + 1):
            rng = random.Random(f"{seed} {api.key} {version}")
            asked, answered = make(api.request, version, rng), make(api.response, version, rng)
            if api is PRODUCE:
                asked.acks = 1  # type: ignore[attr-defined]  # with 0 there is no response
            if api in (API_VERSIONS, SASL_HANDSHAKE):
                # ApiVersions: the response would be one of version 0; SaslHandshake: tokens would follow.
                answered.error_code = 58  # type: ignore[attr-defined]
            pair = request(asked, version, version), response(answered, version, version)
            conversation.ask(pair[0].data)
            conversation.answer(pair[1].data)
            frames += pair
        yield conversation, frames


def assert_same_values(shown: list[Shown], frames: list[Frame]) -> None:
    assert len(shown) == len(frames)
    with Cases() as case:
        for each, frame in zip(shown, frames, strict=True):
            with case(each.title):
                assert values_of(each) == expected_values(*frame)


@pytest.mark.parametrize("seed", rotating(range(seeds.FIRST, seeds.FIRST + 12), 1))
def test_random_messages_of_every_api_and_version_have_the_values_of_our_decoder(
    seed: int, script: Path, tmp_path: Path
) -> None:
    capture = tmp_path / "random.pcap"
    found = list(exchanges(random_message, seed, port=9092))
    write_capture(capture, [conversation for conversation, _ in found])
    shown, frames = dissect(script, capture), [frame for _, each in found for frame in each]
    assert len(frames) > 600
    assert_same_values(shown, frames)
    problems = {
        f"{each.title}: {each.problems}"
        for each, frame in zip(shown, frames, strict=True)
        if each.problems and frame.api.name not in HOLDS_RECORDS
    }
    assert not problems  # random bytes are no batches


@pytest.mark.parametrize("arguments", [(), ("-2",)], ids=["one pass", "two passes"])
def test_messages_in_small_segments_on_any_port_are_recognised_and_put_together(
    arguments: tuple[str, ...], script: Path, tmp_path: Path
) -> None:
    capture = tmp_path / "segments.pcap"
    found = [pair for pair in exchanges(realistic_message, seeds.FIRST, port=29_092) if pair[1][0].api.key % 3 == 0]
    for conversation, _ in found:
        conversation.segment_size = 500
    write_capture(capture, [conversation for conversation, _ in found])
    shown = dissect(script, capture, *arguments)
    assert_same_values(shown, [frame for _, frames in found for frame in frames])
    assert {problem for each in shown for problem in each.problems if NOT_DECOMPRESSED not in problem} == set()


def golden_exchanges() -> Iterator[tuple[Conversation, list[Frame]]]:
    """What clients and Apache Kafka sent each other, with the ids of the requests changed to those of the responses."""
    port = itertools.count(30_000)
    for file in sorted(GOLDEN.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()[1:]]
        frames = {(it["key"], it["version"], it["direction"]): bytes.fromhex(it["frame"]) for it in lines}
        for (key, version, direction), data in frames.items():
            answer = frames.get((key, version, "response"))
            if direction == "request" and answer is not None:
                asked = prefixed(data[:4] + answer[:4] + data[8:])
                conversation = Conversation(client=("10.0.0.1", next(port)))
                conversation.ask(asked)
                conversation.answer(prefixed(answer))
                kinds = ((asked, FrameKind.REQUEST), (prefixed(answer), FrameKind.RESPONSE))
                yield conversation, [Frame(bytes_, API_BY_KEY[key], version, kind) for bytes_, kind in kinds]


def test_frames_of_other_clients_and_apache_kafka_have_the_values_of_our_decoder(script: Path, tmp_path: Path) -> None:
    capture = tmp_path / "golden.pcap"
    found = list(golden_exchanges())
    write_capture(capture, [conversation for conversation, _ in found])
    shown = dissect(script, capture)
    whole = [frame for _, frames in found for frame in frames]
    assert len(whole) > 150
    with Cases() as case:
        for each, frame in zip(shown, whole, strict=True):
            with case(each.title):
                assert values_of(each) == expected_values(*frame)
                problems = [problem for problem in each.problems if NOT_DECOMPRESSED not in problem]
                # librdkafka ends this request with one byte too many.
                is_too_long = frame.api.name == "AlterUserScramCredentials" and frame.kind is FrameKind.REQUEST
                assert all(is_too_long and LEFT_OVER in problem for problem in problems)


def shown_of(script: Path, folder: Path, sent: Iterable[tuple[bool, bytes]], **changes: object) -> list[Shown]:
    """What tshark shows of one connection."""
    conversation = Conversation(sent=list(sent), **changes)  # type: ignore[arg-type]
    write_capture(folder / "one.pcap", [conversation])
    return dissect(script, folder / "one.pcap")


def asked(frame: Frame) -> tuple[bool, bytes]:
    return True, frame.data


def answered(frame: Frame) -> tuple[bool, bytes]:
    return False, frame.data


def named(shown: Shown, name: str) -> list[str]:
    return [value for each, value in shown.items if each == f"kafkaraw.{name}"]


def test_records_are_shown_for_each_codec_that_can_be_decompressed(script: Path, tmp_path: Path) -> None:
    from kafkaraw.records import encode_batch

    sent = []
    for number, codec in enumerate(CODECS):
        batch = bytes(encode_batch(ROWS, codec=codec, base_offset=12))
        sent.append(asked(request(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 11, number)))
        sent.append(answered(response(fetch(batch), 11, number)))
    responses = shown_of(script, tmp_path, sent)[1::2]
    for codec, shown in zip(CODECS, responses, strict=True):
        if codec == "zstd" and shown.problems:
            assert NOT_DECOMPRESSED in shown.problems[0]  # Wireshark 4.0 has no function for it
            continue
        assert shown.problems == []
        assert named(shown, "record.offset") == ["12", "13", "14"]
        assert named(shown, "record.timestamp") == [str(row[0]) for row in ROWS]
        assert named(shown, "record.key") == [row[1].hex(":") for row in ROWS if row[1] is not None]
        assert named(shown, "record.value") == [row[2].hex(":") for row in ROWS if row[2] is not None]
        assert named(shown, "record.header.key") == ["trace", "empty"]
        assert named(shown, "null") == ["record.header.value", "record.key", "record.value"]


def test_large_batches_are_decompressed_as_our_codecs_do(script: Path, tmp_path: Path) -> None:
    from kafkaraw.records import encode_batch

    rng = random.Random(seeds.FIRST)
    words = [rng.randbytes(rng.randrange(1, 40)) for _ in range(50)]
    rows = [(ROWS[0][0], None, b"".join(rng.choices(words, k=rng.randrange(60))), []) for _ in range(200)]
    batches = b"".join(bytes(encode_batch(rows, codec=codec)) for codec in ("gzip", "snappy", "lz4"))
    (shown,) = shown_of(script, tmp_path, [asked(request(produce(batches), 9))])
    assert shown.problems == []
    assert named(shown, "record.value") == [row[2].hex(":") for row in rows] * 3


def test_message_sets_of_old_formats_are_shown(script: Path, tmp_path: Path) -> None:
    sent = [
        asked(request(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 4)),
        answered(response(fetch(old_message_set()), 4)),
    ]
    shown = shown_of(script, tmp_path, sent)[1]
    assert shown.problems == []
    assert named(shown, "record.value") == [value.hex(":") for value in (b"old", b"first", b"second")]


def test_tokens_of_sasl_without_headers_are_not_read_as_messages(script: Path, tmp_path: Path) -> None:
    sent = [
        asked(request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0, 1)),
        answered(response(SaslHandshakeResponse(error_code=0, mechanisms=["SCRAM-SHA-256"]), 0, 1)),
        (True, prefixed(b"n,,n=alice,r=abc")),
        (False, prefixed(b"r=abcdef,s=QSXCR,i=4096")),
        (True, prefixed(b"c=biws,r=abcdef,p=dHz")),
        (False, prefixed(b"")),
        asked(request(MetadataRequest(topics=[]), 4, 2)),
    ]
    shown = shown_of(script, tmp_path, sent)
    assert [each.title.partition(": ")[2] for each in shown[2:]] == ["SASL token"] * 4 + [
        "Metadata v4 request, correlation id 2"
    ]
    assert named(shown[3], "sasl_token") == [b"r=abcdef,s=QSXCR,i=4096".hex(":")]
    assert all(each.problems == [] for each in shown)


def test_a_broker_that_lacks_the_version_of_api_versions_answers_in_version_0(script: Path, tmp_path: Path) -> None:
    ranges = [ApiVersion(api_key=18, min_version=0, max_version=2)]
    sent = [
        asked(request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)),
        answered(response(ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=ranges), 0)),
    ]
    shown = shown_of(script, tmp_path, sent)[1]
    assert shown.problems == []
    assert named(shown, "api_versions.api_keys.max_version") == ["2"]


def test_a_version_or_api_without_schema_is_named_and_its_bytes_are_shown(script: Path, tmp_path: Path) -> None:
    hello = request(MetadataRequest(topics=[]), 4, 1)
    newer = bytearray(request(MetadataRequest(topics=[]), 12, 2).data)
    newer[6:8] = (14).to_bytes(2)
    foreign = bytearray(newer)
    foreign[4:6] = (900).to_bytes(2)
    foreign[8:12] = (3).to_bytes(4)
    answers = [(False, prefixed(number.to_bytes(4) + b"\0\1\2\3")) for number in (2, 3)]
    shown = shown_of(script, tmp_path, [asked(hello), (True, bytes(newer)), (True, bytes(foreign)), *answers])
    assert [each.title.partition(": ")[2] for each in shown[1:]] == [
        "Metadata v14 request, correlation id 2",
        "API 900 v14 request, correlation id 3",
        "Metadata v14 response, correlation id 2",
        "API 900 v14 response, correlation id 3",
    ]
    assert [each.problems for each in shown[1:]] == [
        ["Expert Info (Note/Undecoded): there is no schema of Metadata v14: versions 0-13 are known"],
        ["Expert Info (Note/Undecoded): there is no schema of API 900"],
    ] * 2
    assert named(shown[4], "undecoded") == ["00:01:02:03"]


def test_requests_and_responses_are_matched_by_connection_and_correlation_id(script: Path, tmp_path: Path) -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    fire_and_forget = produce(b"")
    fire_and_forget.acks = 0
    conversations = [
        Conversation(client=("10.0.0.1", 41_000 + number), sent=[
            asked(request(fire_and_forget, 3, 5)),
            asked(request(beat, 0, 6)),
            asked(request(MetadataRequest(topics=[]), 1, 7 + number)),
            answered(response(HeartbeatResponse(error_code=27), 0, 6)),
        ])
        for number in range(2)
    ]  # fmt: skip
    write_capture(tmp_path / "matched.pcap", conversations)
    shown = dissect(script, tmp_path / "matched.pcap", "-2")
    for connection in (shown[:4], shown[4:]):
        _, asked_for, unanswered, answer = connection
        assert named(answer, "response_to") == [str(asked_for.number)]
        assert named(asked_for, "response_in") == [str(answer.number)]
        assert named(unanswered, "response_in") == []
        assert named(answer, "heartbeat.error_code") == ["27"]
        assert named(answer, "time") == ["0.002000000"]


def test_filters_select_frames_by_fields_of_messages(script: Path, tmp_path: Path) -> None:
    sent = [
        asked(request(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), version, number))
        for number, (name, version) in enumerate([("orders", 1), ("clicks", 5), ("orders", 12)])
    ]
    write_capture(tmp_path / "filters.pcap", [Conversation(sent=sent)])

    def frames(filter_: str) -> int:
        return len(run_tshark(script, tmp_path / "filters.pcap", "-Y", filter_).splitlines())

    assert frames('kafkaraw.metadata.topics.name == "orders"') == 2
    assert frames("kafkaraw.api_key == 3 && kafkaraw.api_version > 1") == 2
    listed = run_tshark(script, tmp_path / "filters.pcap", "-Y", "kafkaraw", "-T", "fields", "-e", "_ws.col.Info")
    assert "Metadata v12 request (2)" in listed


def test_bytes_that_are_not_kafkas_are_not_read(script: Path, tmp_path: Path) -> None:
    http = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
    noise = [(True, random.Random(seed).randbytes(200)) for seed in range(50)]
    assert shown_of(script, tmp_path, noise, server=("10.0.0.2", 29_092)) == []
    (shown,) = shown_of(script, tmp_path, [(True, http)])
    assert shown.title == "http"  # port 9092 is Kafka's only if a request was seen
    sent = [asked(request(MetadataRequest(topics=[]), 4)), (True, http)]
    shown = shown_of(script, tmp_path, sent)[1]
    assert named(shown, "undecoded") == [http.hex(":")]
    assert shown.problems == ["Expert Info (Note/Undecoded): these bytes do not begin a frame of Kafka"]


def test_a_capture_that_begins_within_a_frame_is_read_from_the_next_one(script: Path, tmp_path: Path) -> None:
    rest = random.Random(1).randbytes(300)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    sent = [
        (False, rest),
        (True, rest),
        asked(request(beat, 0, 6)),
        answered(response(HeartbeatResponse(error_code=0), 0, 6)),
    ]
    shown = shown_of(script, tmp_path, sent)
    assert [each.problems for each in shown] == [[], []]
    assert named(shown[1], "heartbeat.error_code") == ["0"]


def test_invalid_messages_are_reported_with_the_byte_and_never_stop_the_dissector(script: Path, tmp_path: Path) -> None:
    rng = random.Random(seeds.FIRST)
    conversations = []
    for number, api in enumerate(api for api in API_TABLE for _ in range(3)):
        version = rng.randrange(api.versions.min, api.versions.max + 1)
        data = bytearray(request(random_message(api.request, version, rng), version).data)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(18, len(data)) if len(data) > 18 else -1] = rng.randrange(256)
        cut = data[: rng.randrange(18, len(data))] if rng.random() < 0.5 and len(data) > 19 else data
        conversations.append(
            Conversation(client=("10.0.0.1", 20_000 + number), sent=[(True, prefixed(bytes(cut[4:])))])
        )
    hostile = request(MetadataRequest(topics=[]), 1).data
    conversations.append(Conversation(sent=[(True, hostile[:-4] + (2**31 - 1).to_bytes(4))]))
    write_capture(tmp_path / "invalid.pcap", conversations)
    shown = dissect(script, tmp_path / "invalid.pcap")
    assert len(shown) == len(conversations)
    assert shown[-1].problems == [
        "Expert Info (Error/Malformed): at byte 22: topics has 2147483647 elements, 0 bytes are left"
    ]
    malformed = [each for each in shown if any("Malformed" in problem for problem in each.problems)]
    assert len(malformed) > len(shown) / 4
    assert all("at byte" in problem for each in malformed for problem in each.problems if "Malformed" in problem)


@pytest.mark.skipif(shutil.which("editcap") is None, reason="needs editcap, which comes with tshark")
def test_frames_of_a_capture_with_cut_packets_are_shown_as_far_as_they_go(script: Path, tmp_path: Path) -> None:
    topics = [MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="clicks")]
    write_capture(tmp_path / "whole.pcap", [Conversation(sent=[asked(request(MetadataRequest(topics=topics), 1))])])
    headers = 14 + 20 + 20
    subprocess.run(["editcap", "-s", str(headers + 34), tmp_path / "whole.pcap", tmp_path / "cut.pcap"], check=True)
    (shown,) = dissect(script, tmp_path / "cut.pcap")
    assert named(shown, "metadata.topics.name") == ["orders"]
    assert shown.problems[0] == "Expert Info (Note/Undecoded): the capture has 30 of 34 bytes"
    assert not [problem for problem in shown.problems if "Malformed" in problem]


class TlsEnd:
    """One end of a TLS connection in memory."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self.received, self.to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if is_server else "localhost"
        self.tls = context.wrap_bio(self.received, self.to_send, server_side=is_server, server_hostname=name)

    def take(self, call: Callable[[], object]) -> bytes:
        """Make a call, and return what it sends."""
        with contextlib.suppress(ssl.SSLWantReadError):
            call()
        return self.to_send.read()


def encrypted(sent: Iterable[tuple[bool, bytes]], keys: Path) -> Iterator[tuple[bool, bytes]]:
    """What TLS makes of a conversation; `keys` is the file of its secrets."""
    authority = trustme.CA()
    client_side, server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(client_side)
    authority.issue_cert("localhost").configure_cert(server_side)
    client_side.keylog_filename = str(keys)
    client, server = TlsEnd(client_side, is_server=False), TlsEnd(server_side, is_server=True)
    for _ in range(3):
        for by_client, source, target in ((True, client, server), (False, server, client)):
            data = source.take(source.tls.do_handshake)
            target.received.write(data)
            if data:
                yield by_client, data
    for by_client, data in sent:
        source, target = (client, server) if by_client else (server, client)
        packed = source.take(lambda: source.tls.write(data))  # noqa: B023 -- called at once
        target.received.write(packed)
        yield by_client, packed


def test_frames_in_tls_are_read_with_the_keys_of_the_connection(script: Path, tmp_path: Path) -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m" * 30_000)
    plain = [
        asked(request(beat, 0, 6)),
        answered(response(HeartbeatResponse(error_code=0), 0, 6)),
        asked(request(MetadataRequest(topics=[]), 4, 7)),
    ]
    keys = tmp_path / "keys.txt"
    found = list(encrypted(plain, keys))
    for port in (9092, 29_092):
        conversation = Conversation(server=("10.0.0.2", port), sent=found, segment_size=5000)
        write_capture(tmp_path / "tls.pcap", [conversation])
        shown = dissect(script, tmp_path / "tls.pcap", "-o", f"tls.keylog_file:{keys}")
        assert [each.title.partition(": ")[2] for each in shown] == [
            "Heartbeat v0 request, correlation id 6",
            "Heartbeat v0 response, correlation id 6",
            "Metadata v4 request, correlation id 7",
        ]
        assert named(shown[0], "heartbeat.member_id") == ["m" * 30_000]


def test_a_size_prefix_in_a_packet_of_its_own_belongs_to_the_request(script: Path, tmp_path: Path) -> None:
    beat = request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0, 6)
    again = request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0, 7)
    sent = [(True, part) for frame in (beat, again) for part in (frame.data[:4], frame.data[4:])]
    shown = shown_of(script, tmp_path, [*sent, answered(response(HeartbeatResponse(error_code=0), 0, 7))])
    assert [each.title.partition(": ")[2] for each in shown] == [
        "Heartbeat v0 request, correlation id 6",
        "Heartbeat v0 request, correlation id 7",
        "Heartbeat v0 response, correlation id 7",
    ]
    assert all(each.problems == [] for each in shown)


def test_a_frame_adds_a_limited_number_of_items(script: Path, tmp_path: Path) -> None:
    limited = tmp_path / "limited.lua"
    limited.write_text(script.read_text().replace("local ITEM_LIMIT = 200000", "local ITEM_LIMIT = 50"))
    topics = [MetadataRequestTopic(name=f"topic {number}") for number in range(100)]
    write_capture(tmp_path / "large.pcap", [Conversation(sent=[asked(request(MetadataRequest(topics=topics), 1))])])
    (shown,) = dissect(limited, tmp_path / "large.pcap")
    assert 10 < len(named(shown, "metadata.topics.name")) < 50
    assert shown.problems == ["Expert Info (Note/Undecoded): not shown: a frame adds at most 50 items"]


@pytest.mark.parametrize("interpreter", ["lua5.2", "lua5.4"])
def test_the_dissector_reads_the_same_in_the_lua_of_newer_versions_of_wireshark(interpreter: str, script: Path) -> None:
    if shutil.which(interpreter) is None:
        pytest.skip(f"needs {interpreter} (apt-get install {interpreter})")
    found = [pair for pair in exchanges(realistic_message, seeds.FIRST, port=9092) if pair[1][0].api.key % 5 == 1]
    frames = [frame for _, each in found for frame in each]
    api = Path(__file__).with_name("wireshark_api.lua")
    packets = "".join(f"{int(frame.kind is FrameKind.REQUEST)} {frame.data.hex()}\n" for frame in frames)
    done = subprocess.run(
        [interpreter, api, script], input=packets, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    printed = done.stdout.split("packet\t\n")[1:]
    assert len(printed) == len(frames)
    with Cases() as case:
        for lines, frame in zip(printed, frames, strict=True):
            with case(f"{frame.api.name} {frame.kind} v{frame.version}"):
                names = [line.partition("\t")[0] for line in lines.splitlines()]
                shown = [name for name, _ in values_of(Shown("", 0, [(name, "0") for name in names]))]
                left_out = {
                    "kafkaraw.null",
                    "kafkaraw.error",
                    "kafkaraw.not_decoded",
                }  # the last one of compressed batches
                expected = [name for name, _ in expected_values(*frame) if name not in left_out]
                assert [name for name in shown if name not in left_out] == expected
