"""CreateTopics (19): make topics."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int8, int16, int32, string, uuid


@struct
class CreatableReplicaAssignment:
    """The replicas of one partition.

    Attributes:
        broker_ids: brokers that will hold it, the preferred leader first.
    """

    partition_index: int32
    broker_ids: list[int32]


@struct
class CreatableTopicConfig:
    """A topic setting, such as cleanup.policy."""

    name: string
    value: string | None


@struct
class CreatableTopic:
    """A topic to make.

    Attributes:
        num_partitions: -1 for the broker's default, or when assignments are given.
        replication_factor: -1 for the broker's default, or when assignments are given.
        assignments: replicas by hand; empty to let the broker choose.
    """

    name: string
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@struct
class CreatableTopicConfigs:
    """A setting in force.

    Attributes:
        config_source: 1 topic, 2 broker (dynamic), 3 default for brokers, 4 broker (static), 5 built in, 6 logger,
            7 client metrics, 8 group; -1 unknown.
        is_sensitive: a secret, whose value is null.
    """

    name: string = field(versions="5+", default="")
    value: string | None = field(versions="5+", default="")
    read_only: boolean = field(versions="5+", default=False)
    config_source: int8 = field(versions="5+", default=-1, ignorable=True)
    is_sensitive: boolean = field(versions="5+", default=False)


@struct
class CreatableTopicResult:
    """What became of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
        error_message: the broker's words; null when it has none.
        topic_config_error_code: why the configuration is missing from the answer.
        num_partitions: -1 when unknown.
        replication_factor: -1 when unknown.
        configs: settings in force; null when unknown.
    """

    name: string
    topic_id: uuid = field(versions="7+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field(versions="1+", default="", ignorable=True)
    topic_config_error_code: int16 = field(versions="5+", default=0, tag=0, ignorable=True)
    num_partitions: int32 = field(versions="5+", default=-1, ignorable=True)
    replication_factor: int16 = field(versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(versions="5+", default_factory=list, ignorable=True)


@request(api_key=19, versions="0-7", flexible="5+", removed="0-1")
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """Create topics; must reach the controller (any broker passes it on since KIP-590).

    Versions: 1 may only validate (KIP-4), 4 takes -1 for the broker's defaults (KIP-464), 5 answers with the
    configuration (KIP-525), 7 with the topic id (KIP-516).

    Attributes:
        timeout_ms: how long to wait for the topics to exist on all brokers, in milliseconds.
        validate_only: check, but create nothing.
    """

    topics: list[CreatableTopic]
    timeout_ms: int32 = 60_000
    validate_only: boolean = field(versions="1+", default=False)


@response(api_key=19, versions="0-7", flexible="5+", removed="0-1")
class CreateTopicsResponse(Response):
    """What became of each topic.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]
