"""The settings of a topic: Kafka's names, defaults and limits, and the broker property each takes its default from.

Settings that this broker does not act on yet are accepted, kept and shown; one warning in the log says so.
Source: org.apache.kafka.storage.internals.log.LogConfig and ServerTopicConfigSynonyms, Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import (
    INT_MAX,
    LONG_MAX,
    Setting,
    Value,
    by_name,
    flag,
    invalid,
    nearest,
    number,
    real,
    split_list,
    text,
)
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

PRODUCER: Final = "producer"
LOG_APPEND_TIME: Final = "LogAppendTime"
COMPACT: Final = "compact"
DELETE: Final = "delete"
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER)
# Kafka's own way to have small segments in tests: not listed, not limited to 1 MiB.
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"

TOPIC_SETTINGS: Final[dict[str, Setting]] = by_name(
    (
        Setting("cleanup.policy", "delete", "delete old segments, compact by key, or both", is_list=True,
                choices=(COMPACT, DELETE)),
        Setting("compression.gzip.level", -1, "gzip level when the broker compresses", low=1, high=9,
                besides=-1),
        Setting("compression.lz4.level", 9, "lz4 level when the broker compresses", low=1, high=17),
        Setting("compression.type", PRODUCER, "codec of stored batches; producer: the codec of the producer",
                choices=COMPRESSION_TYPES),
        Setting("compression.zstd.level", 3, "zstd level when the broker compresses", low=-131072, high=22),
        Setting("delete.retention.ms", 86_400_000, "milliseconds that tombstones are kept", low=0),
        Setting("file.delete.delay.ms", 60_000, "milliseconds before a deleted file is unlinked", low=0),
        Setting("flush.messages", LONG_MAX, "records between two syncs", low=1),
        Setting("flush.ms", LONG_MAX, "milliseconds between two syncs", low=0),
        Setting("follower.replication.throttled.replicas", "", "replicas throttled as followers", is_list=True,
                acted_on=False),
        Setting("index.interval.bytes", 4096, "bytes between two index entries", low=0, high=INT_MAX),
        Setting("leader.replication.throttled.replicas", "", "replicas throttled as leaders", is_list=True,
                acted_on=False),
        Setting("local.retention.bytes", -2, "bytes kept locally with tiered storage", low=-2, acted_on=False),
        Setting("local.retention.ms", -2, "time kept locally with tiered storage", low=-2, acted_on=False),
        Setting("max.compaction.lag.ms", LONG_MAX,
                "longest time before compaction, in milliseconds", low=1),
        Setting("max.message.bytes", 1_048_588, "largest batch accepted, in bytes", low=0, high=INT_MAX),
        Setting("message.timestamp.after.max.ms", 3_600_000,
                "how far a timestamp may be ahead of the broker's clock, in milliseconds", low=0),
        Setting("message.timestamp.before.max.ms", LONG_MAX,
                "how far a timestamp may be behind the broker's clock, in milliseconds", low=0),
        Setting("message.timestamp.type", "CreateTime", "timestamp of records: set by the producer or by the broker",
                choices=("CreateTime", LOG_APPEND_TIME)),
        Setting("min.cleanable.dirty.ratio", 0.5, "dirty share that starts compaction", low=0, high=1),
        Setting("min.compaction.lag.ms", 0, "shortest time before compaction, in milliseconds", low=0),
        Setting("min.insync.replicas", 1, "replicas that must have a batch before it is acknowledged", low=1,
                high=INT_MAX),
        Setting("preallocate", False, "reserve the space of a segment at once"),
        Setting("remote.log.copy.disable", False, "stop copying to tiered storage", acted_on=False),
        Setting("remote.log.delete.on.disable", False, "delete tiered data when it is disabled", acted_on=False),
        Setting("remote.storage.enable", False, "tiered storage", acted_on=False),
        Setting("retention.bytes", -1, "bytes kept per partition; -1 is all", low=-LONG_MAX),
        Setting("retention.ms", 604_800_000,
                "milliseconds that records are kept; -1 is for ever", low=-1),
        Setting("segment.bytes", 1_073_741_824, "largest segment, in bytes", low=1_048_576, high=INT_MAX),
        Setting("segment.index.bytes", 10_485_760, "largest index file, in bytes", low=4, high=INT_MAX),
        Setting("segment.jitter.ms", 0, "random part of segment.ms", low=0),
        Setting("segment.ms", 604_800_000, "milliseconds after which a segment is rolled", low=1),
        Setting("unclean.leader.election.enable", False, "let a replica that is out of sync become the leader"),
    )
)  # fmt: skip
_INTERNAL: Final = Setting(INTERNAL_SEGMENT_BYTES, 0, "largest segment, without a lower limit", low=1, high=INT_MAX)

BROKER_PROPERTY: Final[dict[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


_THROTTLED: Final = tuple(name for name in TOPIC_SETTINGS if name.endswith(".throttled.replicas"))
_REPLICAS: Final = re.compile(r"\*?|\d+:\d+(,\d+:\d+)*")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configs of one topic that this broker acts on: the topic's own, else the broker's.

    Attributes:
        retention_ms: how long records are kept, in milliseconds; -1 for ever.
        retention_bytes: how many bytes of a partition are kept; negative: all.
        segment_jitter_ms: the random part of `segment_ms`, in milliseconds.
    """

    max_message_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool
    flush_messages: int
    flush_ms: int
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    compression_type: str
    compression_level: int | None
    is_compacted: bool
    deletes_old: bool
    stamps_on_append: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool

    @property
    def segments(self) -> SegmentSettings:
        """The settings that shape segments; compaction within `max.compaction.lag.ms` needs rolled ones."""
        segment_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        return SegmentSettings(
            segment_bytes=self.segment_bytes,
            segment_ms=segment_ms,
            segment_jitter_ms=self.segment_jitter_ms,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            preallocate=self.preallocate,
        )

    @classmethod
    def of(cls, own: Mapping[str, str], defaults: Mapping[str, Value]) -> TopicConfig:
        """What is in effect.

        Args:
            own: the topic's own settings, already checked.
            defaults: what the broker's properties say, by topic setting.
        """
        values = dict(defaults)
        values.update({name: _setting(name).parse(value) for name, value in own.items()})
        codec = text(values, "compression.type")
        level_name = f"compression.{codec}.level"
        level = values.get(level_name)
        # A codec's default is Kafka's way to say how it has always compressed: of lz4, 9 is the fast way, not level 9.
        has_level = isinstance(level, int) and level != _setting(level_name).default
        return cls(
            max_message_bytes=number(values, "max.message.bytes"),
            segment_bytes=number(values, INTERNAL_SEGMENT_BYTES if INTERNAL_SEGMENT_BYTES in own else "segment.bytes"),
            segment_ms=number(values, "segment.ms"),
            segment_jitter_ms=min(number(values, "segment.jitter.ms"), number(values, "segment.ms")),
            segment_index_bytes=number(values, "segment.index.bytes"),
            index_interval_bytes=number(values, "index.interval.bytes"),
            preallocate=flag(values, "preallocate"),
            flush_messages=number(values, "flush.messages"),
            flush_ms=number(values, "flush.ms"),
            retention_ms=number(values, "retention.ms"),
            retention_bytes=number(values, "retention.bytes"),
            file_delete_delay_ms=number(values, "file.delete.delay.ms"),
            delete_retention_ms=number(values, "delete.retention.ms"),
            min_compaction_lag_ms=number(values, "min.compaction.lag.ms"),
            max_compaction_lag_ms=number(values, "max.compaction.lag.ms"),
            min_cleanable_dirty_ratio=real(values, "min.cleanable.dirty.ratio"),
            compression_type=codec,
            compression_level=number(values, level_name) if has_level else None,
            is_compacted=COMPACT in split_list(text(values, "cleanup.policy")),
            deletes_old=DELETE in split_list(text(values, "cleanup.policy")),
            stamps_on_append=text(values, "message.timestamp.type") == LOG_APPEND_TIME,
            timestamp_before_max_ms=number(values, "message.timestamp.before.max.ms"),
            timestamp_after_max_ms=number(values, "message.timestamp.after.max.ms"),
            min_insync_replicas=number(values, "min.insync.replicas"),
            unclean_leader_election_enable=flag(values, "unclean.leader.election.enable"),
        )


def check(own: Mapping[str, str]) -> None:
    """Check the settings given for a topic.

    Raises:
        ConfigError: a name is unknown, a value is not allowed, or two of them contradict each other.
    """
    values = {name: _setting(name).parse(value) for name, value in own.items()}
    lowest, highest = (values.get(f"{bound}.compaction.lag.ms") for bound in ("min", "max"))
    if isinstance(lowest, int) and isinstance(highest, int) and lowest > highest:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})"
        )
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage."
        )
    for name in _THROTTLED:
        if name in own and not _REPLICAS.fullmatch(own[name]):
            raise invalid(
                name,
                f"[{own[name]}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )


def not_acted_on(own: Mapping[str, str]) -> list[str]:
    """Those of a topic's settings that this broker keeps but does not act on yet."""
    return sorted(name for name in own if not _setting(name).acted_on)


def _setting(name: str) -> Setting:
    if name == INTERNAL_SEGMENT_BYTES:
        return _INTERNAL
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise ConfigError(f"Unknown topic config name: {name}{nearest(name, TOPIC_SETTINGS)}")
    return setting
