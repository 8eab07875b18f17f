"""The broker's settings about its log directories: schedules, checkpoints and the cleaner's resources.

What is kept, and when segments roll, are settings of topics: `topic_config`.
Source: org.apache.kafka.server.config.ServerLogConfigs, org.apache.kafka.storage.internals.log.CleanerConfig,
AbstractKafkaConfig.validateValues of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import INT_MAX, LONG_MAX, Setting, Value, flag, number, real, split_list, text
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

LOG_DIRS: Final = "log.dirs"
CORDONED: Final = "cordoned.log.dirs"
_DEDUPE_BYTES_MIN: Final = 1 << 20
_FOR_EVER: Final = -1

LOG_SETTINGS: Final = (
    Setting(LOG_DIRS, "", "the data directories; none keeps everything in memory", is_list=True),
    Setting(CORDONED, "", "data directories that get no new replicas; * is all", is_list=True),
    Setting("log.roll.hours", 168, "log.roll.ms in hours", low=1, high=INT_MAX),
    Setting("log.roll.jitter.hours", 0, "log.roll.jitter.ms in hours", low=0, high=INT_MAX),
    Setting("log.retention.hours", 168, "log.retention.ms in hours", high=INT_MAX),
    Setting("log.retention.minutes", _FOR_EVER, "log.retention.ms in minutes", high=INT_MAX),
    Setting("log.retention.check.interval.ms", 300_000,
            "milliseconds between two checks for segments to delete", low=1),
    Setting("log.initial.task.delay.ms", 30_000,
            "milliseconds from the start of the broker to the first check", low=0),
    Setting("log.flush.scheduler.interval.ms", LONG_MAX, "milliseconds between two checks for logs to sync"),
    Setting("log.flush.offset.checkpoint.interval.ms", 60_000,
            "milliseconds between two writings of the recovery points", low=0, high=INT_MAX),
    Setting("log.flush.start.offset.checkpoint.interval.ms", 60_000,
            "milliseconds between two writings of the log start offsets", low=0, high=INT_MAX),
    Setting("replica.high.watermark.checkpoint.interval.ms", 5_000,
            "milliseconds between two writings of the high watermarks"),
    Setting("log.cleaner.enable", True, "compact the topics whose cleanup.policy has compact"),
    Setting("log.cleaner.threads", 1, "threads that compact; this broker compacts in turns of its loop", low=0,
            high=INT_MAX),
    Setting("log.cleaner.backoff.ms", 15_000, "milliseconds between two checks for logs to compact", low=0),
    Setting("log.cleaner.dedupe.buffer.size", 134_217_728, "bytes of memory for the map of keys"),
    Setting("log.cleaner.io.buffer.load.factor", 0.9, "how full the map of keys may be"),
    Setting("log.cleaner.io.buffer.size", 524_288, "bytes that the cleaner reads at once", low=0, high=INT_MAX),
    Setting("log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308,
            "most bytes that the cleaner reads and writes in a second"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The resources of the log cleaner; the settings log.cleaner.* of Kafka.

    Attributes:
        is_enabled: whether logs are compacted.
    """

    is_enabled: bool
    backoff_ms: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    bytes_per_second_max: float


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of all logs of a broker.

    Attributes:
        directories: the data directories; empty keeps everything in memory.
        cordoned: data directories that get no new replicas.
        initial_delay_ms: from the start of the broker to the first run of each task, in milliseconds.
        retention_check_interval_ms: between two runs of retention, in milliseconds.
        flush_check_interval_ms: between two checks of flush.ms, in milliseconds.
        recovery_point_interval_ms: between two writings of the recovery points, in milliseconds; 0 writes them once.
        log_start_interval_ms: the same for the log start offsets.
        high_watermark_interval_ms: the same for the high watermarks.
    """

    directories: tuple[str, ...]
    cordoned: frozenset[str]
    initial_delay_ms: int
    retention_check_interval_ms: int
    flush_check_interval_ms: int
    recovery_point_interval_ms: int
    log_start_interval_ms: int
    high_watermark_interval_ms: int
    cleaner: CleanerSettings


def parse_logs(values: Mapping[str, Value]) -> LogSettings:
    """Return the settings of the logs.

    Raises:
        ConfigError: two of them contradict each other.
    """
    directories = tuple(split_list(text(values, LOG_DIRS)))
    doubled = sorted({path for path in directories if directories.count(path) > 1})
    if doubled:
        raise ConfigError(f"{LOG_DIRS}: {', '.join(doubled)} is listed twice; each directory can be listed once")
    return LogSettings(
        directories=directories,
        cordoned=_cordoned(text(values, CORDONED), directories),
        initial_delay_ms=number(values, "log.initial.task.delay.ms"),
        retention_check_interval_ms=number(values, "log.retention.check.interval.ms"),
        flush_check_interval_ms=number(values, "log.flush.scheduler.interval.ms"),
        recovery_point_interval_ms=number(values, "log.flush.offset.checkpoint.interval.ms"),
        log_start_interval_ms=number(values, "log.flush.start.offset.checkpoint.interval.ms"),
        high_watermark_interval_ms=number(values, "replica.high.watermark.checkpoint.interval.ms"),
        cleaner=_cleaner(values),
    )


def _cordoned(given: str, directories: tuple[str, ...]) -> frozenset[str]:
    paths = split_list(given)
    if paths == ["*"]:
        return frozenset(directories)
    missing = [path for path in paths if path not in directories]
    if missing:
        raise ConfigError(f"All entries in {CORDONED} must be present in {LOG_DIRS}: {', '.join(missing)} is not")
    return frozenset(paths)


def _cleaner(values: Mapping[str, Value]) -> CleanerSettings:
    threads = number(values, "log.cleaner.threads")
    size = number(values, "log.cleaner.dedupe.buffer.size")
    if flag(values, "log.cleaner.enable") and size // max(1, threads) <= _DEDUPE_BYTES_MIN:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1MiB per cleaner thread.")
    return CleanerSettings(
        is_enabled=flag(values, "log.cleaner.enable") and threads > 0,
        backoff_ms=number(values, "log.cleaner.backoff.ms"),
        dedupe_buffer_bytes=size,
        load_factor=real(values, "log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes=number(values, "log.cleaner.io.buffer.size"),
        bytes_per_second_max=real(values, "log.cleaner.io.max.bytes.per.second"),
    )


def check_times(defaults: Mapping[str, Value]) -> Mapping[str, Value]:
    """Check the defaults of topics as Kafka checks them at the start of a broker, and return them.

    Args:
        defaults: by topic setting.

    Raises:
        ConfigError: the retention time is 0, in whichever unit it was given.
    """
    if defaults["retention.ms"] == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    return defaults
