"""What tests of authorization share: a broker with an authorizer, rights to give, and the error codes of an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.handlers.authorization import DENIED_WITH
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.protocol.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkaraw.protocol.error_codes import ErrorCode
from tests.broker.support import make_state

Op, On = AclOperation, ResourceType
Right = tuple[AclOperation, ResourceType, str]
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AUTHORIZATION = set(DENIED_WITH.values())
ADA = "User:ada"


@dataclass(frozen=True)
class Case:
    """How one API is asked, and what that takes.

    Attributes:
        request: makes the request.
        denied: what those are told who lack the rights.
        enough: sets of rights, each of which suffices, and nothing less.
        version: of the request; None is the newest.
    """

    request: Callable[[BrokerState], object]
    denied: ErrorCode
    enough: list[list[Right]]
    version: int | None = None


def secured(**properties: Any) -> BrokerState:
    """A broker with an authorizer, and the topics `flights` and `planes`."""
    state = make_state(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root", **properties)
    for name in ("flights", "planes"):
        state.create_topic(plan_topic(TopicSpec(name, partitions=2), state.catalog, state.config))
    return state


def topic(state: BrokerState, name: str = "flights") -> Topic:
    found = state.catalog.topic(name)
    assert found is not None
    return found


def permit(state: BrokerState, *rights: Right, permission: AclPermissionType = AclPermissionType.ALLOW) -> None:
    assert state.catalog.authorizer is not None
    entries = [
        Acl(kind, name, PatternType.LITERAL, ADA, "*", operation, permission) for operation, kind, name in rights
    ]
    state.change_acls(state.catalog.authorizer, add=entries)


def on_topic(*operations: AclOperation, name: str = "flights") -> list[Right]:
    return [(operation, On.TOPIC, name) for operation in operations]


def on_cluster(operation: AclOperation) -> list[Right]:
    return [(operation, On.CLUSTER, CLUSTER_NAME)]


def codes(answer: object) -> set[int]:
    """Every error code in an answer."""

    def walk(value: object) -> Iterator[int]:
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                found = getattr(value, field.name)
                if field.name.endswith("error_code"):
                    yield found
                else:
                    yield from walk(found)
        elif isinstance(value, list):
            for one in value:
                yield from walk(one)

    return set(walk(answer))
