"""The metrics of share groups, by Kafka's names: acknowledgements, expired locks, records in flight, groups by state.

`kafkaraw broker --metrics` serves them beside what clients push. `share_samples` reads them on the node's event loop;
`ShareGroupCollector` gives them to Prometheus, which asks in another thread.
Source: org.apache.kafka.server.share.metrics.{ShareGroupMetrics, SharePartitionMetrics};
org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.groups.states import GroupType
from kafkaraw.light_classes import NamedTuple

if TYPE_CHECKING:
    from kafkaraw.broker.groups.coordinator import GroupCoordinator
    from kafkaraw.broker.shares.partitions import LedShare, SharePartitions

ACKNOWLEDGEMENTS: Final = "kafka_server_ShareGroupMetrics_RecordAcknowledgements"
LOCK_TIMEOUTS: Final = "kafka_server_SharePartitionMetrics_AcquisitionLockTimeout"
IN_FLIGHT: Final = "kafka_server_SharePartitionMetrics_InFlightMessageCount"
IN_FLIGHT_BATCHES: Final = "kafka_server_SharePartitionMetrics_InFlightBatchCount"
GROUPS: Final = "kafka_server_group_coordinator_metrics_share_group_count"

MEANINGS: Final = {
    ACKNOWLEDGEMENTS: "Records that members have acknowledged, by type of the acknowledgement",
    LOCK_TIMEOUTS: "Records whose acquisition lock has expired",
    IN_FLIGHT: "Records of a share partition between its start offset and the next offset that is read",
    IN_FLIGHT_BATCHES: "Batches of these records with a state of their own",
    GROUPS: "Share groups, by state, on the node that coordinates them",
}
"""The meaning of each metric, by name; the first two are counters."""
COUNTERS: Final = frozenset({ACKNOWLEDGEMENTS, LOCK_TIMEOUTS})


class Sample(NamedTuple):
    """One value of one metric."""

    name: str
    labels: Mapping[str, str]
    value: float


class ShareGroupCollector:
    """A Prometheus collector over what the nodes of a broker or cluster count about share groups.

    Args:
        read: returns the values.
    """

    def __init__(self, read: Callable[[], list[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterator[object]:
        """Yield a family for each metric; called by the registry."""
        from prometheus_client import core

        by_name: dict[str, list[Sample]] = {}
        for sample in self._read():
            by_name.setdefault(sample.name, []).append(sample)
        for name, samples in by_name.items():
            labels = list(samples[0].labels)
            kind = core.CounterMetricFamily if name in COUNTERS else core.GaugeMetricFamily
            family = kind(name, MEANINGS[name], labels=labels)
            for sample in samples:
                family.add_metric([sample.labels[label] for label in labels], sample.value)
            yield family


def share_samples(node_id: int, shares: SharePartitions, coordinators: Iterable[GroupCoordinator]) -> list[Sample]:
    """Return the values of a node.

    Args:
        node_id: of the node.
        shares: its share partitions.
        coordinators: the group coordinators on it.
    """
    return [
        Sample(name, {"node": str(node_id), **labels}, value)
        for name, labels, value in [*_of_partitions(shares), *_of_groups(coordinators)]
    ]


def _of_partitions(shares: SharePartitions) -> Iterator[Sample]:
    for (group_id, kind), count in shares.counters.acknowledged.items():
        yield Sample(ACKNOWLEDGEMENTS, {"group": group_id, "ackType": kind.name.lower()}, count)
    for (group_id, topic, number), count in shares.counters.expired.items():
        yield Sample(LOCK_TIMEOUTS, {"group": group_id, "topic": topic, "partition": str(number)}, count)
    for led in shares.led():
        if led.machine is not None:
            yield Sample(IN_FLIGHT, _labels(led), led.machine.in_flight)
            yield Sample(IN_FLIGHT_BATCHES, _labels(led), led.machine.batches_in_flight)


def _of_groups(coordinators: Iterable[GroupCoordinator]) -> Iterator[Sample]:
    groups = (group for coordinator in coordinators for group in coordinator.groups())
    states = Counter(group.state_label for group in groups if group.type is GroupType.SHARE)
    for state, count in states.items():
        yield Sample(GROUPS, {"state": state}, count)


def _labels(led: LedShare) -> dict[str, str]:
    topic, number = led.partition.topic_partition
    return {"group": led.key.group_id, "topic": topic, "partition": str(number)}
