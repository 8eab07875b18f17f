"""What a benchmark run is about: one value that the driver prints and stores, and that every worker is given."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Self

SILENCE_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one run, the same for both clients.

    Attributes:
        records: per run of a workload.
        value_bytes: size of each value.
        key_bytes: size of each key in the keyed workload.
        partitions: of the topic.
        acks: "0", "1" or "all".
        idempotent: whether both producers are.
        compression: codec of the producers.
        batch_size: bytes at which both producers close a batch.
        linger_ms: how long both wait for more records.
        queue_messages: confluent's `queue.buffering.max.messages`.
    """

    records: int = 300_000
    value_bytes: int = 100
    key_bytes: int = 20
    partitions: int = 4
    acks: str = "all"
    idempotent: bool = False
    compression: str = "none"
    batch_size: int = 262_144
    linger_ms: int = 5
    queue_messages: int = 500_000

    def to_json(self) -> str:
        """As text for a worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))

    def describe(self) -> str:
        """One line that a reader needs to repeat the run."""
        return ", ".join(f"{name}={value}" for name, value in asdict(self).items())


def values(settings: Settings) -> list[bytes]:
    """A thousand different values that look like the JSON of a sensor: compressible, but not absurdly so."""
    made = []
    for number in range(1000):
        text = b'{"sensor": %d, "reading": %d.%d, "unit": "mm", "at": "2013-%02d-%02dT%02d:00Z", "note": "' % (
            number % 97, number * 7919 % 1000, number % 10, number % 12 + 1, number % 28 + 1, number % 24
        )  # fmt: skip
        filler = b"%x" % (number * 2654435761 % 2**32)
        padded = text + filler * (settings.value_bytes // len(filler) + 1)
        made.append(padded[: settings.value_bytes])
    return made


def keys(settings: Settings) -> list[bytes]:
    """A thousand different keys."""
    return [
        (b"key-%016d-" % (number * 7919)).ljust(settings.key_bytes, b"k")[: settings.key_bytes]
        for number in range(1000)
    ]


def pairs(settings: Settings, *, keyed: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """As many values and keys as the run has records, out of a thousand that stay in memory."""
    endless_keys = itertools.cycle(keys(settings)) if keyed else itertools.repeat(None)
    return itertools.islice(zip(itertools.cycle(values(settings)), endless_keys), settings.records)
