"""How a client protects its connections: TLS for the network, a mechanism for each login.

The settings are declared and checked in `config.py`. Passwords and tokens go from there into a mechanism and nowhere
else.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from kafkaraw.client.config import ClientConfig
from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError, KafkaError
from kafkaraw.net import AsyncioNetwork, Network
from kafkaraw.net.tls import client_context

if TYPE_CHECKING:
    import random
    import ssl

NONCE_BITS = 192


def network_for(config: ClientConfig) -> Network:
    """The operating system's network, under TLS when the settings ask for it.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    return AsyncioNetwork(dial_tls=_tls(config)) if config.security_protocol.endswith("SSL") else AsyncioNetwork()


async def mechanism_for(config: ClientConfig, rng: random.Random) -> ClientMechanism | None:
    """The client's half of one login; None when no login is asked for.

    Raises:
        AuthenticationError: the token provider failed, or gave no token; name or password cannot be used.
    """
    if not config.security_protocol.startswith("SASL"):
        return None
    if config.sasl_mechanism == "OAUTHBEARER":
        return OAuthBearerClient(await _token(config))
    username, password = config.sasl_username or "", config.sasl_password or ""
    if config.sasl_mechanism == "PLAIN":
        return PlainClient(username, password)
    return ScramClient(str(config.sasl_mechanism), username, password, f"{rng.getrandbits(NONCE_BITS):048x}")


async def _token(config: ClientConfig) -> str:
    provider = config.sasl_oauth_token_provider
    assert provider is not None
    try:
        # It may well ask a server: not on the loop's thread.
        token = await provider() if inspect.iscoroutinefunction(provider) else await asyncio.to_thread(provider)
    except KafkaError:
        raise
    except Exception as error:  # the user's code: whatever it raises, there is no token
        raise AuthenticationError(f"sasl_oauth_token_provider failed: {type(error).__name__}: {error}") from error
    if not isinstance(token, str):
        raise AuthenticationError(
            f"sasl_oauth_token_provider must return the token as text, not {type(token).__name__}"
        )
    return token


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
