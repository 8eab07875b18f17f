"""What docs/architecture.md says about the structure of the code is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
VERBS = {"receive", "actions", "deadline_ms", "tick"}


def test_each_machine_with_four_verbs_has_them() -> None:
    section = PAGE[PAGE.index("## State machines") :]
    sentence = section[: section.index("have the same four verbs")]
    modules = re.findall(r"`([a-z_/]+\.py)`", sentence)
    assert len(modules) >= 4
    for module in modules:
        tree = ast.parse((ROOT / "src" / "kafkaraw" / module).read_text(encoding="utf-8"))
        methods = [
            {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ]
        assert any(names >= VERBS for names in methods), module
