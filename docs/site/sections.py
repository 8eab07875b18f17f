"""Which page of the documentation stands in which section of the site, and in which order.

A page belongs to the first entry that names it, by its path in the repository or by a pattern. `placed` fails for a
page without a place, so a new page of docs/ needs an entry here; guides in docs/how-to/ are covered by a pattern. Start
at `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
START: Final = "README.md"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the navigation.

    Attributes:
        title: the heading.
        entries: paths and patterns of pages, and sections below this one.
    """

    title: str
    entries: tuple[str | Section, ...]


SECTIONS: Final = (
    Section(
        "Get started",
        (
            START,
            "docs/how-to/test-with-kafkaraw.md",
            "docs/pipelines.md",
            Section("Examples", ("docs/pipelines/examples.md", "docs/pipelines/example-*.md")),
            "CHANGELOG.md",
        ),
    ),
    Section(
        "How-to",
        (
            Section(
                "Send",
                (
                    "docs/how-to/produce.md",
                    "docs/how-to/use-transactions.md",
                    "docs/how-to/choose-partitions.md",
                    "docs/how-to/send-tables.md",
                    "docs/how-to/write-lake-tables.md",
                ),
            ),
            Section(
                "Read",
                (
                    "docs/how-to/consume.md",
                    "docs/how-to/consume-in-a-group.md",
                    "docs/how-to/share-records-between-workers.md",
                    "docs/how-to/query-topics.md",
                    "docs/how-to/console.md",
                    "docs/how-to/choose-a-group-protocol.md",
                    "docs/how-to/stop-gracefully.md",
                    "docs/how-to/*worker*.md",
                ),
            ),
            Section("Move to kafkaraw", ("docs/how-to/move-*.md", "docs/how-to/use-a-java-configuration.md")),
            Section("Use schemas", ("docs/how-to/schemas.md", "docs/how-to/*schema*.md")),
            Section("Run pipelines", ("docs/pipelines/*.md",)),
            Section(
                "Find problems",
                (
                    "docs/how-to/troubleshoot.md",
                    "docs/how-to/find-out-why.md",
                    "docs/how-to/debug-with-the-tap.md",
                    "docs/how-to/read-the-wire.md",
                    "docs/how-to/read-a-capture.md",
                    "docs/conversations/README.md",
                    "docs/how-to/see-kafka-in-other-tools.md",
                ),
            ),
            Section(
                "Operate",
                (
                    "docs/how-to/log-in.md",
                    "docs/how-to/use-the-command-line.md",
                    "docs/how-to/administer.md",
                    "docs/how-to/watch-a-cluster.md",
                    "docs/mirroring.md",
                    "docs/how-to/monitor.md",
                    "docs/how-to/tune-performance.md",
                    "docs/how-to/*.md",
                ),
            ),
        ),
    ),
    Section(
        "Concepts",
        (
            "docs/producing.md",
            "docs/consuming.md",
            "docs/spark.md",
            "docs/broker.md",
            "docs/registry.md",
            "docs/log-files.md",
            "docs/security.md",
            "docs/process-state.md",
            "docs/performance.md",
            "docs/scaling.md",
            "docs/glossary.md",
        ),
    ),
    Section(
        "Reference",
        (
            "docs/reference/README.md",
            "docs/reference/client-settings.md",
            "docs/reference/broker-properties.md",
            "docs/reference/spark-options.md",
            Section("Commands", ("docs/reference/commands/README.md", "docs/reference/commands/*.md")),
            Section(
                "Python API",
                (
                    "docs/reference/python-names.md",
                    "docs/reference/python/Producer.md",
                    "docs/reference/python/Consumer.md",
                    "docs/reference/python/Admin.md",
                    "docs/reference/python/Async*.md",
                    "docs/reference/python/kafkaraw.md",
                    "docs/reference/python/*.md",
                ),
            ),
            "docs/reference/*.md",
            "docs/java-admin.md",
            Section("Protocol reference", ("docs/reference/protocol/README.md", "docs/reference/protocol/*.md")),
        ),
    ),
    Section(
        "Internals",
        (
            "docs/architecture.md",
            "docs/first-change.md",
            "docs/development.md",
            "CONTRIBUTING.md",
            "docs/state-machines.md",
            "docs/simulation.md",
            "SECURITY.md",
            Section("Decisions", ("docs/decisions/README.md", "docs/decisions/*.md")),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A section with its pages.

    Attributes:
        title: the heading.
        entries: paths of pages in the repository, and sections below this one.
    """

    title: str
    entries: tuple[str | Placed, ...]

    def pages(self) -> Iterator[str]:
        """The pages of the section and of those below it, in order."""
        for entry in self.entries:
            if isinstance(entry, Placed):
                yield from entry.pages()
            else:
                yield entry


def pages_of_repository() -> list[str]:
    """The paths of all pages of the documentation, relative to the root of the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def placed(pages: Iterable[str]) -> tuple[Placed, ...]:
    """Put pages into the sections.

    Args:
        pages: paths in the repository.

    Returns:
        the sections that have pages.

    Raises:
        ValueError: a page has no place.
    """
    left = sorted(pages)
    wanted = _places(SECTIONS, left)
    sections = tuple(_filled(section, wanted) for section in SECTIONS)
    lost = [page for page in left if page not in wanted]
    if lost:
        raise ValueError(f"no section has {', '.join(lost)}: add an entry to SECTIONS in docs/site/sections.py")
    return tuple(section for section in sections if section.entries)


def _places(sections: Iterable[Section], pages: list[str]) -> dict[str, tuple[Section, str]]:
    """The section and the entry of each page: an entry that names the page goes before any pattern."""
    entries = [(section, entry) for section in _all(sections) for entry in section.entries if isinstance(entry, str)]
    entries.sort(key=lambda pair: "*" in pair[1])
    found: dict[str, tuple[Section, str]] = {}
    for page in pages:
        for section, entry in entries:
            if entry == page or (_same_folder(entry, page) and fnmatchcase(page, entry)):
                found[page] = (section, entry)
                break
    return found


def _same_folder(entry: str, page: str) -> bool:
    return entry.rpartition("/")[0] == page.rpartition("/")[0]


def _all(sections: Iterable[Section]) -> Iterator[Section]:
    for section in sections:
        yield section
        yield from _all(entry for entry in section.entries if isinstance(entry, Section))


def _filled(section: Section, places: dict[str, tuple[Section, str]]) -> Placed:
    entries: list[str | Placed] = []
    for entry in section.entries:
        if isinstance(entry, Section):
            below = _filled(entry, places)
            entries += [below] if below.entries else []
        else:
            entries += [page for page, place in places.items() if place == (section, entry)]
    return Placed(section.title, tuple(entries))
