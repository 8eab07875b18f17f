"""Kafka's metadata log: replayed from snapshots and segments, written as a bootstrap snapshot; and damaged ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.framed_records import encode_framed
from kafkaraw.core.log.metadata_image import METADATA_VERSION, METADATA_VERSION_MAX, MetadataImage
from kafkaraw.core.log.metadata_log import MetadataEnd, bootstrap_snapshot, read_metadata
from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kafkaraw.records import encode_batch

FIRST, SECOND, ACL = (Uuid(bytes(15) + bytes((number,))) for number in (7, 8, 9))
LOG = "00000000000000000000.log"
BOOTSTRAP = "bootstrap.checkpoint"


def topic(name: str, topic_id: Uuid, partitions: int = 1) -> list[object]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=4,
                partition_epoch=5,
                directories=[SECOND],
            )
            for number in range(partitions)
        ),
    ]


def setting(owner: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=owner, name=name, value=value)


def quota(key: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name="ada"), EntityData(entity_type="client-id", entity_name=None)]
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def credential(user: str) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user, mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )


def acl() -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=ACL,
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:ada",
        host="*",
        operation=3,
        permission_type=3,
    )


def feature(level: int, name: str = METADATA_VERSION) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=level)


def batch(records: Sequence[object], base_offset: int = 0, epoch: int = 3) -> bytes:
    versions = {PartitionRecord: 2, PartitionChangeRecord: 2, RegisterBrokerRecord: 4}
    rows = [(0, None, encode_framed(record, versions.get(type(record), 0)), None) for record in records]
    return encode_batch(rows, base_offset=base_offset, partition_leader_epoch=epoch)


def replayed(files: dict[str, bytes]) -> tuple[MetadataImage, MetadataEnd]:
    return read_metadata(
        [name for name in files if name != BOOTSTRAP], BOOTSTRAP in files, lambda name: memoryview(files[name])
    )


def image_of(*records: object) -> MetadataImage:
    return replayed({LOG: batch(records)})[0]


def test_records_change_topics_settings_users_and_ids():
    image = image_of(
        feature(30),
        *topic("a", FIRST, 2),
        *topic("b", SECOND),
        setting("a", "retention.ms", "1"),
        setting("a", "segment.ms", "2"),
        setting("b", "retention.ms", "3"),
        PartitionChangeRecord(partition_id=1, topic_id=FIRST, leader=-1, isr=[]),
        PartitionChangeRecord(partition_id=1, topic_id=FIRST, isr=[1]),
        quota("producer_byte_rate", 5.0),
        quota("consumer_byte_rate", 6.0),
        quota("producer_byte_rate", 0.0, remove=True),
        credential("ada"),
        credential("bob"),
        RemoveUserScramCredentialRecord(name="bob", mechanism=1),
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=2000),
        setting("a", "segment.ms", None),
        RemoveTopicRecord(topic_id=SECOND),
        NoOpRecord(),
    )
    assert {one.name for one in image.topics.values()} == {"a"}
    second = image.topics[FIRST].partitions[1]
    assert (second.leader, second.isr, second.leader_epoch, second.partition_epoch) == (-1, (1,), 5, 7)
    assert image.configs == {(2, "a"): {"retention.ms": "1"}}
    assert image.quotas == {(("client-id", None), ("user", "ada")): {"consumer_byte_rate": 6.0}}
    assert image.credentials.keys() == {(1, "ada")}
    assert image.next_producer_id == 2000


def test_records_of_a_transaction_take_effect_at_its_end():
    image = image_of(
        BeginTransactionRecord(name="one"), *topic("a", FIRST), EndTransactionRecord(),
        BeginTransactionRecord(name="two"), RemoveTopicRecord(topic_id=FIRST), AbortTransactionRecord(),
        BeginTransactionRecord(name="three"), RemoveTopicRecord(topic_id=FIRST),
    )  # fmt: skip
    assert list(image.topics) == [FIRST]


def test_bootstrap_snapshot_is_read_as_it_was_written_and_only_without_a_log():
    acl_gone = RemoveAccessControlEntryRecord(id=ACL)
    image = image_of(
        feature(30), feature(2, "transaction.version"), *topic("a", FIRST, 1200), setting("a", "retention.ms", "1"),
        quota("request_percentage", 12.5), credential("ada"), acl(),
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=3000),
    )  # fmt: skip
    written = bootstrap_snapshot(image, 1_700_000_000_000)
    assert replayed({BOOTSTRAP: written}) == (image, MetadataEnd(0, 0))
    assert replayed({BOOTSTRAP: written, LOG: b""}) == (image, MetadataEnd(0, 0))
    found, end = replayed({BOOTSTRAP: written, LOG: batch([feature(29), acl(), acl_gone])})
    assert (found, end) == (MetadataImage(features={METADATA_VERSION: 29}), MetadataEnd(3, 3))


def test_newest_snapshot_is_followed_by_the_segments_behind_it():
    old, new = (bootstrap_snapshot(image_of(*topic(name, FIRST)), 0) for name in ("old", "new"))
    files = {
        "00000000000000000002-0000000001.checkpoint": old,
        "00000000000000000005-0000000002.checkpoint": new,
        "00000000000000000003.log": batch([NoOpRecord(), NoOpRecord()], 3)
        + batch([setting("new", "retention.ms", "1")], 5, epoch=7),
        "00000000000000000006.log": batch([setting("new", "segment.ms", "2")], 6, epoch=8),
    }
    image, end = replayed(files)
    assert image.topics[FIRST].name == "new"
    assert image.configs == {(2, "new"): {"retention.ms": "1", "segment.ms": "2"}}
    assert end == MetadataEnd(7, 8)
    del files["00000000000000000003.log"]
    with pytest.raises(DamagedFileError, match="begins at offset 6, its newest snapshot ends at 5"):
        replayed(files)


def test_batch_that_is_cut_short_at_the_end_is_left_out():
    whole = batch(topic("a", FIRST))
    assert replayed({LOG: whole + batch(topic("b", SECOND), 2)[:-5]})[1] == MetadataEnd(2, 3)
    assert replayed({LOG: whole + bytes(17)})[1] == MetadataEnd(2, 3)
    with pytest.raises(DamagedFileError, match="no whole batch"):
        replayed({LOG: whole + b"torn", "00000000000000000002.log": batch([NoOpRecord()], 2)})


@pytest.mark.parametrize("at", [8, 40, 61, 70])
def test_damaged_bytes_are_an_error_with_file_and_position(at: int):
    first = batch(topic("a", FIRST))
    damaged = bytearray(first + batch(topic("b", SECOND), 2))
    damaged[len(first) + at] ^= 0x40
    with pytest.raises(DamagedFileError, match=r"__cluster_metadata-0/0{20}\.log: byte .*nothing was changed") as found:
        replayed({LOG: bytes(damaged) + batch([NoOpRecord()], 4)})
    assert found.value.position in (len(first), len(damaged))


def test_snapshot_without_its_footer_is_damaged():
    written = bootstrap_snapshot(image_of(*topic("a", FIRST)), 0)
    for cut in (written[:-1], written[:-80], b""):
        with pytest.raises(DamagedFileError, match="without its footer"):
            replayed({BOOTSTRAP: cut})


def test_records_of_a_newer_release_are_an_error():
    with pytest.raises(DamagedFileError, match=r"metadata\.version is 31, of a release newer than 4\.3"):
        image_of(feature(METADATA_VERSION_MAX + 1))
    value = encode_framed(NoOpRecord(), 0)
    unknown = {b"\x01\x63\x00": "record type 99", b"\x02\x14\x00": "frame version 2", b"\x01": "end in"}
    for bad, words in unknown.items():
        with pytest.raises(DamagedFileError, match=words):
            replayed({LOG: encode_batch([(0, None, bad, None)])})
    assert replayed({LOG: encode_batch([(0, None, value, None)])})[1].offset == 1


def test_records_that_contradict_those_before_them_are_an_error():
    for record in (
        RemoveTopicRecord(topic_id=FIRST),
        topic("a", FIRST)[1],
        PartitionChangeRecord(partition_id=0, topic_id=FIRST),
    ):
        with pytest.raises(ProtocolError, match="is of no topic"):
            MetadataImage().apply(record)
    image = image_of(*topic("a", FIRST))
    with pytest.raises(ProtocolError, match="a has no partition 3"):
        image.apply(PartitionChangeRecord(partition_id=3, topic_id=FIRST))
