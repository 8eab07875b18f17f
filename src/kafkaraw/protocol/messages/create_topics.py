"""CreateTopics."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int8, int16, int32, string, uuid


@struct
class CreatableReplicaAssignment:
    """Part of CreateTopics."""

    partition_index: int32
    broker_ids: list[int32]


@struct
class CreatableTopicConfig:
    """Part of CreateTopics."""

    name: string
    value: string | None


@struct
class CreatableTopic:
    """Part of CreateTopics."""

    name: string
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@struct
class CreatableTopicConfigs:
    """Part of CreateTopics."""

    name: string = field(versions="5+", default="")
    value: string | None = field(versions="5+", default="")
    read_only: boolean = field(versions="5+", default=False)
    config_source: int8 = field(versions="5+", default=-1, ignorable=True)
    is_sensitive: boolean = field(versions="5+", default=False)


@struct
class CreatableTopicResult:
    """Part of CreateTopics."""

    name: string
    topic_id: uuid = field(versions="7+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field(versions="1+", default="", ignorable=True)
    topic_config_error_code: int16 = field(versions="5+", default=0, tag=0, ignorable=True)
    num_partitions: int32 = field(versions="5+", default=-1, ignorable=True)
    replication_factor: int16 = field(versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(versions="5+", default_factory=list, ignorable=True)


@request(api_key=19, versions="0-7", flexible="5+", removed="0-1")
class CreateTopicsRequest:
    """CreateTopics request."""

    topics: list[CreatableTopic]
    timeout_ms: int32 = 60_000
    validate_only: boolean = field(versions="1+", default=False)


@response(api_key=19, versions="0-7", flexible="5+", removed="0-1")
class CreateTopicsResponse:
    """CreateTopics response."""

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]
