"""Guards of the APIs that configure topics and brokers, and of those that take one right to the whole cluster.

Source: kafka.server.{KafkaApis, ControllerApis, ConfigHelper, AclApis, AuthHelper}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from kafkaraw.broker.deferred import after
from kafkaraw.broker.handlers.guards.call import DENIED_WITH, MESSAGES, Call
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import alter_configs as alter_configs_messages
from kafkaraw.protocol.messages import incremental_alter_configs as incremental_alter_configs_messages
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from kafkaraw.protocol.messages.alter_client_quotas import EntityData as QuotaEntity
from kafkaraw.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kafkaraw.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkaraw.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafkaraw.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkaraw.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkaraw.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkaraw.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkaraw.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_Op = AclOperation
_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
Request = TypeVar("Request")

CONFIG_RESOURCES: Final = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,  # a broker
    8: ResourceType.CLUSTER,  # a broker's loggers
    16: ResourceType.CLUSTER,  # client metrics
    32: ResourceType.GROUP,
}
"""What the settings of a resource belong to, by the type of the resource as ConfigResource numbers it."""


class _ConfigResource(Protocol):
    resource_type: int
    resource_name: str


Resource = TypeVar("Resource", bound=_ConfigResource)
Result = TypeVar(
    "Result",
    alter_configs_messages.AlterConfigsResourceResponse,
    incremental_alter_configs_messages.AlterConfigsResourceResponse,
)


def _divide_resources(
    call: Call, resources: Sequence[Resource], operation: AclOperation
) -> tuple[list[Resource], list[tuple[Resource, ErrorCode]]]:
    """The resources whose settings the client may see or change, and the others, with what to tell it.

    One that is named twice, or is of a type that does not exist, is the handler's to refuse.
    """
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    allowed: list[Resource] = []
    denied: list[tuple[Resource, ErrorCode]] = []
    for one in resources:
        kind = CONFIG_RESOURCES.get(one.resource_type)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else one.resource_name
        malformed = counts[one.resource_type, one.resource_name] > 1 and operation is not _Op.DESCRIBE_CONFIGS
        if kind is None or malformed or call.allows(operation, kind, name):
            allowed.append(one)
        else:
            denied.append((one, DENIED_WITH[kind]))
    return allowed, denied


def describe_configs(call: Call, request: DescribeConfigsRequest) -> object:
    """DESCRIBE_CONFIGS on each topic or group; on the cluster for brokers and client metrics."""
    allowed, refused = _divide_resources(call, request.resources, _Op.DESCRIBE_CONFIGS)
    denied = [
        DescribeConfigsResult(
            error_code=code,
            error_message=MESSAGES[code],
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            configs=[],
        )
        for one, code in refused
    ]
    answer = DescribeConfigsResponse(results=[])
    return call.go_on_with(request, allowed, denied, answer, parts="resources", results="results")


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> object:
    """ALTER_CONFIGS on each topic or group; on the cluster for brokers and client metrics."""
    allowed, refused = _divide_resources(call, request.resources, _Op.ALTER_CONFIGS)
    denied = [_not_altered(incremental_alter_configs_messages.AlterConfigsResourceResponse, *one) for one in refused]
    answer = IncrementalAlterConfigsResponse(responses=[])
    return call.go_on_with(request, allowed, denied, answer, parts="resources", results="responses")


def alter_configs(call: Call, request: AlterConfigsRequest) -> object:
    """As IncrementalAlterConfigs."""
    allowed, refused = _divide_resources(call, request.resources, _Op.ALTER_CONFIGS)
    denied = [_not_altered(alter_configs_messages.AlterConfigsResourceResponse, *one) for one in refused]
    answer = AlterConfigsResponse(responses=[])
    return call.go_on_with(request, allowed, denied, answer, parts="resources", results="responses")


def _not_altered(form: type[Result], resource: _ConfigResource, code: ErrorCode) -> Result:
    return form(
        error_code=code,
        error_message=MESSAGES[code],
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def describe_cluster(call: Call, request: DescribeClusterRequest) -> object:
    """Open to everybody; what may be done to the cluster is told to those who may DESCRIBE it."""

    def merge(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if request.include_cluster_authorized_operations and response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = call.cluster_operations()
        return response

    return after(call.go_on(request), merge)


def on_cluster(operation: AclOperation, refuse: Callable[[Request, str], object]) -> Callable[[Call, Request], object]:
    """A guard for an API that takes one right to the cluster.

    Args:
        operation: the right.
        refuse: makes the answer to a request that is refused, with the message that goes into it.
    """

    def guard(call: Call, request: Request) -> object:
        if call.allows_on_cluster(operation):
            return call.go_on(request)
        return refuse(request, f"Request {call.api} is not authorized: it takes {operation.name} on the cluster.")

    return guard


def refuse_create_acls(request: CreateAclsRequest, message: str) -> CreateAclsResponse:
    """None is created."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=_DENIED, error_message=message) for _ in request.creations]
    )


def refuse_delete_acls(request: DeleteAclsRequest, message: str) -> DeleteAclsResponse:
    """None is deleted."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=_DENIED, error_message=message, matching_acls=[]) for _ in request.filters
        ]
    )


def refuse_describe_acls(request: DescribeAclsRequest, message: str) -> DescribeAclsResponse:
    """None is shown."""
    return DescribeAclsResponse(error_code=_DENIED, error_message=message, resources=[])


def refuse_alter_scram(request: AlterUserScramCredentialsRequest, message: str) -> AlterUserScramCredentialsResponse:
    """No user's credentials are changed."""
    names = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=_DENIED, error_message=message)
            for user in dict.fromkeys(names)
        ]
    )


def refuse_describe_scram(
    request: DescribeUserScramCredentialsRequest, message: str
) -> DescribeUserScramCredentialsResponse:
    """No user's credentials are described; Kafka does not even repeat the names."""
    results = [
        DescribeUserScramCredentialsResult(user="", error_code=_DENIED, error_message=message, credential_infos=[])
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(error_code=_DENIED, error_message=message, results=results)


def refuse_alter_quotas(request: AlterClientQuotasRequest, message: str) -> AlterClientQuotasResponse:
    """No quota is changed."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=_DENIED,
                error_message=message,
                entity=[QuotaEntity(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            )
            for entry in request.entries
        ]
    )


def refuse_describe_quotas(request: DescribeClientQuotasRequest, message: str) -> DescribeClientQuotasResponse:
    """No quota is shown."""
    return DescribeClientQuotasResponse(error_code=_DENIED, error_message=message, entries=None)
