"""ApiVersions: only what has a handler is offered, and what has one is offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.support import ask, make_state

API_VERSIONS, INIT_PRODUCER_ID = 18, 22
TELEMETRY = {71, 72}  # `tests/broker/telemetry` has a broker that offers them
REQUEST = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version="1.0")


@pytest.mark.parametrize("version", range(5))
def test_every_version_offers_what_has_a_handler(version: int):
    answer = ask(make_state(), REQUEST, version)
    assert answer.error_code == ErrorCode.NONE
    offered = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert offered.keys() == load_handlers().keys() - TELEMETRY
    for key, versions in offered.items():
        if key != 0:
            assert versions == tuple(API_BY_KEY[key].supported)


def test_unstable_versions_are_offered_only_where_they_are_enabled():
    stable, unstable = make_state(), make_state(unstable_api_versions_enable=True)
    offers = [{row.api_key: row.max_version for row in ask(state, REQUEST, 4).api_keys} for state in (stable, unstable)]
    assert [(offer[API_VERSIONS], offer[INIT_PRODUCER_ID]) for offer in offers] == [(4, 5), (5, 6)]
    assert offers[0].keys() == offers[1].keys()


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("own", 0, ErrorCode.NONE),
        ("another", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("own", 7, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_client_that_reached_another_broker_than_it_means_must_rebootstrap(cluster_id, node_id, code):
    """KIP-1242."""
    state = make_state(unstable_api_versions_enable=True)
    asked = replace(
        REQUEST, cluster_id=state.catalog.cluster_id if cluster_id == "own" else cluster_id, node_id=node_id
    )
    assert ask(state, asked, 5).error_code == code


def test_two_phase_commit_is_refused_where_its_unstable_version_is_enabled():
    """KIP-939."""
    state = make_state(unstable_api_versions_enable=True)
    asked = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000, enable2_pc=True)
    kept = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000, keep_prepared_txn=True)
    assert ask(state, asked, 6).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert ask(state, kept, 6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_produce_is_offered_from_0_so_that_librdkafka_keeps_compressing():
    rows = {row.api_key: row for row in ask(make_state(), REQUEST).api_keys}
    assert (rows[0].min_version, rows[0].max_version) == (0, 13)


def test_a_client_without_a_proper_name_is_refused():
    for name, version in (("", "1"), ("a b", "1"), ("kafkaraw", "-1"), ("kafkaraw", "")):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        answer = ask(make_state(), request)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
