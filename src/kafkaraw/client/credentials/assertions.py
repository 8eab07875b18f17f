"""Client assertions: signed JWTs with which a client proves to a token endpoint who it is, in place of a secret.

`FileAssertions` reads one that another program writes, as Kubernetes does for workload identities. `SignedAssertions`
signs its own with a private key, by the package cryptography. Files are read again for each assertion, so that keys and
assertions can be rotated. This module must not send anything; `oidc` does that.
Source: RFC 7521, RFC 7523 section 2.2, RFC 7518 section 3, KIP-1139, KIP-1258.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from kafkaraw.core.sasl.oauthbearer import base64_json, base64url
from kafkaraw.errors import AuthenticationError
from kafkaraw.light_classes import dataclass, field

ASSERTION_SIZE_MAX: Final = 1 << 16
_ES256_NUMBER_BYTES: Final = 32


class Assertions(Protocol):
    """Where assertions come from."""

    def assertion(self, now_s: float) -> str:
        """Return an assertion that is valid at a time.

        Args:
            now_s: seconds since the epoch.

        Raises:
            AuthenticationError: there is none; says which file or claim is wrong.
        """


@dataclass(frozen=True, slots=True)
class FileAssertions:
    """The content of a file.

    Attributes:
        path: a file with a JWT, and nothing else but space around it.
    """

    path: str

    def assertion(self, now_s: float) -> str:
        """See `Assertions.assertion`."""
        text = _read(self.path, "sasl_oauthbearer_assertion_file").strip()
        if text.count(".") != 2 or not all(text.split(".")) or not text.isascii() or len(text.split()) != 1:
            raise AuthenticationError(
                f"sasl_oauthbearer_assertion_file: {self.path} has no JWT, which is three parts with dots between them"
            )
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAssertions:
    """Assertions that a private key signs.

    Attributes:
        key_path: a private key in PEM: RSA for RS256, P-256 for ES256.
        algorithm: "RS256" or "ES256".
        claims: claims of every assertion, such as `aud`, `iss` and `sub`; they go before those of the template.
        lifetime_s: seconds from now to `exp`.
        leeway_s: seconds from `nbf` to now, for clocks that differ.
        new_id: makes a `jti`.
        passphrase: of an encrypted key.
        has_id: each assertion has a new `jti`, so that the endpoint can refuse one that comes twice.
        template_path: a JSON file with the objects `header` and `payload`, for further fields.
    """

    key_path: str
    algorithm: str
    claims: Mapping[str, str]
    lifetime_s: int
    leeway_s: int
    new_id: Callable[[], str]
    passphrase: str | None = field(default=None, repr=False)
    has_id: bool = False
    template_path: str | None = None

    def assertion(self, now_s: float) -> str:
        """See `Assertions.assertion`."""
        template = _template(self.template_path)
        header = {**template.get("header", {}), "alg": self.algorithm, "typ": "JWT"}
        now = int(now_s)
        times = {"iat": now, "exp": now + self.lifetime_s, "nbf": now - self.leeway_s}
        payload = {**template.get("payload", {}), **self.claims, **times}
        if self.has_id:
            payload["jti"] = self.new_id()
        signed = f"{base64_json(header)}.{base64_json(payload)}"
        return f"{signed}.{base64url(self._signature(signed.encode('ascii')))}"

    def _signature(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        key = self._key()
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, padding.PKCS1v15(), SHA256())
        if self.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1":
            r, s = decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))  # JWTs have the two numbers side by side
            return r.to_bytes(_ES256_NUMBER_BYTES, "big") + s.to_bytes(_ES256_NUMBER_BYTES, "big")
        needed = {"RS256": "an RSA key", "ES256": "an elliptic curve key on P-256"}[self.algorithm]
        raise AuthenticationError(
            f"sasl_oauthbearer_assertion_private_key_file: {self.key_path} has a key of another kind; "
            f"sasl_oauthbearer_assertion_algorithm={self.algorithm!r} needs {needed}"
        )

    def _key(self) -> object:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        text = _read(self.key_path, "sasl_oauthbearer_assertion_private_key_file")
        passphrase = None if self.passphrase is None else self.passphrase.encode()
        try:
            return load_pem_private_key(text.encode(), passphrase)
        except TypeError:
            what = "encrypted" if passphrase is None else "not encrypted"
            do = "set" if passphrase is None else "leave out"
            raise AuthenticationError(
                f"the private key in {self.key_path} is {what}: {do} sasl_oauthbearer_assertion_private_key_passphrase"
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            # The library's text may have bytes of the key.
            raise AuthenticationError(
                f"sasl_oauthbearer_assertion_private_key_file: {self.key_path} cannot be read as a private key in PEM; "
                "check the file and its passphrase"
            ) from None


def _read(path: str, setting: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(ASSERTION_SIZE_MAX + 1)
        if len(content) > ASSERTION_SIZE_MAX:
            raise AuthenticationError(f"{setting}: {path} has more than {ASSERTION_SIZE_MAX} bytes")
        return content.decode()
    except OSError as error:
        raise AuthenticationError(f"{setting}: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise AuthenticationError(f"{setting}: {path} is no text") from None


def _template(path: str | None) -> dict[str, dict[str, Any]]:
    if path is None:
        return {}
    try:
        found = json.loads(_read(path, "sasl_oauthbearer_assertion_template_file"))
    except (ValueError, RecursionError) as error:
        raise AuthenticationError(f"sasl_oauthbearer_assertion_template_file: {path} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(
        name in ("header", "payload") and isinstance(value, dict) for name, value in found.items()
    ):
        raise AuthenticationError(
            f"sasl_oauthbearer_assertion_template_file: {path} must be an object with the objects header and payload"
        )
    return found
