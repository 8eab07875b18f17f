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
    """Assigns the partitions of topics to the members of a group.

    Each consumer has its own object. The group leader calls `assign`; every member calls `assigned` with the result.

    Attributes:
        name: what all members of the group must call it.
        cooperative: members keep what they have while they rebalance, and a partition that moves is taken from its
            owner first and given to the new one in the rebalance after (KIP-429).
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, topics: Topics, members: Members) -> Mapping[str, Sequence[TopicPartition]]:
        """Assign the partitions of topics to members.

        Args:
            topics: the existing topics that members have subscribed to.
            members: by member id.

        Returns:
            the partitions of each member, by member id.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Return bytes that this member adds to its subscription, for the leader's assignor; None for none."""
        return None

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:  # noqa: B027 - may be left out
        """Called with the partitions that were assigned to this member."""
