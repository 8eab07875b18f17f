"""Which settings of a producer go together, and what gives way to what: as Java's ProducerConfig has it.

`config.py` declares the settings, each by itself; here they are looked at side by side. Start at `settled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import replace

if TYPE_CHECKING:
    from kafkaraw.client.config import ProducerConfig

LEVELS: Final = {"gzip": (-1, 9), "lz4": (-131_072, 17), "zstd": (-131_072, 22)}
"""Lowest and highest `compression_level` of each codec that has levels."""


def settled(config: ProducerConfig, given: Mapping[str, object]) -> ProducerConfig:
    """Defaults give way to what was asked for; two explicit settings that exclude each other are an error.

    Source: ProducerConfig.postProcessParsedConfig (KIP-679, KIP-91).
    """
    _check_level(config)
    least = config.linger_ms + config.request_timeout_ms
    if config.delivery_timeout_ms < least:
        if "delivery_timeout_ms" in given:
            raise ConfigError(
                f"delivery_timeout_ms={config.delivery_timeout_ms} must be at least "
                f"linger_ms + request_timeout_ms = {least}"
            )
        config = replace(config, delivery_timeout_ms=least)
    conflict = _idempotence_conflict(config, given) if config.enable_idempotence else ""
    if conflict and "enable_idempotence" in given:
        raise ConfigError(f"{conflict} for enable_idempotence=True; change it or leave idempotence out")
    if config.transactional_id is not None:
        _check_transactional(config, conflict)
    return replace(config, enable_idempotence=False) if conflict else config


def _check_level(config: ProducerConfig) -> None:
    codec, level = config.compression_type, config.compression_level
    if level is None or codec not in LEVELS:
        return
    lowest, highest = LEVELS[codec]
    if not lowest <= level <= highest:
        raise ConfigError(
            f"compression_level={level} must be between {lowest} and {highest} for compression_type={codec!r}"
        )


def _check_transactional(config: ProducerConfig, conflict: str) -> None:
    if not config.transactional_id:
        raise ConfigError("transactional_id='' must not be empty; leave it out for a producer without transactions")
    if conflict or not config.enable_idempotence:
        raise ConfigError(f"{conflict or 'enable_idempotence=False must be True'} for transactional_id")


def _idempotence_conflict(config: ProducerConfig, given: Mapping[str, object]) -> str:
    """What keeps this producer from being idempotent, as the start of a message; empty when nothing does."""
    in_flight = "max_in_flight_requests_per_connection"
    if config.acks != -1:
        return f"acks={given['acks']!r} must be 'all'"
    if config.retries == 0:
        return "retries=0 must be at least 1"
    if config.max_in_flight_requests_per_connection > 5:
        return f"{in_flight}={config.max_in_flight_requests_per_connection} must be at most 5"
    return ""
