"""The Python programs of the guides run as they stand there.

The blocks of a page are one program. A block after `<!-- not run: REASON -->` is left out. Start at `program_of`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
SAID = {
    "analyse-with-arrow": [
        "10000 ['key', 'value', 'timestamp']\n10000",
        "'amount_sum': 165000}",
        "3 rows written",
        "['value', 'value_error'] {",
    ],
    "choose-a-group-protocol": ["classic\nconsumer"],
    "query-topics": [
        "Rome  [3334, 165033]",
        "300 of 10000 offsets are read",
        "['Lima', 'Oslo', 'Rome']",
        "not a JSON object",
        "5 keys",
    ],
    "produce": ["orders", "100 written, 0 failed", "201 {'partition'", "2000"],
    "monitor": ['kafkaraw_producer_record_send_total{client="orders"} 1.0', '"name": "process payments"'],
    "move-from-aiokafka": ["True\nTrue", "aiokafka: 202", "kafkaraw: 202"],
    "move-from-confluent-kafka": ["confluent-kafka: 200", "kafkaraw: 200"],
    "move-from-kafka-python": ["True\nTrue", "kafka-python: 202", "kafkaraw: 202"],
    "run-a-worker": [
        "ended gracefully\n10 invoices\ndead letter: b'no JSON' b'10'",
        "resized a.png at delivery 1\nresized b.png at delivery 1",
    ],
    "share-records-between-workers": [
        "resized a.png\nresized b.png\nresized c.png\n",
        "resized d.png",
        "resized busy.png",
        "0 not processed",
    ],
    "stop-gracefully": ["stopping\n10 handled"],
    "use-transactions": ["aborted: the second record cannot be made", "[b'{\"id\": 1}']"],
    "watch-a-cluster": ["orders: 100 records, 0/s\n", "billing: lag 60, Empty\n[]\n"],
}
"""Page -> texts that its program prints."""
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n+)?```python\n(.*?)```", re.DOTALL)


def program_of(page: Path) -> str:
    """Return the blocks of a page that run, with their line numbers."""
    text = page.read_text(encoding="utf-8")
    lines: list[str] = []
    for found in BLOCK.finditer(text):
        if found[1] is None:
            first = text.count("\n", 0, found.start(2))
            lines += [""] * (first - len(lines))
            lines += found[2].splitlines()
    return "\n".join(lines)


@pytest.mark.parametrize("name", SAID)
def test_the_program_of_a_guide_does_what_the_guide_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = FOLDER / f"{name}.md"
    exec(compile(program_of(page), str(page), "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    assert [text for text in SAID[name] if text not in said] == []
