"""The subject of a certificate as Java prints it: RFC 2253, the last part first.

Python shows a certificate's subject as a dictionary that has lost what Java's form needs (types without a name, how a
value was encoded); so it is read from the certificate's own bytes, which OpenSSL has checked by then.
Source: RFC 2253; X.690; javax.security.auth.x500.X500Principal.getName().
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import NamedTuple

# The types that have a name in RFC 2253; Java writes all others as numbers.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_VERSION: Final = 0xA0
# Tag -> how its text is encoded.
_TEXTS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_FIELDS_BEFORE_SUBJECT: Final = 4  # serial number, signature, issuer, validity
_ESCAPED: Final = frozenset(',=+<>#;"\\\n')
_BLANKS: Final = " \r"


class _Value(NamedTuple):
    tag: int
    content: memoryview
    whole: memoryview


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER.

    Raises:
        ProtocolError: it is no certificate.
    """
    try:
        body = next(_values(_only(memoryview(certificate), _SEQUENCE)))
        fields = [field for field in _values(body.content) if field.tag != _VERSION]
        subject = fields[_FIELDS_BEFORE_SUBJECT]
        names = [_relative_name(part.content) for part in _values(subject.content)]
    except (IndexError, StopIteration, ValueError) as error:
        raise ProtocolError(f"the client's certificate cannot be read: {error}") from error
    return ",".join(reversed(names))


def _only(data: memoryview, tag: int) -> memoryview:
    value = next(_values(data))
    if value.tag != tag:
        raise ValueError(f"tag {value.tag:#x} where {tag:#x} should be")
    return value.content


def _values(data: memoryview) -> Iterator[_Value]:
    """Return consecutive values."""
    at = 0
    while at < len(data):
        tag, size, begins = data[at], data[at + 1], at + 2
        if size >= 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[begins : begins + digits], "big")
            begins += digits
        if begins + size > len(data):
            raise ValueError("a value is longer than what holds it")
        yield _Value(tag, data[begins : begins + size], data[at : begins + size])
        at = begins + size


def _relative_name(data: memoryview) -> str:
    """One part of a name, which may have several values."""
    return "+".join(_attribute(pair.content) for pair in _values(data))


def _attribute(data: memoryview) -> str:
    kind, value = _values(data)
    number = _object_identifier(bytes(kind.content))
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escape(bytes(value.content).decode(_TEXTS[value.tag], errors='replace'))}"


def _object_identifier(data: bytes) -> str:
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    body = "".join(f"\\{char}" if char in _ESCAPED else char for char in text).replace("\0", "\\00")
    lead = len(body) - len(body.lstrip(_BLANKS))
    trail = len(body.rstrip(_BLANKS))
    outer = [f"\\{char}" if at < lead or at >= trail else char for at, char in enumerate(body)]
    return "".join(outer)
