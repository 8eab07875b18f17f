"""Replica placement of new partitions: distributed over racks first, then over nodes. Pure.

Racks are used in turn, and so are the nodes of a rack. Each partition starts with the next node, which makes stripes.
Stopped nodes are used last, and never as the leader.
Source: org.apache.kafka.metadata.placement.StripedReplicaPlacer; where that starts at random, here the caller says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

NO_RACK = ""


def place_replicas(
    racks: Mapping[int, str | None], live: Collection[int], *, partitions: int, factor: int, start: int = 0
) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition, the leader first.

    Args:
        racks: the rack of every node, by id; None for a node without a rack.
        live: ids of the running nodes; at least one.
        partitions: number of partitions.
        factor: replication factor; at most the number of nodes.
        start: number of the first stripe.
    """
    names = sorted({rack or NO_RACK for rack in racks.values()})
    by_rack = [sorted(node for node, rack in racks.items() if (rack or NO_RACK) == name) for name in names]
    return tuple(_stripe(by_rack, live, factor, start + index) for index in range(partitions))


def _stripe(by_rack: list[list[int]], live: Collection[int], factor: int, number: int) -> tuple[int, ...]:
    """Return the replicas of one partition: a running node as leader, then a node of each rack in turn."""
    turn = number // len(by_rack)
    queues = []
    for at in range(len(by_rack)):
        nodes = by_rack[(number + at) % len(by_rack)]
        # Sorting is stable: the order within the rack is kept, and stopped nodes are moved to its end.
        queues.append(sorted(_rotated(nodes, turn + at), key=lambda node: node not in live))
    while queues[0][0] not in live:
        queues.append(queues.pop(0))
    chosen: list[int] = []
    while len(chosen) < factor:
        for queue in queues:
            if queue and len(chosen) < factor:
                chosen.append(queue.pop(0))
    return tuple(chosen)


def _rotated(nodes: list[int], by: int) -> list[int]:
    at = by % len(nodes)
    return nodes[at:] + nodes[:at]
