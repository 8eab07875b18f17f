"""JSON as bytes: orjson, or the standard library where it is not installed. Start at `dump` and `load`.

NaN and infinite numbers are no JSON, and neither is written nor read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Json: TypeAlias = Any


def standard_dump(value: Json) -> bytes:
    """Return JSON without spaces, with the standard library: integers and nesting of any size.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def standard_load(data: bytes | str) -> Json:
    """Read JSON with the standard library: integers of any size.

    Raises:
        ValueError: it is no JSON, or has NaN or an infinite number.
    """
    return json.loads(data, parse_constant=refuse_constant)


def refuse_constant(name: str) -> None:
    """Refuse NaN and infinite numbers: `parse_constant` of the standard library's readers."""
    raise ValueError(f"{name} is no JSON number")


dump: Callable[[Json], bytes]
load: Callable[[bytes], Json]
ORJSON_IS_USED: bool
"""orjson refuses what is nested deeper than 254 levels when it writes, 1,024 when it reads."""
try:
    import orjson
except ImportError:
    dump, load, ORJSON_IS_USED = standard_dump, standard_load, False
else:
    dump, load, ORJSON_IS_USED = orjson.dumps, orjson.loads, True
