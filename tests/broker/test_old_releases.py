"""A node that poses as an old Kafka: the table is right, and clients get along with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.old_releases import MAX_VERSIONS, NOT_OFFERED, Offer
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import NO_VERSIONS
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.testing.virtual import run_virtual
from tests.broker.test_connection import Peer

CAPTURED = Path(__file__).parents[1] / "protocol/vectors/api_versions_v0_response.hex"


def table(release: str) -> dict[int, int]:
    return {key: version for key, version in enumerate(MAX_VERSIONS[release]) if version != NOT_OFFERED}


def test_the_table_for_2_4_is_what_a_broker_of_2_4_answered():
    frame = bytes.fromhex(CAPTURED.read_text())[4:]
    answer = decode_response(frame, 18, 0)[1]
    assert table("2.4") == {row.api_key: row.max_version for row in answer.api_keys}


@pytest.mark.parametrize("release", MAX_VERSIONS)
def test_the_table_agrees_with_that_of_kafka_python(release: str):
    theirs = BROKER_API_VERSIONS[tuple(map(int, release.split(".")))]
    assert table(release) == {key: largest for key, (_, largest) in theirs.items()}


def test_no_api_is_offered_in_a_version_that_we_do_not_speak():
    for release in MAX_VERSIONS:
        for api in API_TABLE:
            versions = Offer(release).versions(api)
            if versions != NO_VERSIONS:
                assert api.supported.min <= versions.min <= versions.max <= api.supported.max


@pytest.mark.parametrize("release", MAX_VERSIONS)
def test_our_clients_get_along_with_an_old_broker(release: str):
    with EmbeddedBroker(max_versions=release) as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        with Admin(**servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)], timeout=10)
        with Producer(**servers) as producer:
            assert [producer.send("t", b"%d" % n).result(10).offset for n in range(3)] == [0, 1, 2]
        with Consumer(auto_offset_reset="earliest", **servers) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            values = [record.value for batch in consumer.poll(10).values() for record in batch]
    assert values == [b"0", b"1", b"2"]


def test_an_unknown_release_is_refused_with_those_that_are_known():
    with pytest.raises(ConfigError, match=r"'9\.9' is not a known release; known are 0\.11, 1\.0"):
        EmbeddedBroker(max_versions="9.9")


def test_a_broker_in_another_process_has_the_newest_versions_only():
    with pytest.raises(UsageError, match="process=True"):
        EmbeddedBroker(process=True, max_versions="2.4")


def test_a_request_newer_than_the_release_closes_the_connection():
    async def main(_: object) -> None:
        peer = Peer()
        peer.state.offer = Offer("2.4")
        peer.send(MetadataRequest(topics=[]), 9)
        assert len(peer.link.sent) == 1
        peer.send(MetadataRequest(topics=[]), 10)
        assert len(peer.link.sent) == 1
        assert "close" in peer.link.log

    run_virtual(main, 1)
