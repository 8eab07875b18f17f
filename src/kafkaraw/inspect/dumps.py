"""Dumps of bytes as tools print them: hexdump -C, hexdump, od, xxd, Wireshark, tcpdump -X, and log lines of frames.

Every dump numbers its lines, so a missing or repeated line is detected and reported. Each form has a `looks_like_` test
and a `read_` function; `text_input` holds the table of them. This module must not know the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kafkaraw.errors import UsageError

# `00000010  ff d8 ...  ff e0 |....|` of hexdump -C, `0010   ff d8 ...   ....` of Wireshark, `000010 ff d8 ...` of od.
ROW: Final = re.compile(
    r"^([0-9a-fA-F]{4,8})(?: {1,3}((?:[0-9a-fA-F]{2} {1,2}){0,31}[0-9a-fA-F]{2}))?(?:\s*|\s{2,}.*)$"
)
# `0000010 d8ff e0ff ...`: the output of hexdump without options, words in the machine's byte order.
WORDS_ROW: Final = re.compile(r"^([0-9a-fA-F]{7})((?: {1,3}[0-9a-fA-F]{4}){1,8})?\s*$")
OCTAL_ROW: Final = re.compile(r"^[0-7]{7}(?: +[0-7]{6}){0,8}\s*$")
OCTAL_NUMBERED: Final = re.compile(r"(?:(?:[0-7]{7}(?: [^\n]*)?|\*)(?:\n|$))+")
XXD_ROW: Final = re.compile(r"^([0-9a-fA-F]{4,8}): ((?:[0-9a-fA-F]{2})+(?: (?:[0-9a-fA-F]{2})+)*)(?:\s*|\s{2,}.*)$")
TCPDUMP_ROW: Final = re.compile(
    r"^\s*0x([0-9a-fA-F]{4,5}):\s+([0-9a-fA-F]{2,4}(?: [0-9a-fA-F]{2,4})*)(?:\s*|\s{2,}.*)$"
)
# `WriteAsync[26] 00 00 ...` of loggers of .NET, the bytes on this line or below it.
LOG_HEAD: Final = re.compile(r"\b(?:Read|Write)(?:Async)?\[(\d+)\]")
LOG_BYTE: Final = re.compile(r"[ \t]*\b([0-9a-fA-F]{2})(?![^\s])")
# `Follow: tcp,hex` of tshark and Wireshark; the lines of the second end are indented by a tab.
FOLLOW: Final = re.compile(r"^Follow: (?:tcp|tls),(?:hex|raw)\b", re.MULTILINE)
FOLLOW_ROW: Final = re.compile(
    r"^\t?[0-9a-fA-F]{8} {1,3}((?:[0-9a-fA-F]{2} {1,2}){0,15}[0-9a-fA-F]{2})(?:\s*|\s{2,}.*)$"
)
FOLLOW_RAW: Final = re.compile(r"^\t?((?:[0-9a-fA-F]{2})+)$")
REPEATED: Final = "*"
REPEATED_SIZE_MAX: Final = 256 * 1024 * 1024

ETHERTYPES: Final = (b"\x08\x00", b"\x86\xdd")
TCP: Final = 6


def lines_of(text: str) -> list[str]:
    """Return the lines that are not empty."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _all_rows(text: str, pattern: re.Pattern[str]) -> bool:
    lines = lines_of(text)
    return pattern.match(lines[0]) is not None and all(
        pattern.match(line) for line in lines if line.strip() != REPEATED
    )


def looks_like_hexdump(text: str) -> bool:
    """Return whether every line is a numbered row of bytes, the first one numbered 0."""
    first = ROW.match(lines_of(text)[0])
    return first is not None and int(first[1], 16) == 0 and _all_rows(text, ROW)


def looks_like_words(text: str) -> bool:
    """Return whether this is the output of hexdump without options."""
    return text.lstrip().startswith("0000000") and _all_rows(text, WORDS_ROW)


def looks_like_octal(text: str) -> bool:
    """Return whether this is the output of od without options."""
    return text.lstrip().startswith("0000000") and _all_rows(text, OCTAL_ROW)


def looks_like_xxd(text: str) -> bool:
    """Return whether every line is a row of xxd."""
    return _all_rows(text, XXD_ROW)


def looks_like_tcpdump(text: str) -> bool:
    """Return whether any line is a row of tcpdump -x or -X; lines between them name the packets."""
    return any(TCPDUMP_ROW.match(line) for line in lines_of(text))


def looks_like_log(text: str) -> bool:
    """Return whether there is a log line with the number of bytes that were read or written."""
    return LOG_HEAD.search(text) is not None


def read_hexdump(text: str) -> bytes:
    """Read rows of bytes with their positions; `*` stands for rows equal to the one before.

    Raises:
        UsageError: a row is missing.
    """
    return _joined((int(match[1], 16), bytes.fromhex(match[2] or "")) if match else None for match in _rows(text, ROW))


def read_xxd(text: str) -> bytes:
    """Read rows of xxd, in groups of any size.

    Raises:
        UsageError: a row is missing.
    """
    return _joined(
        (int(match[1], 16), bytes.fromhex(match[2].replace(" ", ""))) if match else None
        for match in _rows(text, XXD_ROW)
    )


def read_words(text: str) -> bytes:
    """Read 16-bit words, least significant byte first; the last row shows whether the last word is half.

    Raises:
        UsageError: a row is missing.
    """
    try:
        return _read_words(text, 16)
    except UsageError:
        if OCTAL_NUMBERED.fullmatch(text.strip()):  # od -x numbers its rows in octal
            return _read_words(text, 8)
        raise


def _read_words(text: str, base: int) -> bytes:
    rows = list(_rows(text, WORDS_ROW))
    last = rows[-1]
    end = int(last[1], base) if last and not last[2] else None
    parsed: list[tuple[int, bytes] | None] = []
    for match in rows[: len(rows) - (end is not None)]:
        words = (match[2] or "").split() if match else []
        parsed.append((int(match[1], base), b"".join(bytes.fromhex(word)[::-1] for word in words)) if match else None)
    out = _joined([*parsed, (end + end % 2, b"")] if end is not None else parsed)
    return out[:end]


def refuse_octal(text: str) -> bytes:
    """Say how to make a dump that can be read.

    Raises:
        UsageError: always.
    """
    raise UsageError("this is an octal dump of od; make a hexadecimal one: od -A x -t x1 FILE")


def _rows(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str] | None]:
    """Yield every row; None for an asterisk."""
    for line in lines_of(text):
        yield None if line.strip() == REPEATED else pattern.match(line)


def _joined(rows: Iterable[tuple[int, bytes] | None]) -> bytes:
    """Join rows of (position, bytes); None repeats the row before it up to the next one."""
    out = bytearray()
    row = b""
    repeated = False
    for numbered in rows:
        if numbered is None:
            repeated = True
            continue
        offset, found = numbered
        if repeated and row and len(out) < offset <= REPEATED_SIZE_MAX:
            out += row * ((offset - len(out)) // len(row))
        if offset != len(out):
            raise UsageError(
                f"the dump has a row numbered {offset:#06x} where {len(out):#06x} should stand: "
                "rows are missing or doubled"
            )
        out += found
        row = found or row
        repeated = False
    return bytes(out)


def read_tcpdump(text: str) -> bytes:
    """Read the packets of tcpdump -x, -X, -xx or -XX, strip what is below Kafka, and join them.

    Raises:
        UsageError: a row is missing.
    """
    return b"".join(_tcp_payload(packet) for packet in _packets(text))


def _packets(text: str) -> Iterator[bytes]:
    rows: list[tuple[int, bytes]] = []
    for match in _rows(text, TCPDUMP_ROW):
        if match is None:
            continue
        offset = int(match[1], 16)
        if offset == 0 and rows:
            yield _joined(rows)
            rows.clear()
        digits = match[2].replace(" ", "")
        rows.append((offset, bytes.fromhex(digits[: len(digits) // 2 * 2])))
    yield _joined(rows)


def _tcp_payload(packet: bytes) -> bytes:
    """Return the payload of a packet, without Ethernet, IPv4 or IPv6, and TCP headers; without headers, the packet."""
    if packet[12:14] in ETHERTYPES and packet[14:15] and packet[14] >> 4 in (4, 6):
        packet = packet[14:]
    if len(packet) >= 40 and packet[0] >> 4 == 4 and packet[9] == TCP:
        tcp = (packet[0] & 15) * 4
        end = int.from_bytes(packet[2:4]) or len(packet)  # 0 when the network card does the cutting
    elif len(packet) >= 60 and packet[0] >> 4 == 6 and packet[6] == TCP:
        tcp = 40
        end = 40 + int.from_bytes(packet[4:6]) if packet[4:6] != b"\0\0" else len(packet)
    else:
        return packet
    if tcp + 12 >= len(packet):
        return b""
    return packet[tcp + (packet[tcp + 12] >> 4) * 4 : end]


def looks_like_follow(text: str) -> bool:
    """Return whether this is a stream that tshark has followed."""
    return FOLLOW.search(text) is not None


def read_follow(text: str) -> bytes:
    """Read the bytes of both ends in the order of the stream."""
    rows = (FOLLOW_ROW.match(line) or FOLLOW_RAW.match(line) for line in text.splitlines())
    return b"".join(bytes.fromhex(row[1]) for row in rows if row)


def read_log(text: str) -> bytes:
    """Read the bytes after every `WriteAsync[26]` or similar text, up to the number that it states."""
    heads = list(LOG_HEAD.finditer(text))
    out = bytearray()
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        piece = text[head.end() : following.start() if following else len(text)]
        out += _logged(piece, int(head[1]))
    return bytes(out)


def _logged(text: str, size: int) -> bytes:
    """Read up to `size` bytes in hex, from rows that may end in the same as text.

    What follows the number on its own line may be words about the frame, as in this package's own connection log.
    """
    found = bytearray()
    for number, line in enumerate(text.splitlines()):
        before, at = len(found), 0
        while len(found) < size and (match := LOG_BYTE.match(line, at)):
            if at and len(match[0]) > 4:  # a wider gap than between bytes: what follows is text
                break
            found.append(int(match[1], 16))
            at = match.end()
        if len(found) == before and (found or (number and line.strip())):
            break
    return bytes(found)
