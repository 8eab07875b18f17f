"""Write a wheel again with Zopfli's deflate, which is 4 to 5 % smaller than zlib's and read by every zip reader.

`zipfile` cannot write data that is compressed already, so the headers are made here. Names, order, times and
permissions stay as they are; entries for directories, which no installer reads, are left out. This must not change the
contents of a file. Start at `recompress`.

Source: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16; files of 4 GiB and more (ZIP64) are refused.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Final

import zopfli.zlib

_VERSION: Final = 20
"""The version of the format that a reader needs: deflate."""
_UTF8: Final = 0x800
_UNIX: Final = 3
_LIMIT: Final = 0xFFFFFFFF
_ZLIB_HEADER, _ZLIB_CHECKSUM = 2, 4
_ITERATIONS: Final = 5
"""Of Zopfli: more of them take minutes, and gain a thousandth."""


def recompress(wheel: Path) -> None:
    """Replace a wheel by one with the same files, compressed by Zopfli.

    Raises:
        ValueError: a file or the wheel has 4 GiB or more.
    """
    directory, out = [], bytearray()
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            contents = archive.read(entry)
            stored = not contents
            data = (
                contents
                if stored
                else zopfli.zlib.compress(contents, numiterations=_ITERATIONS)[_ZLIB_HEADER:-_ZLIB_CHECKSUM]
            )
            if max(len(contents), len(out)) >= _LIMIT:
                raise ValueError(
                    f"{wheel.name}: {entry.filename} has {len(contents):,} bytes: too large for this format"
                )
            name = entry.filename.encode()
            common = struct.pack(
                "<HHHHHIIIHH",
                _VERSION,
                _UTF8 if len(name) != len(entry.filename) else 0,
                zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED,
                *_dos_time(entry.date_time),
                entry.CRC,
                len(data),
                len(contents),
                len(name),
                0,
            )
            made_by = struct.pack("<BB", _VERSION, _UNIX)
            place = struct.pack("<HHHII", 0, 0, 0, entry.external_attr, len(out))
            directory.append(b"PK\x01\x02" + made_by + common + place + name)
            out += b"PK\x03\x04" + common + name + data
    central = b"".join(directory)
    end = struct.pack("<HHHHIIH", 0, 0, len(directory), len(directory), len(central), len(out), 0)
    wheel.write_bytes(bytes(out) + central + b"PK\x05\x06" + end)
    with zipfile.ZipFile(wheel) as written:
        damaged = written.testzip()
        assert damaged is None, damaged


def _dos_time(date: tuple[int, int, int, int, int, int]) -> tuple[int, int]:
    year, month, day, hour, minute, second = date
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
