"""Stands in for the module `cython` where Cython is not installed, so that `_avro_codec.py` runs as plain Python.

It has exactly the names that `_avro_codec.py` uses. Compiled code does not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

compiled: Final = False


def declare(_: object, value: T) -> T:
    """Return the value; Cython makes a C variable of it."""
    return value


def cast(_: object, value: T) -> T:
    """Return the value; Cython casts it."""
    return value


def _unchanged(thing: T) -> T:
    return thing


def _option(*_: object, **__: object) -> Callable[[T], T]:
    return _unchanged


cclass = cfunc = ccall = final = inline = _unchanged
exceptval = boundscheck = wraparound = nonecheck = initializedcheck = cdivision = freelist = _option
int = longlong = ulonglong = double = bint = float = uchar = object


def __getattr__(name: str) -> Any:
    raise AttributeError(f"_no_cython has no {name}: add it there")
