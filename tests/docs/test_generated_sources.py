"""Sources that scripts write from other sources are current."""

from __future__ import annotations

import pytest

from docs.generate_docstrings import documented, sources
from docs.generate_settings import modules

TWINS = sources()
TYPES = modules()


@pytest.mark.parametrize("path", TWINS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_docstrings_of_blocking_clients_are_in_their_sources(path):
    assert path.read_text() == TWINS[path], "run `python -m docs.generate_docstrings`"


@pytest.mark.parametrize("path", TYPES, ids=lambda path: path.parent.name)
def test_types_of_settings_are_those_of_the_declarations(path):
    assert path.read_text() == TYPES[path], "run `python -m docs.generate_settings`"


ASYNC = '''
class AsyncFace:
    async def first(self) -> None:
        """One line."""
    async def second(self) -> None:
        """Several.

        Lines.
        """
        await self.first()
    async def _hidden(self) -> None:
        """Not copied."""
'''


def test_a_docstring_is_inserted_replaced_or_left_alone():
    blocking = '''
class Face:
    def first(self) -> None:
        """Old."""
        pass
    def second(
        self,
    ) -> None:
        # on the first statement
        pass
    def _hidden(self) -> None:
        pass
    def own(self) -> None:
        """Own."""
'''
    assert (
        documented(blocking, "Face", ASYNC, "AsyncFace")
        == '''
class Face:
    def first(self) -> None:
        """One line."""
        pass
    def second(
        self,
    ) -> None:
        """Several.

        Lines.
        """
        # on the first statement
        pass
    def _hidden(self) -> None:
        pass
    def own(self) -> None:
        """Own."""
'''
    )
