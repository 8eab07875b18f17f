"""What a client takes from its surroundings: the network, the wall clock, and randomness.

The one place in `client` where the real ones are chosen. Tests and simulations pass a `Runtime` of their own; nothing
else in this package may import `random` or `time` or make a network.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaraw.light_classes import dataclass
from kafkaraw.net import AsyncioNetwork, Clock, Network, SystemClock

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True)
class Runtime:
    """The surroundings of a client.

    Attributes:
        network: dials brokers.
        clock: wall clock, for record timestamps.
        rng: source of jitter and of the choice among equals; not of what must not be guessed.
        entropy: returns unpredictable bytes, as many as requested: nonces and salts. Another one than the
            operating system's is for simulations only.
    """

    network: Network
    clock: Clock
    rng: random.Random
    entropy: Callable[[int], bytes] = os.urandom


def system_runtime() -> Runtime:
    """The real network and clock, and the operating system's randomness: without state, so a fork shares none."""
    from secrets import SystemRandom  # here, for it brings hmac and hashlib with it

    return Runtime(AsyncioNetwork(), SystemClock(), SystemRandom())
