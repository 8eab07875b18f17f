"""How a client protects its connections: TLS for the network, a mechanism for each login.

The settings are declared and checked in `config.py`. Passwords and tokens go from there into a mechanism and nowhere
else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeGuard

from kafkaraw.client.config import ClientConfig
from kafkaraw.client.connection import Login
from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError, AuthorizationError, KafkaError
from kafkaraw.net import AsyncioNetwork, Network
from kafkaraw.net.tls import client_context

if TYPE_CHECKING:
    import random
    import ssl

NONCE_BITS = 192
SESSION_SHARES = (0.85, 0.95)
"""Between which parts of its lifetime a login is renewed; as in Kafka's SaslClientAuthenticator."""


def network_for(config: ClientConfig) -> Network:
    """The operating system's network, under TLS when the settings ask for it.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    return AsyncioNetwork(dial_tls=_tls(config)) if config.security_protocol.endswith("SSL") else AsyncioNetwork()


def login_for(config: ClientConfig, rng: random.Random) -> Login | None:
    """How a connection logs in; None when no login is asked for."""
    if not config.security_protocol.startswith("SASL"):
        return None
    # Kafka's own clients draw the moment of renewal, too, so that connections do not all renew at once.
    return Login(lambda: _mechanism(config, rng), rng.uniform(*SESSION_SHARES))


async def _mechanism(config: ClientConfig, rng: random.Random) -> ClientMechanism:
    if config.sasl_mechanism == "OAUTHBEARER":
        return OAuthBearerClient(await _token(config))
    username, password = config.sasl_username or "", config.sasl_password or ""
    if config.sasl_mechanism == "PLAIN":
        return PlainClient(username, password)
    return ScramClient(str(config.sasl_mechanism), username, password, f"{rng.getrandbits(NONCE_BITS):048x}")


def principal_of(config: ClientConfig) -> str:
    """Who brokers take this client for, as far as the settings tell: brokers may map names as they like."""
    if config.security_protocol.startswith("SASL"):
        if config.sasl_username:
            return f"User:{config.sasl_username}"
        return f"the user of the {config.sasl_mechanism} login"
    if config.security_protocol == "SSL" and config.ssl_certfile:
        return "the subject of the client's certificate"
    return "User:ANONYMOUS"


def with_principal(error: KafkaError, config: ClientConfig) -> KafkaError:
    """An error that says who asked, when it is about what somebody may do."""
    if isinstance(error, AuthorizationError) and not error.principal:
        return error.asked_by(principal_of(config))
    return error


async def _token(config: ClientConfig) -> str:
    provider = config.sasl_oauth_token_provider
    assert provider is not None
    try:
        # It may well ask a server: not on the loop's thread.
        token = await provider() if _is_async(provider) else await asyncio.to_thread(provider)
    except KafkaError:
        raise
    except Exception as error:  # the user's code: whatever it raises, there is no token
        raise AuthenticationError(f"sasl_oauth_token_provider failed: {type(error).__name__}: {error}") from error
    if not isinstance(token, str):
        raise AuthenticationError(
            f"sasl_oauth_token_provider must return the token as text, not {type(token).__name__}"
        )
    return token


def _is_async(provider: Callable[[], str | Awaitable[str]]) -> TypeGuard[Callable[[], Awaitable[str]]]:
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(type(provider).__call__)


def _tls(config: ClientConfig) -> ssl.SSLContext:
    if config.ssl_context is not None:
        return config.ssl_context
    return client_context(
        trusted=config.ssl_cafile or config.ssl_cadata,
        certificate=config.ssl_certfile,
        key=config.ssl_keyfile,
        password=config.ssl_password,
        check_hostname=config.ssl_check_hostname,
    )
