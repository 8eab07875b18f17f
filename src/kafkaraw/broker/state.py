"""What one broker node knows and holds, without any network: handlers work on it, `server` puts it on the wire.

Facts about the cluster are in `catalog` (to be shared when there are several nodes); the partitions that this node
leads, producer ids and committed offsets are its own. Everything ambient is passed in.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kafkaraw.broker import topic_config
from kafkaraw.broker.accounts import Accounts, RandomBits
from kafkaraw.broker.acl.authorizer import Authorizer
from kafkaraw.broker.acl.rules import Acl, AclRules
from kafkaraw.broker.acl.stored import ACLS_FILE, read_acls, write_acls
from kafkaraw.broker.catalog import Catalog, Topic
from kafkaraw.broker.config import BrokerConfig
from kafkaraw.broker.log.partition_log import is_segment
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.offsets import OffsetStore
from kafkaraw.broker.old_releases import Offer
from kafkaraw.broker.partition import Partition, folder_name
from kafkaraw.broker.producer_ids import ProducerIds
from kafkaraw.broker.quotas.table import QUOTAS_FILE, QuotaTable
from kafkaraw.broker.quotas.throttling import Throttling
from kafkaraw.broker.scram_credentials import SCRAM_FILE
from kafkaraw.broker.topic_config import TopicConfig
from kafkaraw.broker.topic_creation import Plan
from kafkaraw.broker.topic_files import (
    META_FILE,
    PARTITION_FILE,
    TOPICS_FILE,
    MetaProperties,
    read_meta,
    read_partition_metadata,
    read_topics,
    write_meta,
    write_partition_metadata,
    write_topics,
)
from kafkaraw.errors import ConfigError
from kafkaraw.net import Clock
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")

STRAY_SUFFIX: Final = "-stray"
DELETE_SUFFIX: Final = "-delete"
METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")  # Kafka's own __cluster_metadata
UUID_BITS: Final = 128
FOLDER_NAME_MAX: Final = 255


class BrokerState:
    """One node's state.

    Args:
        config: the broker's properties.
        storage: where logs are.
        clock: wall clock.
        rng: for ids.
        max_versions: the Kafka release whose versions are offered at most; None is the newest.

    Raises:
        ConfigError: the release is not a known one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: LogStorage,
        clock: Clock,
        rng: RandomBits,
        *,
        max_versions: str | None = None,
    ) -> None:
        self.config = config
        self.offer = Offer(max_versions)
        self.clock = clock
        self.node_id = config.node_id
        self.offsets = OffsetStore()
        self._storage = storage
        self._rng = rng
        self.accounts = Accounts(config.security, clock, rng, self._save_credentials)
        quotas = QuotaTable(lambda text: storage.write_text(ROOT, QUOTAS_FILE, text))
        self.throttling = Throttling(quotas, clock, config.quota_windows, config.mutation_windows)
        self._partitions: dict[TopicPartition, Partition] = {}
        self.producer_ids = ProducerIds(storage)
        self.catalog = Catalog("", config.node_id)

    def open(self) -> None:
        """Read what is on the storage, or begin a new cluster there.

        Raises:
            ConfigError: the storage belongs to another node, or its files are damaged.
            OSError: it cannot be read or written.
        """
        self.catalog.cluster_id = self._open_meta().cluster_id
        text = self._storage.read_text(ROOT, TOPICS_FILE)
        for topic in read_topics(text) if text is not None else []:
            self.catalog.add(topic)
        credentials = self._storage.read_text(ROOT, SCRAM_FILE)
        if credentials is not None:
            self.accounts.credentials.load(credentials)
        self.catalog.authorizer = self._open_authorizer()
        quotas = self._storage.read_text(ROOT, QUOTAS_FILE)
        if quotas is not None:
            self.throttling.table.load(quotas)
        self._set_strays_aside()
        for topic in self.catalog.topics():
            self._open_partitions(topic)

    def _save_credentials(self, text: str) -> None:
        self._storage.write_text(ROOT, SCRAM_FILE, text, private=True)

    def _open_meta(self) -> MetaProperties:
        text = self._storage.read_text(ROOT, META_FILE)
        if text is None:
            meta = MetaProperties(str(self.new_uuid()), self.node_id, str(self.new_uuid()))
            self._storage.write_text(ROOT, META_FILE, write_meta(meta))
            return meta
        meta = read_meta(text)
        if meta.node_id != self.node_id:
            raise ConfigError(f"node.id: the data directory belongs to node {meta.node_id}, not {self.node_id}")
        return meta

    def _open_authorizer(self) -> Authorizer | None:
        access = self.config.access
        if access is None:
            return None
        text = self._storage.read_text(ROOT, ACLS_FILE)
        rules = AclRules(read_acls(text) if text is not None else ())
        everyone = access.allow_everyone_if_no_acl_found
        return Authorizer(rules, access.super_users, allow_everyone_if_no_acl_found=everyone)

    def change_acls(self, authorizer: Authorizer, *, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove access control entries, for good.

        Args:
            authorizer: the one that is to act on them.
            add: entries; those that are there already stay as they are.
            remove: entries that are there.

        Raises:
            OSError: the storage is full or broken; nothing is changed.
        """
        changed = AclRules(authorizer.rules)
        for acl in remove:
            changed.remove(acl)
        for acl in add:
            changed.add(acl)
        self._storage.write_text(ROOT, ACLS_FILE, write_acls(changed))
        authorizer.rules = changed

    def _set_strays_aside(self) -> None:
        """Folders that no topic claims are from a creation or deletion that a crash cut short.

        They are renamed, as Kafka does it, rather than removed: somebody may have put them there.
        """
        topics = {folder_name(key): topic for topic in self.catalog.topics() for key in topic.partitions()}
        for folder in self._storage.folders():
            if folder.endswith(DELETE_SUFFIX):
                self._storage.remove_folder(folder)
            elif not folder.endswith(STRAY_SUFFIX) and self._is_stray(folder, topics.get(folder)):
                stray = aside_name(folder, self.new_uuid(), STRAY_SUFFIX)
                _logger.warning("%s belongs to no topic; renamed to %s", folder, stray)
                self._storage.rename_folder(folder, stray)

    def _is_stray(self, folder: str, topic: Topic | None) -> bool:
        text = self._storage.read_text(folder, PARTITION_FILE)
        found = None if text is None else read_partition_metadata(text)
        if topic is not None:
            return found is not None and found != topic.topic_id
        return text is not None or any(is_segment(name) for name in self._storage.files(folder))

    def _open_partitions(self, topic: Topic) -> None:
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        metadata = write_partition_metadata(topic.topic_id)
        for key in topic.partitions():
            folder = folder_name(key)
            self._storage.make_folder(folder)
            if self._storage.read_text(folder, PARTITION_FILE) != metadata:
                self._storage.write_text(folder, PARTITION_FILE, metadata, durable=False)
            expiration_ms = self.config.producer_id_expiration_ms
            partition = Partition(key, self._storage, config, self.clock, producer_expiration_ms=expiration_ms)
            partition.open()
            self._partitions[key] = partition

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition, when this node leads it."""
        return self._partitions.get(topic_partition)

    def partitions_of(self, topic: Topic) -> list[Partition]:
        """The partitions of a topic that this node leads."""
        return [self._partitions[key] for key in topic.partitions() if key in self._partitions]

    def create_topic(self, plan: Plan) -> Topic:
        """Create a topic.

        Raises:
            OSError: the storage is full or broken; there is no such topic then.
        """
        topic = Topic(plan.name, self._new_topic_id(), plan.assignments, dict(plan.configs))
        try:
            self._open_partitions(topic)
            self._storage.write_text(ROOT, TOPICS_FILE, write_topics([*self.catalog.topics(), topic]))
        except OSError:
            self._drop_partitions(topic)
            raise
        self.catalog.add(topic)
        unused = topic_config.not_acted_on(topic.configs)
        note = f"; this broker does not act on {', '.join(unused)}" if unused else ""
        _logger.info("created topic %s with %d partition(s)%s", topic.name, topic.partitions_count, note)
        return topic

    def _new_topic_id(self) -> Uuid:
        while True:
            topic_id = self.new_uuid()
            if topic_id not in (ZERO_UUID, METADATA_TOPIC_ID) and self.catalog.topic_by_id(topic_id) is None:
                return topic_id

    def new_uuid(self) -> Uuid:
        """A random id whose text form does not start with a dash, which command lines would take for an option."""
        while True:
            made = Uuid(self._rng.getrandbits(UUID_BITS).to_bytes(UUID_BITS // 8))
            if not str(made).startswith("-"):
                return made

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, its records, and the offsets committed in it.

        Raises:
            OSError: the storage is broken; the topic is still there.
        """
        left = [other for other in self.catalog.topics() if other is not topic]
        self._storage.write_text(ROOT, TOPICS_FILE, write_topics(left))
        self.catalog.remove(topic)
        self.offsets.forget_topic(topic.name)
        self._drop_partitions(topic)
        _logger.info("deleted topic %s", topic.name)

    def _drop_partitions(self, topic: Topic) -> None:
        """Remove a topic's folders; renamed first, so that a crash leaves nothing that a new topic could take over."""
        for key in topic.partitions():
            partition = self._partitions.pop(key, None)
            folder = folder_name(key)
            if partition is not None:
                partition.remove()
                doomed = aside_name(folder, topic.topic_id, DELETE_SUFFIX)
                self._storage.rename_folder(folder, doomed)
                folder = doomed
            self._storage.remove_folder(folder)

    def close(self, *, sync: bool = True) -> None:
        """Let go of the storage.

        Args:
            sync: write everything out for good first; without it, it is as after a crash.
        """
        for partition in self._partitions.values():
            partition.close(sync=sync)
        self._partitions.clear()
        self._storage.close()


def aside_name(folder: str, unique: Uuid, suffix: str) -> str:
    """Kafka's name for a partition folder that is to be removed or ignored, cut to what file systems take."""
    ending = f".{unique.hex()}{suffix}"
    return folder[: FOLDER_NAME_MAX - len(ending)] + ending
