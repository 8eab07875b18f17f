"""DescribeConfigs (32): settings of topics, brokers and other resources."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string


@struct
class DescribeConfigsResource:
    """One resource.

    Attributes:
        resource_type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
        configuration_keys: settings wanted; null for all.
    """

    resource_type: int8
    resource_name: string
    configuration_keys: list[string] | None


@struct
class DescribeConfigsSynonym:
    """A value that another one overrides."""

    name: string = field(versions="1+", default="")
    value: string | None = field(versions="1+", default="")
    source: int8 = field(versions="1+", default=0)


@struct
class DescribeConfigsResourceResult:
    """One setting.

    Attributes:
        value: null when it is a secret.
        is_default: whether the value is the default, in version 0.
        config_source: 1 topic, 2 broker (dynamic), 3 default for brokers, 4 broker (static), 5 built in, 6 logger,
            7 client metrics, 8 group; -1 unknown.
        is_sensitive: a secret, whose value is null.
        config_type: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password; 0 unknown.
        documentation: null when not asked for.
    """

    name: string
    value: string | None
    read_only: boolean
    is_default: boolean = field(versions="0", default=False)
    config_source: int8 = field(versions="1+", default=-1, ignorable=True)
    is_sensitive: boolean
    synonyms: list[DescribeConfigsSynonym] = field(versions="1+", default_factory=list, ignorable=True)
    config_type: int8 = field(versions="3+", default=0, ignorable=True)
    documentation: string | None = field(versions="3+", default="", ignorable=True)


@struct
class DescribeConfigsResult:
    """The settings of one resource.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
    configs: list[DescribeConfigsResourceResult]


@request(api_key=32, versions="0-4", flexible="4+", removed="0")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """Ask for settings; broker resources must be asked of that broker.

    Versions: 1 has the source of a value (KIP-226), 3 types and documentation (KIP-569).

    Attributes:
        include_synonyms: include the values that this one overrides.
        include_documentation: include the documentation of the setting.
    """

    resources: list[DescribeConfigsResource]
    include_synonyms: boolean = field(versions="1+", default=False)
    include_documentation: boolean = field(versions="3+", default=False)


@response(api_key=32, versions="0-4", flexible="4+", removed="0")
class DescribeConfigsResponse(Response):
    """The settings.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult]
