"""Takes over a data directory that Apache Kafka wrote: its metadata log becomes this broker's files of metadata.

Kafka keeps topics, settings, users and permissions as records in `__cluster_metadata-0`; this broker keeps them in its
own files (`topic_files`, ...). `take_over` reads the former and writes the latter. It reads everything, and refuses
what this broker cannot serve, before it writes. `TAKEN_FILE` says which end of the metadata log was read: if Kafka has
run on the directory since, the end differs, and its metadata is read again. Kafka's own files stay as they are.

Start at `take_over`; see docs/decisions/0037-directories-of-apache-kafka.md.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.acl.stored import ACLS_FILE, write_acls
from kafkaraw.broker.configs import topic_config
from kafkaraw.broker.configs.dynamic_configs import CONFIGS_FILE, KEPT, configs_text
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.producer_ids import IDS_FILE
from kafkaraw.broker.quotas.table import QUOTAS_FILE, quotas_text
from kafkaraw.broker.security.delegation_tokens import TOKENS_FILE, StoredToken, tokens_text
from kafkaraw.broker.security.scram_credentials import SCRAM_FILE, credentials_text
from kafkaraw.broker.start_folders import written_by_kafka
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_files import TOPICS_FILE, StoredTopic, TopicsWriter, read_topics
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.metadata_image import MetadataImage, TopicImage
from kafkaraw.core.log.metadata_log import MetadataEnd, read_metadata
from kafkaraw.core.log.names import BOOTSTRAP_FILE, METADATA_FOLDER
from kafkaraw.core.sasl.scram import MECHANISM_OF_TYPE, ScramCredential
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.config_codes import ConfigResourceType

TAKEN_FILE: Final = "kafkaraw-metadata-log.json"
TAKEN_VERSION: Final = 1
_UNFINISHED: Final = MetadataEnd(-1, -1)
PRIVATE_FILES: Final = frozenset((SCRAM_FILE, TOKENS_FILE, CONFIGS_FILE))

_logger = logging.getLogger("kafkaraw.broker")


def take_over(storages: Sequence[LogStorage], own: LogStorage, node_id: int, *, read_only: bool) -> None:
    """Write this broker's metadata files for the newest state of Kafka's metadata log, if a directory has one.

    Args:
        storages: the data directories of the node.
        own: the one in which this broker keeps its metadata.
        node_id: the node.
        read_only: serve the replicas of one node of a larger cluster, too.

    Raises:
        ConfigError: the metadata is damaged or of a newer release, or the directory is of one node of several. Nothing
            was written.
        OSError: a file cannot be read or written.
    """
    logs, formatted = written_by_kafka(storages)
    if not logs and not formatted:
        return
    if len(logs) > 1:
        raise ConfigError(f"log.dirs: {len(logs)} of them have {METADATA_FOLDER}: remove the older ones")
    image, end = _read(logs, formatted)
    text = own.read_text(ROOT, TOPICS_FILE)
    taken = own.read_text(ROOT, TAKEN_FILE)
    if taken is not None and text is not None and read_taken(taken) == end:
        return
    if text is not None and taken is None:
        raise ConfigError(
            f"the data directory has the metadata of Apache Kafka ({METADATA_FOLDER}) and of kafkaraw ({TOPICS_FILE}), "
            "and nothing says which is newer: remove the one that you do not need"
        )
    topics = [_stored_topic(topic, image, node_id, read_only=read_only) for topic in image.topics.values()]
    files = _files(image, topics)
    if text is not None:
        _warn_of_lost(text, image)
    own.write_text(ROOT, TAKEN_FILE, taken_text(_UNFINISHED))  # a crash before the end repeats this
    for name, content in files.items():
        own.write_text(ROOT, name, content, private=name in PRIVATE_FILES)
    own.write_text(ROOT, TAKEN_FILE, taken_text(end))
    _logger.info(
        "took over %d topics from the metadata log of Apache Kafka, which ends at offset %d", len(topics), end.offset
    )


def taken_text(end: MetadataEnd) -> str:
    """Return the text of `TAKEN_FILE`."""
    return json.dumps({"version": TAKEN_VERSION, "offset": end.offset, "epoch": end.epoch}) + "\n"


def read_taken(text: str) -> MetadataEnd:
    """Read `TAKEN_FILE`.

    Raises:
        ConfigError: it is damaged, or of a newer version.
    """
    try:
        found = json.loads(text)
        if found["version"] != TAKEN_VERSION:
            raise ConfigError(f"{TAKEN_FILE}: version {found['version']} is not known, only {TAKEN_VERSION} is")
        return MetadataEnd(int(found["offset"]), int(found["epoch"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{TAKEN_FILE} in the data directory is damaged: {error}; remove it, and {TOPICS_FILE} if Apache Kafka has "
            "run on the directory last"
        ) from error


def _read(logs: Sequence[LogStorage], formatted: Sequence[LogStorage]) -> tuple[MetadataImage, MetadataEnd]:
    names = logs[0].files(METADATA_FOLDER) if logs else []

    def content(name: str) -> memoryview:
        is_bootstrap = name == BOOTSTRAP_FILE
        file = (formatted if is_bootstrap else logs)[0].open_file(ROOT if is_bootstrap else METADATA_FOLDER, name)
        try:
            return file.read(0, file.size_bytes)
        finally:
            file.close()

    try:
        return read_metadata(names, bool(formatted), content)
    except DamagedFileError as error:
        raise ConfigError(f"the metadata of Apache Kafka in the data directory cannot be read: {error}") from error


def _stored_topic(topic: TopicImage, image: MetadataImage, node_id: int, *, read_only: bool) -> StoredTopic:
    configs = image.configs.get((ConfigResourceType.TOPIC, topic.name), {})
    try:
        topic_config.check(configs)
    except ConfigError as error:
        raise ConfigError(f"topic {topic.name} has a setting that this broker does not have: {error}") from error
    assignments: list[tuple[int, ...]] = []
    states = []
    for number in range(len(topic.partitions)):
        found = topic.partitions.get(number)
        if found is None:
            raise ConfigError(f"topic {topic.name} has no partition {number}, but {len(topic.partitions)} partitions")
        replicas = found.replicas
        if replicas != (node_id,):
            if not read_only:
                raise ConfigError(
                    f"{topic.name}-{number} has replicas on nodes {list(replicas)}, and this directory is of node "
                    f"{node_id} alone: records that it lacks would be lost, and records written now would contradict "
                    "the other nodes. Serve a copy with --read-only (the property read.only)"
                )
            replicas = (node_id,) if node_id in replicas else replicas
        assignments.append(replicas)
        leads = replicas == (node_id,)
        # A replica that has led goes on in its epoch. Another one begins a new epoch, as after an election.
        epoch = found.leader_epoch + (leads and found.leader != node_id)
        states.append(
            PartitionState(
                replicas,
                node_id if leads else NO_LEADER,
                (node_id,) if leads else found.isr,
                epoch,
                found.partition_epoch,
            )
        )
    return Topic(topic.name, topic.topic_id, tuple(assignments), dict(configs)), states


def _files(image: MetadataImage, topics: list[StoredTopic]) -> dict[str, str]:
    """Return the text of each file of metadata."""
    credentials = {
        (MECHANISM_OF_TYPE[mechanism], user): ScramCredential(
            salt=one.salt, stored_key=one.stored_key, server_key=one.server_key, iterations=one.iterations
        )
        for (mechanism, user), one in image.credentials.items()
        if mechanism in MECHANISM_OF_TYPE
    }
    owned: dict[ConfigResourceType, dict[str, Mapping[str, str]]] = {kind: {} for kind in KEPT}
    for (kind, owner), settings in image.configs.items():
        if kind in owned:
            owned[ConfigResourceType(kind)][owner] = settings
    acls = [
        Acl(
            ResourceType.of(one.resource_type),
            one.resource_name,
            PatternType.of(one.pattern_type),
            one.principal,
            one.host,
            AclOperation.of(one.operation),
            AclPermissionType.of(one.permission_type),
        )
        for one in image.acls.values()
    ]
    tokens = [
        StoredToken(
            one.token_id,
            one.owner,
            one.requester,
            tuple(one.renewers),
            one.issue_timestamp,
            one.expiration_timestamp,
            one.max_timestamp,
        )
        for one in image.tokens.values()
    ]
    return {
        TOPICS_FILE: TopicsWriter().text(topics),
        SCRAM_FILE: credentials_text(credentials),
        TOKENS_FILE: tokens_text(tokens),
        QUOTAS_FILE: quotas_text(image.quotas),
        CONFIGS_FILE: configs_text(owned),
        ACLS_FILE: write_acls(acls),
        IDS_FILE: f"{image.next_producer_id}\n",
    }


def _warn_of_lost(text: str, image: MetadataImage) -> None:
    """Log the topics that this broker created before Apache Kafka ran on the directory, which set them aside."""
    lost = [topic.name for topic, _ in read_topics(text) if topic.topic_id not in image.topics]
    if lost:
        _logger.warning(
            "Apache Kafka has run on the data directory and does not know the topics %s; their folders may have been "
            "renamed to *-stray",
            ", ".join(lost),
        )
