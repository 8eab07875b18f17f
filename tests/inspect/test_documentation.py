"""The how-to page shows what the command really prints, and the picture is the one that its script draws."""

from __future__ import annotations

import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "read-the-wire.md"
SHOWN = re.findall(r"```console\n\$ echo '([^']*)' \| kafkaraw ([^\n]*)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("text", "command", "output"), SHOWN, ids=range(len(SHOWN)))
def test_the_page_shows_real_output(text: str, command: str, output: str):
    printed = CliRunner().invoke(main, shlex.split(command), input=text).stdout
    for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE):
        assert part in printed


def test_the_page_runs_as_python():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(program, names)
    assert str(getattr(names["annotation"], "reading", "")) == "ApiVersions request v0"


def test_the_picture_is_up_to_date():
    spec = spec_from_file_location("wire_decode", DOCS / "pictures" / "wire_decode.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PICTURE.read_text() == module.draw(), "python docs/pictures/wire_decode.py"
