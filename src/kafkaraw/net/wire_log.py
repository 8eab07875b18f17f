"""The connection log: every frame as it goes over the wire, with secrets masked.

Switched on by `KAFKARAW_WIRE_LOG=1` (to standard error) or by the logger `kafkaraw.wire` at DEBUG, for connections made
from then on. When it is off, `tapped` returns its argument, so that connections have no overhead; when it is on,
`frame_log` writes the frames down. The command `kafkaraw wire decode` reads the output. Start at `tapped`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

from kafkaraw.net.link import LinkEnd, LinkHandler

log: logging.Logger = logging.getLogger("kafkaraw.wire")

VARIABLE: Final = "KAFKARAW_WIRE_LOG"


def tapped(handler: LinkHandler, who: Callable[[], str], end: LinkEnd) -> LinkHandler:
    """Return a handler that logs the frames of its link; `handler` itself if the log is off.

    Args:
        handler: the handler of the link.
        who: returns the name in the log; for a broker's connection, the client's address is added.
        end: which end of the connection this is.
    """
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        _log_to_standard_error()
    if not log.isEnabledFor(logging.DEBUG):
        return handler
    from kafkaraw.net.frame_log import Tap  # only when the log is on

    return Tap(handler, who, end)


def _log_to_standard_error() -> None:
    log.setLevel(logging.DEBUG)
    if not log.handlers:
        printer = logging.StreamHandler()
        printer.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        log.addHandler(printer)
        log.propagate = False
