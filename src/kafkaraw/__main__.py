"""`python -m kafkaraw` is the command `kafkaraw`."""

from __future__ import annotations

from kafkaraw.cli import main

if __name__ == "__main__":
    main(prog_name="kafkaraw")
