"""The example of `docs/how-to/administer.md` runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "administer.md"


def test_the_example_does_what_the_page_says(capsys: pytest.CaptureFixture[str]):
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    exec(compile(found[1], str(PAGE), "exec"), {})
    said = capsys.readouterr().out
    assert "3600000 DYNAMIC_TOPIC ['3600000']" in said
    assert "BrokerNode(node_id=0" in said
