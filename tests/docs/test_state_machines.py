"""docs/state-machines.md is generated from the transition tables, and has all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.draw_state_machines import MACHINES, OUTPUT, Machine, page

PACKAGE = Path(__file__).parents[2] / "src" / "kafkaraw"
REMEDY = "run `python -m docs.draw_state_machines`"


def tables() -> set[tuple[str, str]]:
    """(module, name) of every transition table of the package."""
    found = set()
    for module in PACKAGE.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "TRANSITIONS" in text or "MAY_FOLLOW" in text else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            found |= {
                (str(module.relative_to(PACKAGE)), name)
                for name in names
                if name.endswith("TRANSITIONS") or name == "MAY_FOLLOW"
            }
    return found


def test_page_is_up_to_date():
    assert OUTPUT.read_text(encoding="utf-8") == page(), REMEDY


def test_every_transition_table_has_a_diagram():
    assert {(machine.source, machine.table) for machine in MACHINES} == tables()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_state_of_a_diagram_exists(machine: Machine):
    section = OUTPUT.read_text(encoding="utf-8").partition(f"## {machine.title}\n")[2].partition("\n## ")[0]
    assert section, REMEDY
    drawn = set(re.findall(r"(\w+) --> (\w+)", section))
    states = {state.name for state in machine.states}
    assert {name for pair in drawn for name in pair} <= states
    assert all(re.search(rf"\b{name}\b", section) for name in states), REMEDY
