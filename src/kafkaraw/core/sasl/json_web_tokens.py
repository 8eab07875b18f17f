"""Reads JSON Web Tokens: their parts, and when they end. Used for tokens that a client gets and that a broker is shown.

This module does not check signatures. For any bytes it returns a value, or raises a ValueError without the bytes.
Source: RFC 7515, RFC 7519.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

EXPIRY_MAX_S: Final = 2**40
"""Later times of expiry, some 35,000 years from now, are taken for none; so are infinity and what is no number."""


def json_object(part: str) -> dict[str, object]:
    """The content of a token's header or payload.

    Raises:
        ValueError: it is not base64url of a JSON object.
    """
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("the token is no JSON Web Signature") from None
    if not isinstance(found, dict):
        raise ValueError("the token is no JSON Web Signature")
    return found


def expiry_s(claims: Mapping[str, object]) -> int | float | None:
    """The claim `exp`, in seconds since 1970; None when it is missing or no time."""
    expires = claims.get("exp")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        return None
    return expires if 0 <= expires < EXPIRY_MAX_S else None  # neither holds for NaN


def expiry_ms(token: str) -> int:
    """When a token ends, in milliseconds since 1970.

    Raises:
        ValueError: it is no JWT, or does not say when it ends.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it is no JSON Web Token")
    try:
        claims = json_object(parts[1])
    except ValueError:
        raise ValueError("it is no JSON Web Token") from None
    expires = expiry_s(claims)
    if expires is None:
        raise ValueError("its claim 'exp', the time of its end, is missing")
    return int(expires * 1000)
