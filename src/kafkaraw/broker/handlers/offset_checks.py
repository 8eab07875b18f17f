"""The offsets in a commit request: checks them, and builds the response for each.

Unknown partitions and metadata that is too long are reported first, before any error of the group.
Source: kafka.server.KafkaApis.{handleOffsetCommitRequest, handleTxnOffsetCommitRequest}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.runtime import Done
from kafkaraw.broker.replies import Deferred, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.turns import Steps
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kafkaraw.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition
from kafkaraw.records import TopicPartition

_NO_EXPIRY: Final = -1


OFFSETS_PER_STEP: Final = 200
"""Number of offsets after which other work gets a turn."""


class _Answer(Protocol):
    error_code: int


Answer = TypeVar("Answer", bound=_Answer)
Response = TypeVar("Response")


class OffsetChecks(Generic[Answer]):
    """The offsets of one request.

    Args:
        state: the node's state.
        make_answer: creates the response entry of a partition.
        retention_ms: the client's retention time; -1 applies the broker's.

    Attributes:
        accepted: the valid offsets, for the group to store.
    """

    def __init__(
        self, state: BrokerState, make_answer: Callable[[int], Answer], *, retention_ms: int = _NO_EXPIRY
    ) -> None:
        self._state = state
        self._make_answer = make_answer
        self._retention_ms = retention_ms
        self._of_the_group: list[Answer] = []
        self.accepted: list[tuple[TopicPartition, CommittedOffset]] = []

    def check_in_steps(
        self,
        topic: Topic | None,
        partitions: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition],
        *,
        unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        topic_id: Uuid = ZERO_UUID,
    ) -> Steps[list[Answer]]:
        """Build the response entries of one topic; `settle` may still change them. Yields after every few partitions.

        Args:
            topic: the topic; None if it is unknown.
            partitions: its partitions in the request.
            unknown: error code for unknown partitions.
            topic_id: stored with the offsets.
        """
        answers: list[Answer] = []
        for at in range(0, len(partitions), OFFSETS_PER_STEP):
            answers += [
                self._checked(topic, asked, unknown, topic_id) for asked in partitions[at : at + OFFSETS_PER_STEP]
            ]
            yield None
        return answers

    def _checked(
        self,
        topic: Topic | None,
        asked: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
        unknown: ErrorCode,
        topic_id: Uuid,
    ) -> Answer:
        answer = self._make_answer(asked.partition_index)
        metadata = asked.committed_metadata or ""
        if topic is None or not 0 <= asked.partition_index < topic.partitions_count:
            answer.error_code = unknown
            return answer
        self._of_the_group.append(answer)
        if len(metadata) > self._state.config.offset_metadata_max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            return answer
        now_ms = self._state.clock.time_ms()
        expires_ms = now_ms + self._retention_ms if self._retention_ms >= 0 else _NO_EXPIRY
        position = CommittedOffset(
            asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms, expires_ms, topic_id
        )
        self.accepted.append((TopicPartition(topic.name, asked.partition_index), position))
        return answer

    def settle(self, response: Response, ask: Callable[[Done], None]) -> Response | Deferred[Response]:
        """Return the response once the group has stored or refused the offsets.

        Args:
            response: contains the entries from `check_in_steps`.
            ask: passes the `accepted` offsets to the group; its error goes into the entry of each existing partition.
        """
        if not self._of_the_group:
            return response

        def begin(done: Callable[[Response], None]) -> None:
            def on_result(code: ErrorCode) -> None:
                if code:
                    for answer in self._of_the_group:
                        answer.error_code = code
                done(response)

            ask(on_result)

        return answered(begin)
