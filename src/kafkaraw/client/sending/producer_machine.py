"""The producer machine that a producer's settings ask for."""

from __future__ import annotations

from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.network.engine import Engine
from kafkaraw.core.producer.machine import ProducerLimits, ProducerMachine
from kafkaraw.core.retry import Backoff


def machine_of(config: ProducerConfig, engine: Engine) -> ProducerMachine:
    """Make one that looks leaders up in the engine's metadata."""
    limits = ProducerLimits(
        idempotent=config.enable_idempotence,
        transactional=config.transactional_id is not None,
        in_flight_max=config.max_in_flight_requests_per_connection,
        request_size_max=config.max_request_size,
        delivery_timeout_ms=config.delivery_timeout_ms,
        retries=config.retries,
    )
    backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    return ProducerMachine(limits, engine.cluster, lambda attempt: int(backoff.delay_ms(attempt, engine.runtime.rng)))
