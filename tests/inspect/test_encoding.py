"""JSON becomes the frame that it describes: what `decode` prints gives the same bytes, and wrong values are named."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.inspect import annotate
from kafkaraw.inspect.encoding import encode_json
from kafkaraw.inspect.render import to_json
from kafkaraw.protocol import RequestHeader, ResponseHeader, decode_request, encode_request, encode_response
from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.records.batch import Batch
from tests.inspect.conversations import prefixed
from tests.protocol.message_values import random_message
from tests.rotation import rotating

METADATA = {
    "api": "Metadata",
    "version": 12,
    "direction": "request",
    "correlation_id": 7,
    "client_id": "me",
    "body": {"topics": [{"name": "orders"}]},
}


def tree_of(data: bytes, api: Api, version: int, direction: Any) -> Any:
    """What `wire decode --json` prints, through its text."""
    return json.loads(json.dumps(to_json(annotate(data, api=api.key, version=version, direction=direction))))


@pytest.mark.parametrize("api", rotating(API_TABLE, 12), ids=lambda api: getattr(api, "name", None))
def test_the_tree_of_every_message_gives_its_bytes(api: Api):
    rng = random.Random(api.key)
    version = rng.randint(api.versions.min, api.versions.max)
    request = random_message(api.request, version, rng)
    frame = encode_request(RequestHeader(api.key, version, 5, "client"), request)
    assert encode_json(tree_of(frame, api, version, "request")) == frame
    response = random_message(api.response, version, rng)
    answer = prefixed(encode_response(ResponseHeader(5), response, version))
    assert encode_json(tree_of(answer, api, version, "response")) == answer


def test_the_short_form_has_defaults_and_a_size_prefix():
    frame = encode_json(METADATA)
    header, body = decode_request(frame[4:])
    assert (header.correlation_id, header.client_id, body.topics[0].name) == (7, "me", "orders")
    assert body.allow_auto_topic_creation is True
    assert encode_json({**METADATA, "size_prefix": False}) == frame[4:]
    assert encode_json({**METADATA, "api": 3, "body": {"Topics": [{"name": "orders"}]}}) == frame


def test_a_changed_value_of_the_tree_changes_the_frame():
    document = json.loads(json.dumps(to_json(annotate(encode_json(METADATA)))))
    topic = document["tree"]["children"][2]["children"][0]["children"][0]
    (name,) = [node for node in topic["children"] if node["name"] == "name"]
    name["value"] = "payments"
    _, body = decode_request(encode_json(document)[4:])
    assert body.topics[0].name == "payments"


def test_records_are_a_list_or_hex():
    records = [{"key": {"text": "k"}, "value": "00ff", "headers": [["h", None]], "timestamp": 1}]
    part = {"index": 0, "records": records}
    body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [part]}]}
    document = {"api": "Produce", "version": 9, "direction": "request", "body": body}
    _, request = decode_request(encode_json(document)[4:])
    batch = Batch("orders", 0, request.topic_data[0].partition_data[0].records, start_offset=0)
    (record,) = batch
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"\x00\xff", [("h", None)], 1)
    part["records"] = bytes(request.topic_data[0].partition_data[0].records).hex()
    assert encode_json(document) == encode_json({**document, "body": body})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"api": "Metadatta"}, "did you mean Metadata"),
        ({"api": None}, "api: the name or the key"),
        ({"version": 99}, "version: Metadata has versions 0-13, not 99"),
        ({"direction": "both"}, "direction: 'request' or 'response', not 'both'"),
        ({"correlation_id": "7"}, "correlation_id: a whole number, not '7'"),
        ({"correlation_id": 1 << 40}, "does not fit 4 bytes"),
        ({"client_id": 7}, "client_id: a text or null"),
        ({"other": 1}, "a frame has no 'other'"),
        ({"body": []}, "body: an object with the fields of MetadataRequest, not []"),
        ({"body": {"topics": "orders"}}, "body.topics: a list, not 'orders'"),
        ({"body": {"topics": [{"nam": "x"}]}}, r"body.topics\[0\]: MetadataRequestTopic version 12 has no field 'nam'"),
        ({"body": {"topics": [{"topic_id": "x"}]}}, r"body.topics\[0\].topic_id: not a Kafka UUID"),
        ({"body": {"topics": [{"name": 5}]}}, r"body.topics\[0\].name: a text, not 5"),
        ({"body": {"allow_auto_topic_creation": 1}}, "body.allow_auto_topic_creation: true or false"),
        ({"body": {"allow_auto_topic_creation": None}}, "body.allow_auto_topic_creation: it may not be null"),
        ({"unknown_tagged_fields": {"a": "00"}}, "unknown_tagged_fields: an object of tag numbers"),
    ],
)
def test_a_wrong_value_names_its_field(change: dict[str, Any], says: str):
    with pytest.raises(UsageError, match=says.replace("[]", r"\[\]")):
        encode_json({**METADATA, **change})


@pytest.mark.parametrize("document", [[], 1, None, "x", {}, {"tree": 1, **METADATA}, {**METADATA, "tree": {}}])
def test_what_is_no_frame_is_refused(document: Any):
    with pytest.raises(UsageError):
        encode_json(document)
