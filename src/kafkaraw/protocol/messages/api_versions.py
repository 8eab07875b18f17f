"""ApiVersions (18): which APIs and versions a broker speaks; the first question on every connection."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@struct
class ApiVersion:
    """The versions of one API.

    Attributes:
        api_key: number of the API.
    """

    api_key: int16
    min_version: int16
    max_version: int16


@struct
class SupportedFeatureKey:
    """A feature that this broker could use (KIP-584)."""

    name: string = field(versions="3+", default="")
    min_version: int16 = field(versions="3+", default=0)
    max_version: int16 = field(versions="3+", default=0)


@struct
class FinalizedFeatureKey:
    """A feature that the whole cluster uses (KIP-584).

    Attributes:
        max_version_level: the level in force.
        min_version_level: the lowest level in force.
    """

    name: string = field(versions="3+", default="")
    max_version_level: int16 = field(versions="3+", default=0)
    min_version_level: int16 = field(versions="3+", default=0)


@request(api_key=18, versions="0-5", flexible="3+", unstable="5")
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Ask what the broker speaks; any broker answers, even before authentication.

    A broker that does not know the version asked for answers UNSUPPORTED_VERSION in version 0 (KIP-511), and the
    client asks again. Version 5 names the broker that the client means (KIP-1242); it is not stable yet, but franz-go
    sends it.

    Attributes:
        client_software_name: name of the client library, for the broker's metrics (KIP-511).
        client_software_version: its version.
        cluster_id: the cluster that the client means to reach; null before it knows one.
        node_id: the broker that the client means to reach; -1 before it knows one.
    """

    client_software_name: string = field(versions="3+", default="", ignorable=True)
    client_software_version: string = field(versions="3+", default="", ignorable=True)
    cluster_id: string | None = field(versions="5+", default=None, ignorable=True)
    node_id: int32 = field(versions="5+", default=-1, ignorable=True)


@response(api_key=18, versions="0-5", flexible="3+", unstable="5")
class ApiVersionsResponse(Response):
    """What the broker speaks; its header is version 0 always.

    Version 4 exists because older clients refuse a feature whose lowest version is 0 (KAFKA-17011).

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        finalized_features_epoch: epoch of the finalized features; -1 when unknown.
        zk_migration_ready: left from the move away from ZooKeeper.
    """

    error_code: int16
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(versions="3+", default_factory=list, tag=0, ignorable=True)
    finalized_features_epoch: int64 = field(versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(versions="3+", default_factory=list, tag=2, ignorable=True)
    zk_migration_ready: boolean = field(versions="3+", default=False, tag=3, ignorable=True)
