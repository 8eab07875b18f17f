"""Conversations about records in share groups, to be had with two brokers; see `group_questions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw import Admin, ConfigResource, NewTopic, Producer
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafkaraw.protocol.messages.share_fetch import AcknowledgementBatch as FetchedBatch
from kafkaraw.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafkaraw.records import Batch, iter_headers
from tests.interop.group_questions import READY_SECONDS, Table
from tests.interop.share_group_questions import MEMBER, heartbeat, offsets
from tests.interop.share_state_questions import ready

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acks = list[tuple[int, int, list[int]]]


class Shared:
    """A topic of its own with records, and a member that has its partition."""

    def __init__(self, table: Table, batches: list[int], **configs: str) -> None:
        self.table, self.client = table, table.client()
        self.name = f"shared-{table.group_id}"
        with Admin(bootstrap_servers=table.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(self.name, 1)])
            resource = ConfigResource.group(table.group_id)
            settings = {"auto_offset_reset": "earliest", **configs}
            admin.alter_configs(
                {resource: {f"share.{name.replace('_', '.')}": value for name, value in settings.items()}}
            )
        self.topic_id = Uuid(
            self.client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.name)]), 12).topics[0].topic_id
        )
        table.topic_id = self.topic_id
        ready(table)
        self.produce(batches)
        self.epoch = 0
        self.join()

    def join(self) -> None:
        """Send heartbeats until the partition is assigned."""
        deadline = time.monotonic() + READY_SECONDS
        epoch = 0
        while True:
            answer = self.client.ask(heartbeat(self.table, epoch=epoch, subscribed_topic_names=[self.name]), 1)
            epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return
            assert time.monotonic() < deadline and not answer.error_code, answer
            time.sleep(0.05)

    def produce(self, batches: list[int]) -> None:
        """Write batches with these numbers of records."""
        with Producer(
            bootstrap_servers=self.table.bootstrap_servers, linger_ms=1_000, batch_size=1_000_000
        ) as producer:
            for count in batches:
                for _ in range(count):
                    producer.send(self.name, b"x", partition=0)
                producer.flush()

    def fetch(self, acks: Acks | None = None, member: str = MEMBER, client: Any = None, **fields: Any) -> Any:
        """What a ShareFetch returns: errors, acquired ranges, and the offsets in the records."""
        batches = [
            FetchedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks or []
        ]
        epoch = fields.pop("epoch", self.epoch)
        part = FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            **{
                "group_id": self.table.group_id,
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": 300,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [FetchTopic(topic_id=self.topic_id, partitions=[part])],
                "forgotten_topics_data": [],
                **fields,
            }
        )
        answer = (client or self.client).ask(request, 2)
        if epoch == self.epoch and not answer.error_code:
            self.epoch = epoch + 1
        told = [answer.error_code]
        for topic in answer.responses:
            for each in topic.partitions:
                ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in each.acquired_records]
                found = [
                    record.offset
                    for header, wire in iter_headers(memoryview(bytes(each.records or b"")))
                    for record in Batch("t", 0, wire, start_offset=header.base_offset)
                ]
                told += [each.error_code, each.acknowledge_error_code, each.acknowledge_error_message, ranges, found]
        return told

    def acknowledge(self, *acks: tuple[int, int, list[int]], member: str = MEMBER, **fields: Any) -> Any:
        """What a ShareAcknowledge returns."""
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        epoch = fields.pop("epoch", self.epoch)
        part = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id=self.table.group_id,
            member_id=member,
            share_session_epoch=epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[part])],
            **fields,
        )
        answer = self.client.ask(request, 2)
        if epoch == self.epoch and not answer.error_code:
            self.epoch += 1
        return [answer.error_code] + [
            (each.error_code, each.error_message) for topic in answer.responses for each in topic.partitions
        ]

    def stored(self) -> Any:
        """The start offset and the lag."""
        answer = self.client.ask(offsets(self.table, 0, topic=self.name), 1).groups[0].topics[0].partitions[0]
        return answer.start_offset, answer.lag


def _life(table: Table) -> Iterator[Any]:
    """Records are acquired, accepted, released and rejected."""
    shared = Shared(table, [10, 10, 5])
    yield shared.fetch(max_records=10)
    yield shared.fetch(max_records=10)
    yield shared.fetch()
    yield shared.fetch()
    yield shared.acknowledge((0, 4, [ACCEPT]), (5, 9, [ACCEPT, RELEASE, REJECT, ACCEPT, ACCEPT]))
    yield shared.stored()
    yield shared.fetch([(10, 19, [ACCEPT])])
    yield shared.acknowledge((6, 6, [ACCEPT]))
    yield shared.stored()
    yield shared.acknowledge((20, 24, [RELEASE]))
    yield shared.fetch()
    yield shared.acknowledge((20, 24, [ACCEPT]))
    yield shared.stored()
    shared.produce([3])
    yield shared.fetch()
    yield shared.acknowledge((25, 27, [ACCEPT]), epoch=-1)
    yield shared.stored()


def _refused(table: Table) -> Iterator[Any]:
    """Acknowledgements and sessions that are refused."""
    shared = Shared(table, [10, 5])
    yield shared.acknowledge((0, 0, [ACCEPT]))
    yield shared.acknowledge((0, 0, [ACCEPT]), epoch=3)
    yield shared.fetch(epoch=3)
    yield shared.fetch([(0, 0, [ACCEPT])])
    yield shared.fetch(epoch=-1)
    yield shared.fetch(max_records=5)
    yield shared.fetch(epoch=7)
    yield shared.acknowledge((0, 100, [ACCEPT]))
    yield shared.acknowledge((50, 60, [ACCEPT]))
    yield shared.acknowledge((3, 1, [ACCEPT]))
    yield shared.acknowledge((0, 9, [ACCEPT, ACCEPT]))
    yield shared.acknowledge((0, 9, []))
    yield shared.acknowledge((0, 9, [9]))
    yield shared.acknowledge((5, 9, [ACCEPT]), (0, 4, [ACCEPT]))
    yield shared.acknowledge((0, 9, [RENEW]))
    yield shared.acknowledge((0, 9, [RENEW]), is_renew_ack=True)
    yield shared.acknowledge((0, 9, [ACCEPT]))
    yield shared.acknowledge((0, 9, [ACCEPT]))
    yield shared.fetch(max_records=3, share_acquire_mode=1)
    yield shared.acknowledge((12, 12, [ACCEPT]), (13, 13, [ACCEPT]))
    yield shared.acknowledge((10, 14, [ACCEPT]))
    yield shared.acknowledge((10, 12, [ACCEPT]))
    yield shared.acknowledge((10, 12, [ACCEPT]))
    yield shared.fetch([(0, 1, [ACCEPT])], is_renew_ack=True)
    yield shared.fetch(member="m" * 40)
    yield shared.fetch(group_id=None)


def _limits(table: Table) -> Iterator[Any]:
    """The limit of records, in both modes, and ranges by batch size."""
    shared = Shared(table, [4, 4, 4, 4, 4, 4])
    yield shared.fetch(max_records=3, share_acquire_mode=1)
    yield shared.fetch(max_records=3, share_acquire_mode=1)
    yield shared.fetch(max_records=3)
    yield shared.fetch(max_records=16, batch_size=4)
    yield shared.acknowledge((0, 23, [RELEASE]))
    yield shared.fetch(max_records=2, share_acquire_mode=1)
    yield shared.fetch(max_records=9)
    yield shared.fetch()
    yield shared.fetch(max_records=0)
    yield shared.fetch(max_bytes=0)


def _two_members(table: Table) -> Iterator[Any]:
    """A second member gets what the first one releases, by a request or by its connection."""
    shared = Shared(table, [5, 5])
    settled_client = table.client()
    yield shared.fetch(max_records=5)
    yield shared.fetch(member="other", epoch=0, client=settled_client)
    yield shared.acknowledge((5, 9, [ACCEPT]))
    yield shared.acknowledge((0, 4, [RELEASE]), member="other", epoch=1)
    yield shared.acknowledge(epoch=-1)
    shared.epoch = 0
    yield shared.fetch()
    shared.client.close()
    shared.client = table.client()
    deadline = time.monotonic() + READY_SECONDS
    while True:
        told = shared.fetch(member="other", epoch=0, client=settled_client)
        if told[4]:
            yield told
            return
        assert time.monotonic() < deadline, told


def _delivered_too_often(table: Table) -> Iterator[Any]:
    """A record that is released as often as the limit allows is archived; before, it comes in small numbers."""
    shared = Shared(table, [8])
    for _ in range(24):
        told = shared.fetch()
        yield told
        if len(told) < 5 or not told[4]:
            break
        acks = [(first, last, [RELEASE]) for first, last, _ in told[4]]
        yield shared.acknowledge(*acks)
    yield shared.stored()


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    "share_fetch_life": _life,
    "share_fetch_refused": _refused,
    "share_fetch_limits": _limits,
    "share_fetch_two_members": _two_members,
    "share_fetch_delivered_too_often": _delivered_too_often,
}
