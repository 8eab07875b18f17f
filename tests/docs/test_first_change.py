"""docs/first-change.md works: its changes are made in a copy of the tree, and its tests fail and pass as it says.

A change that the tree has by now is taken back in the copy first, so that the page can show how a part was added.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "first-change.md"
TIMEOUT_S = 280
COPIED = ("src", "tests", "docs", "bench", "pyproject.toml", "setup.py", "CHANGELOG.md", "README.md", "CONTRIBUTING.md")
NAMED_TESTS = (
    "test_every_setting_has_a_text_and_every_time_and_size_a_unit",
    "test_a_value_that_does_not_fit_says_why",
    "test_every_api_that_is_served_has_an_authorization_test",
    "test_help_imports_nothing_heavy",
    "test_help_names_every_command",
)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(r"^def (test_\w+)", re.MULTILINE)
_PATH = re.compile(r"`((?:src|tests|docs)/[\w./-]+\.(?:py|md))`")


@dataclass(frozen=True)
class Change:
    """A code block of the page: what it does to which file, in which step of which section."""

    section: str
    step: int
    kind: str
    path: str
    block: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        if self.kind == "diff":
            for hunk in re.split(r"^@@.*\n", self.block, flags=re.MULTILINE):
                self._edit(file, hunk)
        elif self.block.startswith('"""'):
            assert not file.exists(), f"{PAGE.name} adds {self.path}, which the tree has by now: choose another example"
            file.write_text(self.block, encoding="utf-8")
        elif self.block not in file.read_text(encoding="utf-8"):  # a block that quotes the file changes nothing
            with file.open("a", encoding="utf-8") as appended:
                appended.write(f"\n\n{self.block}")

    def take_back(self, root: Path) -> None:
        """Undo the change where the tree has it; a file that the page shows must be as the page shows it."""
        file = root / self.path
        if self.kind == "diff":
            for hunk in re.split(r"^@@.*\n", self.block, flags=re.MULTILINE):
                before, after = _sides(hunk)
                text = file.read_text(encoding="utf-8")
                if text.count(after) == 1 and (before not in text or before in after):
                    file.write_text(text.replace(after, before), encoding="utf-8")
        elif self.block.startswith('"""') and file.exists():
            assert file.read_text(encoding="utf-8") == self.block, f"{PAGE.name} shows another {self.path}"
            file.unlink()

    def _edit(self, file: Path, hunk: str) -> None:
        before, after = _sides(hunk)
        text = file.read_text(encoding="utf-8")
        found = text.count(before)
        assert found == 1, f"{PAGE.name} changes these lines of {self.path}, which has them {found} times:\n{before}"
        file.write_text(text.replace(before, after), encoding="utf-8")


def _sides(hunk: str) -> tuple[str, str]:
    """Return the lines of a hunk before and after the change."""
    lines = [line or " " for line in hunk.splitlines()]
    before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    return before, "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")


def changes() -> Iterator[Change]:
    """The code blocks of the page that change a file.

    A block changes the file that is named first since the step began or the block before it ended; if none is named,
    the file of the block before it.
    """
    page = PAGE.read_text(encoding="utf-8")
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, path = section.partition("\n")[0], ""
        for number, step in enumerate(re.split(r"^\*\*\d\. ", section, flags=re.MULTILINE)):
            end = 0
            for found in _FENCED.finditer(step):
                path = next(iter(_PATH.findall(step[end : found.start()])), path)
                end = found.end()
                if found[1] in ("python", "diff"):
                    yield Change(title, number, found[1], path, found[2])


def writes_the_test(change: Change) -> bool:
    """Whether a change belongs to the step of its section that comes before the code."""
    return change.path.startswith("tests/") and change.step == 1 + (change.section == "Add an API to the broker")


def _stem(path: str) -> str:
    return Path(path).stem


def of_section(title: str) -> list[Change]:
    return [change for change in changes() if change.section == title]


class Tree:
    """A copy of the repository, in which commands run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "*.hex", "results")
                shutil.copytree(ROOT / name, root / name, ignore=ignored)
            else:
                shutil.copy(ROOT / name, root)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{self.root}"}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def pytest(self, *arguments: str) -> str:
        """Run tests, and return what pytest prints."""
        options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short")
        return self.python("-m", "pytest", *options, *arguments).stdout

    def apply(self, *some: Change) -> None:
        for change in some:
            change.apply(self.root)

    def take_back(self, section: str) -> None:
        """Undo what the tree has by now of a section."""
        for change in of_section(section):
            change.take_back(self.root)


def test_page_has_a_test_and_a_change_of_the_package_in_each_section() -> None:
    for title in ("Add a setting of the client", "Add an API to the broker", "Add a command"):
        paths = [change.path for change in of_section(title)]
        assert any(path.startswith("tests/") for path in paths), title
        assert any(path.startswith("src/") for path in paths), title


def test_tests_of_the_page_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sources = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("tests/**/*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert set(named) == set(NAMED_TESTS)
    assert [name for name in named if f"def {name}(" not in sources] == []


@pytest.mark.timeout(600)
def test_changes_of_the_page_make_its_tests_pass(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.take_back("Add an API to the broker")
    every = list(changes())
    first = [change for change in every if writes_the_test(change)]
    files = sorted({change.path for change in first})
    tree.apply(*first)
    failed = tree.pytest(*files)
    for says in ("unknown setting 'exclude_internal_topics'", "KeyError: 74", "No such command 'partition-counts'"):
        assert says in failed, failed

    tree.apply(*(change for change in every if change not in first))
    for script in ("docs.generate_settings", "docs.generate_rights"):
        written = tree.python("-m", script)
        assert written.returncode == 0, written.stderr
    named = [
        "tests/client/test_config.py",
        "tests/client/test_java_names.py",
        "tests/docs/test_generated_sources.py",
        "tests/broker/handlers/test_authorization.py",
        "tests/cli/test_main.py",
        "tests/docs/test_rights.py",
        "tests/docs/test_docs.py",
    ]
    of_page = [*NAMED_TESTS, *map(_stem, files), *_FUNCTION.findall("".join(change.block for change in every))]
    of_documents = [
        "ListConfigResources",
        "test_rights",
        "test_types_of_settings_are_those_of_the_declarations",
        "test_the_apis_that_the_broker_does_not_have_are_listed_by_key",
    ]
    passed = tree.pytest(*files, *named, "-k", " or ".join([*of_page, *of_documents]))
    assert re.search(r"^\d+ passed(, \d+ deselected)? in ", passed, re.MULTILINE), passed

    changed = sorted({change.path for change in every if change.path.endswith(".py")})
    for arguments in (["check"], ["format", "--check"]):
        linted = tree.python("-m", "ruff", *arguments, *changed)
        assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_changes_of_the_page_pass_the_type_checker_and_the_import_contracts(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.take_back("Add an API to the broker")
    tree.apply(*changes())
    for arguments in (["-m", "mypy"], ["-c", "from importlinter.cli import lint_imports_command as lint; lint()"]):
        checked = tree.python(*arguments)
        assert checked.returncode == 0, checked.stdout + checked.stderr
