"""ControllerRegistration (70): a controller enters the cluster (KIP-919)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string, uint16, uuid


@struct
class Listener:
    """An address of the controller.

    Attributes:
        security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    """

    name: string
    host: string
    port: uint16
    security_protocol: int16


@struct
class Feature:
    """A feature that the controller supports."""

    name: string
    min_supported_version: int16
    max_supported_version: int16


@request(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    """Register; sent by a controller to the active one.

    Attributes:
        incarnation_id: made anew with every start.
        zk_migration_ready: left from the move away from ZooKeeper.
    """

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: boolean
    listeners: list[Listener]
    features: list[Feature]


@response(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse(Response):
    """Whether it was taken.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
