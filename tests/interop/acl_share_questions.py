"""The questions about share and streams groups in the comparison of access control; see `acl_questions`.

Root has made three groups before: `shared`, a share group with a member, `spare`, one that has offsets and no members,
and `streams`, a streams group with a member. What a coordinator says to members that it does not know is compared
elsewhere: here only who may ask it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    write_share_group_state,
)
from kafkaraw.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest
from kafkaraw.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkaraw.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

Ids = Mapping[str, Uuid]
SHARED, SPARE, STREAMS = "shared", "spare", "streams"
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAg"
# Unknown topics are asked by name only: Apache Kafka with an authorizer fails a ShareFetch of an unknown id as a whole.
KNOWN_TOPICS: Final = ("flights", "planes", "public")
TOPICS: Final = (*KNOWN_TOPICS, "nowhere")
LONG_SESSIONS: Final = {
    f"group.{kind}.{name}": "3600000"
    for kind in ("share", "streams")
    for name in ("max.session.timeout.ms", "session.timeout.ms")
}
"""The members of the groups send one heartbeat."""
_READY_SECONDS: Final = 60.0


def make_groups(root: Any) -> None:
    """Make the three groups, as root."""
    joins = ShareGroupHeartbeatRequest(
        group_id=SHARED, member_id=MEMBER, member_epoch=0, subscribed_topic_names=["flights", "planes"]
    )
    answer = _until_settled(root, joins, 1)
    deadline = time.monotonic() + _READY_SECONDS
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert time.monotonic() < deadline, "the share group has no assignment"
        time.sleep(0.05)  # another process: there is nothing to wait on
        beats = ShareGroupHeartbeatRequest(group_id=SHARED, member_id=MEMBER, member_epoch=answer.member_epoch)
        answer = root.ask(beats, 1)
    _until_settled(root, _streams_heartbeat("planes", group_id=STREAMS, epoch=0), 0)
    deadline = time.monotonic() + _READY_SECONDS
    while (found := root.ask(alter_offsets(SPARE, "flights", "planes"), 0)).error_code:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _until_settled(root: Any, request: object, version: int) -> Any:
    """Ask until a coordinator answers."""
    deadline = time.monotonic() + _READY_SECONDS
    while (answer := root.ask(request, version)).error_code:
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


# -- share groups


def _heartbeat(group_id: str, *topics: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="stranger", member_epoch=5, subscribed_topic_names=list(topics)
    )


def _fetch(ids: Ids, epoch: int, *topics: str) -> ShareFetchRequest:
    asked = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
    return ShareFetchRequest(
        group_id=SHARED,
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000,
        max_records=1,
        batch_size=1,
        topics=[share_fetch.FetchTopic(topic_id=ids[name], partitions=[asked]) for name in topics],
        forgotten_topics_data=[],
    )


def _acknowledge(ids: Ids, epoch: int) -> ShareAcknowledgeRequest:
    batch = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[2])
    asked = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    return ShareAcknowledgeRequest(
        group_id=SHARED,
        member_id=MEMBER,
        share_session_epoch=epoch,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=ids[name], partitions=[asked]) for name in KNOWN_TOPICS],
    )


def alter_offsets(group_id: str, *topics: str) -> AlterShareGroupOffsetsRequest:
    asked = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    return AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[asked]) for name in topics],
    )


def _describe_offsets(*topics: str) -> DescribeShareGroupOffsetsRequest:
    asked = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in topics] or None
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=asked) for each in (SHARED, SPARE, "h")]
    return DescribeShareGroupOffsetsRequest(groups=groups)


def _delete_offsets(*topics: str) -> DeleteShareGroupOffsetsRequest:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return DeleteShareGroupOffsetsRequest(group_id=SPARE, topics=asked)


# -- the state of share groups: for brokers only


def _initialize(ids: Ids) -> object:
    module = initialize_share_group_state
    asked = module.PartitionData(partition=0, state_epoch=1, start_offset=-1)
    data = module.InitializeStateData(topic_id=ids["public"], partitions=[asked])
    return module.InitializeShareGroupStateRequest(group_id=SPARE, topics=[data])


def _read(ids: Ids) -> object:
    module = read_share_group_state
    data = module.ReadStateData(topic_id=ids["public"], partitions=[module.PartitionData(partition=0, leader_epoch=0)])
    return module.ReadShareGroupStateRequest(group_id=SPARE, topics=[data])


def _write(ids: Ids) -> object:
    module = write_share_group_state
    asked = module.PartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[])
    data = module.WriteStateData(topic_id=ids["public"], partitions=[asked])
    return module.WriteShareGroupStateRequest(group_id=SPARE, topics=[data])


def _summary(ids: Ids) -> object:
    module = read_share_group_state_summary
    asked = module.PartitionData(partition=0, leader_epoch=0)
    data = module.ReadStateSummaryData(topic_id=ids["public"], partitions=[asked])
    return module.ReadShareGroupStateSummaryRequest(group_id=SPARE, topics=[data])


def _delete(ids: Ids) -> object:
    module = delete_share_group_state
    data = module.DeleteStateData(topic_id=ids["public"], partitions=[module.PartitionData(partition=0)])
    return module.DeleteShareGroupStateRequest(group_id=SPARE, topics=[data])


# -- streams groups


def _streams_heartbeat(*sources: str, group_id: str, epoch: int, internal: str = "") -> StreamsGroupHeartbeatRequest:
    """With an internal topic, a changelog, if it has a name."""
    info = [TopicInfo(name=internal, partitions=0, replication_factor=0, topic_configs=[])] if internal else []
    topology = Subtopology(
        subtopology_id="0",
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=info,
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return StreamsGroupHeartbeatRequest(
        group_id=group_id,
        member_id=MEMBER,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=30_000,
        topology=Topology(epoch=0, subtopologies=[topology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
        task_offsets=None,
        task_end_offsets=None,
    )


def joins_streams(group_id: str, internal: str) -> StreamsGroupHeartbeatRequest:
    """A first heartbeat of an application that reads `flights` and needs an internal topic."""
    return _streams_heartbeat("flights", group_id=group_id, epoch=0, internal=internal)


def leaves_streams(group_id: str) -> StreamsGroupHeartbeatRequest:
    """The last heartbeat."""
    return StreamsGroupHeartbeatRequest(
        group_id=group_id, member_id=MEMBER, member_epoch=-1, endpoint_information_epoch=0
    )


LAST: Final = 2
"""The last version of ShareFetch and ShareAcknowledge."""
SHARE_QUESTIONS: Final[Mapping[str, tuple[Callable[[Ids], object], range | None, bool]]] = {
    **{
        f"ShareGroupHeartbeat {group} of {' and '.join(topics)}": (
            lambda ids, group=group, topics=topics: _heartbeat(group, *topics),
            None,
            True,
        )
        for group in ("g", "h", SHARED)
        for topics in (("flights",), ("flights", "planes"), ("nowhere",))
    },
    **{
        f"{name} {group}": (lambda ids, make=make, group=group: make(group), None, False)
        for group in ("g", "h", SHARED, SPARE, STREAMS)
        for name, make in {
            "ShareGroupDescribe": lambda group: ShareGroupDescribeRequest(
                group_ids=[group], include_authorized_operations=True
            ),
            "StreamsGroupDescribe": lambda group: StreamsGroupDescribeRequest(
                group_ids=[group], include_authorized_operations=True
            ),
        }.items()
    },
    "ShareFetch": (lambda ids: _fetch(ids, 0, *KNOWN_TOPICS), None, True),
    "ShareFetch of a session": (lambda ids: _fetch(ids, 1), range(LAST, LAST + 1), True),
    "ShareAcknowledge": (lambda ids: _acknowledge(ids, 2), range(LAST, LAST + 1), True),
    "ShareAcknowledge with a wrong epoch": (lambda ids: _acknowledge(ids, 2), None, False),
    "ShareFetch that ends a session": (lambda ids: _fetch(ids, -1), range(LAST, LAST + 1), False),
    "ShareAcknowledge without a session": (lambda ids: _acknowledge(ids, 1), None, False),
    "DescribeShareGroupOffsets": (lambda ids: _describe_offsets("flights", "planes"), None, False),
    "DescribeShareGroupOffsets of all topics": (lambda ids: _describe_offsets(), None, False),
    "AlterShareGroupOffsets": (lambda ids: alter_offsets(SPARE, *TOPICS), None, False),
    "AlterShareGroupOffsets of a group with members": (lambda ids: alter_offsets(SHARED, *TOPICS), None, False),
    "DeleteShareGroupOffsets": (lambda ids: _delete_offsets(*TOPICS), None, False),
    "InitializeShareGroupState": (_initialize, None, False),
    "ReadShareGroupState": (_read, None, False),
    "WriteShareGroupState": (_write, None, False),
    "ReadShareGroupStateSummary": (_summary, None, False),
    "DeleteShareGroupState": (_delete, None, False),
    **{
        f"StreamsGroupHeartbeat {group} of {' and '.join(topics)}": (
            lambda ids, group=group, topics=topics: _streams_heartbeat(*topics, group_id=group, epoch=5),
            None,
            True,
        )
        for group in ("g", "h", STREAMS)
        for topics in (("flights",), ("flights", "planes"), ("nowhere",))
    },
    "StreamsGroupHeartbeat with an internal topic": (
        lambda ids: _streams_heartbeat("flights", group_id=STREAMS, epoch=5, internal="streams-changelog"),
        None,
        True,
    ),
}
"""Question -> the request, the versions to ask in (None for all), and whether only refusals are compared."""
