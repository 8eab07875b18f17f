"""A signal like Ctrl-C that another thread gets, for whatever blocks the main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from kafkaraw.net import threads

_SOON_S = 0.03
_SLICE_S = 0.05


class Interrupted(BaseException):
    """What the handler raises, as Ctrl-C's raises `KeyboardInterrupt`, which would end the tests altogether."""


@contextmanager
def interrupted_elsewhere() -> Iterator[None]:
    """Inside, a signal comes soon that only leaves a note for the main thread; what blocks there must end by it.

    The system may give Ctrl-C to any thread, and one that comes just before a wait begins leaves no more than a note
    either. A wait of one piece does not hear of it.
    """
    before = signal.signal(signal.SIGUSR1, _raise)
    signalling = threading.Timer(_SOON_S, signal.raise_signal, (signal.SIGUSR1,))  # goes to the thread that calls it
    try:
        with pytest.MonkeyPatch.context() as patches, pytest.raises(Interrupted):
            patches.setattr(threads, "SLICE_S", _SLICE_S)
            signalling.start()
            yield
    finally:
        signalling.join()
        signal.signal(signal.SIGUSR1, before)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted
