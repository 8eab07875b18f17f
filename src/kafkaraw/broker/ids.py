"""Random ids and salts, from a source of randomness that is passed in."""

from __future__ import annotations

from typing import Final, Protocol

from kafkaraw.protocol import Uuid

UUID_BITS: Final = 128
SALT_BITS: Final = 192


class RandomBits(Protocol):
    """A source of randomness, such as `random.Random`."""

    def getrandbits(self, k: int, /) -> int:
        """An integer of `k` random bits."""
        ...


def random_uuid(rng: RandomBits) -> Uuid:
    """A random id whose text form does not start with a dash, which command lines would take for an option."""
    while True:
        made = Uuid(rng.getrandbits(UUID_BITS).to_bytes(UUID_BITS // 8))
        if not str(made).startswith("-"):
            return made


def random_uuid_text(rng: RandomBits) -> str:
    """A random id as Java writes it, such as 123e4567-e89b-42d3-a456-426614174000."""
    from uuid import UUID  # only members of groups have such ids

    return str(UUID(int=rng.getrandbits(UUID_BITS), version=4))


def random_bytes(rng: RandomBits) -> bytes:
    """Return random bytes, of the length of salts and nonces."""
    return rng.getrandbits(SALT_BITS).to_bytes(SALT_BITS // 8)
