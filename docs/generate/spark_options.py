"""The page of the options of Spark's format `kafkaraw`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs.generate.tables import code, notice, table, text
from kafkaraw.spark.options import databases, lake
from kafkaraw.spark.options.descriptions import DESCRIPTIONS
from kafkaraw.spark.options.unsupported import INSTEAD, REFUSED_LOWER, REFUSED_READING, REFUSED_WRITING, WITHOUT_EFFECT

PAGE: Final = "spark-options.md"
_ABOUT: Final = """\
Options of `spark.read`, `readStream`, `write` and `writeStream` with `format("kafkaraw")`. Names are those of Spark's
own connector where it has them; upper and lower case are the same. [Spark](../spark.md) explains them with examples.

- `kafka.bootstrap.servers` is required, except with `logDirs`.
- `kafka.NAME`: each [client setting](client-settings.md), by its name in Java, such as `kafka.fetch.max.bytes`.
- `schema.registry.NAME`: the registry's client, by the names of the Java serializers and of confluent-kafka.
"""

_LAKE: Final = """\
## Lake tables

Options of `write` and `writeStream` with `format("kafkaraw.delta")` and `format("kafkaraw.iceberg")`. [Write lake
tables](../how-to/write-lake-tables.md) explains them.
"""

_DATABASES: Final = """\
## Tables of databases

Options of `write` and `writeStream` with `format("kafkaraw.postgresql")`, `format("kafkaraw.sqlite")` and
`format("kafkaraw.duckdb")`. [Write to databases](../how-to/write-to-databases.md) explains them.
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw/spark/options"), "", "# Spark options", "", _ABOUT)
    rows = (
        (code(name), about.use.value, code(about.default), text(about.doc))
        for name, about in sorted(DESCRIPTIONS.items(), key=lambda pair: pair[0].lower())
    )
    yield from table(("option", "for", "default", "meaning"), rows)
    yield from ("## Without effect", "", "Accepted, with a warning.", "")
    yield from table(("option", "why"), ((code(name), text(why)) for name, why in sorted(WITHOUT_EFFECT.items())))
    yield from ("## Refused", "")
    refused = [(name, "read, write", why) for name, why in REFUSED_LOWER.values()]
    refused += [(name, "read", why) for name, why in REFUSED_READING.items()]
    refused += [(name, "write", why) for name, why in REFUSED_WRITING.items()]
    refused += [(f"kafka.{name}", "read, write", why) for name, why in INSTEAD.items()]
    yield from table(("option", "for", "instead"), ((code(name), use, text(why)) for name, use, why in sorted(refused)))
    yield from ("", _LAKE)
    of_tables = sorted(lake.DESCRIPTIONS.items())
    lines = [(code(name), formats, code(default), text(doc)) for name, (formats, default, doc) in of_tables]
    yield from table(("option", "formats", "default", "meaning"), lines)
    yield from ("", _DATABASES)
    of_tables = sorted(databases.DESCRIPTIONS.items())
    lines = [(code(name), formats, code(default), text(doc)) for name, (formats, default, doc) in of_tables]
    yield from table(("option", "formats", "default", "meaning"), lines)
