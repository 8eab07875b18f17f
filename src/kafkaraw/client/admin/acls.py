"""ACLs for the admin client: create, list and delete them.

The broker needs an authorizer; a broker without one answers SECURITY_DISABLED.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.arguments import instance_of, list_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkaraw.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkaraw.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

Filter = TypeVar("Filter", DescribeAclsRequest, DeleteAclsFilter)

_FOR_FILTERS = frozenset({"UNKNOWN", "ANY", "MATCH"})


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resources that an ACL applies to: one resource, or several by the prefix of their names.

    Attributes:
        resource_type: the type of the resources.
        name: the name; "*", with LITERAL, is every resource of the type. The name of the cluster is "kafka-cluster".
        pattern_type: LITERAL, or PREFIXED for all names that begin with this one.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL: it allows or denies a principal an operation on resources.

    Attributes:
        pattern: the resources.
        principal: the principal, such as "User:ada"; "User:*" is every user.
        operation: the operation; ALL is every operation.
        permission_type: ALLOW, or DENY, which overrides any ALLOW.
        host: the IP address of the client; "*" is every address.
    """

    pattern: ResourcePattern
    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = WILDCARD


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """The ACLs to list or to delete; without arguments, all of them.

    Attributes:
        resource_type: ANY for all.
        resource_name: None for all.
        pattern_type: ANY for all; MATCH for every ACL that applies to `resource_name`: that name, its prefixes, "*".
        principal: None for all; "User:*" matches only ACLs with exactly this principal.
        host: None for all; "*" matches only ACLs with exactly this host.
        operation: ANY for all.
        permission_type: ANY for both.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY


class AclAdmin:
    """The operations on ACLs.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> None:
        wanted = list(acls)
        for acl in wanted:
            _check(acl)
        deadline = self._calls.deadline(timeout)

        async def once(left: Sequence[AclBinding]) -> dict[AclBinding, KafkaError]:
            request = CreateAclsRequest(creations=[_creation(acl) for acl in left])
            results = (await self._calls.ask_controller(request, deadline)).results
            return {
                acl: failure(result.error_code, result.error_message, f"create {acl}", operation="ALTER")
                for acl, result in zip(left, results, strict=True)
                if result.error_code
            }

        await self._calls.each(wanted, once, deadline)

    async def describe_acls(
        self, matching: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        wanted = AclBindingFilter()
        if matching is not None:
            wanted = instance_of(matching, AclBindingFilter, "describe_acls", "AclBindingFilter()")
        deadline = self._calls.deadline(timeout)

        async def once() -> DescribeAclsResponse:
            answer = await self._calls.ask_any(_filter(DescribeAclsRequest, wanted), deadline)
            if answer.error_code:
                raise failure(answer.error_code, answer.error_message, "describe ACLs", operation="DESCRIBE")
            return answer

        answer = await self._calls.retry(once, deadline)
        found = [
            AclBinding(
                _pattern(resource.resource_type, resource.resource_name, resource.pattern_type),
                acl.principal,
                AclOperation.of(acl.operation),
                AclPermissionType.of(acl.permission_type),
                acl.host,
            )
            for resource in answer.resources
            for acl in resource.acls
        ]
        return sorted(found, key=_by_resource)

    async def delete_acls(
        self, matching: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        wanted = list_of(matching, AclBindingFilter, "delete_acls", "AclBindingFilter()")
        deadline = self._calls.deadline(timeout)
        deleted: dict[AclBindingFilter, list[AclBinding]] = {}

        async def once(left: Sequence[AclBindingFilter]) -> dict[AclBindingFilter, KafkaError]:
            request = DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, one) for one in left])
            results = (await self._calls.ask_controller(request, deadline)).filter_results
            failures: dict[AclBindingFilter, KafkaError] = {}
            for one, result in zip(left, results, strict=True):
                failed = [(acl.error_code, acl.error_message) for acl in result.matching_acls if acl.error_code]
                code, message = failed[0] if failed else (result.error_code, result.error_message)
                gone = [_deleted(acl) for acl in result.matching_acls if not acl.error_code]
                deleted[one] = sorted([*deleted.get(one, ()), *gone], key=_by_resource)
                if code:
                    failures[one] = failure(code, message, f"delete ACLs that match {one}", operation="ALTER")
            return failures

        await self._calls.each(wanted, once, deadline)
        return deleted


def _check(acl: AclBinding) -> None:
    if not isinstance(acl, AclBinding):
        raise UsageError(f"{acl!r} is not an AclBinding")
    pattern = acl.pattern
    parts = (pattern.resource_type, pattern.pattern_type, acl.operation, acl.permission_type)
    for part in parts:
        if part.name in _FOR_FILTERS:
            raise UsageError(f"{part!r} cannot be in an ACL, give a specific value: {acl}")


def _by_resource(acl: AclBinding) -> tuple[object, ...]:
    pattern = acl.pattern
    return (pattern.resource_type, pattern.name, pattern.pattern_type, acl.principal, acl.host, acl.operation)


def _pattern(resource_type: int, name: str, pattern_type: int) -> ResourcePattern:
    return ResourcePattern(ResourceType.of(resource_type), name, PatternType.of(pattern_type))


def _creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _filter(form: type[Filter], wanted: AclBindingFilter) -> Filter:
    return form(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )


def _deleted(acl: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        _pattern(acl.resource_type, acl.resource_name, acl.pattern_type),
        acl.principal,
        AclOperation.of(acl.operation),
        AclPermissionType.of(acl.permission_type),
        acl.host,
    )
