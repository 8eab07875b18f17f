"""The console imports public names only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import kafkaraw.console
from docs.generate.python_names import MODULES, names_of

SHARED = ("kafkaraw._version", "kafkaraw.console", "kafkaraw.readable", "kafkaraw.web_server")
"""Besides the console itself: what knows nothing of Kafka, and is shared with the command line and the registry."""
FOLDER = Path(str(kafkaraw.console.__file__)).parent


def test_the_console_imports_public_names_only() -> None:
    public = set()
    for module in map(import_module, MODULES):
        public |= {id(getattr(module, name)) for name in names_of(module) if hasattr(module, name)}
    found = []
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkaraw"):
                if node.module in SHARED or "kafkaraw.console." in str(node.module):
                    continue
                home = import_module(str(node.module))
                found += [
                    f"{file.name}: {each.name}" for each in node.names if id(getattr(home, each.name)) not in public
                ]
    assert found == []
