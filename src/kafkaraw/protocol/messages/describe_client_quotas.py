"""DescribeClientQuotas (48): list client quotas (KIP-546)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, float64, int8, int16, int32, string


@struct
class ComponentData:
    """One part of a filter.

    Attributes:
        entity_type: user, client-id or ip.
        match_type: 0 this name, 1 the default, 2 any.
        match: the name; null when it does not matter.
    """

    entity_type: string
    match_type: int8
    match: string | None


@struct
class EntityData:
    """One part of an entity.

    Attributes:
        entity_name: null for the default.
    """

    entity_type: string
    entity_name: string | None


@struct
class ValueData:
    """One quota.

    Attributes:
        key: such as producer_byte_rate.
        value: in bytes per second, or percent, as the key says.
    """

    key: string
    value: float64


@struct
class EntryData:
    """The quotas of one entity."""

    entity: list[EntityData]
    values: list[ValueData]


@request(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """List quotas; any broker answers.

    Attributes:
        strict: leave out entities with parts that were not asked for.
    """

    components: list[ComponentData]
    strict: boolean


@response(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Response):
    """The quotas.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        entries: null after an error.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
    entries: list[EntryData] | None
