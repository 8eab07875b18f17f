"""Draw `wire-decode.svg`: what `kafkaraw wire decode` shows of a Metadata response that somebody once read by hand.

python docs/pictures/wire_decode.py
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kafkaraw.cli.wire import table_of
from kafkaraw.inspect import annotate, read_bytes
from kafkaraw.inspect.render import rows_of

HERE = Path(__file__).parent
VECTOR = HERE.parent.parent / "tests" / "protocol" / "vectors" / "metadata_v0_response.hex"
PICTURE = HERE / "wire-decode.svg"
COLUMNS, ROWS = 112, 31


def draw() -> str:
    """The picture: the beginning of the table, as a terminal shows it."""
    annotation = annotate(read_bytes(VECTOR.read_bytes())[0])
    rows = list(rows_of(annotation))
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ kafkaraw wire decode blob.txt", "bold"))
    console.print(Text(str(annotation.reading), "bold"))
    console.print(table_of(rows[:ROWS], COLUMNS))
    console.print(Text(f"... and {len(rows) - ROWS} more", "dim"))
    return console.export_svg(title="kafkaraw wire decode", unique_id="wire-decode")


if __name__ == "__main__":
    PICTURE.write_text(draw())
