"""SCRAM-SHA-256 and SCRAM-SHA-512: both ends prove that they know the password, and neither sends it.

The client checks the server's signature, and bounds the iterations that a server may ask for: below
`ITERATIONS_MIN` a thief of the exchange guesses cheaply, and each iteration costs this client's time. There is no
channel binding ("n"), as in Kafka. Names and passwords are taken as they are written, in UTF-8: Kafka has no SASLprep
(RFC 4013), its brokers keep what was hashed without it, and so with it some of their users could not log in.
Source: RFC 5802, RFC 7677, KIP-84, KIP-48.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from enum import Enum
from typing import Final

from kafkaraw.errors import AuthenticationError
from kafkaraw.light_classes import NamedTuple, dataclass

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISM_OF_TYPE: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by their numbers in requests (KIP-554)."""
TYPE_OF_MECHANISM: Final = {name: number for number, name in MECHANISM_OF_TYPE.items()}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 262_144
ITERATIONS_AT_ONCE_MAX: Final = 8_192
"""Up to so many take a few milliseconds; more are left to another thread (`ClientMechanism.computation`)."""
REFUSED: Final = "Authentication failed during {during} due to invalid credentials with SASL mechanism {name}"
_NO_BINDING: Final = "n,,"
TOKEN_AUTH: Final = "tokenauth"
"""The extension of the client's first message by which it authenticates with a delegation token."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password: enough to check it, too little to log in with it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class TokenLogin(NamedTuple):
    """What a broker knows of a delegation token, to authenticate a client with it.

    Attributes:
        credential: made from the token's HMAC.
        user: the name of its owner, as whom the client is authenticated.
        expires_ms: when the token expires, in milliseconds since 1970.
    """

    credential: ScramCredential
    user: str
    expires_ms: int


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hash a password as often as is asked for; who knows the result can log in, so it is a secret, too."""
    return _pbkdf2(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Derive what a broker keeps from a salted password."""
    digest = HASHES[mechanism]
    stored_key = _hash(digest, _hmac(digest, salted, b"Client Key"))
    return ScramCredential(salt, stored_key, _hmac(digest, salted, b"Server Key"), iterations)


def make_credential(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS_MIN) -> ScramCredential:
    """Derive what a broker keeps."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


class _Step(Enum):
    """What comes next; the same on both ends."""

    FIRST = "first"
    FINAL = "final"
    VERIFY = "verify"
    DONE = "done"


class ScramClient:
    """The client's half.

    Args:
        name: the mechanism.
        username: who.
        password: what only both ends know.
        nonce: fresh printable characters without a comma.
        token: whether the user is a delegation token (KIP-48).
    """

    def __init__(self, name: str, username: str, password: str, nonce: str, *, token: bool = False) -> None:
        self.name = name
        self._password = password.encode()
        self._digest = HASHES[name]
        self._nonce = nonce
        extension = f",{TOKEN_AUTH}=true" if token else ""
        self._first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}"
        self._salted: tuple[bytes, int, bytes] | None = None
        self._signature = b""
        self._next = _Step.FIRST

    @property
    def complete(self) -> bool:
        """Whether nothing more is to be said, and the broker has proved what the mechanism lets it prove."""
        return self._next is _Step.DONE

    def computation(self, challenge: bytes) -> Callable[[], None] | None:
        """See `ClientMechanism.computation`: hashing the password, when the broker asks for many iterations."""
        if self._next is not _Step.FINAL:
            return None
        try:
            _, salt, iterations = self._read_first(_text(challenge))
        except AuthenticationError:
            return None  # `step` raises it
        if iterations <= ITERATIONS_AT_ONCE_MAX:
            return None
        return lambda: self._hash(salt, iterations)

    def step(self, challenge: bytes | None) -> bytes:
        """Answer the broker."""
        if challenge is None:
            self._next = _Step.FINAL
            return (_NO_BINDING + self._first_bare).encode()
        text = _text(challenge)
        if self._next is _Step.FINAL:
            return self._final(text)
        if self._next is not _Step.VERIFY:
            raise AuthenticationError(f"{self.name}: the broker goes on after the end")
        self._verify(text)
        return b""

    def _read_first(self, server_first: str) -> tuple[str, bytes, int]:
        """Nonce, salt and iterations of the broker's first message, checked."""
        values = _attributes(server_first)
        if "e" in values:
            raise AuthenticationError(f"{self.name}: the broker refuses: {values['e']}")
        nonce, salt, iterations = values.get("r", ""), _decode(values.get("s", "")), values.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError(
                f"{self.name}: the broker's nonce does not begin with the client's; an attacker may be between them"
            )
        if not salt or not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10):
            raise AuthenticationError(f"{self.name}: the broker's first message has no usable salt or iterations")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise AuthenticationError(
                f"{self.name}: the broker asks for {iterations} iterations; "
                f"this client takes {ITERATIONS_MIN} to {ITERATIONS_MAX}; set the credential anew with fewer or more"
            )
        return nonce, salt, int(iterations)

    def _hash(self, salt: bytes, iterations: int) -> None:
        self._salted = salt, iterations, _pbkdf2(self._digest, self._password, salt, iterations)

    def _final(self, server_first: str) -> bytes:
        nonce, salt, iterations = self._read_first(server_first)
        if self._salted is None or self._salted[:2] != (salt, iterations):
            self._hash(salt, iterations)
        assert self._salted is not None
        salted = self._salted[2]
        client_key = _hmac(self._digest, salted, b"Client Key")
        stored_key = _hash(self._digest, client_key)
        without_proof = f"c={_encode(_NO_BINDING.encode())},r={nonce}"
        message = f"{self._first_bare},{server_first},{without_proof}".encode()
        proof = _xor(client_key, _hmac(self._digest, stored_key, message))
        self._signature = _hmac(self._digest, _hmac(self._digest, salted, b"Server Key"), message)
        self._next = _Step.VERIFY
        return f"{without_proof},p={_encode(proof)}".encode()

    def _verify(self, server_final: str) -> None:
        values = _attributes(server_final)
        if "e" in values:
            raise AuthenticationError(f"{self.name}: the broker refuses: {values['e']}")
        if not _same(_decode(values.get("v", "")), self._signature):
            raise AuthenticationError(f"{self.name}: the broker does not know the password: it is not who it claims")
        self._next = _Step.DONE


class ScramServer:
    """The broker's half.

    Args:
        name: the mechanism.
        find: the credential of a user, None for a stranger.
        nonce: fresh printable characters without a comma.
        during: "authentication" or "re-authentication", for the words of a refusal.
        find_token: a delegation token by its id, None for one that does not exist; without it, tokens are refused.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[str], ScramCredential | None],
        nonce: str,
        during: str = "authentication",
        find_token: Callable[[str], TokenLogin | None] | None = None,
    ) -> None:
        self.name = name
        self._refusal = REFUSED.format(during=during, name=name)
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.token_authenticated: bool = False
        self._find_token = find_token
        self._digest = HASHES[name]
        self._find = find
        self._nonce = nonce
        self._claimed = ""
        self._credential: ScramCredential | None = None
        self._first = ""
        self._header = ""
        self._next = _Step.FIRST

    def step(self, response: bytes) -> bytes:
        """Answer the client."""
        text = _text(response)
        if self._next is _Step.FIRST:
            return self._challenge(text)
        if self._next is not _Step.FINAL or self._credential is None:
            raise AuthenticationError(f"{self.name}: the client goes on after the end")
        return self._check(text, self._credential)

    def _challenge(self, client_first: str) -> bytes:
        binding, _, rest = client_first.partition(",")
        authorization_id, _, bare = rest.partition(",")
        values = _attributes(bare)
        if binding != "n" or not values.get("n") or not values.get("r") or "m" in values:
            raise AuthenticationError(f"{self.name}: the client's first message is not of the expected form")
        self._claimed = values["n"].replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in ("", f"a={values['n']}"):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is not its own")
        self._credential = self._find_token_credential() if _asks_for_token(bare) else self._find(self._claimed)
        if self._credential is None:
            raise AuthenticationError(self._refusal)
        self._nonce = values["r"] + self._nonce
        self._header = f"{binding},{authorization_id},"
        reply = f"r={self._nonce},s={_encode(self._credential.salt)},i={self._credential.iterations}"
        self._first = f"{bare},{reply}"
        self._next = _Step.FINAL
        return reply.encode()

    def _find_token_credential(self) -> ScramCredential | None:
        """Return the credential of the delegation token that the client names; its owner is the user."""
        found = None if self._find_token is None else self._find_token(self._claimed)
        if found is None:
            return None
        self._claimed, self.expires_ms, self.token_authenticated = found.user, found.expires_ms, True
        return found.credential

    def _check(self, client_final: str, credential: ScramCredential) -> bytes:
        self._next = _Step.DONE
        without_proof, _, proof = client_final.rpartition(",p=")
        values = _attributes(without_proof)
        message = f"{self._first},{without_proof}".encode()
        mask = _hmac(self._digest, credential.stored_key, message)
        given = _decode(proof)
        client_key = _xor(given, mask) if len(given) == len(mask) else b""
        key_fits = _same(_hash(self._digest, client_key), credential.stored_key)
        nonce_fits = _same(values.get("r", "").encode(), self._nonce.encode())
        if not (key_fits and nonce_fits and values.get("c") == _encode(self._header.encode())):
            raise AuthenticationError(self._refusal)
        self.user = self._claimed
        return f"v={_encode(_hmac(self._digest, credential.server_key, message))}".encode()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("a SCRAM message is not UTF-8") from None


def _attributes(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _asks_for_token(bare: str) -> bool:
    extensions = (part.partition("=") for part in bare.split(","))
    return any(name == TOKEN_AUTH and value.lower() == "true" for name, _, value in extensions)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


# hashlib and hmac take 6 ms to import: only logins pay for them.


def _pbkdf2(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    import hashlib

    return hashlib.pbkdf2_hmac(digest, password, salt, iterations)


def _hash(digest: str, data: bytes) -> bytes:
    import hashlib

    return hashlib.new(digest, data).digest()


def _same(one: bytes, other: bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    import hmac

    return hmac.compare_digest(one, other)


def _hmac(digest: str, key: bytes, message: bytes) -> bytes:
    import hmac

    return hmac.digest(key, message, digest)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
