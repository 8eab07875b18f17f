"""JSON as bytes: orjson, or the standard library where it is not installed. Start at `dump` and `load`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Json: TypeAlias = Any


def _standard_dump(value: Json) -> bytes:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _standard_load(data: bytes) -> Json:
    import json

    return json.loads(data, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


dump: Callable[[Json], bytes]
load: Callable[[bytes], Json]
ORJSON_IS_USED: bool
"""orjson refuses what is nested deeper than 254 levels when it writes, 1,024 when it reads."""
try:
    import orjson
except ImportError:
    dump, load, ORJSON_IS_USED = _standard_dump, _standard_load, False
else:
    dump, load, ORJSON_IS_USED = orjson.dumps, orjson.loads, True
