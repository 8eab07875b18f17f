"""How a client protects its connections: TLS for the network, a mechanism for each login.

The settings are declared and checked in `client/config.py`; what logins need is in `client/credentials/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.client.config import ClientConfig
from kafkaraw.client.network.connection import Login
from kafkaraw.errors import AuthorizationError, ConfigError, KafkaError
from kafkaraw.net import AsyncioNetwork, Network

if TYPE_CHECKING:
    import random
    import ssl

    from kafkaraw.client.credentials.source import Credentials

SESSION_SHARES = (0.85, 0.95)
"""Between which parts of its lifetime a login is renewed; as in Kafka's SaslClientAuthenticator."""


def network_for(config: ClientConfig) -> Network:
    """The operating system's network, under TLS when the settings ask for it.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    return AsyncioNetwork(dial_tls=tls_of(config)) if config.security_protocol.endswith("SSL") else AsyncioNetwork()


def login_at(host: str, credentials: Credentials, rng: random.Random) -> Login:
    """How a connection to a broker logs in."""
    # Kafka's own clients draw the moment of renewal, too, so that connections do not all renew at once.
    return Login(lambda timeout: credentials.mechanism(host, timeout), rng.uniform(*SESSION_SHARES))


def principal_of(config: ClientConfig) -> str:
    """Return the client's principal according to its settings; a broker may map principals by rules of its own."""
    if config.security_protocol.startswith("SASL"):
        if config.sasl_username:
            return f"User:{config.sasl_username}"
        return f"the user of the {config.sasl_mechanism} login"
    if config.security_protocol == "SSL" and config.ssl_certfile:
        return "the subject of the client's certificate"
    return "User:ANONYMOUS"


def with_principal(error: KafkaError, config: ClientConfig) -> KafkaError:
    """Add the client's principal to an authorization error; return other errors as they are."""
    if isinstance(error, AuthorizationError) and not error.principal:
        return error.asked_by(principal_of(config))
    return error


def tls_of(config: ClientConfig) -> ssl.SSLContext:
    """Return how a client speaks TLS.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    if config.ssl_context is not None:
        return config.ssl_context
    from kafkaraw.net.tls import client_context  # only for TLS

    try:
        return client_context(
            trusted=config.ssl_cafile or config.ssl_cadata,
            certificate=config.ssl_certfile,
            key=config.ssl_keyfile,
            password=config.ssl_password,
            check_hostname=config.ssl_check_hostname,
        )
    except ConfigError as error:
        given = [name for name in ("ssl_cafile", "ssl_cadata", "ssl_certfile", "ssl_keyfile") if getattr(config, name)]
        raise ConfigError(f"{' or '.join(given)}: {error}") from None
