"""The logs: where they are, when they roll, what is kept.

Configurations of Kafka 4.3's broker, with their defaults. Declarations only.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import CLUSTER_WIDE, Declared
from kafkaraw.protocol.config_codes import ConfigType

BOOLEAN: Final = ConfigType.BOOLEAN
DOUBLE: Final = ConfigType.DOUBLE
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING

LOGS: Final = (
    Declared("log.dir", LIST, "/tmp/kafka-logs", "the data directory, when log.dirs names none"),
    Declared("log.dirs", LIST, None, "the data directories"),
    Declared("cordoned.log.dirs", LIST, "", "data directories that get no new replicas", CLUSTER_WIDE),
    Declared("log.dir.failure.timeout.ms", LONG, "30000",
             "milliseconds that a broker may take to tell the controller of a broken directory"),
    Declared("num.recovery.threads.per.data.dir", INT, "2",
             "threads per directory for reading logs at the start", CLUSTER_WIDE),
    Declared("message.max.bytes", INT, "1048588", "largest batch accepted, in bytes", CLUSTER_WIDE),
    Declared("min.insync.replicas", INT, "1",
             "replicas that must have a batch before it is acknowledged to acks=all", CLUSTER_WIDE),
    Declared("compression.type", STRING, "producer",
             "codec of stored batches; producer keeps what was sent", CLUSTER_WIDE),
    Declared("compression.gzip.level", INT, "-1", "gzip level when the broker compresses", CLUSTER_WIDE),
    Declared("compression.lz4.level", INT, "9", "lz4 level when the broker compresses", CLUSTER_WIDE),
    Declared("compression.zstd.level", INT, "3", "zstd level when the broker compresses", CLUSTER_WIDE),
    Declared("log.cleanup.policy", LIST, "delete", "delete old segments, compact by key, or both", CLUSTER_WIDE),
    Declared("log.cleaner.backoff.ms", LONG, "15000",
             "milliseconds that the cleaner sleeps when there is nothing to clean", CLUSTER_WIDE),
    Declared("log.cleaner.dedupe.buffer.size", LONG, "134217728",
             "bytes of memory for removing duplicates, over all cleaner threads", CLUSTER_WIDE),
    Declared("log.cleaner.delete.retention.ms", LONG, "86400000",
             "how long tombstones are kept, in milliseconds", CLUSTER_WIDE),
    Declared("log.cleaner.enable", BOOLEAN, "true", "whether logs are compacted"),
    Declared("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", "how full the cleaner's buffer may be", CLUSTER_WIDE),
    Declared("log.cleaner.io.buffer.size", INT, "524288",
             "bytes of memory for reading and writing, over all cleaner threads", CLUSTER_WIDE),
    Declared("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308",
             "most bytes that the cleaner reads and writes a second", CLUSTER_WIDE),
    Declared("log.cleaner.max.compaction.lag.ms", LONG, "9223372036854775807",
             "longest time, in milliseconds, that a record stays uncompacted", CLUSTER_WIDE),
    Declared("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5",
             "share of a log that must be dirty before it is compacted", CLUSTER_WIDE),
    Declared("log.cleaner.min.compaction.lag.ms", LONG, "0",
             "shortest time, in milliseconds, that a record stays uncompacted", CLUSTER_WIDE),
    Declared("log.cleaner.threads", INT, "1", "threads that compact", CLUSTER_WIDE),
    Declared("log.flush.interval.messages", LONG, "9223372036854775807", "records between two syncs", CLUSTER_WIDE),
    Declared("log.flush.interval.ms", LONG, None,
             "milliseconds between two syncs; none is log.flush.scheduler.interval.ms", CLUSTER_WIDE),
    Declared("log.flush.offset.checkpoint.interval.ms", INT, "60000",
             "milliseconds between two writings of the recovery points"),
    Declared("log.flush.scheduler.interval.ms", LONG, "9223372036854775807",
             "milliseconds between two looks for logs to sync"),
    Declared("log.flush.start.offset.checkpoint.interval.ms", INT, "60000",
             "milliseconds between two writings of the log start offsets"),
    Declared("log.index.interval.bytes", INT, "4096", "bytes between two index entries", CLUSTER_WIDE),
    Declared("log.index.size.max.bytes", INT, "10485760", "largest index file, in bytes", CLUSTER_WIDE),
    Declared("log.local.retention.bytes", LONG, "-2",
             "bytes kept locally with tiered storage; -2 is log.retention.bytes", CLUSTER_WIDE),
    Declared("log.local.retention.ms", LONG, "-2",
             "time kept locally with tiered storage, in milliseconds; -2 is log.retention.ms", CLUSTER_WIDE),
    Declared("log.message.timestamp.after.max.ms", LONG, "3600000",
             "how far ahead of the broker a timestamp may be, in milliseconds", CLUSTER_WIDE),
    Declared("log.message.timestamp.before.max.ms", LONG, "9223372036854775807",
             "how far behind the broker a timestamp may be, in milliseconds", CLUSTER_WIDE),
    Declared("log.message.timestamp.type", STRING, "CreateTime",
             "whose clock stamps records: CreateTime or LogAppendTime", CLUSTER_WIDE),
    Declared("log.preallocate", BOOLEAN, "false", "reserve the space of a segment at once", CLUSTER_WIDE),
    Declared("log.retention.bytes", LONG, "-1", "bytes kept per partition; -1 is all", CLUSTER_WIDE),
    Declared("log.retention.check.interval.ms", LONG, "300000",
             "milliseconds between two looks for segments to delete"),
    Declared("log.retention.hours", INT, "168",
             "hours that records are kept, when neither milliseconds nor minutes are given"),
    Declared("log.retention.minutes", INT, None, "minutes that records are kept, when milliseconds are not given"),
    Declared("log.retention.ms", LONG, None,
             "milliseconds that records are kept; -1 is for ever; none is log.retention.minutes", CLUSTER_WIDE),
    Declared("log.roll.hours", INT, "168", "oldest age of an active segment in hours, when milliseconds are not given"),
    Declared("log.roll.jitter.hours", INT, "0", "random part of it in hours, when milliseconds are not given"),
    Declared("log.roll.jitter.ms", LONG, None,
             "random part of log.roll.ms; none is log.roll.jitter.hours", CLUSTER_WIDE),
    Declared("log.roll.ms", LONG, None,
             "oldest age of an active segment, in milliseconds; none is log.roll.hours", CLUSTER_WIDE),
    Declared("log.segment.bytes", INT, "1073741824", "largest segment, in bytes", CLUSTER_WIDE),
    Declared("log.segment.delete.delay.ms", LONG, "60000",
             "milliseconds before a removed file is unlinked", CLUSTER_WIDE),
)  # fmt: skip
