"""Read the wire: any bytes of the protocol as a tree with offsets, values and meanings, and whole conversations.

Start at `annotate`; `read_bytes` reads bytes in the forms that users paste. `Tap` stands between clients and a cluster;
only its package, `tap`, opens sockets.
"""

from __future__ import annotations

from kafkaraw.inspect.annotation import Annotation as Annotation
from kafkaraw.inspect.annotation import Problem as Problem
from kafkaraw.inspect.annotation import annotate as annotate
from kafkaraw.inspect.annotation import split_frames as split_frames
from kafkaraw.inspect.text_input import read_bytes as read_bytes
from kafkaraw.protocol.annotate import Node as Node

TYPE_CHECKING = False  # type checkers take it for true; `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from kafkaraw.inspect.captures import CaptureReader as CaptureReader
    from kafkaraw.inspect.captures import GuessedResponse as GuessedResponse
    from kafkaraw.inspect.captures import Remark as Remark
    from kafkaraw.inspect.encoding import encode_json as encode_json
    from kafkaraw.inspect.exchanges import Connection as Connection
    from kafkaraw.inspect.exchanges import Exchange as Exchange
    from kafkaraw.inspect.exchanges import Frame as Frame
    from kafkaraw.inspect.frames import api_named as api_named
    from kafkaraw.inspect.render import rows_of as rows_of
    from kafkaraw.inspect.tap.lines import Filter as Filter
    from kafkaraw.inspect.tap.lines import error_texts as error_texts
    from kafkaraw.inspect.tap.masking import masked_frames as masked_frames
    from kafkaraw.inspect.tap.proxy import Tap as Tap
    from kafkaraw.inspect.tap.recording import Recording as Recording
    from kafkaraw.inspect.tap.rules import add_rule as add_rule
    from kafkaraw.inspect.tap.saving import Saving as Saving
    from kafkaraw.inspect.tap.summary import Summary as Summary

_LATE = {
    "CaptureReader": "kafkaraw.inspect.captures",
    "GuessedResponse": "kafkaraw.inspect.captures",
    "Remark": "kafkaraw.inspect.captures",
    "encode_json": "kafkaraw.inspect.encoding",
    "Connection": "kafkaraw.inspect.exchanges",
    "Exchange": "kafkaraw.inspect.exchanges",
    "Frame": "kafkaraw.inspect.exchanges",
    "Filter": "kafkaraw.inspect.tap.lines",
    "Recording": "kafkaraw.inspect.tap.recording",
    "Saving": "kafkaraw.inspect.tap.saving",
    "Summary": "kafkaraw.inspect.tap.summary",
    "Tap": "kafkaraw.inspect.tap.proxy",
    "add_rule": "kafkaraw.inspect.tap.rules",
    "api_named": "kafkaraw.inspect.frames",
    "error_texts": "kafkaraw.inspect.tap.lines",
    "masked_frames": "kafkaraw.inspect.tap.masking",
    "rows_of": "kafkaraw.inspect.render",
}


def __getattr__(name: str) -> object:
    """Import what needs sockets, or most programs do not need, when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_LATE[name]), name)
    globals()[name] = value
    return value
