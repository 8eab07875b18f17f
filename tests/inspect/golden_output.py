"""The output of `kafkaraw wire decode` for bytes that others published; `--write` makes the files in `golden` anew."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from kafkaraw.cli import main

HERE = Path(__file__).parent
VECTORS = HERE.parent / "protocol" / "vectors"
# The length of the client id is one byte in the ticket's dump: 42 of the 43 declared bytes.
KAFKA_14935 = "0000002b 0012 0003 00000000 07 61646d696e2d31 00 12 6170616368652d6b61666b612d6a617661 06 332e332e31 00"


@dataclass(frozen=True)
class Golden:
    """One file of output."""

    name: str
    text: str
    exit_code: int = 0

    @property
    def path(self) -> Path:
        return HERE / "golden" / f"{self.name}.txt"

    def output(self, *options: str) -> str:
        """Run the command."""
        result = CliRunner().invoke(main, ["wire", "decode", *options], input=self.text)
        assert result.exit_code == self.exit_code, result.output
        return result.stdout


GOLDEN = (
    *(Golden(file.stem, file.read_text()) for file in sorted(VECTORS.glob("*.hex"))),
    Golden("kafka_14935", KAFKA_14935, exit_code=1),
)


if __name__ == "__main__":
    for golden in GOLDEN:
        if "--write" in sys.argv:
            golden.path.write_text(golden.output())
        else:
            print(golden.output())
