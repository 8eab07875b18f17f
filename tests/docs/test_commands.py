"""Every command of kafkaraw on a page exists, with these options: its arguments are parsed, it is not run.

Start at `commands_of`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafkaraw.cli import main

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *(it for it in sorted((ROOT / "docs").rglob("*.md")) if REFERENCE not in it.parents)]
"""All but the reference, which is generated from the commands."""
BLOCK = re.compile(r"^[ >]*```(\w*)\n(.*?)^[ >]*```", re.DOTALL | re.MULTILINE)
SHELL = ("", "console", "sh", "bash", "shell", "text")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
END_OF_COMMAND = {"|", "&&", "||", ";", "&", ">", "<", ">>", "2>", "2>&1"}


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of kafkaraw in the blocks of a page."""
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                if re.search(r"(^|[$|;&] *|\b[A-Z_]+=\S+ )kafkaraw ", line.strip()):
                    yield from _in(line)


def _in(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in END_OF_COMMAND:
            while words and (words[0] == "$" or ASSIGNMENT.match(words[0])):
                words.pop(0)
            if words[:1] == ["kafkaraw"]:
                yield words[1:]
            words = []
        else:
            words.append(word)


def problem_of(words: list[str]) -> str | None:
    """Return why click refuses the words; files that a page names need not exist."""
    command: click.Command = main
    context = click.Context(main)
    rest = list(words)
    try:
        while isinstance(command, click.Group):
            if not rest or rest[0].startswith("-"):
                command.make_context(command.name, rest)
                return None
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, name
            command, context = found, click.Context(found, parent=context, info_name=name)
        command.make_context(command.name, rest)
    except click.exceptions.Exit:
        return None  # --help, --version
    except click.ClickException as error:
        message = error.format_message()
        return None if "does not exist" in message or "No such file" in message else message
    return None


def test_each_command_of_the_pages_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    count = 0
    refused = []
    for page in PAGES:
        for words in commands_of(page):
            count += 1
            if (problem := problem_of(words)) is not None:
                refused.append(f"{page.relative_to(ROOT)}: kafkaraw {shlex.join(words)}: {problem}")
    assert count > 100
    assert not refused, "\n" + "\n".join(refused)
