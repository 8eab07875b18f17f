"""Which credentials belong to which mechanism: one table."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kafkaraw.client.credentials.assertions import Assertions, FileAssertions, SignedAssertions
from kafkaraw.client.credentials.kerberos import NAME as GSSAPI
from kafkaraw.client.credentials.kerberos import KerberosCredentials, load_gssapi
from kafkaraw.client.credentials.oidc import Endpoint, EndpointTokens
from kafkaraw.client.credentials.source import (
    AWS_MSK_IAM,
    BearerCredentials,
    CachedTokens,
    Credentials,
    PasswordCredentials,
    ProvidedTokens,
    SignedTokens,
    load_signer,
)
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ConfigError
from kafkaraw.net.tls import client_context

if TYPE_CHECKING:
    from kafkaraw.client.config import ClientConfig
    from kafkaraw.client.runtime import Runtime


def credentials_for(config: ClientConfig, runtime: Runtime) -> Credentials:
    """What a client logs in with that has a SASL protocol.

    Raises:
        ConfigError: a package is missing; says which extra has it.
    """
    return _MAKERS.get(str(config.sasl_mechanism), _password)(config, runtime)


def _password(config: ClientConfig, runtime: Runtime) -> Credentials:
    name, username, password = config.sasl_mechanism, config.sasl_username, config.sasl_password
    return PasswordCredentials(str(name), username or "", password or "", runtime.entropy, token=config.sasl_token_auth)


def _bearer(config: ClientConfig, runtime: Runtime) -> Credentials:
    if config.sasl_oauth_token_provider is not None:
        return BearerCredentials(ProvidedTokens(config.sasl_oauth_token_provider), config.sasl_oauthbearer_extensions)
    if find_spec("httpx") is None:
        raise ConfigError("sasl_oauthbearer_token_endpoint_url needs the package httpx: pip install 'kafkaraw[oauth]'")
    pause_ms = config.sasl_login_retry_backoff_ms
    endpoint = Endpoint(
        url=str(config.sasl_oauthbearer_token_endpoint_url),
        client_id=config.sasl_oauthbearer_client_id or "",
        client_secret=config.sasl_oauthbearer_client_secret or "",
        assertions=_assertions(config, runtime),
        scope=config.sasl_oauthbearer_scope,
        urlencode=config.sasl_oauthbearer_header_urlencode,
        connect_timeout=config.sasl_login_connect_timeout_ms / 1000,
        read_timeout=config.sasl_login_read_timeout_ms / 1000,
        backoff=Backoff(pause_ms, max(config.sasl_login_retry_backoff_max_ms, pause_ms)),
        tls=lambda: client_context(trusted=config.sasl_oauthbearer_cafile),
    )
    tokens = CachedTokens(EndpointTokens(endpoint, runtime.rng, runtime.clock), runtime.clock)
    return BearerCredentials(tokens, config.sasl_oauthbearer_extensions)


def _assertions(config: ClientConfig, runtime: Runtime) -> Assertions | None:
    """Return what proves who the client is in place of a secret, in KIP-1258's order; None for the secret."""
    if config.sasl_oauthbearer_assertion_file is not None:
        return FileAssertions(config.sasl_oauthbearer_assertion_file)
    if config.sasl_oauthbearer_assertion_private_key_file is None:
        return None
    if find_spec("cryptography") is None:
        raise ConfigError(
            "sasl_oauthbearer_assertion_private_key_file needs the package cryptography: pip install 'kafkaraw[oauth]'"
        )
    claims = {
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
    }
    return SignedAssertions(
        key_path=config.sasl_oauthbearer_assertion_private_key_file,
        passphrase=config.sasl_oauthbearer_assertion_private_key_passphrase,
        algorithm=config.sasl_oauthbearer_assertion_algorithm,
        claims={name: value for name, value in claims.items() if value is not None},
        lifetime_s=config.sasl_oauthbearer_assertion_claim_exp_seconds,
        leeway_s=config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        new_id=lambda: runtime.entropy(16).hex(),
        has_id=config.sasl_oauthbearer_assertion_claim_jti_include,
        template_path=config.sasl_oauthbearer_assertion_template_file,
    )


def _msk(config: ClientConfig, runtime: Runtime) -> Credentials:
    tokens = SignedTokens(config.sasl_aws_msk_region or "", load_signer())
    return BearerCredentials(CachedTokens(tokens, runtime.clock))


def _kerberos(config: ClientConfig, runtime: Runtime) -> Credentials:
    return KerberosCredentials(config.sasl_kerberos_service_name, load_gssapi())


_MAKERS: Final[dict[str, Callable[[ClientConfig, Runtime], Credentials]]] = {
    "OAUTHBEARER": _bearer,
    GSSAPI: _kerberos,
    AWS_MSK_IAM: _msk,
}
