"""The first page of the reference: which page has what."""

from __future__ import annotations

from typing import Final

from docs.generate.tables import notice

_PAGE: Final = """\
# Reference

Everything with a name, made from the declarations in the sources. A test checks that the pages are current.

| of | page |
|---|---|
| producers, consumers, admin clients | [client settings](client-settings.md), with the names in Java and librdkafka |
| workers | [worker settings](worker-settings.md) |
| mirrors of topics in other clusters | [mirror properties](mirror-properties.md) |
| the embedded broker | [broker properties](broker-properties.md), and configurations of topics |
| the Spark format `kafkaraw` | [Spark options](spark-options.md) |
| the command line | [commands](commands/README.md) with their options |
| Python | [modules and names](python-names.md); the site of this documentation also has signatures and docstrings |
| errors | [exceptions](exceptions.md): when each is raised, what to do |
| operation | [metrics](metrics.md), [loggers](loggers.md) |
| Java's Admin | [each method](../java-admin.md), and what it is here |
| the wire | [protocol reference](protocol/README.md): each message of Kafka's protocol, each version, each field |
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {"README.md": notice("docs/generate/overview.py") + "\n\n" + _PAGE}
