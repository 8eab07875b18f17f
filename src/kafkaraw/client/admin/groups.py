"""Groups for the admin client: list, describe and delete them, and remove members.

Start at `GroupAdmin`. Committed offsets are in `group_offsets`, the result types in `group_descriptions`.
Source: KIP-518, KIP-848, KIP-1043; Kafka's DescribeConsumerGroupsHandler, DeleteConsumerGroupsHandler,
RemoveMembersFromConsumerGroupHandler.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kafkaraw.client.admin.calls import Calls, names_of
from kafkaraw.client.admin.group_calls import GroupCalls, group_failure
from kafkaraw.client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    of_classic,
    of_consumer,
    of_share,
    of_streams,
    state_of,
    type_of,
)
from kafkaraw.client.deadline import Deadline
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    StaleMetadataError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkaraw.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

_REASON: Final = "member was removed by an admin"
_REASON_LENGTH_MAX: Final = 255
_IN_THE_WAY: Final = {ErrorCode.NON_EMPTY_GROUP: "it has members; stop them, or remove_members first"}

_Describes = type[ShareGroupDescribeRequest] | type[StreamsGroupDescribeRequest]
_OTHER_TYPES: Final[tuple[tuple[_Describes, Callable[[Any, BrokerNode], GroupDescription]], ...]] = (
    (ShareGroupDescribeRequest, of_share),
    (StreamsGroupDescribeRequest, of_streams),
)
"""The requests that describe groups which DescribeGroups does not know, in the order in which they are asked."""


class GroupAdmin:
    """The operations on groups.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._engine = calls.engine
        self._groups = GroupCalls(calls)

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        request = ListGroupsRequest(states_filter=_texts(states, GroupState), types_filter=_texts(types, GroupType))
        kinds, deadline = frozenset(names_of(protocol_types)), self._calls.deadline(timeout)
        found: dict[str, GroupListing] = {}

        async def ask(node_id: int) -> KafkaError | None:
            if node_id not in self._engine.cluster.brokers:
                return None  # the broker has left the cluster, and other brokers coordinate its groups
            try:
                answer = await self._groups.ask(node_id, request, deadline)
            except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                return error
            if answer.error_code:
                what = f"list the groups of broker {node_id}"
                return group_failure(answer.error_code, None, what, "", "DESCRIBE")
            for group in answer.groups:
                found[group.group_id] = GroupListing(
                    group.group_id,
                    group.protocol_type,
                    state_of(group.group_state) if group.group_state else None,
                    type_of(group.group_type) if group.group_type else None,
                )
            return None

        async def once(nodes: Sequence[int]) -> dict[int, KafkaError]:
            outcomes = await asyncio.gather(*map(ask, nodes))
            return {node_id: error for node_id, error in zip(nodes, outcomes, strict=True) if error is not None}

        await self._engine.refresh_brokers(timeout=deadline.remaining)
        await self._calls.each(sorted(self._engine.cluster.brokers), once, deadline)
        return [group for _, group in sorted(found.items()) if not kinds or group.protocol_type in kinds]

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        names, deadline = names_of(groups), self._calls.deadline(timeout)
        found: dict[str, GroupDescription] = {}

        async def ask(node_id: int, share: Sequence[str]) -> dict[str, KafkaError]:
            failures, classic = await self._describe(node_id, share, authorized_operations, found, deadline)
            if classic:
                others = await self._describe_classic(node_id, classic, authorized_operations, found, deadline)
                for make_request, description_of in _OTHER_TYPES:
                    missing = [name for name in classic if name not in found and _is_missing(others.get(name))]
                    if missing:
                        request = make_request(group_ids=missing, include_authorized_operations=authorized_operations)
                        others |= await self._describe_other(node_id, request, description_of, found, deadline)
                failures |= {name: error for name, error in others.items() if name not in found}
            return failures

        await self._groups.each(names, ask, deadline)
        return {name: found[name] for name in names}

    async def _describe(
        self, node_id: int, names: Sequence[str], operations: bool, found: dict[str, GroupDescription], ends: Deadline
    ) -> tuple[dict[str, KafkaError], list[str]]:
        """Describe groups of KIP-848; returns those that failed, and those to describe with DescribeGroups."""
        request = ConsumerGroupDescribeRequest(group_ids=list(names), include_authorized_operations=operations)
        try:
            answer = await self._groups.ask(node_id, request, ends)
        except UnsupportedVersionError:  # the broker knows classic groups only
            return {}, list(names)
        failures: dict[str, KafkaError] = {}
        classic: list[str] = []
        for group in answer.groups:
            if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                classic.append(group.group_id)
            elif group.error_code:
                failures[group.group_id] = _not_described(group.error_code, group.error_message, group.group_id)
            else:
                found[group.group_id] = of_consumer(group, self._node(node_id))
        return failures, classic

    async def _describe_classic(
        self, node_id: int, names: Sequence[str], operations: bool, found: dict[str, GroupDescription], ends: Deadline
    ) -> dict[str, KafkaError]:
        request = DescribeGroupsRequest(groups=list(names), include_authorized_operations=operations)
        answer = await self._groups.ask(node_id, request, ends)
        failures: dict[str, KafkaError] = {}
        for group in answer.groups:
            code = group.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if _is_nothing(group) else ErrorCode.NONE)
            if code:
                failures[group.group_id] = _not_described(code, group.error_message, group.group_id)
            else:
                found[group.group_id] = of_classic(group, self._node(node_id))
        return failures

    async def _describe_other(
        self,
        node_id: int,
        request: ShareGroupDescribeRequest | StreamsGroupDescribeRequest,
        description_of: Callable[[Any, BrokerNode], GroupDescription],
        found: dict[str, GroupDescription],
        ends: Deadline,
    ) -> dict[str, KafkaError]:
        """Describe share or streams groups; returns the groups that exist and failed."""
        try:
            answer: Any = await self._groups.ask(node_id, request, ends)
        except UnsupportedVersionError:  # the broker has no such groups
            return {}
        failures: dict[str, KafkaError] = {}
        for group in answer.groups:
            if not group.error_code:
                found[group.group_id] = description_of(group, self._node(node_id))
            elif group.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                failures[group.group_id] = _not_described(group.error_code, group.error_message, group.group_id)
        return failures

    def _node(self, node_id: int) -> BrokerNode:
        return self._engine.cluster.brokers[node_id]

    async def delete_groups(self, groups: Iterable[str], *, timeout: float | None = None) -> None:
        deadline = self._calls.deadline(timeout)

        async def ask(node_id: int, names: Sequence[str]) -> dict[str, KafkaError]:
            request = DeleteGroupsRequest(groups_names=list(names))
            answer = await self._groups.ask(node_id, request, deadline)
            return {
                result.group_id: group_failure(
                    result.error_code,
                    _IN_THE_WAY.get(ErrorCode(result.error_code)),
                    f"delete group {result.group_id!r}",
                    result.group_id,
                    "DELETE",
                )
                for result in answer.results
                if result.error_code
            }

        await self._groups.each(names_of(groups), ask, deadline)

    async def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> None:
        deadline = self._calls.deadline(timeout)
        if instance_ids is None:
            members = (await self.describe_groups([group_id], timeout=deadline.remaining))[group_id].members
            leaving = {member.group_instance_id or member.member_id: member.group_instance_id for member in members}
        else:
            leaving = {name: name for name in names_of(instance_ids)}
        why = f"{_REASON}: {reason}" if reason else _REASON

        async def once(names: Sequence[str]) -> Mapping[str, KafkaError]:
            request = LeaveGroupRequest(
                group_id=group_id,
                members=[
                    MemberIdentity(
                        member_id="" if leaving[name] else name,
                        group_instance_id=leaving[name],
                        reason=why[:_REASON_LENGTH_MAX],
                    )
                    for name in names
                ],
            )
            node_id = await self._groups.coordinator(group_id, deadline)
            answer = await self._groups.ask(node_id, request, deadline)
            if answer.error_code:
                error = group_failure(answer.error_code, None, f"remove members of {group_id!r}", group_id, "READ")
                return dict.fromkeys(names, error)
            return {
                member.group_instance_id or member.member_id: group_failure(
                    member.error_code, None, f"remove a member of {group_id!r}", group_id, "READ"
                )
                for member in answer.members
                if member.error_code
            }

        await self._calls.each(leaving, once, deadline)


def _texts(values: Iterable[GroupState | GroupType | str], kind: type[GroupState | GroupType]) -> list[str]:
    wanted = [str(value) for value in names_of(values)]
    known = [str(member) for member in kind]
    for value in wanted:
        if value.lower() not in map(str.lower, known):
            raise UsageError(f"list_groups: {value!r} is no {kind.__name__}; there are {', '.join(known)}")
    return wanted


def _is_missing(error: KafkaError | None) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND


def _is_nothing(group: DescribedGroup) -> bool:
    """Whether the response says that the group does not exist, in the form of brokers before 4.0."""
    return group.group_state == GroupState.DEAD and not group.members


def _not_described(code: int, message: str | None, group_id: str) -> KafkaError:
    return group_failure(code, message, f"describe group {group_id!r}", group_id, "DESCRIBE")
