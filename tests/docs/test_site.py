"""The pages of the site, as they are staged: sections, links, pictures, and what language models get.

`make site` builds them with Zensical, which checks links and anchors once more. It needs half a minute, and packages of
its own, so CI runs it.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache

import pytest

pytest.importorskip("pyspark")  # the pages have the names of kafkaraw.spark

from docs.site.build import files_beside_pages, llms_txt, navigation, staged
from docs.site.markdown import for_site
from docs.site.sections import ROOT, Placed, pages_of_repository, placed

SECTIONS = ["Get started", "How-to", "Concepts", "Reference", "Internals"]


@cache
def site() -> tuple[dict[str, str], tuple[Placed, ...]]:
    return staged()


def test_every_page_has_one_place_in_the_five_sections() -> None:
    texts, sections = site()
    assert [section.title for section in sections] == SECTIONS
    listed = [page for section in sections for page in section.pages()]
    assert len(listed) == len(set(listed)) == len(texts)


def test_a_page_without_a_place_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"no section has docs/new\.md: add an entry to SECTIONS"):
        placed([*pages_of_repository(), "docs/new.md"])


def test_links_and_pictures_lead_to_pages_of_the_site() -> None:
    texts, _ = site()
    pictures = {path.relative_to(ROOT / "docs").as_posix() for path in files_beside_pages()}
    lost = []
    for place, text in texts.items():
        prose = re.sub(r"^( *)(```+).*?^\1\2 *$", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)", prose):
            if "://" not in target:
                found = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
                lost += [] if found in texts or found in pictures else [(place, target)]
    assert lost == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[guide](docs/how-to/produce.md#errors)", "[guide](how-to/produce.md#errors)"),
        ("![drawn](docs/architecture.svg)", "![drawn](architecture.svg)"),
        ("[decisions](docs/decisions/)", "[decisions](decisions/README.md)"),
        ("[examples](examples/)", "`examples`"),
        ("[the demo](src/kafkaraw/demo/)", "the demo (`src/kafkaraw/demo`)"),
        ("[here](#there) and [away](https://kafka.apache.org)", "[here](#there) and [away](https://kafka.apache.org)"),
        ("```\n[code](docs/x.md)\n```\n", "```\n[code](docs/x.md)\n```\n"),
        ("<!-- table -->\n| a |\n", "\n| a |\n"),
        ("| `a \\| b` | c \\| d |", "| `a | b` | c \\| d |"),
        ("- one\n  - two\n", "- one\n    - two\n"),
    ],
)
def test_a_page_is_adapted_to_the_site(given: str, expected: str) -> None:
    places = {
        "README.md": "index.md",
        "docs/how-to/produce.md": "how-to/produce.md",
        "docs/architecture.svg": "architecture.svg",
        "docs/decisions/README.md": "decisions/README.md",
    }
    assert for_site(given, "README.md", places) == expected


def test_state_diagrams_become_tables_because_no_script_is_loaded() -> None:
    diagram = "```mermaid\nstateDiagram-v2\n    [*] --> OPEN\n    OPEN --> CLOSED: closed\n```"
    expected = "| from | to | when |\n|---|---|---|\n| (start) | OPEN |  |\n| OPEN | CLOSED | closed |"
    assert for_site(diagram, "README.md", {"README.md": "index.md"}) == expected


def test_llms_txt_links_the_markdown_of_every_page() -> None:
    texts, sections = site()
    listed = re.findall(r"^- \[.+?\]\(([^)]+)\)", llms_txt(texts, sections), re.M)
    assert sorted(listed) == sorted(texts)


def test_the_wire_messages_are_the_protocol_reference() -> None:
    _, sections = site()
    lines = list(navigation(sections))
    at = lines.index("    - Protocol reference:")
    assert lines.index("- Reference:") < at < lines.index("- Internals:")
    assert lines[at + 1].strip() == "- reference/protocol/README.md"


def test_the_configuration_names_no_address() -> None:
    for name in ("mkdocs.yml", "extra.css"):
        text = (ROOT / "docs" / "site" / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "site_url" not in text
    assert "font: false" in (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
