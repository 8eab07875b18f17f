"""AlterClientQuotas (49): set and remove client quotas (KIP-546)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, float64, int16, int32, string


@struct
class EntityData:
    """One part of an entity.

    Attributes:
        entity_type: user, client-id or ip.
        entity_name: null for the default.
    """

    entity_type: string
    entity_name: string | None


@struct
class OpData:
    """One change.

    Attributes:
        key: such as producer_byte_rate.
        value: in bytes per second, or percent, as the key says.
        remove: remove it instead.
    """

    key: string
    value: float64
    remove: boolean


@struct
class AlterClientQuotasRequestEntryData:
    """The changes for one entity."""

    entity: list[EntityData]
    ops: list[OpData]


@struct
class AlterClientQuotasResponseEntryData:
    """What became of one entity's.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None
    entity: list[EntityData]


@request(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """Change quotas; must reach the controller (any broker passes it on).

    Attributes:
        validate_only: check, but change nothing.
    """

    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: boolean


@response(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData]
