"""Secrets in frames, overwritten by asterisks of the same length, so that sizes and offsets stay as they are.

SASL tokens, SCRAM credentials, delegation tokens, and the values of configurations that a client sets. A body that
cannot be read is overwritten as a whole, and so are bytes behind a message, which librdkafka sends. Headers stay as
they are. Pure. Start at `masked_frames`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.inspect.exchanges import Exchange, ExchangeKind, Frame
from kafkaraw.inspect.frames import FrameKind, Reading, annotate_frame
from kafkaraw.inspect.secret_fields import ENVELOPE_KEY, secret_fields_of
from kafkaraw.protocol import decode_request_header
from kafkaraw.protocol.annotate import Node

_MASK: Final = b"*"


def masked_frames(exchange: Exchange) -> tuple[bytes | None, bytes | None]:
    """Return the frames of the request and of the answer without secrets; None for a frame that there is not."""
    return (
        _masked(exchange, exchange.request, FrameKind.REQUEST, exchange.version),
        _masked(exchange, exchange.response, FrameKind.RESPONSE, exchange.response_version),
    )


def _masked(exchange: Exchange, frame: Frame | None, kind: FrameKind, version: int) -> bytes | None:
    if frame is None:
        return None
    data = bytes(frame.data)
    if exchange.kind is not ExchangeKind.REQUEST and not exchange.is_known:
        return _MASK * len(data)
    fields = secret_fields_of(exchange.api_key)
    api = exchange.api
    if not fields or api is None:
        return data
    body_at = _body_at(data, kind)
    found = bytearray(data)
    if exchange.is_known and exchange.api_key != ENVELOPE_KEY:
        root = annotate_frame(memoryview(data), Reading(kind, api, version, prefixed=False)).root
        body = root.children[-1]
        if _is_read(exchange, frame, kind) and body.start >= body_at:
            _overwrite(root, fields, found)
            found[body.end :] = _MASK * (len(data) - body.end)
            return bytes(found)
    found[body_at:] = _MASK * (len(data) - body_at)
    return bytes(found)


def _is_read(exchange: Exchange, frame: Frame, kind: FrameKind) -> bool:
    """Return whether a message is whole, perhaps with bytes behind it."""
    body = exchange.request_body if kind is FrameKind.REQUEST else exchange.response_body
    return body is not None and not frame.is_cut


def _body_at(data: bytes, kind: FrameKind) -> int:
    """Return where the body begins, or a place before it: behind what says which request it is."""
    if kind is not FrameKind.REQUEST:
        return min(len(data), 4)
    try:
        return decode_request_header(data)[1]
    except ProtocolError:
        return min(len(data), 8)


def _overwrite(node: Node, fields: frozenset[str], data: bytearray) -> None:
    if node.name in fields and isinstance(node.value, str | bytes):
        size = len(node.value.encode() if isinstance(node.value, str) else node.value)
        data[node.end - size : node.end] = _MASK * size
        return
    for child in node.children:
        _overwrite(child, fields, data)
