"""Endpoints that only some registries have: exporters, associations, encryption keys; a scripted server checks them.

The requests are those of Confluent's OpenAPI descriptions and, where confluent-kafka has a method, those of its client.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import UsageError
from kafkaraw.schemas import (
    AssociatedName,
    AsyncRegistry,
    AvroDeserializer,
    AvroSerializer,
    NotARegistryError,
    Registry,
    RegistryError,
    from_confluent,
)
from tests.cases import Cases
from tests.schemas.scripted_server import Request, Script, ScriptedServer, answer, error

KEK = {"name": "k 1", "kmsType": "aws-kms", "kmsKeyId": "arn:1", "shared": False}
DEK = {"kekName": "k 1", "subject": "a/b", "version": 1, "algorithm": "AES256_GCM", "encryptedKeyMaterial": "eA=="}
EXPORTER = {"name": "e/1", "subjects": ["a*"], "contextType": "AUTO", "config": {"schema.registry.url": "http://b"}}
ASSOCIATION = {"subject": "orders", "resourceName": "t", "resourceNamespace": "lkc-1", "associationType": "value"}
CREATED = {"resourceName": "t", "resourceNamespace": "lkc-1", "resourceId": "r:1", "associations": []}

Case = tuple[str, tuple[Any, ...], dict[str, Any], str, Any, Any, Any]
"""Method and arguments; the request that it must send, its body; the registry's answer, and the result."""
CASES: list[Case] = [
    ("exporters", (), {}, "GET /exporters", None, ["a"], ("a",)),
    ("exporter", ("e/1",), {}, "GET /exporters/e%2F1", None, EXPORTER, EXPORTER),
    ("exporter", ("e", "status"), {}, "GET /exporters/e/status", None, {"state": "PAUSED"}, {"state": "PAUSED"}),
    ("exporter", ("e", "config"), {}, "GET /exporters/e/config", None, {}, {}),
    ("create_exporter", (EXPORTER,), {}, "POST /exporters", EXPORTER, {"name": "e/1"}, "e/1"),
    ("change_exporter", ("e", {"subjects": []}), {}, "PUT /exporters/e", {"subjects": []}, {"name": "e"}, "e"),
    ("change_exporter", ("e", {"a": "b"}, "config"), {}, "PUT /exporters/e/config", {"a": "b"}, {"name": "e"}, "e"),
    ("change_exporter", ("e",), {"part": "pause"}, "PUT /exporters/e/pause", None, {"name": "e"}, "e"),
    ("change_exporter", ("e",), {"part": "resume"}, "PUT /exporters/e/resume", None, {"name": "e"}, "e"),
    ("change_exporter", ("e",), {"part": "reset"}, "PUT /exporters/e/reset", None, {"name": "e"}, "e"),
    ("delete_exporter", ("e",), {}, "DELETE /exporters/e", None, None, None),
    ("associations", ("t",), {}, "GET /associations/resources/-/t", None, [ASSOCIATION], (ASSOCIATION,)),
    (
        "associations",
        ("t 1",),
        {"namespace": "lkc/1", "resource_type": "topic", "association_types": ["key", "value"]},
        "GET /associations/resources/lkc%2F1/t%201?resourceType=topic&associationType=key&associationType=value",
        None,
        [],
        (),
    ),
    (
        "associations_of_subject",
        ("a/b",),
        {"resource_type": "topic"},
        "GET /associations/subjects/a%2Fb?resourceType=topic",
        None,
        [ASSOCIATION],
        (ASSOCIATION,),
    ),
    ("create_association", (CREATED,), {}, "POST /associations", CREATED, CREATED, CREATED),
    ("change_association", ("r:1", CREATED), {}, "PUT /associations/resources/r%3A1", CREATED, CREATED, CREATED),
    (
        "delete_associations",
        ("r:1",),
        {"resource_type": "topic", "association_types": ["key"], "cascade": True},
        "DELETE /associations/resources/r%3A1?resourceType=topic&associationType=key&cascadeLifecycle=true",
        None,
        None,
        None,
    ),
    ("keks", (), {"deleted": True}, "GET /dek-registry/v1/keks?deleted=true", None, ["k 1"], ("k 1",)),
    ("kek", ("k 1",), {}, "GET /dek-registry/v1/keks/k%201", None, KEK, KEK),
    ("create_kek", (KEK,), {}, "POST /dek-registry/v1/keks", KEK, KEK, KEK),
    ("change_kek", ("k 1", {"doc": "d"}), {}, "PUT /dek-registry/v1/keks/k%201", {"doc": "d"}, KEK, KEK),
    ("delete_kek", ("k",), {"permanent": True}, "DELETE /dek-registry/v1/keks/k?permanent=true", None, None, None),
    ("undelete_kek", ("k",), {}, "POST /dek-registry/v1/keks/k/undelete", None, None, None),
    ("deks", ("k 1",), {}, "GET /dek-registry/v1/keks/k%201/deks", None, ["a/b"], ("a/b",)),
    (
        "dek_versions",
        ("k", "a/b"),
        {"algorithm": "AES256_SIV", "deleted": True},
        "GET /dek-registry/v1/keks/k/deks/a%2Fb/versions?algorithm=AES256_SIV&deleted=true",
        None,
        [1, 2],
        (1, 2),
    ),
    ("dek", ("k", "a/b"), {}, "GET /dek-registry/v1/keks/k/deks/a%2Fb", None, DEK, DEK),
    (
        "dek",
        ("k", "s"),
        {"version": -1, "algorithm": "AES256_GCM"},
        "GET /dek-registry/v1/keks/k/deks/s/versions/latest?algorithm=AES256_GCM",
        None,
        DEK,
        DEK,
    ),
    (
        "create_dek",
        ("k", "a/b", {"algorithm": "AES256_GCM"}),
        {},
        "POST /dek-registry/v1/keks/k/deks/a%2Fb",
        {"algorithm": "AES256_GCM", "subject": "a/b"},
        DEK,
        DEK,
    ),
    ("delete_dek", ("k", "s"), {}, "DELETE /dek-registry/v1/keks/k/deks/s", None, None, None),
    (
        "delete_dek",
        ("k", "s"),
        {"version": 3, "algorithm": "AES128_GCM", "permanent": True},
        "DELETE /dek-registry/v1/keks/k/deks/s/versions/3?algorithm=AES128_GCM&permanent=true",
        None,
        None,
        None,
    ),
    ("undelete_dek", ("k", "s"), {}, "POST /dek-registry/v1/keks/k/deks/s/undelete", None, None, None),
    (
        "undelete_dek",
        ("k", "s"),
        {"version": 2},
        "POST /dek-registry/v1/keks/k/deks/s/versions/2/undelete",
        None,
        None,
        None,
    ),
]


def test_each_endpoint_sends_its_request_and_returns_the_answer() -> None:
    queue: list[Case] = []

    def script(request: Request) -> Script:
        answered = queue.pop()[5]
        return answer(204, b"") if answered is None else answer(200, answered)

    async def asynchronously(url: str, case: Case) -> object:
        async with AsyncRegistry(url) as registry:
            return await getattr(registry, case[0])(*case[1], **case[2])

    with ScriptedServer(script) as server, Registry(server.url) as registry, Cases() as cases:
        for each in CASES:
            with cases(f"{each[0]}{each[1]}"):
                for call in (
                    lambda each=each: getattr(registry, each[0])(*each[1], **each[2]),
                    lambda each=each: asyncio.run(asynchronously(server.url, each)),
                ):
                    queue.append(each)
                    assert call() == each[6]
                    assert server.targets[-1] == each[3]
                    body = server.requests[-1].body
                    assert (json.loads(body) if body else None) == each[4]


def test_answers_of_another_form_are_no_registry() -> None:
    with ScriptedServer([answer(200, "text")]) as server, Registry(server.url) as registry, Cases() as cases:
        for name, args, named, _, _, answered, _ in CASES:
            if answered is not None:
                with cases(name), pytest.raises(NotARegistryError, match="JSON of another form"):
                    getattr(registry, name)(*args, **named)


def test_refusals_of_these_endpoints_keep_their_code() -> None:
    with (
        ScriptedServer([error(409, 40971, "Key 'k' already exists")]) as server,
        Registry(server.url) as registry,
        pytest.raises(RegistryError, match=r"cannot create a key encryption key .* Key 'k' already exists") as raised,
    ):
        registry.create_kek(KEK)
    assert (raised.value.status, raised.value.error_code) == (409, 40971)
    with pytest.raises(UsageError, match="version 0"), Registry("http://127.0.0.1:1") as registry:
        registry.dek("k", "s", version=0)


def confluent() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # authlib's, about httpx
        return pytest.importorskip("confluent_kafka.schema_registry")


def test_requests_about_associations_are_those_of_confluent_kafka() -> None:
    package = confluent()
    info = package.AssociationCreateOrUpdateInfo(
        subject="orders", association_type="value", lifecycle=None, frozen=None, schema=None, normalize=None
    )
    wanted = package.AssociationCreateOrUpdateRequest("t", "lkc-1", "r", "topic", [info])

    def script(request: Request) -> Script:
        if request.method == "GET":
            return answer(200, [ASSOCIATION])
        return answer(204, b"") if request.method == "DELETE" else answer(200, CREATED)

    with (
        ScriptedServer(script) as server,
        Registry(server.url) as registry,
        package.SchemaRegistryClient({"url": server.url}) as theirs,
    ):
        theirs.get_associations_by_resource_name("t", "-", "topic", ["value"])
        theirs.create_association(wanted)
        theirs.delete_associations("r", "topic", ["key", "value"], True)
        sent, server.requests[:] = [(it.method, it.target.lower(), it.body) for it in server.requests], []
        registry.associations("t", resource_type="topic", association_types=["value"])
        registry.create_association(wanted.to_dict())
        registry.delete_associations("r", resource_type="topic", association_types=["key", "value"], cascade=True)
        ours = [(it.method, it.target.lower(), it.body) for it in server.requests]
    for (method, target, body), (their_method, their_target, their_body) in zip(ours, sent, strict=True):
        path, _, query = target.partition("?")
        their_path, _, their_query = their_target.partition("?")
        assert (method, path, set(query.split("&"))) == (their_method, their_path, set(their_query.split("&")))
        assert (json.loads(body) if body else None) == (json.loads(their_body) if their_body else None)


# -- the strategy "associated"

SCHEMA = '{"type":"record","name":"shop.Order","fields":[{"name":"a","type":"int"}]}'


class RegistryWithAssociations:
    """Answers what the strategy and the serializers ask."""

    def __init__(self, associated: Callable[[Request], Script]) -> None:
        self._associated = associated

    def __call__(self, request: Request) -> Script:
        if request.target.startswith("/associations"):
            return self._associated(request)
        if request.method == "GET":
            return answer(200, {"subject": "s", "version": 1, "id": 7, "schema": SCHEMA})
        return answer(200, {"id": 7})


ONE = RegistryWithAssociations(lambda request: answer(200, [ASSOCIATION]))
NONE = RegistryWithAssociations(lambda request: answer(200, []))
MISSING = RegistryWithAssociations(lambda request: error(404, 404, "HTTP 404 Not Found"))
SEVERAL = RegistryWithAssociations(lambda request: answer(200, [ASSOCIATION, {"subject": "other"}]))


def subjects_asked(server: ScriptedServer) -> list[str]:
    return [it.target.split("/")[2] for it in server.requests if it.method == "POST"]


def test_the_associated_subject_is_asked_once_per_topic_and_field() -> None:
    with ScriptedServer(ONE) as server, Registry(server.url) as registry:
        serialize = AvroSerializer(registry, SCHEMA, subject="associated")
        for _ in range(3):
            assert serialize({"a": 1}, SerializationContext("t", "value", [])) == b"\0\0\0\0\7\2"
    assert server.targets == [
        "GET /associations/resources/-/t?resourceType=topic&associationType=value",
        "POST /subjects/orders/versions",
    ]


def test_an_asyncio_serializer_asks_for_the_associated_subject() -> None:
    async def run(url: str) -> bytes:
        async with AsyncRegistry(url) as registry:
            serialize = AvroSerializer(registry, SCHEMA, subject=AssociatedName("lkc-1"))
            return await serialize({"a": 1}, SerializationContext("t", "key", []))  # type: ignore[misc,return-value]

    with ScriptedServer(ONE) as server:
        assert asyncio.run(run(server.url)) == b"\0\0\0\0\7\2"
    assert server.targets[0] == "GET /associations/resources/lkc-1/t?resourceType=topic&associationType=key"
    assert subjects_asked(server) == ["orders"]


def test_a_topic_without_association_has_the_subject_of_the_fallback() -> None:
    for script in (NONE, MISSING):
        for fallback, subject in (("topic", "t-value"), ("record", "shop.Order"), ("topic-record", "t-shop.Order")):
            with ScriptedServer(script) as server, Registry(server.url) as registry:
                strategy = AssociatedName(fallback=fallback)  # type: ignore[arg-type]
                AvroSerializer(registry, SCHEMA, subject=strategy).prepare("t")
            assert subjects_asked(server) == [subject]
        with ScriptedServer(script) as server, Registry(server.url) as registry:
            serializer = AvroSerializer(registry, SCHEMA, subject=AssociatedName(fallback=None))
            with pytest.raises(UsageError, match="topic 't' has no associated subject for its values"):
                serializer.prepare("t")
            assert not subjects_asked(server)


def test_several_associated_subjects_are_refused_by_name() -> None:
    with ScriptedServer(SEVERAL) as server, Registry(server.url) as registry:
        serializer = AvroSerializer(registry, SCHEMA, subject="associated")
        with pytest.raises(UsageError, match="2 associated subjects for its values: 'orders', 'other'"):
            serializer.prepare("t")


def test_the_reader_schema_is_the_latest_version_of_the_associated_subject() -> None:
    with ScriptedServer(ONE) as server, Registry(server.url) as registry:
        read = AvroDeserializer(registry, subject="associated", use_latest_version=True)
        assert read(b"\0\0\0\0\7\2", DeserializationContext("t", "value", [])) == {"a": 1}
    assert "GET /subjects/orders/versions/latest" in server.targets


def test_a_configuration_of_confluent_kafka_asks_for_the_same_subjects() -> None:
    package = confluent()
    from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
    from confluent_kafka.serialization import MessageField
    from confluent_kafka.serialization import SerializationContext as ConfluentContext

    configurations: list[dict[str, Any]] = [
        {"subject.name.strategy.type": "ASSOCIATED"},
        {
            "subject.name.strategy.type": "ASSOCIATED",
            "subject.name.strategy.conf": {
                "subject.name.strategy.kafka.cluster.id": "lkc-1",
                "subject.name.strategy.fallback.type": "RECORD",
            },
        },
        {"subject.name.strategy.conf": {"subject.name.strategy.fallback.type": "TOPIC_RECORD"}},
    ]
    for script in (ONE, NONE, MISSING):
        for configuration in configurations:
            with (
                ScriptedServer(script) as server,
                Registry(server.url) as registry,
                package.SchemaRegistryClient({"url": server.url}) as client,
            ):
                theirs = ConfluentSerializer(client, SCHEMA, None, configuration)
                their_bytes = theirs({"a": 1}, ConfluentContext("t", MessageField.VALUE))
                asked, server.requests[:] = server.targets, []
                ours = AvroSerializer(registry, SCHEMA, **from_confluent(configuration))
                assert ours({"a": 1}, SerializationContext("t", "value", [])) == their_bytes
            assert server.targets[0] == asked[0]
            assert [one.partition("?")[0] for one in server.targets] == [one.partition("?")[0] for one in asked]
