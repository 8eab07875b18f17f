"""What groups need to know of the cluster's topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kafkaraw.protocol import Uuid

_HASH_BYTES: Final = 8


class Topics(Protocol):
    """What is known of the cluster's topics.

    Attributes:
        version: grows with every change.
    """

    @property
    def version(self) -> int:
        """Grows with every change."""
        ...

    def find(self, name: str) -> tuple[Uuid, int] | None:
        """Id and number of partitions of a topic."""
        ...

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all topics that consumers may read by expression."""
        ...


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """A number that changes when one of these topics does, or comes or goes; 0 when none is there."""
    known = [(name, topics.find(name)) for name in sorted(names)]
    if not any(found for _, found in known):
        return 0
    text = repr([(name, bytes(found[0]), found[1]) for name, found in known if found is not None])
    import hashlib  # only for groups with a subscription: it takes 6 ms

    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big", signed=True)
