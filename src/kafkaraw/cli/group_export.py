"""`kafkaraw groups export`: the lag of groups for Prometheus, in records and in seconds.

Numbers are read from the cluster when Prometheus asks. The lag in seconds is the age of the oldest record that the
group has not committed yet; it is estimated from the ends of the log at earlier requests. This must not join a group or
commit.
Start at `GroupCollector`; `EndHistory` is the estimate.
"""

from __future__ import annotations

import fnmatch
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_tables import described_groups
from kafkaraw.client.admin.offsets import OffsetSpec
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.monitoring.history import EndHistory

if TYPE_CHECKING:
    from kafkaraw.client.admin.group_descriptions import GroupDescription
    from kafkaraw.client.blocking.admin import Admin
    from kafkaraw.client.committed import OffsetAndMetadata
    from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

AGE_MIN_S: Final = 1.0
"""Results younger than this are returned again: several Prometheus servers may ask at once."""


class GroupCollector:
    """A Prometheus collector over groups of a cluster.

    Args:
        cluster: the cluster.
        patterns: names of groups, with * and ?; empty for all groups.
        timeout_s: of one request of Prometheus.

    Raises:
        UsageError: `prometheus-client` is not installed.
    """

    def __init__(self, cluster: Cluster, patterns: Sequence[str], timeout_s: float) -> None:
        try:
            from prometheus_client import core
        except ImportError:
            raise UsageError("this needs prometheus-client: pip install 'kafkaraw[metrics]'") from None
        self._families: Any = core
        self._admin = cluster.admin()
        self._patterns = patterns
        self._timeout_s = timeout_s
        self._history = EndHistory()
        self._lock = threading.Lock()
        self._last: tuple[float, list[object]] | None = None

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def describe(self) -> list[object]:
        """Return nothing, so that registering the collector does not ask the cluster."""
        return []

    def collect(self) -> Iterator[object]:
        """Return the metric families; called by Prometheus' server, in any thread."""
        with self._lock:
            now_s = time.monotonic()
            if self._last is None or now_s - self._last[0] > AGE_MIN_S:
                self._last = (time.monotonic(), self._collected(now_s))
            yield from self._last[1]

    def _collected(self, now_s: float) -> list[object]:
        up = self._families.GaugeMetricFamily("kafkaraw_exporter_up", "Whether the cluster has answered.")
        took = self._families.GaugeMetricFamily("kafkaraw_exporter_seconds", "How long the cluster took to answer.")
        families: list[object] = []
        try:
            families = self._of_groups(now_s)
        except KafkaError as error:
            log.warning("the lag of groups cannot be read: %s", error)
        up.add_metric([], int(bool(families)))
        took.add_metric([], time.monotonic() - now_s)
        return [up, took, *families]

    def _of_groups(self, now_s: float) -> list[object]:
        admin, deadline_s = self._admin, now_s + self._timeout_s
        names = [
            each.group_id for each in admin.list_groups(timeout=_left(deadline_s)) if self._is_chosen(each.group_id)
        ]
        groups = described_groups(admin, names) if names else {}
        committed = admin.list_group_offsets(list(groups), timeout=_left(deadline_s)) if groups else {}
        ends = _ends(admin, committed, deadline_s)
        self._history.add(now_s, ends)
        return [*self._of_states(groups), *self._of_partitions(committed, ends, now_s)]

    def _is_chosen(self, group: str) -> bool:
        return not self._patterns or any(fnmatch.fnmatchcase(group, pattern) for pattern in self._patterns)

    def _of_states(self, groups: Mapping[str, GroupDescription]) -> Iterator[object]:
        gauge = self._families.GaugeMetricFamily
        members = gauge("kafkaraw_group_members", "Members of a group.", labels=["group"])
        state = gauge("kafkaraw_group_state", "1 for the state of a group.", labels=["group", "state", "type"])
        for name, group in groups.items():
            members.add_metric([name], len(group.members))
            state.add_metric([name, str(group.state), str(group.group_type)], 1)
        yield from (members, state)

    def _of_partitions(
        self,
        committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
        ends: Mapping[TopicPartition, int],
        now_s: float,
    ) -> Iterator[object]:
        gauge, labels = self._families.GaugeMetricFamily, ["group", "topic", "partition"]
        offset = gauge("kafkaraw_group_committed_offset", "Offset that a group has committed.", labels=labels)
        lag = gauge("kafkaraw_group_lag", "Offsets between the committed offset and the end.", labels=labels)
        behind = gauge("kafkaraw_group_lag_seconds", "Age of the oldest record that is not committed.", labels=labels)
        end_offset = gauge("kafkaraw_topic_end_offset", "End of a partition.", labels=labels[1:])
        for group, offsets in committed.items():
            for partition, each in offsets.items():
                values = [group, partition.topic, str(partition.partition)]
                offset.add_metric(values, each.offset)
                if partition in ends:
                    lag.add_metric(values, max(0, ends[partition] - each.offset))
                    behind.add_metric(values, self._history.lag_s(partition, each.offset, now_s) or 0.0)
        for partition, end in ends.items():
            end_offset.add_metric([partition.topic, str(partition.partition)], end)
        yield from (offset, lag, behind, end_offset)


def _ends(
    admin: Admin, committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]], deadline_s: float
) -> dict[TopicPartition, int]:
    """Return the ends of committed partitions, without those that are deleted or have no leader."""
    wanted = {partition for offsets in committed.values() for partition in offsets}
    while wanted:
        try:
            found = admin.list_offsets(dict.fromkeys(sorted(wanted), OffsetSpec.LATEST), timeout=_left(deadline_s))
            return {partition: place.offset for partition, place in found.items() if place is not None}
        except KafkaError as error:
            failed = wanted & error.failures.keys()
            if not failed:
                raise
            wanted -= failed
    return {}


def _left(deadline_s: float) -> float:
    return max(0.1, deadline_s - time.monotonic())


def export(cluster: Cluster, patterns: Sequence[str], host: str, port: int, timeout_s: float) -> tuple[Any, int]:
    """Start a server for Prometheus in the background.

    Returns:
        an object with `close()` that ends it, and the port that it listens on.

    Raises:
        UsageError: `prometheus-client` is not installed, or the port cannot be used.
    """
    collector = GroupCollector(cluster, patterns, timeout_s)
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        collector.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    return _Running(collector, server, thread), int(server.server_port)


class _Running:
    """The server and the client behind it."""

    def __init__(self, collector: GroupCollector, server: Any, thread: threading.Thread) -> None:  # noqa: ANN401
        self._collector, self._server, self._thread = collector, server, thread

    def close(self) -> None:
        """Stop the server, and close the client."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
        self._collector.close()
