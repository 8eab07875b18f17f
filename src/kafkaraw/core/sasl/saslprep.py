"""SASLprep: one spelling for passwords that look alike. Source: RFC 4013; for ASCII it changes nothing."""

from __future__ import annotations

import stringprep
import unicodedata
from typing import Final

_PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """Return the text in its one spelling.

    Raises:
        ValueError: it has a character that no name or password may have; the message does not show the text.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(char) for char in prepared for prohibited in _PROHIBITED):
        raise ValueError("a control, private-use or otherwise prohibited character (RFC 4013)")
    if any(stringprep.in_table_d1(char) for char in prepared) and (
        any(stringprep.in_table_d2(char) for char in prepared)
        or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1]))
    ):
        raise ValueError("right-to-left and left-to-right characters mixed (RFC 4013)")
    return prepared
