"""The primitive types of the protocol, as names for annotations: `timeout_ms: int32`.

To a type checker `int32` is `int`; the compiler finds the `Primitive` behind it. This module must not know messages
or frames. Start at `Primitive`; the two families of varints (unsigned here, zigzag in `records`) never mix.

Source: https://kafka.apache.org/protocol#protocol_types, KIP-482 (compact forms).
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, TypeAlias

from kafkaraw.light_classes import NamedTuple, dataclass


class FileSlice(NamedTuple):
    """A run of bytes in an open file, to be sent without being read.

    Attributes:
        fd: file descriptor, open for reading for as long as the slice is in use.
        offset: position of the first byte in the file.
        size: number of bytes.
    """

    fd: int
    offset: int
    size: int


class Uuid(bytes):
    """16 raw bytes. The text form is URL-safe base64 without padding.  Source: org.apache.kafka.common.Uuid."""

    __slots__ = ()

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Read the text form.

        Raises:
            ValueError: it is not the text form of 16 bytes.
        """
        try:
            raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except binascii.Error as error:
            raise ValueError(f"not a Kafka UUID: {text!r}: {error}") from None
        if len(raw) != UUID_SIZE:
            raise ValueError(f"not a Kafka UUID: {text!r} stands for {len(raw)} bytes, not {UUID_SIZE}")
        return cls(raw)


UUID_SIZE: Final = 16
ZERO_UUID: Final = Uuid(UUID_SIZE)


@dataclass(frozen=True, slots=True)
class Primitive:
    """One wire type.

    Attributes:
        name: Kafka's name for it.
        format: `struct` format of a fixed-size type, empty for one with a length prefix.
        size: bytes of a fixed-size type, 0 for one with a length prefix.
        zero: the default value of a field without another default.
    """

    name: str
    format: str
    size: int
    zero: object


BOOLEAN: Final = Primitive("bool", "?", 1, False)
INT8: Final = Primitive("int8", "b", 1, 0)
INT16: Final = Primitive("int16", "h", 2, 0)
UINT16: Final = Primitive("uint16", "H", 2, 0)
INT32: Final = Primitive("int32", "i", 4, 0)
UINT32: Final = Primitive("uint32", "I", 4, 0)
INT64: Final = Primitive("int64", "q", 8, 0)
FLOAT64: Final = Primitive("float64", "d", 8, 0.0)
UUID: Final = Primitive("uuid", "16s", UUID_SIZE, ZERO_UUID)
STRING: Final = Primitive("string", "", 0, "")
BYTES: Final = Primitive("bytes", "", 0, b"")
RECORDS: Final = Primitive("records", "", 0, None)

boolean: TypeAlias = Annotated[bool, BOOLEAN]
int8: TypeAlias = Annotated[int, INT8]
int16: TypeAlias = Annotated[int, INT16]
uint16: TypeAlias = Annotated[int, UINT16]
int32: TypeAlias = Annotated[int, INT32]
uint32: TypeAlias = Annotated[int, UINT32]
int64: TypeAlias = Annotated[int, INT64]
float64: TypeAlias = Annotated[float, FLOAT64]
uuid: TypeAlias = Annotated[Uuid, UUID]
string: TypeAlias = Annotated[str, STRING]
# Record batches are opaque here: decode gives a memoryview into the frame, encode takes any of these.
RecordBytes: TypeAlias = bytes | bytearray | memoryview | FileSlice
record_bytes: TypeAlias = Annotated[RecordBytes, RECORDS]

# Plain `bytes` needs no alias: it is its own name in the annotations.
PLAIN_ANNOTATIONS: Final[dict[object, Primitive]] = {bytes: BYTES}

UVARINT_SIZE_MAX: Final = 5


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned varint (base 128, least significant group first).

    Raises:
        ValueError: `value` is negative or needs more than 32 bits.
    """
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(buffer: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Decode an unsigned varint; longer forms than needed are accepted, as Kafka does.

    Returns:
        The value and the position after it.

    Raises:
        IndexError: the buffer ends within the varint.
        ValueError: it is longer than five bytes or does not fit 32 bits.
    """
    value = shift = 0
    for i in range(UVARINT_SIZE_MAX):
        byte = buffer[at + i]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= 1 << 32:
                raise ValueError(f"varint {value} does not fit 32 bits")
            return value, at + i + 1
        shift += 7
    raise ValueError(f"varint is longer than {UVARINT_SIZE_MAX} bytes")
