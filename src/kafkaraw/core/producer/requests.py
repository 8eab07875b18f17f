"""The produce requests that have not been answered: which batches each carries, and how many a node has.

Bookkeeping only. Start at `Requests.make`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.core.producer.events import NO_IDENTITY, NumberedBatch, SendProduce
from kafkaraw.core.producer.partition import Shipment


class Requests:
    """The requests in flight.

    Args:
        in_flight_max: how many one node may have.
    """

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = in_flight_max
        self._requests: dict[int, tuple[int, Sequence[Shipment]]] = {}
        self._counts: dict[int, int] = {}
        self._next_id = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._requests)

    def room_at(self, node_id: int) -> bool:
        """Whether the node may get one more."""
        return self._counts.get(node_id, 0) < self._in_flight_max

    def make(self, node_id: int, shipments: Sequence[Shipment]) -> SendProduce:
        """Note that these batches go to a node, and give the request."""
        request_id = self._next_id
        self._next_id += 1
        self._requests[request_id] = (node_id, shipments)
        self._counts[node_id] = self._counts.get(node_id, 0) + 1
        numbered = [
            NumberedBatch(s.batch, s.identity or NO_IDENTITY, s.sequence, s.attempts + s.is_part) for s in shipments
        ]
        return SendProduce(request_id, node_id, numbered)

    def land(self, request_id: int) -> Sequence[Shipment]:
        """The request was answered, or never will be; gives its batches."""
        node_id, shipments = self._requests.pop(request_id)
        self._counts[node_id] -= 1
        return shipments
