"""The page of a mirror's properties, from `mirror/properties.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs.generate.tables import code, notice, table, text
from kafkaraw.mirror.properties import PROPERTIES, REFUSED

PAGE: Final = "mirror-properties.md"
_ABOUT: Final = """\
Properties of `mirror.properties` and `mirror.yml`, with MirrorMaker 2's names; see [Mirroring](../mirroring.md).
Besides `clusters`, the list of aliases, and the flows' properties below, there are those of clients, with the [names of
Java's clients](client-settings.md): `ALIAS.bootstrap.servers`, `ALIAS.security.protocol` for all clients of a cluster,
and `ALIAS.consumer.NAME`, `ALIAS.producer.NAME`, `ALIAS.admin.NAME` for one kind. A property of a flow stands alone,
for all flows, or with the flow in front: `east->west.topics`.
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw/mirror/properties.py"), "", "# Mirror properties", "", _ABOUT)
    yield from table(
        ("property", "default", "meaning"),
        ((code(name), code(_shown(each.default)), text(each.text)) for name, each in PROPERTIES.items()),
    )
    yield "These are refused, because a mirror cannot do what they ask for:"
    yield ""
    yield from table(("property", "what to do"), ((code(name), text(why)) for name, why in REFUSED.items()))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
