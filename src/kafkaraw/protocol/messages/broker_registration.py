"""BrokerRegistration (62): a broker enters the cluster (KIP-631)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string, uint16, uuid


@struct
class Listener:
    """An address of the broker.

    Attributes:
        security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    """

    name: string
    host: string
    port: uint16
    security_protocol: int16


@struct
class Feature:
    """A feature that the broker supports."""

    name: string
    min_supported_version: int16
    max_supported_version: int16


@request(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    """Register; sent by a broker to the controller.

    Attributes:
        cluster_id: id of the cluster; null when unknown.
        incarnation_id: made anew with every start.
        rack: the rack; null when unknown.
        is_migrating_zk_broker: left from the move away from ZooKeeper.
        log_dirs: ids of its log directories (KIP-858).
        previous_broker_epoch: epoch before a clean shutdown; -1 for none (KIP-966).
    """

    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: string | None
    is_migrating_zk_broker: boolean = field(versions="1+", default=False)
    log_dirs: list[uuid] = field(versions="2+", default_factory=list, ignorable=True)
    previous_broker_epoch: int64 = field(versions="3+", default=-1, ignorable=True)


@response(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Response):
    """The epoch it got.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    broker_epoch: int64 = -1
