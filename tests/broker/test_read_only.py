"""A broker with read.only: which requests it refuses and how, and the storage that keeps changes in memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkaraw import Admin, ConfigResource, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.handlers.registration import REGISTERED, load_handlers
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.read_only_storage import CopyOnWriteFile, ReadOnlyStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.read_only import MESSAGE, READING_APIS, is_refused, refused
from kafkaraw.broker.replies import CloseConnection
from kafkaraw.errors import BrokerError, ConfigError
from kafkaraw.protocol import encode_message
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.produce import ProduceRequest
from tests.protocol.message_values import random_message


def test_every_api_that_is_served_is_reading_or_refused_with_a_response_that_can_be_encoded():
    load_handlers()
    served = [registration.api for registration in REGISTERED.values()]
    assert {api.name for api in served if is_refused(api)} == {api.name for api in served} - READING_APIS
    for api in filter(is_refused, served):
        for version in range(api.versions.min, api.versions.max + 1):
            request = random_message(api.request, version, random.Random(version))
            response = refused(api, version, request)
            if not isinstance(response, CloseConnection):
                encode_message(response, version)


def test_no_api_that_only_reads_is_refused():
    load_handlers()
    refused_apis = [registration.api.name for registration in REGISTERED.values() if is_refused(registration.api)]
    assert [name for name in refused_apis if name.startswith(("Describe", "List", "Get"))] == []


def test_quorum_settings_and_reassignments_are_described(tmp_path: Path):
    with (
        EmbeddedBroker(data_dir=tmp_path) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("kept", 1)])
    with (
        EmbeddedBroker(data_dir=tmp_path, properties={"read.only": True}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        assert admin.describe_metadata_quorum().leader_id == 0
        assert ConfigResource.topic("kept") in admin.list_config_resources()
        assert admin.list_partition_reassignments() == {}
        with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
            admin.create_topics([NewTopic("new", 1)])


def test_refusal_names_the_reason_beside_each_code():
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1, assignments=[], configs=[])]
    )
    response = refused(API_BY_NAME["CreateTopics"], 7, request)
    (topic,) = response.topics  # type: ignore[union-attr]
    assert (topic.name, topic.error_code, topic.error_message) == ("a", ErrorCode.POLICY_VIOLATION, MESSAGE)


def test_produce_without_acks_closes_the_connection():
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    assert refused(API_BY_NAME["Produce"], 9, request) == CloseConnection(MESSAGE)


@pytest.mark.parametrize("large", [False, True], ids=["read", "mapped"])
def test_file_keeps_changes_in_memory(tmp_path: Path, large: bool):
    path = tmp_path / "file"
    start = b"0123456789" * (100_000 if large else 1)
    path.write_bytes(start)
    rng, model = random.Random(3), bytearray(start)
    file = CopyOnWriteFile(path, len(start))
    for _ in range(300):
        size = len(model)
        match rng.randrange(4):
            case 0:
                data = rng.randbytes(rng.randrange(20))
                file.append(data)
                model += data
            case 1:
                at, data = rng.randrange(size + 5), rng.randbytes(rng.randrange(1, 9))
                file.write_at(at, data)
                model.extend(bytes(max(at - size, 0)))
                model[at : at + len(data)] = data
            case 2:
                size = max(size - rng.randrange(12), 0)
                file.truncate(size)
                del model[size:]
            case _:
                at, count = rng.randrange(size + 1), rng.randrange(50)
                assert file.read(at, count) == model[at : at + count]
                shown = bytes(file.content(at, count))
                assert model[at : at + count].startswith(shown)
                assert shown or not model[at : at + count]
        assert file.size_bytes == len(model)
    assert file.read(0, len(model)) == model
    assert path.read_bytes() == start


def test_storage_shows_the_directory_and_keeps_changes_in_memory(tmp_path: Path):
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "00000000000000000000.log").write_bytes(b"log")
    (tmp_path / "meta.properties").write_text("version=1")
    storage = ReadOnlyStorage(tmp_path)
    assert (storage.folders(), storage.files("a-0")) == (["a-0"], ["00000000000000000000.log"])
    storage.open_file("a-0", "00000000000000000000.log").append(b" more")
    storage.rename_file("a-0", "00000000000000000000.log", "00000000000000000000.log.deleted")
    storage.rename_folder("a-0", "b-0")
    storage.make_folder("c-0")
    storage.write_text(ROOT, "meta.properties", "version=2")
    assert storage.read_bytes("b-0", "00000000000000000000.log.deleted") == b"log more"
    assert storage.folders() == ["b-0", "c-0"]
    storage.remove_folder("b-0")
    storage.remove_file(ROOT, "meta.properties")
    assert storage.read_text(ROOT, "meta.properties") is None
    with pytest.raises(FileNotFoundError):
        storage.rename_folder("b-0", "d-0")
    storage.close()
    assert (tmp_path / "meta.properties").read_text() == "version=1"
    assert [path.name for path in tmp_path.rglob("*.log")] == ["00000000000000000000.log"]


def test_directory_in_use_is_refused_in_both_directions(tmp_path: Path):
    writing = FileStorage(tmp_path)
    with pytest.raises(ConfigError, match="is in use by a broker"):
        ReadOnlyStorage(tmp_path)
    writing.close()
    readers = [ReadOnlyStorage(tmp_path), ReadOnlyStorage(tmp_path)]
    with pytest.raises(ConfigError, match="in use"):
        FileStorage(tmp_path)
    for reader in readers:
        reader.close()


def test_read_only_needs_a_data_directory(tmp_path: Path):
    with pytest.raises(ConfigError, match="name the data directory"):
        EmbeddedBroker(properties={"read.only": True})
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match=r"meta\.properties"):
            EmbeddedBroker(data_dir=directory, properties={"read.only": True}).start()
    assert list(tmp_path.iterdir()) == []
