"""Records and work items for tests of the worker's decisions."""

from __future__ import annotations

from kafkaraw.records import Record, TopicPartition
from kafkaraw.worker.schedule import WorkItem, lane_of
from kafkaraw.worker.settings import HandlerSpec, Ordering, Retries

ORDERS = TopicPartition("orders", 0)


def handler(retries: Retries | None = None, dead_letter_topic: str | None = "orders.dead") -> HandlerSpec:
    return HandlerSpec(
        name="bill",
        topics=("orders",),
        function=lambda record: None,
        retries=retries or Retries(),
        dead_letter_topic=dead_letter_topic,
    )


HANDLER = handler()


def record(offset: int, key: bytes | None = b"k", headers: tuple = (), topic: str = "orders") -> Record:
    return Record(topic, 0, offset, 1_000 + offset, 0, key, b"v%d" % offset, list(headers))


def item(
    offset: int,
    key: bytes | None = b"k",
    partition: TopicPartition = ORDERS,
    ordering: Ordering = Ordering.KEY,
    leader_epoch: int = -1,
) -> WorkItem:
    read = record(offset, key)
    return WorkItem(read, read, HANDLER, partition, lane_of(read, ordering), leader_epoch)
