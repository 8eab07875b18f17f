"""Which nodes hold the replicas of a new partition: spread over racks first, then over nodes. Pure.

Racks are taken in turn, and so are the nodes of a rack; every partition starts one further on, which makes stripes.
Nodes that do not run are taken last, and never as the leader.
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
        racks: the rack of every node, by id; None when it has none.
        live: ids of the nodes that run; at least one.
        partitions: how many to place.
        factor: replicas of each; at most as many as there are nodes.
        start: number of the first stripe.
    """
    names = sorted({rack or NO_RACK for rack in racks.values()})
    by_rack = [sorted(node for node, rack in racks.items() if (rack or NO_RACK) == name) for name in names]
    return tuple(_stripe(by_rack, live, factor, start + index) for index in range(partitions))


def _stripe(by_rack: list[list[int]], live: Collection[int], factor: int, number: int) -> tuple[int, ...]:
    """One partition's replicas: a leader that runs, then a node of each rack in turn."""
    turn = number // len(by_rack)
    queues = []
    for at in range(len(by_rack)):
        nodes = by_rack[(number + at) % len(by_rack)]
        # Sorting is stable: the order within the rack stays, those that do not run go to its end.
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
