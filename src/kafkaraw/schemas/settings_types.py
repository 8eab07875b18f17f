"""The settings of the registry's clients as types: what editors complete, and type checkers check.

Written by docs/generate_settings.py from the declarations in `src/kafkaraw/schemas/registry_config.py`; change those,
not this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ssl import SSLContext
from typing import TypedDict


class RegistrySettings(TypedDict, total=False):
    """Settings of `Registry` and `AsyncRegistry`, besides the URL."""

    context: str | None
    """Context of subjects that name none (`:.context:subject`), and of ids."""

    basic_auth: str | tuple[str, str] | None
    """User name and password: ("user", "password"), or "user:password"."""

    bearer_token: str | Callable[[], str | Awaitable[str]] | None
    """A bearer token, or a function that returns one; called for each request."""

    bearer_logical_cluster: str | None
    """Logical cluster of the registry, sent as `target-sr-cluster` with bearer tokens (Confluent Cloud)."""

    bearer_identity_pool: str | None
    """Identity pool, sent as `Confluent-Identity-Pool-Id` with bearer tokens (Confluent Cloud)."""

    oauth_token_endpoint_url: str | None
    """Token endpoint of OAuth's client credentials grant; https, or http on this machine."""

    oauth_client_id: str | None
    """Client id for the token endpoint."""

    oauth_client_secret: str | None
    """Client secret for the token endpoint."""

    oauth_scope: str | None
    """Scope to request from the token endpoint."""

    oauth_allowed_urls: str | Sequence[str]
    """Allowed token endpoints; if empty, any https URL is allowed."""

    oauth_cafile: str | None
    """CA certificates for the token endpoint: a PEM file, or PEM text; by default those of the system."""

    ssl_cafile: str | None
    """CA certificates to trust: a PEM file, or PEM text; by default those of the system."""

    ssl_certfile: str | None
    """This client's certificate chain: a PEM file, or PEM text."""

    ssl_keyfile: str | None
    """Its private key: a PEM file, or PEM text."""

    ssl_password: str | None
    """Password of the private key."""

    ssl_check_hostname: bool
    """Require that the registry's certificate is valid for the host name of the URL. Default: True."""

    ssl_context: SSLContext | None
    """TLS context of your own, instead of the other ssl_ settings."""

    headers: Mapping[str, str] | tuple[tuple[str, str], ...]
    """More headers of each request, such as those that a gateway wants."""

    request_timeout_ms: int
    """Maximum time of one attempt at one URL. Default: 10000 ms."""

    default_api_timeout_ms: int
    """Deadline of a call, with all attempts, pauses and tokens. Default: 30000 ms."""

    retries: int
    """How often a call tries all URLs again if none of them answers, within its deadline. Default: 5."""

    retry_backoff_ms: int
    """Pause before the first retry; doubles each time. Default: 200 ms."""

    retry_backoff_max_ms: int
    """Maximum pause between retries. Default: 5000 ms."""

    cache_size_max: int
    """Maximum number of schemas in each cache of the client. Default: 1000."""

    latest_cache_ttl_ms: int
    """How long `cached_version` and serializers with use_latest_version use the latest version of a subject without
    asking again. Default: 300000 ms.
    """

    missing_cache_ttl_ms: int
    """How long the client uses the registry's answer that it has no schema with an id or GUID. Default: 1000 ms."""

    missing_per_second_max: int
    """Maximum rate of look-ups of ids and GUIDs that the registry does not have: further look-ups wait. After a
    quiet time, ten times this number may come at once; 0 for no limit. Default: 100.
    """

    answer_size_max: int
    """Maximum size of an answer; a larger one is an error. Default: 33554432 bytes."""
