"""A page for each command of `kafkaraw`, with its help, from the tree of click's commands, and an index."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from docs.generate.tables import code, notice, row, sentence, table, text
from kafkaraw.cli import main

_ABOUT: Final = """\
Each command prints its help with `--help`. Exit codes: 0 for success; 1 for an error, which is printed as one line;
2 for wrong arguments; 130 after Ctrl-C. A page says so if a command has others. Guide:
[topics and groups on the command line](../../how-to/use-the-command-line.md).
"""


def pages() -> dict[str, str]:
    """The pages by their file names in the folder of the reference."""
    root = click.Context(main, info_name="kafkaraw")
    commands = {name: _command(main, root, name) for name in main.list_commands(root)}
    found = {f"commands/{name}.md": "\n".join(_page(*pair)) for name, pair in commands.items()}
    found["commands/README.md"] = "\n".join(_index(commands))
    return found


Found = tuple[click.Command, click.Context]


def _command(group: click.Group, context: click.Context, name: str) -> Found:
    command = group.get_command(context, name)
    assert command is not None, name
    return command, click.Context(command, info_name=name, parent=context)


def _index(commands: dict[str, Found]) -> Iterator[str]:
    yield from (notice("src/kafkaraw/cli"), "", "# Commands", "", _ABOUT)
    yield row(("command", "does"))
    yield row(("---", "---"))
    for name, (command, context) in commands.items():
        for each, context_of_each in [(command, context), *_below(command, context)]:
            path = context_of_each.command_path
            link = f"{name}.md" + ("" if each is command else f"#{_anchor(path)}")
            yield row((f"[`{path.removeprefix('kafkaraw ')}`]({link})", text(each.get_short_help_str(200))))
    yield ""


def _below(command: click.Command, context: click.Context) -> Iterator[Found]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found, inner = _command(command, context, name)
            if not found.hidden:
                yield found, inner
                yield from _below(found, inner)


def _anchor(path: str) -> str:
    return path.lower().replace(" ", "-")


def _page(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (notice("the help of the command in src/kafkaraw/cli"), "", f"# {context.command_path}", "")
    yield from _described(command, context)
    for inner, context_of_inner in _below(command, context):
        yield from (f"## {context_of_inner.command_path}", "")
        yield from _described(inner, context_of_inner)


def _described(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("```", " ".join([context.command_path, *command.collect_usage_pieces(context)]), "```", "")
    yield from _help(command.help or "")
    if command.epilog:
        yield from _help(command.epilog)
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        columns = ("option", "default", "meaning")
        yield from table(columns, (_option(option, context) for option in options))


def _help(words: str) -> Iterator[str]:
    """The help as Markdown: what click shows without wrapping (after a backspace) is a block of code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(words).replace("\f", "")):
        if paragraph.startswith("\b"):
            shown = re.sub(r"^[ \t]*\x08[ \t]*$", "", paragraph, flags=re.MULTILINE)
            yield from ("```", inspect.cleandoc(shown), "```", "")
        elif paragraph.strip():
            yield from (text(" ".join(paragraph.split())), "")


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    info = option.to_info_dict()
    names = ", ".join([*option.opts, *option.secondary_opts])
    metavar = "" if option.is_flag or option.count else " " + option.make_metavar(context)
    default = info["default"]
    shown = (
        "" if default in (None, False, (), [], "") or callable(default) or not _plain(default) else code(str(default))
    )
    variable = option.envvar if isinstance(option.envvar, str) else ", ".join(option.envvar or ())
    words = option.help or ""
    if said := re.search(r"\s*\[default: ([^\]]*)\]", words):  # of a command that computes it
        words, shown = words.replace(said[0], ""), text(said[1])
    meaning = sentence(text(words)) if words else ""
    required = " Required." if option.required else ""
    repeated = " May be repeated." if option.multiple and "repeat" not in words else ""
    variables = f" Environment: {code(variable)}." if variable else ""
    return code(f"{names}{metavar}"), shown, f"{meaning}{required}{repeated}{variables}"


def _plain(default: object) -> bool:
    """Whether a default reads the same on every machine and Python: no path of a user, no marker of click."""
    return isinstance(default, bool | int | float | str) and not str(default).startswith(("/", "<", "Sentinel"))
