"""Apache Kafka and the embedded broker, set up alike: one command line runs against both, and the results are compared.

The fixture `both_brokers` (conftest.py) is the pair. Start at `Broker`; `alike` are the properties of both. What the
two may differ in is normalised here, and nowhere else: `Broker.normalised` replaces ids, addresses, times and paths.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka

_OF_BOTH: Final = {
    "num.partitions": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret of both",
}
_OF_THE_CONTROLLER: Final = ("process.roles", "controller.listener.names", "listener.security.protocol.map")

_VARIES: Final = frozenset(
    {
        "topic_id", "cluster_id", "directory_id",
        "port", "producer_id", "high_watermark", "log_end_offset", "epoch", "consumer_id",
        "current_epoch", "target_epoch", "group_epoch", "target_assignment_epoch",
        "ts", "total", "usable", "size",
        "seconds", "mb", "mb_per_s", "records_per_s", "latency_avg_ms", "latency_max_ms", "p50_ms", "p95_ms", "p99_ms",
        "p99.9_ms", "rebalance_ms", "fetch_ms", "fetch_mb_per_s", "fetch_records_per_s",
    }
)  # fmt: skip
"""Values of JSON that differ between any two clusters; their types are compared."""

_VARYING_TEXT: Final = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\bcluster [\w-]{22}(?![\w-])"), "cluster ID"),
    (re.compile(r"\boffers \d+ APIs"), "offers APIs"),
    # docs/broker.md: the embedded broker's controller does not know which directories are cordoned
    (re.compile(r" or some brokers have all their log directories cordoned\b"), ""),
)


@dataclass(frozen=True)
class Broker:
    """A running broker with two log directories.

    Attributes:
        name: of the implementation.
        servers: its address.
        directories: its log directories.
    """

    name: str
    servers: str
    directories: tuple[str, str]

    def arguments(self, words: list[str]) -> list[str]:
        """Return arguments with the paths of this broker's directories in place of DIR0 and DIR1."""
        first, second = self.directories
        return [word.replace("DIR0", first).replace("DIR1", second) for word in words]

    def normalised(self, printed: str) -> Any:
        """Return what a command printed without what differs between any two clusters, JSON as objects."""
        for name, path in zip(("DIR0", "DIR1"), self.directories, strict=True):
            printed = printed.replace(path, name)
        printed = re.sub(rf"\b{self.servers.rpartition(':')[2]}\b", "PORT", printed)
        for pattern, instead in _VARYING_TEXT:
            printed = pattern.sub(instead, printed)
        for parsed in (json.loads, lambda text: [json.loads(line) for line in text.splitlines()]):
            with contextlib.suppress(ValueError):
                return _without_what_varies(parsed(printed))
        return printed


@contextlib.contextmanager
def brokers_alike(folder: Path) -> Iterator[tuple[Broker, Broker]]:
    """Start Apache Kafka and the embedded broker with the same properties.

    Args:
        folder: for the directories of both.

    Yields:
        Apache Kafka, and the embedded broker.
    """
    theirs, ours = ([str(folder / name / part) for part in ("logs", "more")] for name in ("apache", "kafkaraw"))
    of_kafka = {name: value for name, value in SINGLE_NODE.items() if name not in _OF_THE_CONTROLLER}
    with (
        ApacheKafka(folder / "apache", {**_OF_BOTH, "log.dirs": ",".join(theirs)}) as apache,
        EmbeddedBroker(data_dir=ours, properties={**of_kafka, **_OF_BOTH}) as embedded,
    ):
        yield (
            Broker("Apache Kafka", apache.bootstrap_servers, (theirs[0], theirs[1])),
            Broker("kafkaraw", embedded.bootstrap_servers, (ours[0], ours[1])),
        )


def _without_what_varies(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: f"any {type(one).__name__}" if name in _VARIES and one is not None else _without_what_varies(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_without_what_varies(one) for one in value if not _of_eligible_replicas(one)]
    return value


def _of_eligible_replicas(row: object) -> bool:
    """Return whether a row is the setting whose source depends on eligible leader replicas.

    Apache Kafka formats new clusters with level 1 of that feature, and sets min.insync.replicas for all brokers then.
    The embedded broker does not have the feature.
    """
    return isinstance(row, dict) and row.get("name") == "min.insync.replicas"
