"""Credentials, and where bearer tokens come from: passwords, a function of the user's, or Amazon's signer for MSK.

`Credentials` makes the client's half of an authentication; a `TokenSource` returns bearer tokens for it, and
`CachedTokens` keeps one for the first part of its lifetime. Tokens of an OpenID provider: `oidc.py`; tickets:
`kerberos.py`.

AWS MSK with IAM is an OAUTHBEARER authentication whose token is a signed request, made by Amazon's signer (extra
`msk`). The signer finds AWS credentials itself, and may ask a metadata service: it runs off the loop's thread. Source:
aws-msk-iam-sasl-signer-python.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias, TypeGuard

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.core.sasl.plain import NAME as PLAIN
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError, ConfigError, KafkaError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import Clock
from kafkaraw.net.threads import run_in_daemon_thread

REUSED_SHARE = 0.8
"""The part of its life in which a token is used for new logins; Kafka's sasl.login.refresh.window.factor."""


class Credentials(Protocol):
    """Makes the client's half of logins."""

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """The client's half of one login.

        Args:
            host: of the broker, as it was dialled.
            timeout: how long that may take, in seconds.

        Raises:
            AuthenticationError: what the login needs is refused or cannot be used.
            NetworkError: stage SASL: it cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.

    Attributes:
        value: as issued.
        expires_ms: when it expires, in milliseconds since 1970; None when unknown.
    """

    value: str = field(repr=False)
    expires_ms: int | None = None


class TokenSource(Protocol):
    """Gives bearer tokens."""

    async def token(self, timeout: float) -> Token:
        """A token that can be used now; see `Credentials.mechanism` for arguments and errors."""
        ...


class BearerCredentials:
    """Logs in by OAUTHBEARER with tokens of a source.

    Args:
        source: where tokens come from.
        extensions: SASL extensions, by name (KIP-342).
    """

    def __init__(self, source: TokenSource, extensions: Mapping[str, str] | None = None) -> None:
        self._source = source
        self._extensions = extensions

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """The client's half of one login."""
        return OAuthBearerClient((await self._source.token(timeout)).value, self._extensions)


class CachedTokens:
    """Keeps a token for the first part of its life, for all connections of a client; fetches one at a time.

    Args:
        source: where tokens come from.
        clock: wall clock.
    """

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._fetching = asyncio.Lock()
        self._token: Token | None = None
        self._reused_until_ms = 0.0

    async def token(self, timeout: float) -> Token:
        """See `TokenSource.token`.

        Raises:
            AuthenticationError: the new token has expired already.
        """
        async with self._fetching:
            now_ms = self._clock.time_ms()
            if self._token is None or now_ms >= self._reused_until_ms:
                self._token = None
                self._keep(await self._source.token(timeout), now_ms)
            assert self._token is not None
            return self._token

    def _keep(self, token: Token, now_ms: int) -> None:
        ends_ms = token.expires_ms
        if ends_ms is not None and ends_ms <= self._clock.time_ms():
            raise AuthenticationError(
                "the OAuth token has expired already when it is issued; compare this machine's clock with the issuer's"
            )
        self._token = token
        self._reused_until_ms = 0.0 if ends_ms is None else now_ms + (ends_ms - now_ms) * REUSED_SHARE


NONCE_BYTES: Final = 24


class PasswordCredentials:
    """Logs in with a password.

    Args:
        mechanism: PLAIN or one of SCRAM's.
        username: who.
        password: theirs.
        entropy: source of nonces, which must be unpredictable.
        token: whether the user is a delegation token, with one of SCRAM's.
    """

    def __init__(
        self, mechanism: str, username: str, password: str, entropy: Callable[[int], bytes], *, token: bool = False
    ) -> None:
        self._name = mechanism
        self._username = username
        self._password = password
        self._entropy = entropy
        self._token = token

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """The client's half of one login."""
        if self._name == PLAIN:
            return PlainClient(self._username, self._password)
        nonce = self._entropy(NONCE_BYTES).hex()
        return ScramClient(self._name, self._username, self._password, nonce, token=self._token)


Provider: TypeAlias = Callable[[], str | Awaitable[str]]


class ProvidedTokens:
    """Calls the function for each login, off the loop's thread unless it is a coroutine function.

    Args:
        provider: returns a token.
        setting: the setting that names the function, for errors.
    """

    def __init__(self, provider: Provider, setting: str = "sasl_oauth_token_provider") -> None:
        self._provider = provider
        self._setting = setting

    async def token(self, timeout: float) -> Token:
        """A token that can be used now; see `Credentials.mechanism` for arguments and errors."""
        provider = self._provider
        try:
            token = await provider() if _is_async(provider) else await run_in_daemon_thread(provider, "kafkaraw-token")
        except KafkaError:
            raise
        except Exception as error:  # the user's code may raise any exception; then there is no token
            raise AuthenticationError(f"{self._setting} failed: {type(error).__name__}: {error}") from error
        if not isinstance(token, str):
            raise AuthenticationError(f"{self._setting} must return the token as text, not {type(token).__name__}")
        return Token(token)


def _is_async(provider: Provider) -> TypeGuard[Callable[[], Awaitable[str]]]:
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(type(provider).__call__)


AWS_MSK_IAM: Final = "AWS_MSK_IAM"
MISSING: Final = (
    f"sasl_mechanism={AWS_MSK_IAM!r} needs the package aws-msk-iam-sasl-signer-python: pip install 'kafkaraw[msk]'"
)


def load_signer() -> Callable[[str], tuple[str, int]]:
    """Amazon's function that makes a token for a region.

    Raises:
        ConfigError: the package is not installed; says how to.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError as error:
        raise ConfigError(MISSING) from error
    signer: Callable[[str], tuple[str, int]] = MSKAuthTokenProvider.generate_auth_token
    return signer


class SignedTokens:
    """Makes tokens with the signer.

    Args:
        region: of the cluster, such as eu-central-1.
        sign: see `load_signer`.
    """

    def __init__(self, region: str, sign: Callable[[str], tuple[str, int]]) -> None:
        self._region = region
        self._sign = sign

    async def token(self, timeout: float) -> Token:
        """A token that can be used now; see `Credentials.mechanism` for arguments and errors."""
        try:
            value, expires_ms = await run_in_daemon_thread(lambda: self._sign(self._region), "kafkaraw-token")
        except Exception as error:  # botocore has many, and all mean that there is no token
            raise AuthenticationError(
                f"no token for MSK in {self._region!r}: {type(error).__name__}: {error}; are there AWS credentials?"
            ) from error
        return Token(value, int(expires_ms))
