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
try:
    import orjson
except ImportError:
    dump, load = _standard_dump, _standard_load
else:
    dump, load = orjson.dumps, orjson.loads
