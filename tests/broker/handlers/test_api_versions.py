"""ApiVersions: only what has a handler is offered, and what has one is offered."""

from __future__ import annotations

import pytest

from kafkaraw.broker.handlers.table import HANDLERS
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.support import ask, make_state

REQUEST = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version="1.0")


@pytest.mark.parametrize("version", range(5))
def test_every_version_offers_what_has_a_handler(version: int):
    answer = ask(make_state(), REQUEST, version)
    assert answer.error_code == ErrorCode.NONE
    offered = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert offered.keys() == HANDLERS.keys()
    for key, versions in offered.items():
        if key != 0:
            assert versions == tuple(API_BY_KEY[key].supported)


def test_produce_is_offered_from_0_so_that_librdkafka_keeps_compressing():
    rows = {row.api_key: row for row in ask(make_state(), REQUEST).api_keys}
    assert (rows[0].min_version, rows[0].max_version) == (0, 13)


def test_a_client_without_a_proper_name_is_refused():
    for name, version in (("", "1"), ("a b", "1"), ("kafkaraw", "-1"), ("kafkaraw", "")):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        answer = ask(make_state(), request)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
