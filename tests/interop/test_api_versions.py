"""The embedded broker answers ApiVersions as Apache Kafka does: API by API, version by version, feature by feature."""

from __future__ import annotations

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.raw_client import RawClient

MISSING_APIS: set[int] = set()
# Both offer them to clients if metrics of clients are wanted; tests/interop/test_telemetry.py has brokers that do.
TELEMETRY_APIS = {71, 72}
# Of the features: kraft.version and metadata.version are of the metadata log, which nodes of one process do not have;
# group.version is in force always.
MISSING_FEATURES = {
    "eligible.leader.replicas.version",
    "group.version",
    "kraft.version",
    "metadata.version",
}


def asked(servers: str, version: int) -> ApiVersionsResponse:
    """The answer of a broker."""
    client = RawClient(servers)
    try:
        answer = client.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), version)
    finally:
        client.close()
    assert isinstance(answer, ApiVersionsResponse)
    return answer


@pytest.mark.parametrize("version", range(5))
def test_both_brokers_offer_the_same_versions(version: int, apache_kafka: ApacheKafka) -> None:
    with EmbeddedBroker() as broker:
        answers = [asked(servers, version) for servers in (apache_kafka.bootstrap_servers, broker.bootstrap_servers)]
    theirs, ours = ({row.api_key: (row.min_version, row.max_version) for row in each.api_keys} for each in answers)
    assert {key: versions for key, versions in theirs.items() if key not in MISSING_APIS | TELEMETRY_APIS} == ours
    assert theirs.keys() - TELEMETRY_APIS - ours.keys() == MISSING_APIS
    theirs_by_name, ours_by_name = (
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features} for answer in answers
    )
    known = {name: levels for name, levels in theirs_by_name.items() if name not in MISSING_FEATURES}
    assert known == ours_by_name
    finalized = [{each.name: each.max_version_level for each in answer.finalized_features} for answer in answers]
    assert {name: level for name, level in finalized[0].items() if name not in MISSING_FEATURES} == finalized[1]
