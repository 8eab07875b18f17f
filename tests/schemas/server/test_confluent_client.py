"""confluent-kafka's registry client and Avro serializers against our registry: every method that both have."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw.schemas import EmbeddedRegistry, TlsSettings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib warns about its own httpx client
    from confluent_kafka.schema_registry import (
        ConfigCompatibilityLevel,
        Schema,
        SchemaReference,
        SchemaRegistryClient,
        ServerConfig,
    )
    from confluent_kafka.schema_registry import error as confluent_error
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

INT, LONG, STRING = '{"type":"int"}', '"long"', '"string"'
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WITH_B = RECORD[:-2] + ',{"name":"b","type":["null","string"],"default":null}]}'
HOLDER = '{"type":"record","name":"H","fields":[{"name":"r","type":"R"}]}'


@pytest.fixture
def client(schema_registry: EmbeddedRegistry) -> Iterator[Any]:
    with SchemaRegistryClient({"url": schema_registry.url}) as made:
        yield made


def avro(text: str, **more: Any) -> Any:
    return Schema(text, "AVRO", **more)


def refused(code: int) -> Any:
    return pytest.raises(confluent_error.SchemaRegistryError, match=f"SR code {code}")


def test_schemas_are_registered_and_read(client: Any) -> None:
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.register_schema("s", avro(RECORD)) == 1
    full = client.register_schema_full_response("s", avro(WITH_B))
    assert (full.schema_id, full.version, full.guid is not None) == (2, 2, True)
    client.clear_caches()
    assert json.loads(client.get_schema(1).schema_str) == json.loads(RECORD)
    assert json.loads(client.get_schema_by_guid(full.guid).schema_str) == json.loads(WITH_B)
    assert client.get_subjects() == ["s"]
    assert client.get_subjects(subject_prefix="t") == []
    assert client.get_subjects_by_schema_id(2) == ["s"]
    assert [(it.subject, it.version) for it in client.get_schema_versions(2)] == [("s", 2)]
    assert client.get_versions("s") == [1, 2]
    latest = client.get_latest_version("s")
    assert (latest.subject, latest.version, latest.schema_id, latest.guid) == ("s", 2, 2, full.guid)
    assert client.get_version("s", 1).schema_id == 1
    found = client.lookup_schema("s", avro(RECORD))
    assert (found.version, found.schema_id) == (1, 1)
    with refused(40403):
        client.get_schema(77)
    with refused(40401):
        client.get_latest_version("x")
    with refused(40402):
        client.get_version("s", 9)
    with refused(42201):
        client.register_schema("s", avro("{"))


def test_levels_are_set_and_checked(client: Any) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.set_compatibility(level="FULL") == {"compatibility": "FULL"}
    assert client.set_compatibility("s", "NONE") == {"compatibility": "NONE"}
    assert (client.get_compatibility(), client.get_compatibility("s")) == ("FULL", "NONE")
    with refused(40408):
        client.get_compatibility("t")
    with refused(42203):
        client.set_compatibility("s", "SIDEWAYS")
    config = client.set_config(
        "s", ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD, compatibility_group="major")
    )
    assert config == {"compatibility": "BACKWARD", "compatibilityGroup": "major"}
    assert client.get_config("s").compatibility_group == "major"
    assert client.delete_config("s").compatibility_level == "BACKWARD"
    client.register_schema("s", avro(RECORD))
    assert client.test_compatibility("s", avro(WITH_B))
    assert not client.test_compatibility("s", avro(STRING))
    assert not client.test_compatibility_all_versions("s", avro(STRING), verbose=True)
    with refused(40901):
        client.register_schema("s", avro(STRING))


def test_subjects_and_versions_are_deleted(client: Any) -> None:
    client.register_schema("s", avro(RECORD))
    client.register_schema("s", avro(WITH_B))
    assert client.delete_version("s", 1) == 1
    assert client.delete_version("s", 1, permanent=True) == 1
    assert client.delete_subject("s") == [2]
    assert client.get_subjects(deleted=True) == ["s"]  # its `deleted_only` sends a parameter that no registry has
    assert client.get_versions("s", deleted=True) == [2]
    assert client.delete_subject("s", permanent=True) == [2]
    with refused(40401):
        client.delete_subject("s")


def test_references_metadata_modes_and_contexts(client: Any) -> None:
    client.register_schema("r", avro(RECORD))
    reference = SchemaReference("R", "r", 1)
    number = client.register_schema("h", avro(HOLDER, references=[reference]))
    client.clear_caches()
    assert client.get_schema(number).references == [reference]
    assert client.get_referenced_by("r", 1) == [number]
    with refused(42206):
        client.delete_subject("r")
    from confluent_kafka.schema_registry import Metadata, MetadataProperties

    metadata = Metadata(tags=None, properties=MetadataProperties(properties={"owner": "me"}), sensitive=None)
    client.register_schema("m", avro(INT, metadata=metadata))
    assert client.get_latest_with_metadata("m", {"owner": "me"}).version == 1
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode("r", "READONLY") == "READONLY"
    assert client.get_mode("r") == "READONLY"
    with refused(42205):
        client.register_schema("r", avro(WITH_B))
    assert client.delete_mode("r") == "READONLY"
    assert client.update_global_mode("READONLY") == "READONLY"
    assert client.update_global_mode("READWRITE") == "READWRITE"
    assert client.get_contexts() == ["."]
    client.register_schema(":.c:s", avro(LONG))
    assert client.get_contexts() == [".", ".c"]


def test_serializers_register_and_read(client: Any) -> None:
    topic = SerializationContext("orders", MessageField.VALUE)
    data = AvroSerializer(client, WITH_B)({"a": 1, "b": "x"}, topic)
    assert data[:5] == b"\0\0\0\0\1"
    client.clear_caches()
    assert AvroDeserializer(client)(data, topic) == {"a": 1, "b": "x"}
    assert AvroDeserializer(client, RECORD)(data, topic) == {"a": 1}
    assert client.get_subjects() == ["orders-value"]
    latest = AvroSerializer(client, None, conf={"auto.register.schemas": False, "use.latest.version": True})
    assert latest({"a": 1, "b": "x"}, topic) == data


def test_tls_and_basic_authentication(tmp_path: Any) -> None:
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    (tmp_path / "server.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with EmbeddedRegistry(tls=TlsSettings(str(tmp_path / "server.pem")), users={"ada": "secret"}) as registry:
        assert registry.url.startswith("https://127.0.0.1:")
        conf = {"url": registry.url, "ssl.ca.location": str(tmp_path / "ca.pem")}
        with SchemaRegistryClient(conf | {"basic.auth.user.info": "ada:secret"}) as client:
            assert client.register_schema("s", avro(INT)) == 1
        with (
            SchemaRegistryClient(conf | {"basic.auth.user.info": "ada:wrong"}) as client,
            pytest.raises(confluent_error.SchemaRegistryError, match="401"),
        ):
            client.get_subjects()


def test_clients_need_a_certificate_if_that_is_required(tmp_path: Any) -> None:
    import httpx
    import trustme

    authority = trustme.CA()
    issued, own = authority.issue_cert("127.0.0.1"), authority.issue_cert("client@example.org")
    (tmp_path / "server.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    (tmp_path / "client.pem").write_bytes(own.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = TlsSettings(str(tmp_path / "server.pem"), trusted=str(tmp_path / "ca.pem"), client_auth="required")
    with EmbeddedRegistry(tls=tls) as registry:
        conf = {"url": registry.url, "ssl.ca.location": str(tmp_path / "ca.pem")}
        with SchemaRegistryClient(conf | {"ssl.certificate.location": str(tmp_path / "client.pem")}) as client:
            assert client.get_subjects() == []
        with SchemaRegistryClient(conf | {"max.retries": 0}) as client, pytest.raises(httpx.HTTPError):
            client.get_subjects()
