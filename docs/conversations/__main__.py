"""Write the annotated conversations: `python -m docs.conversations` makes the pages out of the captures beside them.

    python -m docs.conversations            # the pages, from *.pcapng
    python -m docs.conversations record     # the captures, too: starts Apache Kafka, needs Java

The captures are of Apache Kafka and confluent-kafka, recorded through a tap, with SASL tokens overwritten. `recording`
makes them, `stories` has the prose, `page` draws a page. `tests/docs/test_conversations.py` compares the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from docs.conversations.page import page_of
from docs.conversations.stories import STORIES

HERE: Final = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Record, if asked to, and write the pages."""
    if arguments == ["record"]:
        from docs.conversations.recording import record_all

        record_all(HERE)
    for story in STORIES:
        (HERE / f"{story.name}.html").write_text(page_of(story, HERE), encoding="utf-8")
        print(f"docs/conversations/{story.name}.html")


if __name__ == "__main__":
    main(sys.argv[1:])
