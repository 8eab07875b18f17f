"""The commands on the pages about running pipelines exist, with these options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kafkaraw.cli import main

PAGES = Path(__file__).parents[2] / "docs" / "pipelines"
COMMANDS = [
    line.partition(" #")[0].strip()
    for page in ("running.md", "checkpoints.md")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    if not language
    for line in block.splitlines()
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_pages_is_accepted(line):
    words = shlex.split(line)
    assert words.pop(0) == "kafkaraw"
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_context(command.name, words)
