"""Read bytes from the text forms that tools print: dumps, literals and log lines.

Each form is one row of a table: a test that recognises it and a reader. The first that fits is used, from the most
specific to the least: log lines, dumps with numbered rows, literals of programs, plain hex, base64. Start at
`read_bytes`. This module must not know the protocol.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkaraw.errors import UsageError
from kafkaraw.inspect import dumps, literals


class Form(NamedTuple):
    """A way of writing bytes down."""

    name: str
    recognise: Callable[[str], bool]
    read: Callable[[str], bytes]


SHOWN_MAX: Final = 40
HEX_SEPARATORS: Final = re.compile(r"[\s:,_-]+")
HEX_PREFIX: Final = re.compile(r"\\x|\b0[xX](?=[0-9a-fA-F])")
ONLY_HEX: Final = re.compile(r"[0-9a-fA-F\s:,_-]+")
BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
BASE64_LENGTH_MIN: Final = 8
HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
NEARLY_HEX_MIN, NEARLY_HEX_SHARE = 16, 16
"""Text of so many characters, of which at most one in so many is no hex digit, is hex with a mistake in it."""
# Replacements of quotes and spaces by word processors and web pages.
TYPOGRAPHY: Final = str.maketrans({"\u00a0": " ", "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
CAPTURES: Final = (
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
)


def read_bytes(data: bytes) -> tuple[bytes, str]:
    """Read text in any known form, or raw bytes.

    Returns:
        The bytes, and the name of the form of the input.

    Raises:
        UsageError: the input is text in no known form, or in a form with an error in it.
    """
    if data.startswith(CAPTURES):
        raise UsageError("this is a capture file: kafkaraw wire read FILE")
    text = _as_text(data)
    if text is None:
        return data, "raw bytes"
    if not text.strip():
        raise UsageError("there is nothing to decode: the input is empty")
    quoted = literals.longest_quoted(text)
    for forms, written in ((FORMS, text), (QUOTED_FORMS, quoted)):
        for form in forms:
            found = form.read(written) if written and form.recognise(written) else b""
            if found:
                return found, form.name
    if _is_nearly_hex(text):
        raise UsageError(f"this looks like hex, but {_mistake_in(text)}")
    raise UsageError(
        "this text is in no known form of bytes: give hex, base64, an xxd, hexdump -C or tcpdump -X dump, a Python, C "
        f"or Erlang literal, or a log line such as `WriteAsync[26] 00 00 ...`; it begins with {_beginning(text)!r}"
    )


def _beginning(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line if len(line) <= SHOWN_MAX else line[:SHOWN_MAX] + "..."


def _as_text(data: bytes) -> str | None:
    """Return the input as text, unless it is raw bytes: no text form contains control characters."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    if any(ord(char) < 32 and char not in "\t\n\r\f" for char in text):
        return None
    return text.translate(TYPOGRAPHY).replace("\r\n", "\n")


def _is_hex(text: str) -> bool:
    """Return whether it is hex digits. Those that begin with AAAA are base64, which writes leading zeros as A."""
    return not text.lstrip().startswith("AAAA") and ONLY_HEX.fullmatch(HEX_PREFIX.sub(" ", text)) is not None


def _read_hex(text: str) -> bytes:
    groups = HEX_SEPARATORS.split(HEX_PREFIX.sub(" ", text).strip())
    digits = "".join(groups)
    # Lines may be wrapped anywhere; groups within a line may not.
    before = 0
    for number, line in enumerate(text.splitlines(), 1):
        for group in _inner_groups(line):
            if len(group) % 2:
                raise UsageError(
                    f"this looks like hex, but the group {group!r} in line {number}, byte {before // 2}, has an odd "
                    "number of digits; write 0 as 00"
                )
            before += len(group)
        before += 0 if _inner_groups(line) else len("".join(HEX_SEPARATORS.split(HEX_PREFIX.sub(" ", line))))
    if len(digits) % 2:
        raise UsageError(
            f"this looks like hex, but has an odd number of digits, {len(digits)}: one is missing or too many"
        )
    return bytes.fromhex(digits)


def _is_nearly_hex(text: str) -> bool:
    """Return whether it is hex but for a few characters; base64 of this size has letters above F in every line."""
    compact = "".join(HEX_SEPARATORS.split(HEX_PREFIX.sub(" ", text)))
    wrong = sum(char not in HEX_DIGITS for char in compact)
    one_case = not (re.search(r"[a-f]", compact) and re.search(r"[A-F]", compact))
    return len(compact) >= NEARLY_HEX_MIN and 0 < wrong <= len(compact) // NEARLY_HEX_SHARE and one_case


def _mistake_in(text: str) -> str:
    """Return where the first character is that is no hex digit."""
    before = 0
    for number, line in enumerate(HEX_PREFIX.sub("  ", text).splitlines(), 1):
        for column, char in enumerate(line, 1):
            if char in HEX_DIGITS:
                before += 1
            elif not HEX_SEPARATORS.fullmatch(char):
                return f"line {number}, column {column} (byte {before // 2}) has {char!r}"
    return "it is not"


def _inner_groups(line: str) -> list[str]:
    groups = HEX_SEPARATORS.split(HEX_PREFIX.sub(" ", line).strip())
    return groups if len(groups) > 1 else []


def _is_base64(text: str) -> bool:
    lines = [line.strip() for line in text.strip().splitlines()]
    compact = "".join(lines)
    return len(compact) >= BASE64_LENGTH_MIN and BASE64.fullmatch(compact) is not None and not _is_nearly_hex(text)


def _read_base64(text: str) -> bytes:
    compact = "".join(text.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except binascii.Error as error:
        raise UsageError(f"this looks like base64, but is not valid: {error}") from None


FORMS: Final = (
    Form("followed stream", dumps.looks_like_follow, dumps.read_follow),
    Form("log line", dumps.looks_like_log, dumps.read_log),
    Form("tcpdump", dumps.looks_like_tcpdump, dumps.read_tcpdump),
    Form("xxd", dumps.looks_like_xxd, dumps.read_xxd),
    Form("octal dump", dumps.looks_like_octal, dumps.refuse_octal),
    Form("hexdump", dumps.looks_like_words, dumps.read_words),
    Form("hexdump -C", dumps.looks_like_hexdump, dumps.read_hexdump),
    Form("Node.js Buffer", literals.looks_like_node_buffer, literals.read_node_buffer),
    Form("Erlang binary", literals.looks_like_erlang, literals.read_erlang),
    Form("Python literal", literals.looks_like_python, literals.read_python),
    Form("C string", literals.looks_like_c_string, literals.read_c_string),
    Form("list of numbers", literals.looks_like_list, literals.read_list),
    Form("hex", _is_hex, _read_hex),
    Form("escaped text", literals.looks_like_escaped, literals.read_escaped),
    Form("base64", _is_base64, _read_base64),
)
# Forms that also occur in quotes within code: `bytes.fromhex("...")`, `echo -ne '...'`, JSON.
QUOTED_FORMS: Final = FORMS[-3:]
