"""Bytes as people have them: dumps, literals and log lines, back to bytes.

Each form is one row of a table: a test that recognises it and a reader. The first that fits wins, from the most telling
to the least: hexdump -C, xxd, tcpdump -X, log lines, Erlang, Python and C literals, plain hex, base64. Start at
`read_bytes`. This module must not know the protocol.
"""

from __future__ import annotations

import ast
import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkaraw.errors import UsageError


class Form(NamedTuple):
    """A way of writing bytes down."""

    name: str
    recognise: Callable[[str], bool]
    read: Callable[[str], bytes]


HEX_DIGITS: Final = re.compile(r"[0-9a-fA-F]")
# `00000010  ff d8 ...  |....|`: the offset, up to 16 bytes, the same as text between bars.
HEXDUMP: Final = re.compile(r"^([0-9a-fA-F]{7,8})  ?((?:[0-9a-fA-F]{2} {1,2})*[0-9a-fA-F]{2})?\s*(?:\|.*\|)?\s*$")
# `00000010: ffd8 ffe0  ....`: groups of bytes, two spaces, the same as text.
XXD: Final = re.compile(r"^[0-9a-fA-F]{4,8}: ((?:[0-9a-fA-F]{2,4} )+[0-9a-fA-F]{0,4}|[0-9a-fA-F]{2,4})(?:\s.*)?$")
# `        0x0010:  4500 003c ...  E..<`
TCPDUMP: Final = re.compile(r"^\s*0x([0-9a-fA-F]{4}):\s+((?:[0-9a-fA-F]{2,4} ?)+)(?:\s{2,}.*)?$")
# `WriteAsync[26] 00 00 ...`, and the like of other loggers.
LOG_LINE: Final = re.compile(r"\b(?:Read|Write)(?:Async)?\[(\d+)\]((?:[ \t]+[0-9a-fA-F]{2}\b)+)")
ERLANG: Final = re.compile(r"<<([\d\s,]*)>>")
PYTHON: Final = re.compile(r"""^\s*(?:b|rb|br)(?:'|")""", re.IGNORECASE)
PYTHON_LITERAL: Final = re.compile(r"""b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.IGNORECASE)
C_ESCAPES: Final = re.compile(r'^\s*"(?:[^"\\]|\\.)*"')
C_BYTES: Final = re.compile(r"0x([0-9a-fA-F]{1,2})\b")


def read_bytes(data: bytes) -> tuple[bytes, str]:
    """Read whatever a person has: text in any known form, or raw bytes.

    Returns:
        The bytes, and the name of the form that they were written in.

    Raises:
        UsageError: it is text, and in no known form.
    """
    text = _as_text(data)
    if text is None:
        return data, "raw bytes"
    if not text.strip():
        raise UsageError("there is nothing to decode: the input is empty")
    for form in FORMS:
        if form.recognise(text):
            found = form.read(text)
            if found:
                return found, form.name
    raise UsageError(
        "this text is in no known form of bytes: give hex, base64, an xxd, hexdump -C or tcpdump -X dump, a Python, C "
        f"or Erlang literal, or a log line such as `WriteAsync[26] 00 00 ...`; it begins with {text.strip()[:40]!r}"
    )


def _as_text(data: bytes) -> str | None:
    """The input as text, unless it is raw bytes: control characters do not occur in any written form."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if any(ord(char) < 32 and char not in "\t\n\r\f" for char in text) else text


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _all_lines(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: all(pattern.match(line) for line in _lines(text) if line.strip() != "*")


def _read_hexdump(text: str) -> bytes:
    out = bytearray()
    repeated = False
    for line in _lines(text):
        if line.strip() == "*":
            repeated = True
            continue
        match = HEXDUMP.match(line)
        assert match
        offset, digits = int(match[1], 16), match[2] or ""
        if repeated and len(out) >= 16:
            # An asterisk stands for lines equal to the one before it.
            last = bytes(out[-16:])
            while len(out) < offset:
                out += last
        repeated = False
        out += bytes.fromhex(digits)
    return bytes(out)


def _read_xxd(text: str) -> bytes:
    out = bytearray()
    for line in _lines(text):
        columns = line.split(": ", 1)[1].split("  ", 1)[0]
        out += bytes.fromhex(columns.replace(" ", ""))
    return bytes(out)


def _read_tcpdump(text: str) -> bytes:
    out = bytearray()
    for line in _lines(text):
        match = TCPDUMP.match(line)
        if match:
            out += bytes.fromhex(match[2].replace(" ", ""))
    return _tcp_payload(bytes(out))


def _tcp_payload(packet: bytes) -> bytes:
    """Strip IPv4 or IPv6 and TCP headers, when the dump begins with them as tcpdump -X prints."""
    if len(packet) > 40 and packet[0] >> 4 == 4 and packet[9] == 6:
        tcp = (packet[0] & 15) * 4
        end = int.from_bytes(packet[2:4])
    elif len(packet) > 60 and packet[0] >> 4 == 6 and packet[6] == 6:
        tcp = 40
        end = 40 + int.from_bytes(packet[4:6])
    else:
        return packet
    return packet[tcp + (packet[tcp + 12] >> 4) * 4 : end]


def _read_log_lines(text: str) -> bytes:
    return b"".join(bytes.fromhex(match[2]) for match in LOG_LINE.finditer(text))


def _read_erlang(text: str) -> bytes:
    match = ERLANG.search(text)
    assert match
    numbers = [int(number) for number in re.findall(r"\d+", match[1])]
    if any(number > 255 for number in numbers):
        raise UsageError("an Erlang binary holds bytes, 0 to 255; this one has a larger number")
    return bytes(numbers)


def _read_python(text: str) -> bytes:
    try:
        return b"".join(ast.literal_eval(literal) for literal in PYTHON_LITERAL.findall(text))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"this looks like a Python bytes literal, but is not a valid one: {error}") from None


def _read_c_string(text: str) -> bytes:
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    escapes = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", '"': b'"', "a": b"\a", "b": b"\b"}
    out = bytearray()
    for piece in re.findall(r"\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3}|\\.|[^\\]", "".join(pieces)):
        if piece.startswith("\\x"):
            out.append(int(piece[2:], 16))
        elif re.fullmatch(r"\\[0-7]{1,3}", piece):
            out.append(int(piece[1:], 8) & 255)
        else:
            out += escapes.get(piece[1:], piece[1:].encode()) if piece.startswith("\\") else piece.encode()
    return bytes(out)


def _read_c_array(text: str) -> bytes:
    return bytes(int(digits, 16) for digits in C_BYTES.findall(text))


def _is_hex(text: str) -> bool:
    digits = re.sub(r"[\s:,_-]|\\x|0x", "", text)
    return bool(digits) and len(digits) % 2 == 0 and re.fullmatch(r"[0-9a-fA-F]+", digits) is not None


def _read_hex(text: str) -> bytes:
    return bytes.fromhex(re.sub(r"[\s:,_-]|\\x|0x", "", text))


def _is_base64(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", "".join(text.split())) is not None


def _read_base64(text: str) -> bytes:
    compact = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(compact.translate(str.maketrans("-_", "+/")) + "=" * (-len(compact) % 4), validate=True)
    except binascii.Error as error:
        raise UsageError(f"this looks like base64, but is not valid: {error}") from None


FORMS: Final = (
    Form("hexdump -C", _all_lines(HEXDUMP), _read_hexdump),
    Form("xxd", _all_lines(XXD), _read_xxd),
    Form("tcpdump -X", lambda text: any(TCPDUMP.match(line) for line in _lines(text)), _read_tcpdump),
    Form("log line", lambda text: LOG_LINE.search(text) is not None, _read_log_lines),
    Form("Erlang binary", lambda text: ERLANG.search(text) is not None, _read_erlang),
    Form("Python literal", lambda text: PYTHON.match(text) is not None, _read_python),
    Form("C string", lambda text: C_ESCAPES.match(text) is not None, _read_c_string),
    Form("hex", _is_hex, _read_hex),
    Form("C array", lambda text: C_BYTES.search(text) is not None, _read_c_array),
    Form("base64", _is_base64, _read_base64),
)
