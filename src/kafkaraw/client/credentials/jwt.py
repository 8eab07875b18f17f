"""Reads of a JSON Web Token what a client needs: when it ends. Signatures are the broker's business."""

from __future__ import annotations

import base64
import binascii
import json


def expiry_ms(token: str) -> int:
    """When a token ends, in milliseconds since 1970.

    Raises:
        ValueError: it is no JWT, or does not say when it ends; the message shows nothing of it.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it is no JSON Web Token")
    try:
        payload = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        claims = json.loads(payload)
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("it is no JSON Web Token") from None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not 0 <= expires < 2**40:
        raise ValueError("its claim 'exp', the time of its end, is missing")
    return int(expires * 1000)
