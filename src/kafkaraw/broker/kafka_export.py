"""Hands a data directory of this broker over to Apache Kafka: its metadata becomes Kafka's bootstrap snapshot.

A controller that starts without a metadata log begins one with the records of `bootstrap.checkpoint`; `kafka-storage`
writes SCRAM credentials there. `export` writes topics with their ids, settings, users, delegation tokens,
quotas, ACLs and the next producer id as well. The logs stay as they are: their format is Kafka's. The reverse is
`kafka_metadata.take_over`.

Start at `export`; see docs/decisions/0037-directories-of-apache-kafka.md.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.acl.stored import ACLS_FILE, read_acls
from kafkaraw.broker.configs.dynamic_configs import CONFIGS_FILE, KEPT, DynamicConfigs
from kafkaraw.broker.ids import RandomBits, random_bytes, random_uuid
from kafkaraw.broker.kafka_metadata import TAKEN_FILE, taken_text
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.producer_ids import IDS_FILE
from kafkaraw.broker.quotas.table import QUOTAS_FILE, QuotaTable
from kafkaraw.broker.security.delegation_tokens import TOKENS_FILE, read_tokens
from kafkaraw.broker.security.scram_credentials import SCRAM_FILE, ScramCredentials
from kafkaraw.broker.topics.topic_files import TOPICS_FILE, StoredTopic, read_topics
from kafkaraw.core.log.metadata_files import read_meta_properties
from kafkaraw.core.log.metadata_image import FEATURES, MetadataImage, PartitionImage, TopicImage
from kafkaraw.core.log.metadata_log import MetadataEnd, bootstrap_snapshot
from kafkaraw.core.log.names import (
    BOOTSTRAP_FILE,
    META_PROPERTIES_FILE,
    METADATA_FOLDER,
    METADATA_TOPIC,
    FolderState,
    PartitionFolder,
)
from kafkaraw.core.sasl.scram import TYPE_OF_MECHANISM
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.embedded.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)

_BEFORE_ANY_LOG: Final = MetadataEnd(0, 0)


@dataclass(frozen=True, slots=True)
class Exported:
    """What Apache Kafka needs to know of an exported directory.

    Attributes:
        cluster_id: the cluster.
        node_id: the node, Kafka's `node.id`.
        topics: number of topics.
        set_aside: the new name of a metadata log that Kafka wrote earlier; empty if there was none.
    """

    cluster_id: str
    node_id: int
    topics: int
    set_aside: str


def export(storage: LogStorage, timestamp_ms: int, rng: RandomBits) -> Exported:
    """Write the metadata of a data directory for Apache Kafka.

    Args:
        storage: the data directory of one node, which no broker uses.
        timestamp_ms: now, in milliseconds since 1970.
        rng: source of random ids.

    Raises:
        ConfigError: it is not a directory of this broker, or one of several nodes.
        OSError: a file cannot be read or written.
    """
    meta_text, topics_text = storage.read_text(ROOT, META_PROPERTIES_FILE), storage.read_text(ROOT, TOPICS_FILE)
    if meta_text is None or topics_text is None:
        missing = META_PROPERTIES_FILE if meta_text is None else TOPICS_FILE
        raise ConfigError(f"the directory has no {missing}: export the directory of a node of kafkaraw's broker")
    meta = read_meta_properties(meta_text)
    topics = read_topics(topics_text)
    _check_alone(topics, meta.node_id)
    image = _image(storage, topics, meta.directory_id or ZERO_UUID, rng)
    storage.write_bytes(ROOT, BOOTSTRAP_FILE, bootstrap_snapshot(image, timestamp_ms), private=True)
    set_aside = ""
    if METADATA_FOLDER in storage.folders():
        set_aside = PartitionFolder(METADATA_TOPIC, 0, FolderState.STRAY, random_uuid(rng).hex()).name
        storage.rename_folder(METADATA_FOLDER, set_aside)
        storage.sync_folder(ROOT)
    storage.write_text(ROOT, TAKEN_FILE, taken_text(_BEFORE_ANY_LOG))
    return Exported(meta.cluster_id, meta.node_id, len(topics), set_aside)


def _check_alone(topics: list[StoredTopic], node_id: int) -> None:
    for topic, _ in topics:
        for number, replicas in enumerate(topic.assignments):
            if replicas != (node_id,):
                raise ConfigError(
                    f"{topic.name}-{number} has replicas on nodes {list(replicas)}: only the directory of a node that "
                    "is a cluster of its own can be exported"
                )


def _image(storage: LogStorage, topics: list[StoredTopic], directory_id: Uuid, rng: RandomBits) -> MetadataImage:
    image = MetadataImage(features=dict(FEATURES))
    for topic, states in topics:
        found = image.topics[topic.topic_id] = TopicImage(topic.name, topic.topic_id)
        for number, replicas in enumerate(topic.assignments):
            epoch, partition_epoch = 0, 0
            if number < len(states):
                epoch, partition_epoch = states[number].leader_epoch, states[number].partition_epoch
            # Without a leader, so that the controller elects the node when it registers, and begins a new epoch.
            found.partitions[number] = PartitionImage(
                replicas, replicas, NO_LEADER, epoch, partition_epoch, (directory_id,)
            )
        if topic.configs:
            image.configs[ConfigResourceType.TOPIC, topic.name] = dict(topic.configs)
    _add_users(image, storage, rng)
    text = storage.read_text(ROOT, CONFIGS_FILE)
    if text is not None:
        configs = DynamicConfigs(_not_saved)
        configs.load(text)
        for kind in KEPT:
            for name in configs.names(kind):
                image.configs[kind, name] = dict(configs.of(kind, name))
    text = storage.read_text(ROOT, IDS_FILE)
    image.next_producer_id = int(text) if text is not None else 0
    return image


def _add_users(image: MetadataImage, storage: LogStorage, rng: RandomBits) -> None:
    text = storage.read_text(ROOT, SCRAM_FILE)
    if text is not None:
        credentials = ScramCredentials({}, (), lambda: random_bytes(rng), _not_saved)
        credentials.load(text)
        for (mechanism, user), one in credentials.stored.items():
            number = TYPE_OF_MECHANISM[mechanism]
            image.credentials[number, user] = UserScramCredentialRecord(
                name=user,
                mechanism=number,
                salt=one.salt,
                stored_key=one.stored_key,
                server_key=one.server_key,
                iterations=one.iterations,
            )
    text = storage.read_text(ROOT, TOKENS_FILE)
    for token in read_tokens(text) if text is not None else ():
        image.tokens[token.token_id] = DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issued_ms,
            max_timestamp=token.max_ms,
            expiration_timestamp=token.expires_ms,
            token_id=token.token_id,
        )
    text = storage.read_text(ROOT, QUOTAS_FILE)
    if text is not None:
        quotas = QuotaTable(_not_saved)
        quotas.load(text)
        image.quotas = {entity: dict(values) for entity, values in quotas.stored.items()}
    text = storage.read_text(ROOT, ACLS_FILE)
    for acl in read_acls(text) if text is not None else ():
        acl_id = random_uuid(rng)
        image.acls[acl_id] = AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )


def _not_saved(text: str) -> None:
    raise AssertionError("an export changes no file of this broker")
