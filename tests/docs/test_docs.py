"""The documentation is true where a machine can tell: links, the README's example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.protocol.apis import API_BY_KEY

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def programs_of_readme() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_example_of_the_readme_runs() -> None:
    example = programs_of_readme()[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "b'AA'" in done.stdout


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    (tmp_path / "test_readme.py").write_text(programs_of_readme()[1])
    plugins = ["-p", "no:cacheprovider", "-p", "kafkaraw.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path)]
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_readme_opens_with_the_two_commands() -> None:
    opening = (ROOT / "README.md").read_text().splitlines()[:12]
    commands = [line.split("#")[0].strip() for line in opening if line.startswith("make ")]
    assert commands == ["make demo", "make test"]


def test_the_apis_that_the_broker_does_not_have_are_listed_by_key() -> None:
    section = (
        (ROOT / "docs" / "broker.md").read_text().partition("### APIs that it does not have")[2].partition("\n## ")[0]
    )
    listed: dict[int, str] = {}
    for row in section.splitlines():
        keys, _, names = row.strip("| ").partition(" | ")
        if keys[:1].isdigit():
            pairs = zip(keys.split(", "), names.partition(" | ")[0].split(", "), strict=True)
            listed.update({int(key): name for key, name in pairs})
    assert listed == {key: api.name for key, api in API_BY_KEY.items() if key not in load_handlers()}
