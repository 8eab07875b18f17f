"""Which fields of which messages hold secrets: SASL tokens, credentials, delegation tokens, and configurations.

Pure. Start at `secret_fields_of`.
"""

from __future__ import annotations

from typing import Final

ENVELOPE_KEY: Final = 58
"""Its data is another request, which may have any of these fields."""
_SECRET_FIELDS: Final = frozenset({"auth_bytes", "salted_password", "salt", "hmac"})
_TOKEN_KEYS: Final = frozenset({36, 38, 39, 40, 41, 51})
_CONFIG_KEYS: Final = frozenset({33, 44})


def secret_fields_of(api_key: int) -> frozenset[str]:
    """Return the names of the fields of an API that hold secrets."""
    if api_key in _CONFIG_KEYS:
        return frozenset({"value"})
    if api_key == ENVELOPE_KEY:
        return _SECRET_FIELDS | {"request_data", "response_data"}
    return _SECRET_FIELDS if api_key in _TOKEN_KEYS else frozenset()
