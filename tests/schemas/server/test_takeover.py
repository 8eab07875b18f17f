"""A topic `_schemas` that a registry of Confluent's has written is served and continued by ours.

The records in `confluent_topic.jsonl` were written by Confluent's own classes (SchemaRegistrySerializer of Confluent
Platform 8, with Jackson 2.21); the records of older releases are below.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.schemas import EmbeddedRegistry
from kafkaraw.schemas.server.records import KeyType, decode, encode_key, encode_value

LINES = [json.loads(line) for line in (Path(__file__).parent / "confluent_topic.jsonl").read_text().splitlines()]
CONFLUENTS = [(it["key"].encode(), None if it["value"] is None else it["value"].encode()) for it in LINES]
OLDER = [
    (b'{"magic":0,"keytype":"NOOP"}', None),
    (
        b'{"keytype":"SCHEMA","subject":"older-value","version":1,"magic":0}',
        b'{"subject":"older-value","version":1,"id":21,"schema":"\\"int\\""}',
    ),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FORWARD"}'),
    (
        b'{"keytype":"SCHEMA","subject":"older-value","version":2,"magic":1}',
        b'{"subject":"older-value","version":2,"id":22,"schema":"\\"long\\"","deleted":false,"ts":1,"offset":7}',
    ),
]


def test_records_of_confluents_classes_are_written_as_they_were_read() -> None:
    for key, value in CONFLUENTS:
        record = decode(key, value)
        if record.key.kind is not KeyType.ASSOC:
            assert (encode_key(record.key), encode_value(record)) == (key, value)


@pytest.fixture(scope="module")
def taken_over() -> Iterator[tuple[str, EmbeddedRegistry]]:
    """The broker's address, and a registry on Confluent's topic."""
    with EmbeddedBroker(properties={"log.retention.ms": -1}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("_schemas", 1, 1, {"cleanup.policy": "compact"})])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for key, value in [*OLDER, *CONFLUENTS]:
                producer.send("_schemas", value, key)
        with EmbeddedRegistry(broker.bootstrap_servers) as registry:
            yield broker.bootstrap_servers, registry


def ask(registry: EmbeddedRegistry, method: str, path: str, body: object = None) -> Any:
    answer = httpx.request(method, registry.url + path, json=body, trust_env=False, timeout=30)
    found = answer.json()
    return (answer.status_code, found["error_code"]) if answer.is_error else found


def test_what_confluents_registry_has_stored_is_served(taken_over: tuple[str, EmbeddedRegistry]) -> None:
    registry = taken_over[1]
    live = [":.eu:orders-value", "address", "clicks-value", "copy-value", "hashed-value", "moves-value"]
    live += ["older-value", "orders-value"]
    assert ask(registry, "GET", "/subjects?subjectPrefix=:*:") == live
    assert ask(registry, "GET", "/subjects?deleted=true&subjectPrefix=gone") == ["gone-value"]
    assert ask(registry, "GET", "/subjects/orders-value/versions") == [2]
    assert ask(registry, "GET", "/subjects/orders-value/versions?deleted=true") == [1, 2]
    assert ask(registry, "GET", "/subjects/erased-value/versions?deleted=true") == (404, 40401)
    assert ask(registry, "GET", "/schemas/ids/8") == (404, 40403)
    assert ask(registry, "GET", "/contexts") == [".", ".eu"]
    assert ask(registry, "GET", "/schemas/ids/21/schema") == "int"
    for line in LINES:
        value = json.loads(line["value"] or "{}")
        if "schema" in value and value["subject"] not in ("erased-value", "gone-value"):
            path = f"/subjects/{value['subject']}/versions/{value['version']}?deleted=true"
            found = ask(registry, "GET", path)
            for name in ("subject", "version", "id", "schema", "references", "metadata", "ruleSet"):
                assert found.get(name) == value.get(name), (path, name)


def test_configurations_modes_and_references_count(taken_over: tuple[str, EmbeddedRegistry]) -> None:
    registry = taken_over[1]
    assert ask(registry, "GET", "/config") == {"compatibilityLevel": "FULL"}
    found = ask(registry, "GET", "/config/orders-value")
    assert (found["compatibilityLevel"], found["compatibilityGroup"]) == ("BACKWARD_TRANSITIVE", "major")
    assert ask(registry, "GET", "/config/clicks-value") == (404, 40408)
    assert ask(registry, "GET", "/subjects/old-name/versions/latest")["subject"] == "orders-value"
    text = 'syntax = "proto3"; message Move { int32 x = 1; int32 y = 2; }'
    answer = ask(registry, "POST", "/subjects/moves-value/versions", {"schema": text, "schemaType": "PROTOBUF"})
    assert answer == (422, 42205)
    assert ask(registry, "GET", "/subjects/address/versions/1/referencedby") == [3]
    assert ask(registry, "DELETE", "/subjects/address/versions/1") == (422, 42206)
    guid = ask(registry, "GET", "/subjects/hashed-value/versions/1")["guid"]
    assert guid == "88958622-1a42-cff2-77bb-1735742424ae"  # of the md5 in the record
    assert ask(registry, "GET", f"/schemas/guids/{guid}")["schema"] == '"double"'


def test_the_topic_is_continued_in_confluents_form(taken_over: tuple[str, EmbeddedRegistry]) -> None:
    servers, registry = taken_over
    registered = ask(registry, "POST", "/subjects/new-value/versions", {"schema": '"boolean"'})
    assert registered["id"] == 23  # behind the highest id that was ever given, not the highest one that is left
    again = ask(registry, "POST", "/subjects/other-value/versions", {"schema": '"long"'})
    assert again["id"] == 22
    assert ask(registry, "DELETE", "/subjects/copy-value") == [1]
    assert ask(registry, "DELETE", "/subjects/gone-value?permanent=true") == [1, 2]
    written = records_behind(servers, len(OLDER) + len(CONFLUENTS))
    theirs = {key for key, _ in CONFLUENTS}
    assert sorted((key, value is None) for key, value in written if key in theirs) == [
        (b'{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}', True),
        (b'{"keytype":"SCHEMA","subject":"gone-value","version":2,"magic":1}', True),
    ]  # the same bytes, or compaction would keep both
    assert (
        b'{"keytype":"SCHEMA","subject":"new-value","version":1,"magic":1}',
        b'{"subject":"new-value","version":1,"id":23,"schemaType":"AVRO","schema":"\\"boolean\\"","deleted":false}',
    ) in written
    with EmbeddedRegistry(servers) as other:
        for path in ("/schemas?deleted=true&subjectPrefix=:*:", "/config", "/contexts"):
            assert ask(other, "GET", path) == ask(registry, "GET", path)


def records_behind(servers: str, offset: int) -> list[tuple[bytes, bytes | None]]:
    """Keys and values behind an offset, NOOPs left out."""
    partition = TopicPartition("_schemas", 0)
    found: list[tuple[bytes, bytes | None]] = []
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([partition])
        [end] = consumer.end_offsets([partition]).values()
        consumer.seek(partition, offset)
        while consumer.position(partition) < end:
            for batch in consumer.poll(1.0).values():
                found += [(bytes(it.key), None if it.value is None else bytes(it.value)) for it in batch]
    return [(key, value) for key, value in found if b"NOOP" not in key]
