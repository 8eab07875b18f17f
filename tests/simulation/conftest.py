"""Add the command that repeats a failed simulation to its report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.seeds import replay


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")
    if report.failed and seed is not None:
        report.sections.append(("to repeat it", replay(item.nodeid, seed)))
    return report
