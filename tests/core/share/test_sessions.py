"""Share sessions: what requests say, and their epochs."""

from __future__ import annotations

from kafkaraw.core.share.acknowledgements import AcknowledgedRange, AcknowledgeType
from kafkaraw.core.share.sessions import ShareFetchLimits, ShareSession, TopicIdPartition
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest

A, B = Uuid(bytes([1]) * 16), Uuid(bytes([2]) * 16)


def session() -> ShareSession:
    return ShareSession("g", "me", ShareFetchLimits(max_records=10, acquire_mode=1))


def partitions_in(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]


def test_first_request_opens_a_session_with_all_partitions():
    request = session().fetch([(A, 0), (B, 1)], {})
    assert request.share_session_epoch == 0
    assert partitions_in(request) == [(A, 0), (B, 1)]
    assert (request.max_records, request.share_acquire_mode, request.is_renew_ack) == (10, 1, False)


def test_later_requests_name_changes_only():
    one = session()
    one.fetch([(A, 0), (B, 1)], {})
    one.succeeded()
    request = one.fetch([(A, 0), (A, 2)], {})
    assert request.share_session_epoch == 1
    assert partitions_in(request) == [(A, 2)]
    assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [(B, [1])]


def test_acknowledgements_travel_with_a_fetch():
    one = session()
    one.fetch([(A, 0)], {})
    one.succeeded()
    request = one.fetch([(A, 0)], {(A, 0): [AcknowledgedRange(3, 5, [1])]})
    (batch,) = request.topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (3, 5, [1])


def test_request_that_renews_acquires_nothing():
    one = session()
    one.fetch([(A, 0)], {})
    one.succeeded()
    request = one.fetch([(A, 0)], {(A, 0): [AcknowledgedRange(3, 3, [AcknowledgeType.RENEW])]})
    assert request.is_renew_ack
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records) == (0, 0, 0, 0)


def test_acknowledgements_alone_count_in_the_session():
    one = session()
    one.fetch([(A, 0)], {})
    one.succeeded()
    assert one.acknowledge({(A, 0): [AcknowledgedRange(0, 0, [1])]}).share_session_epoch == 1
    one.succeeded()
    assert one.fetch([(A, 0)], {}).share_session_epoch == 2
    assert one.acknowledge({}, closes=True).share_session_epoch == -1


def test_reset_begins_again_with_all_partitions():
    one = session()
    one.fetch([(A, 0)], {})
    one.succeeded()
    before = one.incarnation
    one.reset()
    assert (one.is_open, one.incarnation) == (False, before + 1)
    request = one.fetch([(A, 0)], {})
    assert request.share_session_epoch == 0
    assert partitions_in(request) == [(A, 0)]


def test_epoch_after_the_largest_is_1():
    one = session()
    one.epoch = 2**31 - 1
    one.succeeded()
    assert one.epoch == 1
