"""Tiered storage.

Configurations of Kafka 4.3's broker, with their defaults. Declarations only.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import CLUSTER_WIDE, Declared
from kafkaraw.protocol.config_codes import ConfigType

BOOLEAN: Final = ConfigType.BOOLEAN
INT: Final = ConfigType.INT
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING

REMOTE: Final = (
    Declared("remote.fetch.max.wait.ms", INT, "500",
             "longest wait, in milliseconds, for a read of tiered records", CLUSTER_WIDE),
    Declared("remote.list.offsets.request.timeout.ms", LONG, "30000",
             "milliseconds that an offset look-up in tiered storage may take", CLUSTER_WIDE),
    Declared("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824",
             "bytes of index files of tiered segments kept locally", CLUSTER_WIDE),
    Declared("remote.log.manager.copier.thread.pool.size", INT, "10",
             "threads that copy segments to tiered storage", CLUSTER_WIDE),
    Declared("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807",
             "most bytes copied to tiered storage a second", CLUSTER_WIDE),
    Declared("remote.log.manager.copy.quota.window.num", INT, "11", "samples that this limit is reckoned from"),
    Declared("remote.log.manager.copy.quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("remote.log.manager.expiration.thread.pool.size", INT, "10",
             "threads that delete expired tiered segments", CLUSTER_WIDE),
    Declared("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807",
             "most bytes fetched from tiered storage a second", CLUSTER_WIDE),
    Declared("remote.log.manager.fetch.quota.window.num", INT, "11", "samples that this limit is reckoned from"),
    Declared("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("remote.log.manager.follower.thread.pool.size", INT, "2",
             "threads that prepare followers for tiered partitions", CLUSTER_WIDE),
    Declared("remote.log.manager.task.interval.ms", LONG, "30000",
             "milliseconds between two runs of copying and expiring"),
    Declared("remote.log.manager.thread.pool.size", INT, "2", "threads for tiered storage, over all tasks"),
    Declared("remote.log.metadata.custom.metadata.max.bytes", INT, "128",
             "largest custom metadata of a tiered segment, in bytes"),
    Declared("remote.log.metadata.manager.class.name", STRING,
             "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
             "class that keeps the metadata of tiered segments"),
    Declared("remote.log.metadata.manager.class.path", STRING, None, "where that class is found"),
    Declared("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.",
             "prefix of the properties that are passed to that class"),
    Declared("remote.log.metadata.manager.listener.name", STRING, None,
             "listener through which that class reaches brokers"),
    Declared("remote.log.reader.max.pending.tasks", INT, "100", "reads of tiered records that may wait"),
    Declared("remote.log.reader.threads", INT, "10", "threads that read tiered records", CLUSTER_WIDE),
    Declared("remote.log.storage.manager.class.name", STRING, None, "class that stores tiered segments"),
    Declared("remote.log.storage.manager.class.path", STRING, None, "where that class is found"),
    Declared("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.",
             "prefix of the properties that are passed to that class"),
    Declared("remote.log.storage.system.enable", BOOLEAN, "false", "whether there is tiered storage"),
)  # fmt: skip
