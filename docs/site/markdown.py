"""Pages of the repository as pages of the site: links lead to pages of the site, and every list and table is one.

The pages are written for code hosts, whose Markdown is a little more tolerant than that of the site's generator. Must
not touch what stands in code blocks. Start at `for_site`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

_FENCED: Final = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_COMMENT: Final = re.compile(r"^<!--.*?-->\n?", re.DOTALL | re.MULTILINE)
_NESTED: Final = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_ROW: Final = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE: Final = re.compile(r"`[^`\n]+`")
_MERMAID: Final = re.compile(r"^```mermaid\n(stateDiagram-v2\n.*?)^```$", re.DOTALL | re.MULTILINE)
_ARROW: Final = re.compile(r"^ *(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)


def for_site(text: str, page: str, places: Mapping[str, str]) -> str:
    """Return a page as the site's generator reads it.

    Args:
        text: the page as it stands in the repository.
        page: its path there.
        places: the path on the site for the path in the repository, for all pages and pictures.
    """
    text = _MERMAID.sub(_as_table, text)
    return _outside_code(text, lambda prose: _tolerant(_linked(prose, page, places)))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    made: list[str] = []
    at = 0
    for block in _FENCED.finditer(text):
        made += [change(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*made, change(text[at:])])


def _linked(prose: str, page: str, places: Mapping[str, str]) -> str:
    here = posixpath.dirname(places[page])

    def link(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        place = places.get(wanted) or places.get(f"{wanted}/README.md")
        if place is None:  # a folder or a file that is no page: the site has no sources
            return f"`{wanted}`" if text.strip("`") == wanted else f"{text} (`{wanted}`)"
        return f"{picture}[{text}]({posixpath.relpath(place, here or '.')}{hash_}{anchor})"

    return _LINK.sub(link, prose)


def _tolerant(prose: str) -> str:
    """Comments stand alone, items of an inner list are indented by four spaces, and code in tables has no escapes."""
    prose = _NESTED.sub("    ", _COMMENT.sub("\n", prose))
    return _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), prose)


def _as_table(diagram: re.Match[str]) -> str:
    """A state diagram as a table: a browser would need a script of several megabytes to draw it."""
    rows = [
        f"| {'(start)' if before == '[*]' else before} | {after} | {trigger or ''} |"
        for before, after, trigger in _ARROW.findall(diagram[1])
    ]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])
