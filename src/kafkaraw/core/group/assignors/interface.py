"""What an assignor does; make one of your own by deriving from `Assignor`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from kafkaraw.core.group.consumer_protocol import MemberSubscription
from kafkaraw.records import TopicPartition

Topics = Mapping[str, Sequence[frozenset[str]]]
"""For every topic that exists, its partitions in order: the racks of each one's replicas, as far as they are known."""

Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """Shares the partitions of topics out among the members of a group.

    One object belongs to one consumer. The leader's is asked to `assign`; every member's hears of the result.

    Attributes:
        name: what all members of the group must call it.
        cooperative: members keep what they have while they rebalance, and a partition that moves is taken from its
            owner first and given to the new one in the rebalance after (KIP-429).
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, topics: Topics, members: Members) -> Mapping[str, Sequence[TopicPartition]]:
        """Share the partitions out.

        Args:
            topics: topics that members want and that exist.
            members: by member id.

        Returns:
            what each member gets, by member id.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Bytes that this member adds to its subscription, for the leader's assignor; None for none."""
        return None

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:  # noqa: B027 - may be left out
        """Hear what this member was given."""
