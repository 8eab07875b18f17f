"""Delegation tokens of a cluster (KIP-48): created, renewed and expired by clients, and accepted by SCRAM.

All nodes of a cluster share them, and they are stored. A token's HMAC is not stored: it is computed from the token's id
and `delegation.token.secret.key`. Without that key there are no tokens. As in Kafka, an expired token is removed at the
next check (`delegation.token.expiry.check.interval.ms`); until then, a login with it succeeds, but its session has no
lifetime left.

Checks of the connection and of permissions are in `handlers.delegation_tokens`. Start at `DelegationTokens.create`.
Source: org.apache.kafka.controller.DelegationTokenControlManager, kafka.server.DelegationTokenManager of Kafka 4.3.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.settings import LONG_MAX, Setting, Value, number, text
from kafkaraw.core.sasl.scram import ScramCredential, TokenLogin, make_credential
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode

TOKENS_FILE: Final = "kafkaraw-delegation-tokens.json"
FORMAT_VERSION: Final = 1
SECRET_KEY: Final = "delegation.token.secret.key"
TOKEN_SETTINGS: Final = (
    Setting(SECRET_KEY, "", "the secret from which the HMACs of delegation tokens are made; empty: no tokens"),
    Setting(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "how long a delegation token can be renewed, in milliseconds",
        low=1,
        high=LONG_MAX,
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "how long a delegation token lasts before it has to be renewed, in milliseconds",
        low=1,
        high=LONG_MAX,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "milliseconds between two checks for expired delegation tokens",
        low=1,
        high=LONG_MAX,
    ),
)
USER: Final = "User"


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings of delegation tokens.

    Attributes:
        secret_key: the secret; empty disables tokens.
        max_lifetime_ms: how long a token can be renewed.
        expiry_ms: how long it lasts before it has to be renewed.
        check_interval_ms: the time between two checks for expired tokens.
    """

    secret_key: str = field(repr=False)
    max_lifetime_ms: int
    expiry_ms: int
    check_interval_ms: int


def parse_tokens(values: Mapping[str, Value]) -> TokenSettings:
    """Return the settings among a broker's properties."""
    return TokenSettings(
        text(values, SECRET_KEY),
        number(values, "delegation.token.max.lifetime.ms"),
        number(values, "delegation.token.expiry.time.ms"),
        number(values, "delegation.token.expiry.check.interval.ms"),
    )


class StoredToken(NamedTuple):
    """A delegation token, without its HMAC.

    Attributes:
        token_id: the user name for SCRAM.
        owner: the principal that a client with this token has, such as "User:ada".
        requester: the principal that created it.
        renewers: principals that may renew and expire it, besides the owner.
        issued_ms: when it was created, in milliseconds since 1970.
        expires_ms: when it expires unless it is renewed, in milliseconds since 1970.
        max_ms: when it expires for good, in milliseconds since 1970.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Return whether its time is over."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def may_renew(self, principal: str) -> bool:
        """Return whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Return whether a principal owns it, has created it, or may renew it."""
        return principal == self.requester or self.may_renew(principal)


class DelegationTokens:
    """The delegation tokens of a cluster.

    Args:
        settings: the settings.
        new_id: creates a random token id.
        new_salt: creates a random salt for SCRAM.
        save: stores the text of all tokens; may raise OSError.
    """

    def __init__(
        self,
        settings: TokenSettings,
        new_id: Callable[[], str],
        new_salt: Callable[[], bytes],
        save: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._new_id = new_id
        self._new_salt = new_salt
        self._save = save
        self._tokens: dict[str, StoredToken] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._checked_ms: int | None = None

    def __repr__(self) -> str:
        return f"DelegationTokens({len(self._tokens)})"

    @property
    def is_enabled(self) -> bool:
        """Whether the broker has a secret key, without which there are no tokens."""
        return bool(self._settings.secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token, which is its secret."""
        import hmac  # only for tokens

        return hmac.digest(self._settings.secret_key.encode(), token_id.encode(), "sha512")

    def all(self, now_ms: int) -> list[StoredToken]:
        """Return all tokens that are not removed yet."""
        self._remove_expired(now_ms)
        return list(self._tokens.values())

    def find(self, token_id: str) -> StoredToken | None:
        """Return a token by its id; None if there is none."""
        return self._tokens.get(token_id)

    # -- changes -----------------------------------------------------------------------------------------------------

    def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int, now_ms: int
    ) -> StoredToken:
        """Create a token.

        Args:
            owner: the principal of clients with this token.
            requester: the principal that creates it.
            renewers: principals that may renew and expire it, too.
            max_lifetime_ms: how long it can be renewed; the broker's limit if this is longer or not positive.
            now_ms: now, in milliseconds since 1970.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED, or KAFKA_STORAGE_ERROR.
        """
        self._check_enabled()
        self._remove_expired(now_ms)
        settings = self._settings
        lifetime_ms = (
            min(max_lifetime_ms, settings.max_lifetime_ms) if max_lifetime_ms > 0 else settings.max_lifetime_ms
        )
        max_ms = min(now_ms + lifetime_ms, LONG_MAX)
        expires_ms = min(max_ms, now_ms + settings.expiry_ms)
        token = StoredToken(self._new_id(), owner, requester, tuple(renewers), now_ms, expires_ms, max_ms)
        self._store({**self._tokens, token.token_id: token})
        return token

    def renew(self, hmac: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token expire later, and return when, in milliseconds since 1970.

        Args:
            hmac: its HMAC.
            principal: the principal that renews it.
            period_ms: from now; the broker's limit if this is longer or not positive.
            now_ms: now, in milliseconds since 1970.

        Raises:
            ApiError: tokens are disabled, there is no such token, it has expired, the principal may not renew it, or
                it cannot be stored.
        """
        token = self._token_of(hmac, now_ms)
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "")
        _check_may_renew(token, principal)
        limit_ms = self._settings.expiry_ms
        lasts_ms = min(period_ms, limit_ms) if period_ms > 0 else limit_ms
        return self._change_expiry(token, min(token.max_ms, now_ms + lasts_ms))

    def expire(self, hmac: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token expire at another time, and return when, in milliseconds since 1970.

        Args:
            hmac: its HMAC.
            principal: the principal that expires it.
            period_ms: from now; negative to remove it now.
            now_ms: now, in milliseconds since 1970.

        Raises: see `renew`.
        """
        token = self._token_of(hmac, now_ms)
        _check_may_renew(token, principal)
        if period_ms < 0:
            self._store({name: one for name, one in self._tokens.items() if name != token.token_id})
            return now_ms
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "")
        return self._change_expiry(token, min(token.max_ms, now_ms + period_ms))

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "")

    def _token_of(self, hmac: bytes, now_ms: int) -> StoredToken:
        self._check_enabled()
        self._remove_expired(now_ms)
        found = self._tokens.get(self._ids.get(_digest(hmac), ""))
        if found is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "")
        return found

    def _change_expiry(self, token: StoredToken, expires_ms: int) -> int:
        self._store({**self._tokens, token.token_id: token._replace(expires_ms=expires_ms)})
        return expires_ms

    def _remove_expired(self, now_ms: int) -> None:
        """Check for expired tokens, if the interval is over since the last check.

        This broker needs no timer: tokens are looked at only when a client asks for them.
        """
        if self._checked_ms is None:
            self._checked_ms = now_ms
        if now_ms - self._checked_ms < self._settings.check_interval_ms:
            return
        self._checked_ms = now_ms
        if any(token.is_expired(now_ms) for token in self._tokens.values()):
            self._store({name: token for name, token in self._tokens.items() if not token.is_expired(now_ms)})

    def _store(self, tokens: Mapping[str, StoredToken]) -> None:
        try:
            self._save(tokens_text(tokens.values()))
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the delegation tokens could not be stored") from error
        self._set(tokens)

    def _set(self, tokens: Mapping[str, StoredToken]) -> None:
        self._tokens = dict(tokens)
        # By a digest of the HMAC, so that the time of a look-up tells nothing about the secret.
        self._ids = {_digest(self.hmac_of(token_id)): token_id for token_id in tokens} if self.is_enabled else {}
        self._credentials = {key: made for key, made in self._credentials.items() if key[1] in self._tokens}

    # -- logins ------------------------------------------------------------------------------------------------------

    def login(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin | None:
        """Return what a SCRAM mechanism needs for a client with a token; None if there is no such token."""
        if not self.is_enabled:
            return None
        self._remove_expired(now_ms)
        token = self._tokens.get(token_id)
        if token is None:
            return None
        key = (mechanism, token_id)
        if key not in self._credentials:
            password = b64encode(self.hmac_of(token_id)).decode()
            self._credentials[key] = make_credential(mechanism, password, self._new_salt())
        return TokenLogin(self._credentials[key], token.owner.partition(":")[2], token.expires_ms)

    # -- files -------------------------------------------------------------------------------------------------------

    def load(self, content: str) -> None:
        """Take the tokens that were stored.

        Raises:
            ConfigError: the text is damaged, or of a newer version.
        """
        self._set({token.token_id: token for token in read_tokens(content)})


def _check_may_renew(token: StoredToken, principal: str) -> None:
    if not token.may_renew(principal):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "")


def _digest(secret: bytes) -> bytes:
    import hashlib  # only for tokens

    return hashlib.sha256(secret).digest()


def tokens_text(tokens: Iterable[StoredToken]) -> str:
    """Return what `read_tokens` reads."""
    rows = [{**token._asdict(), "renewers": list(token.renewers)} for token in tokens]
    return json.dumps({"version": FORMAT_VERSION, "tokens": rows}, indent=1) + "\n"


def read_tokens(content: str) -> list[StoredToken]:
    """Return the tokens of a text.

    Raises:
        ConfigError: it is damaged, or of a newer version.
    """
    try:
        found = json.loads(content)
        if found["version"] != FORMAT_VERSION:
            raise ConfigError(f"{TOKENS_FILE}: version {found['version']} is not known, only {FORMAT_VERSION} is")
        return [
            StoredToken(
                str(row["token_id"]),
                str(row["owner"]),
                str(row["requester"]),
                tuple(str(renewer) for renewer in row["renewers"]),
                int(row["issued_ms"]),
                int(row["expires_ms"]),
                int(row["max_ms"]),
            )
            for row in found["tokens"]
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{TOKENS_FILE} in the data directory is damaged: {error}") from error
