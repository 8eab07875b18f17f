"""Metadata of Apache Kafka in a data directory: taken over, refused, read again; and handed back."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kafkaraw.broker.configs.dynamic_configs import CONFIGS_FILE
from kafkaraw.broker.kafka_export import export
from kafkaraw.broker.kafka_metadata import TAKEN_FILE, take_over
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.security.delegation_tokens import TOKENS_FILE
from kafkaraw.broker.topics.topic_files import TOPICS_FILE, read_topics
from kafkaraw.core.log.framed_records import encode_framed
from kafkaraw.core.log.metadata_files import MetaProperties, write_meta_properties
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kafkaraw.records import encode_batch

METADATA = "__cluster_metadata-0"
LOG = "00000000000000000000.log"
NODE = 1
DIRECTORY = Uuid(b"d" * 16)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"t"))


def partition(name: str, number: int = 0, *, replicas: Sequence[int] = (NODE,), leader: int = NODE) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id(name),
        replicas=list(replicas),
        isr=list(replicas) if leader >= 0 else [],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=4,
        partition_epoch=6,
        directories=[DIRECTORY for _ in replicas],
    )


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id(name))


def setting(kind: int, owner: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=value)


def batch(records: Sequence[object], base_offset: int = 0) -> bytes:
    newest = {PartitionRecord: 2, RegisterBrokerRecord: 4}
    rows = [(0, None, encode_framed(record, newest.get(type(record), 0)), None) for record in records]
    return encode_batch(rows, base_offset=base_offset, partition_leader_epoch=1)


def directory(*records: object) -> MemoryStorage:
    storage = MemoryStorage()
    storage.write_text(ROOT, "meta.properties", write_meta_properties(MetaProperties("cluster", NODE, DIRECTORY)))
    storage.make_folder(METADATA)
    storage.open_file(METADATA, LOG).append(batch(records))
    return storage


def content(storage: MemoryStorage) -> dict[tuple[str, str], bytes | None]:
    return {
        (folder, name): storage.read_bytes(folder, name)
        for folder in (ROOT, *storage.folders())
        for name in storage.files(folder)
    }


def taken(storage: MemoryStorage, *, read_only: bool = False) -> dict[str, list[tuple[int, int, tuple[int, ...]]]]:
    """Take the metadata over; return (leader, leader epoch, replicas) of each partition by topic."""
    take_over([storage], storage, NODE, read_only=read_only)
    text = storage.read_text(ROOT, TOPICS_FILE)
    assert text is not None
    return {
        topic.name: [(state.leader, state.leader_epoch, state.replicas) for state in states]
        for topic, states in read_topics(text)
    }


def test_directory_without_metadata_of_kafka_is_left_alone():
    storage = MemoryStorage()
    take_over([storage], storage, NODE, read_only=False)
    assert content(storage) == {}


def test_partition_goes_on_in_its_epoch_if_this_node_led_it_and_begins_a_new_one_otherwise():
    storage = directory(topic("a"), partition("a"), partition("a", 1, leader=-1))
    assert taken(storage) == {"a": [(NODE, 4, (NODE,)), (NODE, 5, (NODE,))]}


def test_metadata_is_read_again_only_if_kafka_has_run_since(caplog: pytest.LogCaptureFixture):
    storage = directory(topic("a"), partition("a"))
    taken(storage)
    ours = storage.read_text(ROOT, TOPICS_FILE)
    assert ours is not None
    storage.write_text(ROOT, TOPICS_FILE, ours.replace('"a"', '"ours"').replace(str(topic_id("a")), str(topic_id("o"))))
    assert list(taken(storage)) == ["ours"]
    storage.open_file(METADATA, LOG).append(batch([NoOpRecord()], 2))
    assert list(taken(storage)) == ["a"]
    assert "does not know the topics ours" in caplog.text


def test_interrupted_take_over_is_repeated():
    whole = directory(topic("a"), partition("a"))
    taken(whole)
    names = [name for name in whole.files(ROOT) if name.startswith("kafkaraw")]
    for last in names:
        storage = directory(topic("a"), partition("a"))
        written: list[str] = []
        write_text = storage.write_text

        def stop(folder: str, name: str, text: str, **options: bool) -> None:
            if written and written[-1] == last:  # noqa: B023 - called within this turn of the loop
                raise OSError(5, "killed")
            write_text(folder, name, text, **options)  # noqa: B023
            written.append(name)  # noqa: B023

        storage.write_text = stop  # type: ignore[method-assign, assignment]
        try:
            take_over([storage], storage, NODE, read_only=False)
        except OSError:
            del storage.write_text
        assert taken(storage) == taken(whole)


@pytest.mark.parametrize(
    "records, words",
    [
        ([topic("a"), partition("a", replicas=(1, 2, 3))], r"a-0 has replicas on nodes \[1, 2, 3\].*--read-only"),
        ([topic("a"), partition("a", replicas=(2,), leader=2)], r"a-0 has replicas on nodes \[2\]"),
        ([topic("a"), partition("a", 1)], "topic a has no partition 0"),
        ([topic("a"), partition("a"), setting(2, "a", "remote.storage.enable", "true")], "topic a .*Tiered Storage"),
        ([topic("a"), partition("a"), setting(2, "a", "of.the.future", "1")], "topic a .*of.the.future"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is_written(records: list[object], words: str):
    storage = directory(*records)
    before = content(storage)
    with pytest.raises(ConfigError, match=words):
        take_over([storage], storage, NODE, read_only=False)
    assert content(storage) == before


def test_damaged_metadata_is_refused_before_anything_is_written():
    storage = directory(topic("a"), partition("a"))
    file = storage.open_file(METADATA, LOG)
    file.write_at(30, b"\xff")
    before = content(storage)
    with pytest.raises(ConfigError, match=r"cannot be read: .*checksum.*nothing was changed"):
        take_over([storage], storage, NODE, read_only=False)
    assert content(storage) == before


def test_one_node_of_several_is_served_read_only_with_the_replicas_that_it_has():
    here = partition("a", replicas=(2, 1, 3), leader=2)
    elsewhere = partition("a", 1, replicas=(2, 3), leader=3)
    storage = directory(topic("a"), here, elsewhere)
    assert taken(storage, read_only=True) == {"a": [(1, 5, (1,)), (-1, 4, (2, 3))]}


def test_metadata_of_both_kinds_without_a_word_which_is_newer_is_refused():
    storage = directory(topic("a"), partition("a"))
    taken(storage)
    storage.remove_file(ROOT, TAKEN_FILE)
    with pytest.raises(ConfigError, match="nothing says which is newer"):
        taken(storage)
    storage.write_text(ROOT, TAKEN_FILE, "{}")
    with pytest.raises(ConfigError, match="is damaged"):
        taken(storage)


def test_two_directories_with_a_metadata_log_are_refused():
    one, other = directory(topic("a"), partition("a")), directory(topic("a"), partition("a"))
    with pytest.raises(ConfigError, match="2 of them have __cluster_metadata-0"):
        take_over([one, other], one, NODE, read_only=False)


def users() -> list[object]:
    entity = [EntityData(entity_type="user", entity_name=None)]
    return [
        UserScramCredentialRecord(
            name="ada", mechanism=2, salt=b"1", stored_key=b"2", server_key=b"3", iterations=5000
        ),
        ClientQuotaRecord(entity=entity, key="request_percentage", value=12.5, remove=False),
        AccessControlEntryRecord(
            id=DIRECTORY,
            resource_type=2,
            resource_name="a",
            pattern_type=4,
            principal="User:ada",
            host="*",
            operation=3,
            permission_type=2,
        ),
        DelegationTokenRecord(
            owner="User:ada",
            requester="User:bob",
            renewers=["User:eve"],
            issue_timestamp=1,
            max_timestamp=3,
            expiration_timestamp=2,
            token_id="token",
        ),
    ]


def test_what_was_taken_over_is_exported_and_taken_over_again():
    storage = directory(
        topic("a"),
        partition("a"),
        setting(2, "a", "retention.ms", "5"),
        setting(4, "", "log.retention.ms", "7"),
        setting(4, "1", "max.connections", "9"),
        setting(32, "group", "consumer.session.timeout.ms", "45001"),
        *users(),
        ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=4000),
    )
    taken(storage)
    first = {name: storage.read_text(ROOT, name) for name in storage.files(ROOT) if name.startswith("kafkaraw")}
    assert '"consumer.session.timeout.ms": "45001"' in (first[CONFIGS_FILE] or "")
    assert '"token_id": "token"' in (first[TOKENS_FILE] or "")
    done = export(storage, 1_700_000_000_000, random.Random(1))
    assert (done.cluster_id, done.node_id, done.topics) == ("cluster", NODE, 1)
    assert METADATA not in storage.folders()
    assert storage.folders() == [done.set_aside]
    assert taken(storage) == {"a": [(NODE, 4, (NODE,))]}  # Kafka has not run: nothing is read
    storage.write_text(ROOT, TAKEN_FILE, '{"version": 1, "offset": 9, "epoch": 0}')
    assert taken(storage) == {"a": [(NODE, 5, (NODE,))]}
    again = {name: storage.read_text(ROOT, name) for name in first}
    assert [name for name in first if first[name] != again[name]] == [TAKEN_FILE, TOPICS_FILE]


def test_export_refuses_what_is_no_single_node_of_this_broker():
    storage = directory(topic("a"), partition("a"))
    with pytest.raises(ConfigError, match=f"has no {TOPICS_FILE}"):
        export(storage, 0, random.Random(1))
    taken(storage)
    text = storage.read_text(ROOT, TOPICS_FILE)
    assert text is not None
    storage.write_text(ROOT, TOPICS_FILE, text.replace("[[1]]", "[[1, 2]]"))
    with pytest.raises(ConfigError, match=r"a-0 has replicas on nodes \[1, 2\]"):
        export(storage, 0, random.Random(1))
