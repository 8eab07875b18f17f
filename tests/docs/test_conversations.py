"""The pages of annotated conversations are what the captures beside them give, and say what they promise."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.conversations.page import page_of
from docs.conversations.stories import STORIES, Story

FOLDER = Path(__file__).parents[2] / "docs" / "conversations"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_page_is_what_its_captures_give(story: Story):
    written = (FOLDER / f"{story.name}.html").read_text(encoding="utf-8")
    assert written == page_of(story, FOLDER), "python -m docs.conversations writes the pages"


class Frames(HTMLParser):
    """The paths of the bytes and of the rows of each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[dict[str, list[str]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("class") == "frame":
            self.frames.append({"span": [], "tr": []})
        if "data-p" in given:
            self.frames[-1][tag].append(given["data-p"] or "")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_all_bytes_have_a_meaning_beside_them(story: Story):
    parser = Frames()
    parser.feed((FOLDER / f"{story.name}.html").read_text(encoding="utf-8"))
    assert len(parser.frames) > 5
    for frame in parser.frames:
        assert frame["span"] and set(frame["span"]) <= set(frame["tr"])


def test_the_pages_show_what_they_are_about():
    joins, transaction, connect = ((FOLDER / f"{story.name}.html").read_text(encoding="utf-8") for story in STORIES)
    assert "group billing: CompletingRebalance → Stable" in joins
    assert re.search(r"member billing-2-\S+: COMPLETING_REBALANCE → STABLE \(orders \[\d\]\)", joins)
    assert "PREPARE_ABORT → COMPLETE_ABORT" in transaction and "→ fenced" in transaction
    assert "&#x27;kafka&#x27;" in connect and "SASL_AUTHENTICATION_FAILED" in connect
    assert "No answer: closed by both ends." in connect
    assert b"alice\0wrong".hex(" ") not in connect  # the token is overwritten
