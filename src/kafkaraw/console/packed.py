"""MessagePack as JSON has it, in bounded time and memory, whatever the bytes are. Start at `unpacked`."""

from __future__ import annotations

import json
from typing import Any, Final

_NESTED_MAX: Final = 200
_MAX_BYTES: Final = 1 << 20
"""A byte can be an empty object, of 64 bytes: so less is unpacked than is parsed of JSON."""
_CONTAINERS: Final = (*range(0x80, 0xA0), *range(0xDC, 0xE0))


def may_be_packed(data: bytes) -> bool:
    """Return whether bytes begin as an object or a list of MessagePack does."""
    return data[:1] != b"" and data[0] in _CONTAINERS


def unpacked(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return bytes of MessagePack as JSON: keys are text, bytes that are no text are hexadecimal.

    Raises:
        ValueError: they are none, or too large or too deep.
    """
    try:
        import msgpack
    except ImportError:
        raise ValueError("MessagePack needs msgpack: pip install 'kafkaraw[console]'") from None
    if len(data) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES >> 20} MiB are not unpacked")
    try:
        found = msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogateescape")
    except (msgpack.UnpackException, ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error)[:200] or "the end is missing") from None
    return _plain(found, 0)


def _plain(value: Any, depth: int) -> Any:  # noqa: ANN401
    if depth > _NESTED_MAX:
        raise ValueError(f"nested deeper than {_NESTED_MAX}")
    if isinstance(value, dict):
        return {_key(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return _extended(value)


def _key(name: Any) -> str:  # noqa: ANN401
    plain = _plain(name, 0)
    return plain if isinstance(plain, str) else json.dumps(plain, default=str)


def _extended(value: Any) -> str:  # noqa: ANN401 - a timestamp, or a type of the application
    try:
        return str(value.to_datetime().isoformat())
    except (AttributeError, ValueError, OverflowError):
        return str(value)[:1_000]
