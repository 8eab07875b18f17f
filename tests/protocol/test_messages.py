"""Every declared message in every version: values survive, broken bytes are refused with a place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from kafkaraw.errors import ProtocolError, UnsupportedVersionError
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.compile import source_of
from kafkaraw.protocol.declare import VersionRange, header_of
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from tests.cases import Cases
from tests.examples import examples
from tests.protocol.message_values import random_message
from tests.simulation import seeds

EVERY_MESSAGE = pytest.mark.parametrize(
    ("cls", "versions"),
    [pytest.param(cls, api.versions, id=cls.__name__) for api in API_TABLE for cls in (api.request, api.response)],
)


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_the_table_of_apis_repeats_the_versions_that_the_declaration_offers(api: Api) -> None:
    assert api.supported == header_of(api.request).offered


def in_each_version(versions: VersionRange) -> Iterator[tuple[int, AbstractContextManager[None]]]:
    """Go through the versions of a message; each is a case of its own."""
    with Cases() as case:
        for version in range(versions.min, versions.max + 1):
            yield version, case(f"version {version}")


@EVERY_MESSAGE
def test_what_is_encoded_decodes_to_the_same_value(cls: type, versions: VersionRange) -> None:
    for version, case in in_each_version(versions):
        with case:
            for seed in range(examples(10)):
                message = random_message(cls, version, random.Random(seed))
                encoded = encode_message(message, version)
                decoded = decode_message(cls, version, encoded)
                assert decoded == message
                assert encode_message(decoded, version) == encoded


def test_api_versions_5_names_the_broker_that_the_client_means() -> None:
    """KIP-1242, as franz-go and Kafka's trunk write it."""
    encoded = b"\x04kgo\x041.0\x00\xff\xff\xff\xff\x00"
    assert decode_message(ApiVersionsRequest, 5, encoded) == ApiVersionsRequest(
        client_software_name="kgo", client_software_version="1.0"
    )
    named = ApiVersionsRequest(
        client_software_name="kgo", client_software_version="1.0", cluster_id="cluster", node_id=7
    )
    assert encode_message(named, 5) == b"\x04kgo\x041.0\x08cluster\x00\x00\x00\x07\x00"


@EVERY_MESSAGE
def test_a_message_cut_at_any_byte_is_refused_with_its_place(cls: type, versions: VersionRange) -> None:
    for version, case in in_each_version(versions):
        with case:
            encoded = encode_message(random_message(cls, version, random.Random(7)), version)
            size = min(len(encoded), 600)
            for end in range(size) if seeds.with_soak else sorted({*range(min(size, 30)), *range(30, size, 4)}):
                with pytest.raises(ProtocolError) as caught:
                    decode_message(cls, version, encoded[:end])
                assert 0 <= caught.value.offset <= end


@EVERY_MESSAGE
def test_bytes_left_over_are_refused(cls: type, versions: VersionRange) -> None:
    for version, case in in_each_version(versions):
        with case:
            encoded = encode_message(random_message(cls, version, random.Random(3)), version)
            with pytest.raises(ProtocolError, match="1 bytes are left over") as caught:
                decode_message(cls, version, encoded + b"\0")
            assert caught.value.offset == len(encoded)


@EVERY_MESSAGE
def test_flipped_bytes_give_a_value_or_a_protocol_error(cls: type, versions: VersionRange) -> None:
    for version, case in in_each_version(versions):
        with case:
            rng = random.Random(11)
            encoded = bytearray(encode_message(random_message(cls, version, rng), version))
            for _ in range(examples(60) if encoded else 0):
                damaged = bytearray(encoded)
                for _ in range(rng.randrange(1, 4)):
                    damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
                try:
                    decode_message(cls, version, bytes(damaged))
                except ProtocolError as error:
                    # The slow walk must always find what stopped the fast decoder.
                    assert "cannot be decoded" not in str(error)


def test_an_undeclared_version_is_refused_by_name() -> None:
    api = API_TABLE[0]
    with pytest.raises(UnsupportedVersionError, match="ProduceRequest has versions 0-13, not 99"):
        decode_message(api.request, 99, b"")


def test_the_compiled_source_can_be_read() -> None:
    source = source_of(API_TABLE[3].response, 12)
    assert "def decode(buf, pos):" in source
    assert "def encode(message, write):" in source
    assert "message.cluster_id" in source
