"""Addresses in answers become those of the tap, in every version that carries them."""

from __future__ import annotations

import pytest

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.tap.addresses import (
    UNKNOWN_TAG,
    Addresses,
    Node,
    Role,
    Treatment,
    has_unknown_addresses,
    treatment_of,
)
from kafkaraw.protocol import ResponseHeader, decode_response, encode_response
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.messages import (
    describe_cluster,
    fetch,
    find_coordinator,
    metadata,
    produce,
    share_acknowledge,
    share_fetch,
)

BROKERS = {1: ("one.example", 9092), 2: ("two.example", 9093)}
HEADER = ResponseHeader(77)


def advertise(node: Node) -> tuple[str, int]:
    assert BROKERS[node.node_id] == (node.host, node.port)
    return "127.0.0.1", {Role.BROKER: 20_000, Role.CONTROLLER: 30_000}[node.role] + node.node_id


ADDRESSES = Addresses(advertise)


def rewritten(message, name: str, version: int):
    key = API_BY_NAME[name].key
    changed = ADDRESSES.rewrite(encode_response(HEADER, message, version), key, version)
    assert changed is not None, f"{name} v{version} was passed on unchanged"
    header, decoded = decode_response(changed, key, version)
    assert header.correlation_id == 77
    return decoded


def metadata_response() -> metadata.MetadataResponse:
    partition = metadata.MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]
    )
    topic = metadata.MetadataResponseTopic(error_code=0, name="flights", partitions=[partition])
    brokers = [metadata.MetadataResponseBroker(node_id=n, host=h, port=p) for n, (h, p) in BROKERS.items()]
    return metadata.MetadataResponse(brokers=brokers, topics=[topic], cluster_id="abc", controller_id=2)


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(version):
    found = rewritten(metadata_response(), "Metadata", version)
    assert [(one.node_id, one.host, one.port) for one in found.brokers] == [
        (1, "127.0.0.1", 20_001),
        (2, "127.0.0.1", 20_002),
    ]
    assert [topic.name for topic in found.topics] == ["flights"]
    assert found.cluster_id == ("abc" if version >= 2 else None)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_in_every_version(version):
    coordinator = find_coordinator.Coordinator(key="g", node_id=2, host="two.example", port=9093)
    message = find_coordinator.FindCoordinatorResponse(coordinators=[coordinator])
    if version < 4:
        message = find_coordinator.FindCoordinatorResponse(node_id=2, host="two.example", port=9093)
    found = rewritten(message, "FindCoordinator", version)
    one = found if version < 4 else found.coordinators[0]
    assert (one.node_id, one.host, one.port) == (2, "127.0.0.1", 20_002)


def test_coordinator_that_is_not_there_has_no_address():
    message = find_coordinator.FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1)
    frame = encode_response(HEADER, message, 3)
    assert ADDRESSES.rewrite(frame, 10, 3) is None


@pytest.mark.parametrize(("endpoint_type", "port"), [(1, 20_001), (2, 30_001)])
def test_describe_cluster_distinguishes_brokers_and_controllers(endpoint_type, port):
    broker = describe_cluster.DescribeClusterBroker(broker_id=1, host="one.example", port=9092)
    message = describe_cluster.DescribeClusterResponse(
        error_code=0, cluster_id="abc", brokers=[broker], endpoint_type=endpoint_type
    )
    assert rewritten(message, "DescribeCluster", 2).brokers[0].port == port


NEW_LEADERS = (
    ("Produce", 10, produce, lambda ends: produce.ProduceResponse(responses=[], node_endpoints=ends)),
    ("Fetch", 16, fetch, lambda ends: fetch.FetchResponse(responses=[], node_endpoints=ends)),
    (
        "ShareFetch",
        1,
        share_fetch,
        lambda ends: share_fetch.ShareFetchResponse(error_code=0, responses=[], node_endpoints=ends),
    ),
    (
        "ShareAcknowledge",
        1,
        share_acknowledge,
        lambda ends: share_acknowledge.ShareAcknowledgeResponse(error_code=0, responses=[], node_endpoints=ends),
    ),
)


@pytest.mark.parametrize(("name", "since", "module", "message"), NEW_LEADERS, ids=[case[0] for case in NEW_LEADERS])
def test_addresses_of_new_leaders(name, since, module, message):
    api = API_BY_NAME[name]
    for version in range(since, api.supported.max + 1):
        endpoint = module.NodeEndpoint(node_id=1, host="one.example", port=9092, rack=None)
        found = rewritten(message([endpoint]), name, version)
        assert [(one.host, one.port) for one in found.node_endpoints] == [("127.0.0.1", 20_001)]
        without = encode_response(HEADER, message([]), version)
        assert ADDRESSES.rewrite(without, api.key, version) is None


def test_answers_are_held_only_where_addresses_are():
    held = {
        (name, v) for name, api in API_BY_NAME.items() for v in range(20) if treatment_of(api.key, v) != Treatment.PASS
    }
    assert {name for name, _ in held} == {
        "Metadata",
        "FindCoordinator",
        "DescribeCluster",
        "Produce",
        "Fetch",
        "ShareFetch",
        "ShareAcknowledge",
    }
    assert ("Fetch", 15) not in held
    assert {name for name, v in held if treatment_of(API_BY_NAME[name].key, v) is Treatment.HOLD_TAIL} == {
        "Fetch",
        "ShareFetch",
    }
    assert treatment_of(120, 0) is Treatment.PASS


def test_versions_that_are_not_known_are_said_to_have_addresses():
    assert has_unknown_addresses(3, 14)
    assert not has_unknown_addresses(3, 13)
    assert not has_unknown_addresses(8, 99)


RECORDS = b"r" * 1000


def answer_with_records(name: str, *endpoints: tuple[int, str, int, str | None]):
    if name == "Fetch":
        part = fetch.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=RECORDS)
        topics = [fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part])]
        ends = [fetch.NodeEndpoint(node_id=n, host=host, port=port, rack=rack) for n, host, port, rack in endpoints]
        return fetch.FetchResponse(throttle_time_ms=5, responses=topics, node_endpoints=ends, session_id=9)
    share_part = share_fetch.PartitionData(
        partition_index=0,
        error_code=0,
        acknowledge_error_code=0,
        current_leader=share_fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=3),
        records=RECORDS,
        acquired_records=[share_fetch.AcquiredRecords(first_offset=1, last_offset=2, delivery_count=1)],
    )
    share_topics = [share_fetch.ShareFetchableTopicResponse(topic_id=bytes(range(16)), partitions=[share_part])]
    share_ends = [
        share_fetch.NodeEndpoint(node_id=n, host=host, port=port, rack=rack) for n, host, port, rack in endpoints
    ]
    return share_fetch.ShareFetchResponse(
        throttle_time_ms=5, error_code=0, error_message="words", responses=share_topics, node_endpoints=share_ends
    )


def with_new_end(name: str, version: int, *endpoints: tuple[int, str, int, str | None], tags=None):
    """Return the answer with the end that the tap sends instead, and whether addresses are hidden."""
    key = API_BY_NAME[name].key
    message = answer_with_records(name, *endpoints)
    message.unknown_tagged_fields = tags
    frame = encode_response(HEADER, message, version)
    advertised = Addresses(lambda node: ("127.0.0.1", 20_000 + node.node_id))
    found = advertised.rewrite_end(frame, key, version)
    assert found is not None
    _, decoded = decode_response(frame[: -len(found.data)] + found.data, key, version)
    assert decoded.throttle_time_ms == 5
    assert decoded.responses[0].partitions[0].records == RECORDS
    return decoded, found.is_hidden


STREAMED = [("Fetch", 16), ("Fetch", 17), ("Fetch", 18), ("ShareFetch", 1), ("ShareFetch", 2)]


@pytest.mark.parametrize(("name", "version"), STREAMED)
@pytest.mark.parametrize("surplus", [*range(-1, 6), *range(125, 136), *range(16_380, 16_392), 30_000])
def test_end_of_an_answer_with_records_keeps_its_length(name, version, surplus):
    """The broker's host is as many bytes longer than the tap's."""
    host = "h" * (len("127.0.0.1") + surplus)
    decoded, is_hidden = with_new_end(name, version, (1, host, 9092, None), (2, "127.0.0.2", 9093, "r"))
    # An empty tagged field takes two bytes. A host of 128 bytes has a length of two.
    assert is_hidden == (surplus in (-1, 1))
    found = [(one.node_id, one.host, one.port, one.rack) for one in decoded.node_endpoints]
    assert found == ([] if is_hidden else [(1, "127.0.0.1", 20_001, None), (2, "127.0.0.1", 20_002, "r")])


@pytest.mark.parametrize(("name", "version"), STREAMED)
def test_end_with_fields_of_a_later_kafka_has_no_addresses(name, version):
    decoded, is_hidden = with_new_end(name, version, (1, "one.example", 9092, None), tags={UNKNOWN_TAG: b"new"})
    assert is_hidden
    assert decoded.node_endpoints == []


@pytest.mark.parametrize(("name", "version"), STREAMED)
def test_end_without_addresses_stays(name, version):
    frame = encode_response(HEADER, answer_with_records(name), version)
    assert ADDRESSES.rewrite_end(frame, API_BY_NAME[name].key, version) is None


def test_end_that_is_encoded_in_another_way_is_an_error():
    frame = encode_response(HEADER, answer_with_records("ShareFetch", (1, "one.example", 9092, None)), 1)
    assert frame[-1:] == b"\0"
    with pytest.raises(KafkaError):
        ADDRESSES.rewrite_end(frame[:-1] + b"\x80\0", 78, 1)
    with pytest.raises(KafkaError):
        ADDRESSES.rewrite_end(frame + b"\0", 78, 1)


@pytest.mark.parametrize("name", ["Metadata", "FindCoordinator", "DescribeCluster"])
def test_damaged_answers_are_an_error(name):
    with pytest.raises(KafkaError):
        ADDRESSES.rewrite(b"\0\0\0\x4d\0\xff\xff\xff\xff\xff\xff\xff", API_BY_NAME[name].key, 0)
