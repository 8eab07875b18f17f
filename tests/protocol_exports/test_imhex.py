"""The ImHex pattern: every message is there, and `plcli`, ImHex's own interpreter, reads the values of our decoder."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME, API_TABLE
from kafkaraw.protocol.declare import spec_of
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkaraw.protocol_exports.imhex import imhex_pattern
from kafkaraw.records import encode_batch
from tests.cases import Cases
from tests.inspect.realistic import realistic_message
from tests.inspect.sample_frames import ROWS, fetch, old_message_set, prefixed, produce
from tests.protocol.message_values import random_message
from tests.protocol_exports.plcli import assert_same, run_frames, run_pattern, why_no_plcli
from tests.simulation import seeds

BUILT_IN = {"u8", "u32", "u64", "s8", "s16", "s32", "s64", "u16", "bool", "double", "char", "auto"}
HOLDS_RECORDS = {"Produce", "Fetch", "ShareFetch", "FetchSnapshot"}

needs_plcli = pytest.mark.skipif(why_no_plcli() is not None, reason=why_no_plcli() or "")


def test_every_type_is_declared_once_before_it_is_used() -> None:
    (text,) = imhex_pattern(API_TABLE).values()
    declared: set[str] = set()
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")
    for line in re.sub(r"//.*", "", text).splitlines():
        if head := re.match(r"(?:struct|bitfield|enum) (\w+)", line):
            assert head[1] not in declared, line
            declared.add(head[1])
        elif member := re.match(r"\s+([\w:]+)(?:<[^;]*>)? \w+(?:\[.*\])?(?: = .*| in)?;$", line):
            assert member[1] in declared | BUILT_IN | {"return"}, line


def test_every_message_has_its_fields_in_order() -> None:
    (text,) = imhex_pattern(API_TABLE).values()
    with Cases() as case:
        for api in API_TABLE:
            for cls in (api.request, api.response):
                with case(cls.__name__):
                    (body,) = re.findall(
                        rf"^struct {cls.__name__}<auto version, auto flexible> {{\n(.*?)^}};", text, re.M | re.S
                    )
                    names = re.findall(r" (\w+)(?:\[\w+\.count\])?;$", body, re.M)
                    found = [name for name in dict.fromkeys(names) if not name.endswith(("_count", "_marker"))]
                    plain = [
                        field.name
                        for field in spec_of(cls).fields
                        if field.tag is None or field.tagged.min > field.versions.min
                    ]
                    assert [name for name in found if name != "tagged_fields"] == plain
            assert f"        ({api.key}): {{\n" in text


@pytest.fixture(scope="module")
def pattern() -> str:
    (text,) = imhex_pattern(API_TABLE).values()
    return text


@needs_plcli
def test_messages_of_every_version_are_read_with_the_values_of_our_decoder(pattern: str, tmp_path: Path) -> None:
    frames: list[bytes | tuple[bytes, int, int]] = []
    messages: list[tuple[object, int]] = []
    for api in API_TABLE:
        make = realistic_message if api.name in HOLDS_RECORDS else random_message
        for version in range(api.versions.min, api.versions.max + 1):
            rng = random.Random(f"{seeds.FIRST} {api.key} {version}")
            request, response = make(api.request, version, rng), make(api.response, version, rng)
            if api.name == "ApiVersions":
                response.error_code = 0  # type: ignore[attr-defined]  # UNSUPPORTED_VERSION comes in version 0
            frames.append(prefixed(encode_request(RequestHeader(api.key, version, 7, None), request)))
            frames.append((prefixed(encode_response(ResponseHeader(8), response, version)), api.key, version))
            messages += [(request, version), (response, version)]
    with Cases() as case:
        for parsed, (message, version) in zip(run_frames(pattern, frames, tmp_path), messages, strict=True):
            with case(f"{type(message).__name__} v{version}"):
                assert "rest" not in parsed
                assert parsed["correlation_id"] == (7 if "api_key" in parsed else 8)
                assert_same(message, parsed["body"], version, type(message).__name__)


@needs_plcli
def test_other_values_are_told_apart(pattern: str, tmp_path: Path) -> None:
    batch = bytes(encode_batch(ROWS))
    (parsed,) = run_frames(pattern, [prefixed(encode_request(RequestHeader(0, 9, 7, None), produce(batch)))], tmp_path)
    other = produce(batch)
    other.topic_data[0].name = "order"
    with pytest.raises(AssertionError, match=r"topic_data\[0\].name"):
        assert_same(other, parsed["body"], 9, "Produce")


@needs_plcli
def test_a_file_of_requests_is_read_to_its_end(pattern: str, tmp_path: Path) -> None:
    batch = bytes(encode_batch(ROWS, base_offset=12, codec="gzip"))
    bodies = [encode_request(RequestHeader(0, version, version, "test"), produce(batch)) for version in (3, 9)]
    unknown = b"\0\0\0\x63" + b"\0\0\0\7\xff\xff" + b"rest"
    found = run_pattern(pattern, b"".join(map(prefixed, (*bodies, unknown))), tmp_path)["frames"]["requests"]
    assert [each["api_version"] for each in found] == [3, 9, 99]
    assert "body" not in found[2]
    assert bytes(found[2]["rest"]) == b"rest"
    for each in found[:2]:
        assert each["client_id"]["value"] == "test"
        (read,) = each["body"]["topic_data"][0]["partition_data"][0]["records"]["batches"]
        assert (read["base_offset"], read["codec"], read["records_count"]) == (12, 1, len(ROWS))
        assert bytes(read["records"]) == batch[61:]


@needs_plcli
def test_a_file_of_responses_is_read_with_the_settings_of_the_pattern(pattern: str, tmp_path: Path) -> None:
    plain, packed = (bytes(encode_batch(ROWS, codec=codec, base_offset=12)) for codec in ("none", "zstd"))
    for name, value in (("is_response", "true"), ("response_api_key", "1"), ("response_api_version", "11")):
        pattern = pattern.replace(f" {name} in;", f" {name} = {value};")
    shapes = ((plain + packed + plain[:-3], 2, len(plain) - 3), (plain[:10], 0, 10), (old_message_set(), 2, 0))
    data = b"".join(prefixed(encode_response(ResponseHeader(7), fetch(records), 11)) for records, _, _ in shapes)
    found = run_pattern(pattern, data, tmp_path)["frames"]["responses"]
    for each, (records, batches, rest) in zip(found, shapes, strict=True):
        read = each["body"]["responses"][0]["partitions"][0]["records"]
        assert read["size"]["plain"] == len(records)
        assert len(read.get("batches", [])) == batches
        assert len(read.get("cut_short", [])) == rest


@needs_plcli
def test_a_broker_that_lacks_the_version_of_api_versions_answers_in_version_0(pattern: str, tmp_path: Path) -> None:
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    frame = prefixed(encode_response(ResponseHeader(7), answer, 0))
    (parsed,) = run_frames(pattern, [(frame, API_BY_NAME["ApiVersions"].key, 3)], tmp_path)
    assert_same(answer, parsed["body"], 0, "ApiVersions")
