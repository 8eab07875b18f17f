"""Say which argument of `send` is wrong, after a record was refused: records that are right never come here.

Contents of records are not shown, since they may be secret: their types are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkaraw.client.arguments import topic_of
from kafkaraw.errors import UsageError

_PAIRS = "give a list of pairs, as in headers=[('trace-id', b'42')]"
_BYTES = (bytes, bytearray, memoryview)


def refuse_record(topic: object, value: object, key: object, headers: object) -> None:
    """Raise an error that names the argument that no record can have; return if none is found.

    Raises:
        UsageError: the topic, the value, the key or the headers are of the wrong type.
    """
    where = f"send to topic {topic_of(topic, 'send')!r}"
    for name, content in (("value", value), ("key", key)):
        if content is not None and not isinstance(content, _BYTES):
            raise UsageError(
                f"{where}: a record's {name} is bytes or None, not {type(content).__name__}; encode it, or give the "
                f"producer a {name}_serializer"
            )
    if headers is not None:
        _refuse_headers(headers, where)


def _refuse_headers(headers: object, where: str) -> None:
    if isinstance(headers, Mapping):
        raise UsageError(f"{where}: headers are pairs, not a {type(headers).__name__}; give list(headers.items())")
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise UsageError(f"{where}: headers are pairs, not {type(headers).__name__}; {_PAIRS}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            shown = f"{type(header).__name__} of {len(header)}" if isinstance(header, tuple) else type(header).__name__
            raise UsageError(f"{where}: a header is a pair of name and value, not {shown}; {_PAIRS}")
        name, content = header
        if not isinstance(name, str):
            raise UsageError(f"{where}: a header's name is text, not {type(name).__name__} {name!r}; {_PAIRS}")
        if content is not None and not isinstance(content, _BYTES):
            raise UsageError(
                f"{where}: the value of header {name!r} is bytes or None, not {type(content).__name__}; encode it"
            )
