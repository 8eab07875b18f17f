"""The JSON Schema: valid for what is decoded of every message, and for nothing else."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from kafkaraw.inspect import annotate
from kafkaraw.inspect.render import to_json
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol_exports.json_schema import json_schema, schema_of
from tests.cases import Cases
from tests.inspect.sample_frames import SAMPLE, SAMPLES
from tests.protocol.message_values import random_message
from tests.rotation import rotating
from tests.simulation import seeds


@cache
def validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema_of(API_TABLE))


def decoded(data: bytes, api: Api, version: int, direction: Any) -> Any:
    return json.loads(json.dumps(to_json(annotate(data, api=api.key, version=version, direction=direction))))


@pytest.mark.parametrize("share", rotating(range(6), 1))
def test_messages_of_every_version_are_valid_when_they_are_decoded(share: int) -> None:
    with Cases() as case:
        for api in API_TABLE[share::6]:
            for version in range(api.versions.min, api.versions.max + 1):
                rng = random.Random(f"{seeds.FIRST} {api.key} {version}")
                header = RequestHeader(api.key, version, 7, "test")
                request = encode_request(header, random_message(api.request, version, rng))
                response = encode_response(ResponseHeader(7), random_message(api.response, version, rng), version)
                for data, direction in ((request, "request"), (response, "response")):
                    with case(f"{api.name} {direction} v{version}"):
                        validator().validate(decoded(data, api, version, direction))


def test_frames_with_records_and_embedded_structures_are_valid_as_they_are_cut_short_too() -> None:
    with Cases() as case:
        for sample in SAMPLES:
            for size in (len(sample.frame), len(sample.frame) - 5, len(sample.frame) // 2):
                with case(f"{sample.name}, {size} bytes"):
                    cut = annotate(sample.frame[:size], api=sample.api, version=sample.version)
                    validator().validate(json.loads(json.dumps(to_json(cut))))


def test_other_names_types_and_values_are_invalid() -> None:
    sample = SAMPLE["Metadata request v12"]
    whole = json.loads(json.dumps(to_json(annotate(sample.frame))))
    validator().validate(whole)
    for change in (
        lambda tree: tree["children"][2]["children"][0].update(name="topic"),
        lambda tree: tree["children"][2]["children"][0].update(value="two"),
        lambda tree: tree["children"][2]["children"][0]["children"][0]["children"][0].update(value="short"),
        lambda tree: tree["children"][2]["children"][1].update(type="int8"),
        lambda tree: tree["children"][2].pop("start"),
    ):
        changed = copy.deepcopy(whole)
        change(changed["tree"])
        assert not validator().is_valid(changed)


def test_the_file_has_the_schema_of_the_chosen_apis() -> None:
    chosen = [api for api in API_TABLE if api.name in ("Metadata", "Fetch")]
    ((name, text),) = json_schema(chosen).items()
    assert name == "kafka.schema.json"
    assert json.loads(text) == schema_of(chosen)
    assert {"FetchRequest", "MetadataResponse"} < set(json.loads(text)["$defs"])
    assert "ProduceRequest" not in json.loads(text)["$defs"]
