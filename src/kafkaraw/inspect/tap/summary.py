"""What passed a tap, in total: requests, bytes, latencies and errors by client and API, and what stands out.

Memory is bounded: latencies are counted in buckets of 5 %, and clients beyond `CLIENTS_MAX` together. Pure. Start at
`Summary.add`; a new rule of what stands out is a method of `_ClientFacts` and a line in `Summary.remarks`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from kafkaraw.inspect.exchanges import Exchange, ExchangeKind
from kafkaraw.inspect.tap.lines import CLIENT_CHARS_MAX, ORDINARY_CODES, name_text
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name
from kafkaraw.readable import latency_text, size_text

CLIENTS_MAX: Final = 1000
OTHERS: Final = "(other clients)"
_BUCKET: Final = math.log(1.05)
_LEAST_S: Final = 1e-6
PERCENTILES: Final = (50, 95, 99)
# What stands out.
METADATA_SECONDS_MIN, METADATA_SHARE_MIN = 5, 0.5
BATCHES_MIN, ONE_RECORD_SHARE_MIN = 20, 0.8
REBALANCES_MIN: Final = 3
COMMITS_MIN, COMMITS_PER_S_MIN = 20, 5.0
CONNECTIONS_MIN, CONNECTIONS_PER_S_MIN = 20, 1.0
FETCHES_MIN, FETCHES_PER_S_MIN, EMPTY_FETCH_BYTES_MAX = 50, 20.0, 120
_SECONDS_KEPT: Final = 100_000


class Latencies:
    """A histogram of durations."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count: int = 0
        self.max_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        bucket = int(math.log(seconds / _LEAST_S) / _BUCKET) if seconds > _LEAST_S else 0
        self._buckets[bucket] += 1
        self.count += 1
        if seconds > self.max_s:
            self.max_s = seconds

    def percentile(self, percent: float) -> float:
        """Return the duration that this share of all does not exceed, in seconds, exact to 5 %; 0 of none."""
        wanted, seen = self.count * percent / 100, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_LEAST_S * math.exp((bucket + 1) * _BUCKET), self.max_s)
        return 0.0

    def in_ms(self) -> dict[str, float]:
        """Return the percentiles and the longest duration, in milliseconds."""
        found = {f"p{percent}": round(self.percentile(percent) * 1000, 3) for percent in PERCENTILES}
        return {**found, "max": round(self.max_s * 1000, 3)}


@dataclass(slots=True)
class Use:
    """What a client did with an API.

    Attributes:
        requests: how many.
        request_bytes, response_bytes: of all frames together.
        latencies: of the answers.
        errors: how often each code came.
    """

    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    errors: Counter[int] = field(default_factory=Counter)

    def add(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.requests += 1
        self.request_bytes += exchange.request_bytes
        self.response_bytes += exchange.response_bytes
        if exchange.latency_s is not None:
            self.latencies.add(exchange.latency_s)
        if exchange.errors:
            self.errors.update(error.code for error in exchange.errors)


class _ClientFacts:
    """What is counted of a client to see what stands out."""

    def __init__(self) -> None:
        self.began_s = math.inf
        self.ended_s = 0.0
        self.metadata_seconds: set[int] = set()
        self.batches = self.batches_of_one = 0
        self.throttled = self.throttled_ms_max = 0
        self.connections: set[int] = set()
        self.commits = self.fetches = self.empty_fetches = 0
        self.removed: dict[str, None] = {}
        self.lost = 0

    def add(self, exchange: Exchange) -> None:
        self.began_s = min(self.began_s, exchange.began_s)
        self.ended_s = max(self.ended_s, exchange.began_s)
        if len(self.connections) < _SECONDS_KEPT:
            self.connections.add(exchange.connection.number)
        self.batches += len(exchange.batches)
        self.batches_of_one += exchange.batches.count(1)
        if exchange.throttle_time_ms > 0:
            self.throttled += 1
            self.throttled_ms_max = max(self.throttled_ms_max, exchange.throttle_time_ms)
        name = exchange.api.name if exchange.api else ""
        if name == "Metadata" and len(self.metadata_seconds) < _SECONDS_KEPT:
            self.metadata_seconds.add(int(exchange.began_s))
        elif name == "OffsetCommit":
            self.commits += 1
        elif name == "Fetch":
            self.fetches += 1
            self.empty_fetches += 0 < exchange.response_bytes < EMPTY_FETCH_BYTES_MAX
        api = exchange.api
        if api is not None and exchange.is_known and exchange.version < api.supported.min:
            self.removed[exchange.name] = None
        self.lost += bool(exchange.ended) and exchange.ended.startswith("the broker closed")

    @property
    def span_s(self) -> float:
        return max(self.ended_s - self.began_s, 1.0)

    def remarks(self) -> Iterator[str]:
        span = self.span_s
        asked = len(self.metadata_seconds)
        if asked >= METADATA_SECONDS_MIN and asked >= METADATA_SHARE_MIN * span:
            yield (
                f"asks for Metadata in {asked} of {span:.0f} seconds: it creates a client for each use, a topic does "
                "not exist, or metadata.max.age.ms is too short"
            )
        if self.batches >= BATCHES_MIN and self.batches_of_one >= ONE_RECORD_SHARE_MIN * self.batches:
            yield (
                f"{self.batches_of_one} of {self.batches} batches have one record: it waits for each record (flush, "
                "get), or linger.ms is 0"
            )
        if self.throttled:
            yield (
                f"is throttled: {self.throttled} answers, for up to {self.throttled_ms_max} ms (quotas: "
                "kafkaraw quotas describe)"
            )
        if self.commits >= COMMITS_MIN and self.commits >= COMMITS_PER_S_MIN * span:
            yield f"commits offsets {self.commits / span:.0f} times a second: it commits each record"
        if len(self.connections) >= CONNECTIONS_MIN and len(self.connections) >= CONNECTIONS_PER_S_MIN * span:
            yield f"opened {len(self.connections)} connections in {span:.0f} s: it creates a client for each use"
        if (
            self.fetches >= FETCHES_MIN
            and self.fetches >= FETCHES_PER_S_MIN * span
            and self.empty_fetches >= 0.9 * self.fetches
        ):
            yield (
                f"{self.empty_fetches} of {self.fetches} Fetch answers have no records, {self.fetches / span:.0f} a "
                "second: fetch.max.wait.ms is too short"
            )
        if self.removed:
            yield f"uses versions that Kafka 4.0 has removed (KIP-896): {', '.join(self.removed)}"
        if self.lost:
            yield f"the broker closed the connection instead of answering {self.lost} requests: see the broker's log"


class Summary:
    """Counts exchanges."""

    def __init__(self) -> None:
        self.began_s: float | None = None
        self.ended_s: float = 0.0
        self._uses: dict[tuple[str, str], Use] = {}
        self._clients: dict[str, _ClientFacts] = {}
        self._generations: dict[str, set[int]] = {}
        self._first_error: dict[tuple[str, int], tuple[str, str]] = {}

    def add(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.began_s = exchange.began_s if self.began_s is None else min(self.began_s, exchange.began_s)
        self.ended_s = max(self.ended_s, exchange.began_s)
        client = exchange.client_id if exchange.client_id is not None else exchange.connection.client.rpartition(":")[0]
        if client not in self._clients and len(self._clients) >= CLIENTS_MAX:
            client = OTHERS
        api = exchange.api.name if exchange.api is not None else exchange.name
        if exchange.kind is not ExchangeKind.REQUEST:
            api = exchange.name
        use = self._uses.get((client, api))
        if use is None:
            use = self._uses[client, api] = Use()
        use.add(exchange)
        facts = self._clients.get(client)
        if facts is None:
            facts = self._clients[client] = _ClientFacts()
        facts.add(exchange)
        for error in exchange.errors:
            if error.code not in ORDINARY_CODES and len(self._first_error) < CLIENTS_MAX:
                about = ", ".join(map(name_text, (*exchange.topics, *exchange.subjects.groups)[:3]))
                self._first_error.setdefault((client, error.code), (api, about))
        self._note_generation(exchange, api)

    def _note_generation(self, exchange: Exchange, api: str) -> None:
        if api not in ("JoinGroup", "ConsumerGroupHeartbeat") or len(self._generations) >= CLIENTS_MAX:
            return
        body = exchange.response_body
        generation = getattr(body, "generation_id", getattr(body, "member_epoch", -1))
        if not exchange.errors and generation > 0:
            for group in exchange.subjects.groups:
                seen = self._generations.setdefault(group, set())
                if len(seen) < _SECONDS_KEPT:
                    seen.add(generation)

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each client and API, the clients in the order in which they came."""
        return [
            {
                "CLIENT": name_text(client, CLIENT_CHARS_MAX),
                "API": api,
                "REQUESTS": use.requests,
                "SENT": size_text(use.request_bytes),
                "RECEIVED": size_text(use.response_bytes),
                **{
                    f"P{percent}": latency_text(use.latencies.percentile(percent)) if use.latencies.count else None
                    for percent in PERCENTILES
                },
                "MAX": latency_text(use.latencies.max_s) if use.latencies.count else None,
                "ERRORS": {error_name(code): count for code, count in use.errors.most_common()},
            }
            for (client, api), use in self._uses.items()
        ]

    def remarks(self) -> list[str]:
        """Return what stands out, one sentence each."""
        found = []
        for client, facts in self._clients.items():
            found += [f"{name_text(client, CLIENT_CHARS_MAX)}: {remark}" for remark in facts.remarks()]
        for group, generations in self._generations.items():
            if len(generations) >= REBALANCES_MIN:
                found.append(
                    f"group {name_text(group)}: {len(generations)} rebalances (generations {min(generations)} to "
                    f"{max(generations)}): members come and go, or exceed max.poll.interval.ms or session.timeout.ms"
                )
        for (client, code), (api, about) in self._first_error.items():
            count = sum(use.errors[code] for (name, _), use in self._uses.items() if name == client)
            row = ERROR_TABLE.get(code)
            meaning = f": {row.meaning}" if row is not None else ""
            place = f"first in {api}{about and f' of {about}'}"
            shown = name_text(client, CLIENT_CHARS_MAX)
            found.append(f"{shown}: {count} x {error_name(code)}{meaning} ({place})")
        return found

    def document(self) -> dict[str, object]:
        """Return everything in JSON's types, latencies in milliseconds."""
        return {
            "began": self.began_s,
            "ended": self.ended_s if self.began_s is not None else None,
            "uses": [
                {
                    "client": client,
                    "api": api,
                    "requests": use.requests,
                    "request_bytes": use.request_bytes,
                    "response_bytes": use.response_bytes,
                    "latency_ms": use.latencies.in_ms(),
                    "errors": {error_name(code): count for code, count in use.errors.items()},
                }
                for (client, api), use in self._uses.items()
            ],
            "remarks": self.remarks(),
        }
