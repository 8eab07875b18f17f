"""Write the generated pages of docs/reference: `python -m docs.generate`, or `make docs`.

The pages are kept in the repository so that they can be read without running anything; a test compares them with what
the generators return. One module makes one kind of page from the declarations in the sources: change those, then run
this again. Pages of docs/reference/protocol have a generator of their own, `docs/generate_reference.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from docs.generate import (
    broker_properties,
    client_settings,
    commands,
    exceptions,
    loggers,
    metrics,
    mirror_properties,
    overview,
    python_names,
    spark_options,
    worker_settings,
)

REFERENCE: Final = Path(__file__).parents[1] / "reference"
_GENERATORS: Final = (
    overview,
    client_settings,
    worker_settings,
    mirror_properties,
    broker_properties,
    spark_options,
    commands,
    metrics,
    exceptions,
    loggers,
    python_names,
)


def pages() -> dict[str, str]:
    """The text of every page by its path below docs/reference."""
    return {name: text.rstrip("\n") + "\n" for each in _GENERATORS for name, text in each.pages().items()}


def existing() -> set[str]:
    """The paths of the pages that lie below docs/reference, without those about the protocol."""
    found = {path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*.md")}
    return {path for path in found if not path.startswith("protocol/")}


def main() -> None:
    """Write every page, and remove those that no generator makes any more."""
    made = pages()
    for stale in existing() - set(made):
        (REFERENCE / stale).unlink()
    for name, text in made.items():
        path = REFERENCE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(made)} pages in {REFERENCE}")


if __name__ == "__main__":
    main()
