"""What a run of the network benchmark is about; printed, stored, and given to every worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from bench.network.cores import APART


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one run.

    Attributes:
        round_trips: per process, one after the other on one connection; a tenth of it first, unmeasured.
        frame_bytes: of one large answer.
        frames: large answers per process.
        in_flight: large answers asked for at once.
        connections: opened per process, one after the other.
        topics: of the metadata.
        requests: for all topics' metadata, per process.
        pipelined: requests per process of which `window` are unanswered at once.
        window: see there.
        cores: "apart", the client on the first core and the servers on the others; "one", all on the first; "any", as
            the kernel likes, which moves them about while it is measured.
    """

    round_trips: int = 5000
    frame_bytes: int = 1 << 20
    frames: int = 2000
    in_flight: int = 5
    connections: int = 2000
    topics: int = 1000
    requests: int = 100
    pipelined: int = 20_000
    window: int = 100
    cores: str = APART

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
