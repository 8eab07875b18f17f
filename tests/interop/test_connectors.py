"""Scenarios of Spark's own suites, and more, with its connector and with ours, on one Apache Kafka.

`tests/interop/connectors` has them; `python -m tests.interop.connectors.run` shows the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.spark import peers
from tests.interop.connectors.catalog import SCENARIOS
from tests.interop.connectors.run import CONNECTORS, OURS, THEIRS, mistakes, outcomes
from tests.interop.connectors.scenario import Read, Refused, Scenario, rows
from tests.rotation import rotating

_DOCUMENTATION = Path(__file__).parents[2] / "docs" / "spark.md"

pytestmark = pytest.mark.timeout(4 * 3600)  # the fixture does all scenarios, and may fetch the other connector


@pytest.fixture(scope="module")
def found(request, apache_kafka, tmp_path_factory) -> dict[tuple[str, str], Any]:
    """What came of the scenarios that are tested, by name and connector."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = [item.callspec.params["scenario"].name for item in items]
    pairs = [(name, connector) for name in names for connector in CONNECTORS]
    try:
        done = outcomes(apache_kafka.bootstrap_servers, pairs, tmp_path_factory.mktemp("connectors"))
        return {(each["name"], each["connector"]): each for each in done}
    except peers.FetchError as error:
        pytest.skip(f"Spark's own connector cannot be fetched: {error}")


def _cases() -> list[Any]:
    """A third of the quick scenarios, other ones with each commit; the others are for a soak."""
    quick = [each for each in SCENARIOS if each.quick]
    slow = [pytest.param(each, marks=pytest.mark.soak) for each in SCENARIOS if not each.quick]
    return [*rotating(quick, -(-len(quick) // 3)), *slow]


@pytest.mark.parametrize("scenario", _cases(), ids=lambda scenario: scenario.name)
def test_both_connectors_do_what_the_scenario_says(found, scenario: Scenario):
    wrong = {connector: mistakes(scenario, connector, found[scenario.name, connector]) for connector in CONNECTORS}
    assert not any(wrong.values()), "\n".join(f"{name}: {text}" for name, texts in wrong.items() for text in texts)


def test_every_difference_between_the_connectors_is_documented():
    documentation = _DOCUMENTATION.read_text()
    table = documentation[documentation.index("## Compared with Spark's own connector") :]
    lines = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    for scenario in SCENARIOS:
        named = scenario.differs is None or any(line.startswith(scenario.differs) for line in lines)
        assert named, f"{scenario.name}: docs/spark.md has no line about {scenario.differs}"


def test_a_scenario_differs_where_it_says_so_and_nowhere_else():
    for scenario in SCENARIOS:
        differs = any(getattr(step, "ours", None) is not None for step in scenario.steps)
        assert differs == bool(scenario.differs), scenario.name


_READ = Read(options={}, expect=rows("1", "2"))
_DIFFERS = Read(options={}, expect=rows("1"), ours=Refused("no such option"))


def _came(*outcomes: dict[str, Any]) -> dict[str, Any]:
    return {"outcomes": list(outcomes)}


def test_a_scenario_is_judged_by_its_rows_in_any_order():
    one = Scenario("one", (_READ,))
    assert not mistakes(one, OURS, _came({"rows": [["1"], ["2"]]}))
    assert mistakes(one, OURS, _came({"rows": [["1"]]})) == ["step 1: expected [['1'], ['2']], came [['1']]"]
    assert mistakes(one, THEIRS, _came({"refused": "why"})) == ["step 1: expected [['1'], ['2']], came refused: why"]
    assert mistakes(one, OURS, _came()) == ["only 0 of 1 steps were done"]
    assert mistakes(one, OURS, {"fault": "no broker", "outcomes": []}) == ["no broker"]


def test_a_refusal_is_judged_by_the_words_of_each_connector():
    one = Scenario("one", (Read(options={}, expect=Refused("Our words", "their words")),))
    assert not mistakes(one, OURS, _came({"refused": "these are our words"}))
    assert not mistakes(one, THEIRS, _came({"refused": "Their words"}))
    assert mistakes(one, THEIRS, _came({"refused": "these are our words"}))
    assert mistakes(one, OURS, _came({"rows": []}))


def test_a_difference_must_be_there():
    refused, same = _came({"refused": "no such option"}), _came({"rows": [["1"]]})
    one = Scenario("one", (_DIFFERS,), differs="x")
    assert not mistakes(one, OURS, refused)
    assert not mistakes(one, THEIRS, same)
    assert mistakes(one, THEIRS, refused)
    assert mistakes(one, OURS, same)
