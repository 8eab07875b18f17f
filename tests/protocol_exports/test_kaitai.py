"""The Kaitai Struct format: the parser that Kaitai's compiler makes of it reads the values that our decoder reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME, API_TABLE, Api
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkaraw.protocol_exports.kaitai import format_of, kaitai_struct
from kafkaraw.records import encode_batch
from tests.cases import Cases
from tests.inspect.realistic import realistic_message
from tests.inspect.sample_frames import ROWS, fetch, old_message_set, prefixed, produce
from tests.protocol.message_values import random_message
from tests.protocol_exports.kaitai import assert_same, compiled, stream, why_no_kaitai
from tests.rotation import rotating
from tests.simulation import seeds

yaml = pytest.importorskip("yaml")
pytest.importorskip("kaitaistruct")

HOLDS_RECORDS = {"Produce", "Fetch", "ShareFetch", "FetchSnapshot"}
SHARES = 8


@pytest.fixture(scope="module")
def needs_kaitai() -> None:
    missing = why_no_kaitai()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="module")
def records_parser(needs_kaitai: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    chosen = [API_BY_NAME[name] for name in ("Produce", "Fetch", "ApiVersions")]
    return compiled(chosen, tmp_path_factory.mktemp("kaitai"))


def assert_parses(parser: Any, api: Api, version: int) -> None:
    make = realistic_message if api.name in HOLDS_RECORDS else random_message
    rng = random.Random(f"{seeds.FIRST} {api.key} {version}")
    request, response = make(api.request, version, rng), make(api.response, version, rng)
    if api.name == "ApiVersions":
        response.error_code = 0  # type: ignore[attr-defined]  # UNSUPPORTED_VERSION comes in version 0
    parsed = parser.Request(stream(encode_request(RequestHeader(api.key, version, 7, None), request)))
    assert (parsed.api_key, parsed.api_version, parsed.correlation_id) == (api.key, version, 7)
    assert_same(request, parsed.body, version, api.name)
    assert parsed.body._io.is_eof()
    parsed = parser.Response(api.key, version, stream(encode_response(ResponseHeader(8), response, version)))
    assert parsed.correlation_id == 8
    assert_same(response, parsed.body, version, api.name)
    assert parsed.body._io.is_eof()


@pytest.mark.usefixtures("needs_kaitai")
@pytest.mark.parametrize("share", [*rotating(range(SHARES), 1), pytest.param(None, marks=pytest.mark.soak)])
def test_messages_of_every_version_are_parsed_with_the_values_of_our_decoder(share: int | None, tmp_path: Path) -> None:
    apis = API_TABLE if share is None else API_TABLE[share::SHARES]
    parser = compiled(apis, tmp_path)
    with Cases() as case:
        for api in apis:
            for version in range(api.versions.min, api.versions.max + 1):
                with case(f"{api.name} v{version}"):
                    assert_parses(parser, api, version)


def test_a_stream_of_requests_is_parsed_to_its_end(records_parser: Any) -> None:
    batch = bytes(encode_batch(ROWS, base_offset=12))
    frames = [
        prefixed(encode_request(RequestHeader(0, version, version, "test"), produce(batch))) for version in (3, 9)
    ]
    parsed = records_parser(stream(b"".join(frames)))
    assert [each.message.api_version for each in parsed.requests] == [3, 9]
    for each in parsed.requests:
        assert each.message.client_id.value == "test"
        (found,) = each.message.body.topic_data[0].partition_data[0].records.value.batches
        assert_records(found)


def assert_records(batch: Any) -> None:
    assert batch.base_offset == 12
    body = batch.body.content
    assert (body.codec, body.records_count, body.producer_id) == (0, len(ROWS), -1)
    for record, (timestamp, key, value, headers) in zip(body.records, ROWS, strict=True):
        assert body.base_timestamp + record.body.timestamp_delta.value == timestamp
        assert getattr(record.body.key, "value", None) == key
        assert getattr(record.body.value, "value", None) == value
        found = [(it.key.value.decode(), getattr(it.value, "value", None)) for it in record.body.headers]
        assert found == headers


def test_batches_that_are_compressed_cut_short_or_old_are_told_apart(records_parser: Any) -> None:
    plain, packed = (bytes(encode_batch(ROWS, codec=codec, base_offset=12)) for codec in ("none", "zstd"))
    for records, checks in (
        (plain + packed + plain[:-3], ["records", "compressed", "rest"]),
        (plain[:10], ["rest"]),
        (old_message_set(), ["message", "message"]),
    ):
        data = encode_response(ResponseHeader(7), fetch(records), 11)
        parsed = records_parser.Response(1, 11, stream(data))
        batches = parsed.body.responses[0].partitions[0].records.value.batches
        assert len(batches) == len(checks)
        for batch, check in zip(batches, checks, strict=True):
            if check == "rest":
                assert batch.is_cut_short
            elif check == "message":
                assert batch.body.content.magic in (0, 1)
            else:
                assert hasattr(batch.body.content, check)


def test_a_broker_that_lacks_the_version_of_api_versions_answers_in_version_0(records_parser: Any) -> None:
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    parsed = records_parser.Response(18, 3, stream(encode_response(ResponseHeader(7), answer, 0)))
    assert_same(answer, parsed.body, 0, "ApiVersions")


def test_a_version_without_schema_stays_bytes(records_parser: Any) -> None:
    parsed = records_parser.Request(stream(b"\0\0\0\x63" + b"\0\0\0\7\xff\xff" + b"rest"))
    assert (parsed.api_version, parsed.body) == (99, b"rest")


def test_the_file_is_yaml_of_the_format() -> None:
    chosen = API_TABLE[::10]
    ((name, text),) = kaitai_struct(chosen).items()
    assert name == "kafka.ksy"
    assert with_text_keys(yaml.safe_load(text)) == format_of(chosen)


def with_text_keys(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): with_text_keys(value) for key, value in node.items()}
    return [with_text_keys(each) for each in node] if isinstance(node, list) else node
