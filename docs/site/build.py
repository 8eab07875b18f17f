"""Build the site of the documentation into build/site: `make site`.

    python -m docs.site.build

Pages are staged in build/site-pages with links of the site, then Zensical builds them; a warning is an error. Beside
each page lies its Markdown (`.md`), and `llms.txt` lists all pages. Start at `main`; `sections.py` orders the pages.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.site.markdown import for_site
from docs.site.python_api import pages as pages_about_modules
from docs.site.sections import ROOT, Placed, pages_of_repository, placed

BUILD: Final = ROOT / "build"
STAGED: Final = BUILD / "site-pages"
SITE: Final = BUILD / "site"
CONFIGURATION: Final = BUILD / "mkdocs.yml"
WIDE: Final = frozenset({"reference/client-settings.md", "reference/broker-properties.md"})
"""Pages whose tables need the place of the table of contents."""
_WIDE: Final = "---\nhide: [toc]\n---\n\n"
_ABOUT: Final = (
    "Apache Kafka from the wire up, in Python: client, embedded broker, Spark source and sink, schema registry."
)


def place_of(page: str) -> str:
    """Where a page of the repository stands on the site."""
    at_top = {"README.md": "index.md", "SECURITY.md": "report-a-vulnerability.md"}
    return at_top.get(page) or (page.removeprefix("docs/") if "/" in page else page.lower())


def texts() -> dict[str, str]:
    """The text of every page by its path in the repository: those that lie there, and those that only the site has."""
    found = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages_of_repository()}
    return found | pages_about_modules()


def files_beside_pages() -> list[Path]:
    """Pictures, and the annotated conversations with their captures."""
    docs = ROOT / "docs"
    return [
        path for pattern in ("*.svg", "conversations/*.html", "conversations/*.pcapng") for path in docs.rglob(pattern)
    ]


def title_of(text: str) -> str:
    """The first heading of a page."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    if heading is None:
        raise ValueError(f"a page has no heading: {text[:60]!r}")
    return heading[1]


def staged() -> tuple[dict[str, str], tuple[Placed, ...]]:
    """The pages by their path on the site, as Zensical reads them, and the sections."""
    found = texts()
    places = {page: place_of(page) for page in found}
    pictures = {path.relative_to(ROOT).as_posix() for path in files_beside_pages()}
    places |= {picture: place_of(picture) for picture in pictures}
    return {places[page]: for_site(text, page, places) for page, text in found.items()}, placed(found)


def llms_txt(texts: Mapping[str, str], sections: tuple[Placed, ...]) -> str:
    """The list of pages for language models, in the form of llmstxt.org: section, title, link, first sentence."""
    lines = ["# kafkaraw", "", f"> {_ABOUT}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for page in map(place_of, section.pages()):
            lines.append(f"- [{title_of(texts[page])}]({page}){_summary(texts[page])}")
        lines.append("")
    return "\n".join(lines)


def _summary(text: str) -> str:
    """The first sentence of a page, without links."""
    body = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraph = next((part for part in re.split(r"\n\s*\n", body) if re.match(r"\s*[\w`]", part)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    sentence = re.match(r".*?[.:](?= |$)", plain)
    return f": {sentence[0].rstrip(':')}" if sentence else ""


def navigation(sections: tuple[Placed, ...], depth: int = 0) -> Iterator[str]:
    """The lines of the navigation in the configuration."""
    for section in sections:
        yield f"{'  ' * depth}- {section.title}:"
        for entry in section.entries:
            if isinstance(entry, Placed):
                yield from navigation((entry,), depth + 2)
            else:
                yield f"{'  ' * (depth + 2)}- {place_of(entry)}"


def stage() -> tuple[dict[str, str], tuple[Placed, ...]]:
    """Write the pages, their pictures and the configuration into build, and return the pages and sections."""
    shutil.rmtree(STAGED, ignore_errors=True)
    texts, sections = staged()
    for place, text in texts.items():
        path = STAGED / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((_WIDE if place in WIDE else "") + text, encoding="utf-8")
    for picture in files_beside_pages():
        place = STAGED / place_of(picture.relative_to(ROOT).as_posix())
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)
    shutil.copyfile(Path(__file__).with_name("extra.css"), STAGED / "extra.css")
    lines = ["INHERIT: ../docs/site/mkdocs.yml", f"docs_dir: {STAGED.name}", f"site_dir: {SITE.name}", "nav:"]
    CONFIGURATION.write_text("\n".join([*lines, *navigation(sections, 1), ""]), encoding="utf-8")
    return texts, sections


def main() -> int:
    """Build the site; return the exit code of Zensical."""
    texts, sections = stage()
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", CONFIGURATION]
    shutil.rmtree(SITE, ignore_errors=True)
    if code := subprocess.run(command, check=False).returncode:
        return code
    for place, text in texts.items():
        (SITE / place).write_text(text, encoding="utf-8")
    (SITE / "llms.txt").write_text(llms_txt(texts, sections), encoding="utf-8")
    print(f"{len(texts)} pages. To read them, with search: python -m http.server -d {SITE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
