"""Positions that a request asks a group to keep: which of them may be, and the answers to all of them.

Partitions that do not exist, and metadata that is too long, are said first, whatever the group says.
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


POSITIONS_PER_STEP: Final = 200
"""After how many positions others may have a turn."""


class _Answer(Protocol):
    error_code: int


Answer = TypeVar("Answer", bound=_Answer)
Response = TypeVar("Response")


class AskedPositions(Generic[Answer]):
    """The positions of one request.

    Args:
        state: of the node.
        make_answer: an answer about the partition with that number.
        retention_ms: how long the client wants them kept; -1 leaves that to the broker.

    Attributes:
        accepted: what the group is to keep, unless it says otherwise.
    """

    def __init__(
        self, state: BrokerState, make_answer: Callable[[int], Answer], *, retention_ms: int = _NO_EXPIRY
    ) -> None:
        self._state = state
        self._make_answer = make_answer
        self._retention_ms = retention_ms
        self._of_the_group: list[Answer] = []
        self.accepted: list[tuple[TopicPartition, CommittedOffset]] = []

    def judge_in_steps(
        self,
        topic: Topic | None,
        partitions: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition],
        *,
        unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        topic_id: Uuid = ZERO_UUID,
    ) -> Steps[list[Answer]]:
        """The answers to one topic's positions; the group may still change them, by `settle`. Stops behind every few.

        Args:
            topic: None when there is none.
            partitions: as they were asked for.
            unknown: what is said of partitions that do not exist.
            topic_id: kept with the positions.
        """
        answers: list[Answer] = []
        for at in range(0, len(partitions), POSITIONS_PER_STEP):
            answers += [
                self._judged(topic, asked, unknown, topic_id) for asked in partitions[at : at + POSITIONS_PER_STEP]
            ]
            yield None
        return answers

    def _judged(
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
        """The response with those answers, once the group has said what becomes of the positions.

        Args:
            response: holds the answers that `judge_in_steps` gave.
            ask: has the group keep what is `accepted`; an error that it reports is said of every partition there is.
        """
        if not self._of_the_group:
            return response

        def begin(done: Callable[[Response], None]) -> None:
            def heard(code: ErrorCode) -> None:
                if code:
                    for answer in self._of_the_group:
                        answer.error_code = code
                done(response)

            ask(heard)

        return answered(begin)
