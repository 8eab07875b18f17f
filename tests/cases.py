"""Many cases of one rule in one test: it checks all of them, and names each one that fails.

For thousands of cases that differ in data only and take microseconds: a test of its own costs each 2 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Cases:
    """Collect what goes wrong in cases, and raise it in the end.

    with Cases() as case:
        for version in versions:
            with case(f"version {version}"):
                assert ...

    Raises:
        ExceptionGroup: one or several cases failed; a note of each error names its case.
    """

    def __init__(self) -> None:
        self._count = 0
        self._errors: list[Exception] = []

    def __enter__(self) -> Cases:
        return self

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Check a case; an error does not end the test."""
        self._count += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001  # raised with the others
            error.add_note(f"in the case {name}")
            self._errors.append(error)
        except BaseException as error:  # pytest's own `fail` and `skip`, and Ctrl-C
            error.add_note(f"in the case {name}")
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        assert self._count, "there are no cases"
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} of {self._count} cases failed", self._errors)
