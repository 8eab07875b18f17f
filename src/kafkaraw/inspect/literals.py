"""Bytes in source code: Erlang binaries, Python and C strings, lists of numbers, escaped text.

Literals may be within prose or code. Each form has a `looks_like_` test and a `read_` function; `text_input` holds
the table of them. This module must not know the protocol, and never executes its input.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from kafkaraw.errors import UsageError

STRING: Final = r'"(?:[^"\\]|\\.)*"'
ERLANG: Final = re.compile(rf"<<((?:{STRING}|[0-9a-fA-F#x:,\s])*)>>")
ERLANG_CUT: Final = re.compile(r"<<[\d\s,]*\.\.\.>>")
ERLANG_ITEM: Final = re.compile(rf"({STRING})|(?:(\d+)#([0-9a-fA-F]+)|0x([0-9a-fA-F]+)|(\d+))(?::(\d+))?")
PYTHON: Final = re.compile(
    r"""(?<![\w"'\\])(?:b|br|rb)(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""",
    re.IGNORECASE | re.DOTALL,
)
# An unclosed literal reaches to the end, so that a search does not start again at every quote in it.
C_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)("|$|\\$)', re.DOTALL)
C_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*(?:"|$|\\$))|/\*.*?\*/|//[^\n]*', re.DOTALL)
ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})|\\(.)|([^\\])", re.DOTALL)
ESCAPED_TEXT: Final = re.compile(r"(?:\\x[0-9a-fA-F]{2}|\\[0-7]{3}|\\[0abtnrfv\\'\"]|[\x20-\x5b\x5d-\x7e])+")
LETTERS: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27}
BRACKETED: Final = tuple(re.compile(pattern) for pattern in (r"\[([^\[\]]*)\]", r"\{([^{}]*)\}", r"\(([^()]*)\)"))
BYTE_CAST: Final = re.compile(r"\(byte\)\s*", re.IGNORECASE)
NUMBER: Final = re.compile(r"(-?)(?:0x([0-9a-fA-F]+)|(\d+))(?:u8|[uUlL]+)?", re.IGNORECASE)
BETWEEN_NUMBERS: Final = re.compile(r"[\s,;]+")
NODE_BUFFER: Final = re.compile(r"<Buffer((?: [0-9a-fA-F]{2})+)( \.\.\. \d+ more bytes?)?>")
QUOTED: Final = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
BITS_PER_BYTE: Final = 8
INTEGER_BITS_MAX: Final = 4096


def looks_like_erlang(text: str) -> bool:
    """Return whether there is an Erlang or Elixir binary with bytes in it."""
    return ERLANG_CUT.search(text) is not None or any(match[1].strip() for match in ERLANG.finditer(text))


def read_erlang(text: str) -> bytes:
    """Read the longest binary in the text: in prose, the short ones are mentions of its parts.

    Raises:
        UsageError: a segment is too large for its bits, or the shell cut the binary short.
    """
    bodies = [match[1] for match in ERLANG.finditer(text)]
    cut = max((match[0] for match in ERLANG_CUT.finditer(text)), key=len, default="")
    body = max(bodies, key=len, default="")
    if len(cut) > len(body):
        raise UsageError(
            'the Erlang shell cut this binary short (`...>>`); print all of it: io:format("~w~n", [Binary])'
        )
    return b"".join(_erlang_item(match) for match in ERLANG_ITEM.finditer(body))


def _erlang_item(match: re.Match[str]) -> bytes:
    if match[1] is not None:
        return _unescaped(match[1][1:-1])
    base, digits = (int(match[2]), match[3]) if match[2] else (16, match[4]) if match[4] else (10, match[5])
    bits = int(match[6] or BITS_PER_BYTE)
    if not 2 <= base <= 36 or bits % BITS_PER_BYTE or bits > INTEGER_BITS_MAX:
        raise UsageError(f"in an Erlang binary, {match[0]!r} is no whole number of bytes")
    try:
        return int(digits, base).to_bytes(bits // BITS_PER_BYTE)
    except (OverflowError, ValueError):
        raise UsageError(f"in an Erlang binary, {match[0]!r} does not fit {bits} bits") from None


def looks_like_python(text: str) -> bool:
    """Return whether there is a bytes literal of Python, and the text does not begin as a C string does."""
    return not text.lstrip().startswith('"') and PYTHON.search(text) is not None


def read_python(text: str) -> bytes:
    """Read every bytes literal and join them, as Python joins adjacent ones.

    Raises:
        UsageError: one is not valid.
    """
    try:
        return b"".join(ast.literal_eval(match[0]) for match in PYTHON.finditer(text))
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(f"this looks like a Python bytes literal, but is not a valid one: {reason}") from None


def looks_like_c_string(text: str) -> bool:
    """Return whether there are strings with escapes, alone or in C code."""
    return any("\\" in match[1] and match[2] == '"' for match in C_STRING.finditer(text))


def read_c_string(text: str) -> bytes:
    """Read every string and join them, as C joins adjacent ones. An escape has two hex digits at most."""
    code = _without_comments(text)
    return b"".join(_unescaped(match[1]) for match in C_STRING.finditer(code) if match[2] == '"')


def _without_comments(code: str) -> str:
    """Remove comments from C code, but not text within a string that looks like one."""
    return C_COMMENT.sub(lambda match: match[1] or "", code)


def looks_like_escaped(text: str) -> bool:
    r"""Return whether the text is bytes printed with escapes: `\x00\x0ckafkaraw`."""
    return "\\x" in text and ESCAPED_TEXT.fullmatch("".join(text.split("\n")).strip()) is not None


def read_escaped(text: str) -> bytes:
    """Read text with escapes, lines joined; in a shell command only the text in quotes."""
    quoted = longest_quoted(text)
    if quoted.count("\\x") == text.count("\\x"):
        return _unescaped(quoted)
    return _unescaped("".join(text.splitlines()).lstrip())


def _unescaped(text: str) -> bytes:
    out = bytearray()
    for match in ESCAPE.finditer(text):
        if match[1] is not None:
            out.append(int(match[1], 16))
        elif match[2] is not None:
            out.append(int(match[2], 8) & 255)
        elif match[3] is not None:
            out += (
                b"" if match[3] == "\n" else bytes((LETTERS[match[3]],)) if match[3] in LETTERS else match[3].encode()
            )
        else:
            out += match[4].encode()
    return bytes(out)


def looks_like_node_buffer(text: str) -> bool:
    """Return whether there is a Buffer as Node.js prints it."""
    return NODE_BUFFER.search(text) is not None


def read_node_buffer(text: str) -> bytes:
    """Read the longest Buffer of Node.js.

    Raises:
        UsageError: Node.js has left bytes out.
    """
    longest = max(NODE_BUFFER.finditer(text), key=lambda match: len(match[1]))
    if longest[2]:
        raise UsageError(
            f"Node.js has cut this Buffer short (`{longest[2].strip()}`); print all of it: buffer.toString('hex')"
        )
    return bytes.fromhex(longest[1])


def looks_like_list(text: str) -> bool:
    """Return whether there is a list of numbers in brackets, or numbers alone in a form that hex never has."""
    return _longest_list(text) != "" or _is_bare_list(text)


def read_list(text: str) -> bytes:
    """Read a list of numbers, as C, Java, Go, Rust, JSON and JavaScript write it; the longest if there are several.

    Raises:
        UsageError: a number is not a byte.
    """
    return bytes(_as_byte(number, at) for at, number in enumerate(_numbers(_longest_list(text) or text)))


def _longest_list(text: str) -> str:
    """Return the text between brackets that contains only numbers, more than one or with 0x."""
    code = _without_comments(text)
    bodies = [match[1] for brackets in BRACKETED for match in brackets.finditer(code)]
    longest = max((body for body in bodies if _items(body)), key=len, default="")
    return longest if "," in longest or "x" in longest.lower() else ""


def _items(body: str) -> list[str]:
    """Return the numbers of a list, or nothing if anything else is among them."""
    items = BETWEEN_NUMBERS.split(BYTE_CAST.sub("", body).strip(" \t\n,;"))
    return items if all(NUMBER.fullmatch(item) for item in items) else []


def _is_bare_list(text: str) -> bool:
    """Return whether these numbers cannot be hex: some have an odd number of digits, and none is padded to two."""
    items = _items(text)
    digits = [item.lower().removeprefix("-").removeprefix("0x") for item in items]
    if len(items) < 2 or all(len(item) % 2 == 0 for item in digits):
        return False
    one_width = len({len(item) for item in digits}) == 1
    return one_width or any("0x" in item.lower() for item in items) or not any(d[0] == "0" and d != "0" for d in digits)


def _numbers(body: str) -> Iterator[int]:
    for match in NUMBER.finditer(BYTE_CAST.sub("", body)):
        number = int(match[2], 16) if match[2] else int(match[3])
        yield -number if match[1] else number


def _as_byte(number: int, at: int) -> int:
    if not -128 <= number <= 255:
        raise UsageError(f"byte {at}: a list of bytes holds numbers from -128 to 255; this one has {number}")
    return number & 255


def longest_quoted(text: str) -> str:
    """Return the longest text in quotes, as in `bytes.fromhex("0000 0016")`; empty if there is none."""
    return max((match[1] or match[2] or "" for match in QUOTED.finditer(text)), key=len, default="")
