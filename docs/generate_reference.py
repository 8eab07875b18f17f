"""Write docs/reference from the declarations: a page per API, one per group of embedded structures, and an index.

    .venv/bin/python -m docs.generate_reference

The pages are kept in the repository so that they can be read without running anything; a test compares them with what
this script makes. What they say is said in the declarations: correct it there, then run this again.
"""

from __future__ import annotations

from pathlib import Path

from kafkaraw.protocol_exports.markdown import markdown_pages

REFERENCE = Path(__file__).parent / "reference" / "protocol"
NOTICE = "<!-- Made by docs/generate_reference.py from the declarations; change those, not this page. -->"


def pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    return markdown_pages(notice=NOTICE)


def main() -> None:
    """Write the pages that differ, and remove those that nothing stands for any more."""
    REFERENCE.mkdir(exist_ok=True)
    made = pages()
    for stale in {path.name for path in REFERENCE.glob("*.md")} - set(made):
        REFERENCE.joinpath(stale).unlink()
    for name, text in made.items():
        REFERENCE.joinpath(name).write_text(text)
    print(f"{len(made)} pages in {REFERENCE}")


if __name__ == "__main__":
    main()
