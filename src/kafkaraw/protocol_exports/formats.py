"""The formats in which the protocol is exported, by name. Start at `export`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol_exports.imhex import imhex_pattern
from kafkaraw.protocol_exports.json_schema import json_schema
from kafkaraw.protocol_exports.kaitai import kaitai_struct
from kafkaraw.protocol_exports.markdown import markdown_pages
from kafkaraw.protocol_exports.wireshark import dissector

FORMATS: Final[dict[str, Callable[[Iterable[Api]], dict[str, str]]]] = {
    "wireshark": dissector,
    "kaitai": kaitai_struct,
    "imhex": imhex_pattern,
    "json-schema": json_schema,
    "markdown": markdown_pages,
}
"""The function that writes each format: the texts of its files, by their names."""


def export(name: str, apis: Iterable[Api] = API_TABLE) -> dict[str, str]:
    """Return the protocol in a format of another tool.

    Args:
        name: one of `FORMATS`.
        apis: the APIs that the files describe.

    Returns:
        The texts of the files, by their names. All formats but `markdown` have one file.
    """
    return FORMATS[name](apis)
