"""A line in which one after the other is let through, in the order in which they took their places.

A lock lets them through in the order in which they began to wait, which for tasks is later than when they were made.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Line:
    """The line."""

    def __init__(self) -> None:
        self._places: deque[Place] = deque()

    def take_place(self) -> Place:
        """Stand behind all that are in it."""
        self._places.append(place := Place(self))
        self.let_through()
        return place

    def is_last(self, place: Place) -> bool:
        """Whether nobody stands behind that place."""
        return bool(self._places) and self._places[-1] is place

    def drop(self, place: Place) -> None:
        """Somebody leaves."""
        if place in self._places:
            self._places.remove(place)
            self.let_through()

    def let_through(self) -> None:
        """Tell whoever is first."""
        if self._places:
            self._places[0].is_first.set()


class Place:
    """One's place in a line; to be left in the end, also without ever having waited.

    Attributes:
        is_first: set when all before have left.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self.is_first = asyncio.Event()

    async def wait(self) -> None:
        """Wait until all before have left."""
        await self.is_first.wait()

    def leave(self) -> None:
        """Let the next one through; may be called twice."""
        self._line.drop(self)
