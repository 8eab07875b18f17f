"""Bytes in every form that people paste come back as the same bytes; wrong input says what is wrong."""

from __future__ import annotations

import base64
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkaraw.errors import UsageError
from kafkaraw.inspect import read_bytes
from tests.examples import examples
from tests.simulation import seeds

REQUEST = bytes.fromhex("00000016 0012 0000 00000001 000c 6b61666b617261772f302e31")


def random_frames(seed: int, count: int) -> list[bytes]:
    """Frames as they are met: a size prefix, small numbers, text, some noise, and runs of zeros."""
    rng = random.Random(seed)
    frames = [REQUEST, bytes(4) + bytes(64) + b"\1", b"\0\0\0\x05\xff\xfe\0\0\1"]
    for _ in range(count):
        pieces = [
            rng.choice((rng.randbytes(5), bytes(rng.randrange(60)), b"kafka-topic|x ", b"//ab cd")) for _ in range(8)
        ]
        body = b"".join(pieces) or b"\0"
        frames.append(len(body).to_bytes(4) + body)
    return frames


FRAMES = random_frames(4, 60)


def rows(data: bytes, size: int = 16) -> list[tuple[int, bytes]]:
    return [(at, data[at : at + size]) for at in range(0, len(data), size)]


def shown(piece: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)


def hexdump_c(data: bytes) -> str:
    lines = []
    before = None
    for at, piece in rows(data):
        if piece == before and len(piece) == 16:
            if lines[-1] != "*":
                lines.append("*")
            continue
        before = piece
        halves = f"{piece[:8].hex(' ')}  {piece[8:].hex(' ')}"
        lines.append(f"{at:08x}  {halves:48}  |{shown(piece)}|")
    return "\n".join([*lines, f"{len(data):08x}"]) + "\n"


def xxd(data: bytes, group: int = 2, columns: int = 16) -> str:
    width = columns * 2 + (columns + group - 1) // group - 1
    return "".join(f"{at:08x}: {piece.hex(' ', -group):{width}}  {shown(piece)}\n" for at, piece in rows(data, columns))


def wireshark(data: bytes) -> str:
    return "".join(f"{at:04x}   {piece.hex(' '):47}   {shown(piece)}\n" for at, piece in rows(data))


def tcpdump(packet: bytes) -> str:
    return "12:00:00.000000 IP localhost.1 > localhost.9092: Flags [P.], length 1\n" + "".join(
        f"\t0x{at:04x}:  {piece.hex(' ', -2):39}  {shown(piece)}\n" for at, piece in rows(packet)
    )


def ipv4(payload: bytes) -> bytes:
    tcp = bytes(12) + b"\x80\x18" + bytes(6) + bytes(12)
    total = (20 + len(tcp) + len(payload)).to_bytes(2)
    return b"\x45\0" + total + b"\0\1\x40\0\x40\x06\0\0\x7f\0\0\1\x7f\0\0\1" + tcp + payload


def ipv6(payload: bytes) -> bytes:
    tcp = bytes(12) + b"\x50\x18" + bytes(6)
    return b"\x60\0\0\0" + (len(tcp) + len(payload)).to_bytes(2) + b"\x06\x40" + bytes(32) + tcp + payload


def escaped(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\\"'" else f"\\x{byte:02x}" for byte in data)


def log_line(data: bytes) -> str:
    return f"dbug: Client[0]\n      WriteAsync[{len(data)}] {data.hex(' ').upper()}\n      {escaped(data)}\n"


def log_rows(data: bytes) -> str:
    body = "".join(f"      {piece.hex(' ').upper():47}   {shown(piece)}\n" for _, piece in rows(data))
    return f"ReadAsync[{len(data)}]\n{body}"


def erlang(data: bytes) -> str:
    numbers = ",".join(map(str, data))
    wrapped = re.sub(r"([^\n]{50,55},)", r"\1\n\n", numbers)
    return f"It began with << 0,0 >>, or <<First4Bytes:32, Rest/binary>>:\n\n<<{wrapped}>>\n\nand so on."


def erlang_with_text(data: bytes) -> str:
    return f'<<{int.from_bytes(data[:4])}:32,16#{data[4]:x},"{escaped(data[5:])}">>'


def python_pieces(data: bytes) -> str:
    return "frame = (\n" + "\n".join(f"    {piece!r}" for _, piece in rows(data, 7)) + "\n)\n"


def c_string(data: bytes) -> str:
    pieces = " \\\n".join(f'    "{escaped(piece)}"' for _, piece in rows(data, 12))
    return f'char frame[{len(data)}] = /* "a\\x00" */\n{pieces};\n'


def c_array(data: bytes) -> str:
    numbers = ",\n  ".join(", ".join(f"0x{byte:02x}" for byte in piece) for _, piece in rows(data, 12))
    return f"unsigned char frame[] = {{\n  {numbers}\n}};\nunsigned int frame_len = {len(data)};\n"


def java_array(data: bytes) -> str:
    return "byte[] frame = { " + ", ".join(f"(byte) 0x{byte:x}" for byte in data) + " };"


FORMS: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "hex in capitals": lambda data: data.hex().upper(),
    "hex with spaces": lambda data: data.hex(" "),
    "hex with colons": lambda data: data.hex(":"),
    "hex in groups": lambda data: data.hex(" ", 4),
    "hex with 0x": lambda data: "0x" + data.hex(),
    "hex bytes with 0x": lambda data: " ".join(f"0x{byte:02x}" for byte in data),
    "hex with \\x": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "hex wrapped at an odd column": lambda data: "\n".join(
        data.hex()[at : at + 33] for at in range(0, len(data) * 2, 33)
    ),
    "hexdump -C": hexdump_c,
    "hexdump -C with Windows line ends": lambda data: hexdump_c(data).replace("\n", "\r\n"),
    "xxd": xxd,
    "xxd -g1": lambda data: xxd(data, 1),
    "xxd -g4": lambda data: xxd(data, 4),
    "xxd -g8": lambda data: xxd(data, 8),
    "xxd -c 32": lambda data: xxd(data, 2, 32),
    "xxd -g16": lambda data: xxd(data, 16),
    "Wireshark": wireshark,
    "tcpdump -X, IPv4": lambda data: tcpdump(ipv4(data)),
    "tcpdump -X, IPv6": lambda data: tcpdump(ipv6(data)),
    "tcpdump -XX": lambda data: tcpdump(bytes(12) + b"\x08\0" + ipv4(data)),
    "tcpdump -X, several packets": lambda data: tcpdump(ipv4(data[:9])) + tcpdump(ipv4(data[9:])),
    "tcpdump -X, with an acknowledgement": lambda data: tcpdump(ipv4(b"")) + tcpdump(ipv4(data)),
    "tcpdump -X, padded": lambda data: tcpdump(ipv4(data) + bytes(6)),
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64, wrapped": lambda data: base64.encodebytes(data).decode(),
    "base64, URL-safe without padding": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "Python": lambda data: repr(data),
    "Python, in code": lambda data: f"print({bytearray(data)!r})  # a frame",
    "Python, pieces": python_pieces,
    "Python, list": lambda data: f"bytes({list(data)})",
    "Python, fromhex": lambda data: f'bytes.fromhex("{data.hex(" ")}")',
    "C string": c_string,
    "shell string": lambda data: f"echo -ne '{escaped(data)}' | nc localhost 9092",
    "escaped text": escaped,
    "C array": c_array,
    "C array of decimals": lambda data: "{" + ", ".join(map(str, data)) + "}",
    "Java array": java_array,
    "Java's Arrays.toString": lambda data: str([byte - 256 if byte > 127 else byte for byte in data]),
    "Go": lambda data: "[]byte{" + ", ".join(f"0x{byte:x}" for byte in data) + "}",
    "Rust": lambda data: "vec![" + ", ".join(f"{byte}u8" for byte in data) + "]",
    "Erlang, in prose": erlang,
    "Erlang, with text": erlang_with_text,
    "log line": log_line,
    "log line, wrapped": lambda data: f"WriteAsync[{len(data)}] " + data.hex(" ").replace(" 00 00 ", " 00\n00 "),
    "log rows": log_rows,
    "JSON, base64": lambda data: '{"frame": "' + base64.b64encode(data).decode() + '"}',
}


@pytest.mark.parametrize("form", FORMS)
def test_every_written_form_gives_the_same_bytes(form: str):
    for frame in FRAMES:
        text = FORMS[form](frame)
        assert read_bytes(text.encode())[0] == frame, text


def test_raw_bytes_stay_as_they_are():
    for frame in FRAMES:
        assert read_bytes(frame) == (frame, "raw bytes")


@pytest.mark.parametrize("form", ["hex", "hexdump -C", "log line"])
def test_text_may_come_in_utf_16_and_with_a_byte_order_mark(form: str):
    text = FORMS[form](REQUEST)
    assert read_bytes(text.encode("utf-16"))[0] == REQUEST
    assert read_bytes(text.encode("utf-8-sig"))[0] == REQUEST


def test_typographic_quotes_and_spaces_of_web_pages_are_understood():
    assert read_bytes("b\u2018\\x00\\x01\u2019".encode())[0] == b"\0\1"
    assert read_bytes("00\u00a001".encode())[0] == b"\0\1"


def test_several_log_lines_give_several_frames_in_order():
    second = b"\0\0\0\2\1\2"
    assert read_bytes((log_line(REQUEST) + log_line(second)).encode())[0] == REQUEST + second


TOOLS = {
    "hexdump -C": ["hexdump", "-C"],
    "hexdump": ["hexdump"],
    "od -A x -t x1z": ["od", "-A", "x", "-t", "x1z"],
    "od -v -x": ["od", "-v", "-x"],
    "xxd": ["xxd"],
    "xxd -a": ["xxd", "-a"],
    "xxd -g1 -c 24": ["xxd", "-g1", "-c", "24"],
    "xxd -g8": ["xxd", "-g8"],
    "xxd -u": ["xxd", "-u"],
    "xxd -p": ["xxd", "-p"],
    "xxd -i": ["xxd", "-i"],
    "base64": ["base64"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_output_of_real_tools_is_read(tool: str, tmp_path: Path):
    command = TOOLS[tool]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    for frame in FRAMES if seeds.with_soak else FRAMES[:12]:
        file = tmp_path / "frame"
        file.write_bytes(frame)
        made = subprocess.run(
            [*command, "frame"],
            cwd=tmp_path,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert read_bytes(made.stdout)[0] == frame, made.stdout.decode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is nothing to decode"),
        (" \n\t\n", "there is nothing to decode"),
        ("hello", "in no known form of bytes"),
        ("hello, this is Kafka", "in no known form of bytes"),
        ("<frame>" * 9, "begins with '<frame><frame>"),
        ("00 00 00 16 0", "odd number of digits"),
        ("000000160", "odd number of digits, 9"),
        ("00 0a 0 0 b", "odd number of digits"),
        ("00 00 0 0 16", "write 0 as 00"),
        ("{0, 300}", "from -128 to 255; this one has 300"),
        ("[0, -129, 4]", "this one has -129"),
        ("<<0,0,256>>", "'256' does not fit 8 bits"),
        ("<<5:7,1>>", "no whole number of bytes"),
        ("<<0,0,0,3,0,...>>", "cut this binary short"),
        (r"b'\x0'", "Python bytes literal, but is not a valid one"),
        ("ABAAAAAAA", "odd number of digits"),
        ("AAAAFgASAAAAA", "looks like base64, but is not valid"),
        (hexdump_c(bytes(range(64))).replace("00000010", "00000020", 1), "rows are missing or doubled"),
        (xxd(bytes(range(64))).replace("00000010:", "00000030:"), "rows are missing or doubled"),
        (tcpdump(ipv4(REQUEST)).replace("0x0010:", "0x0020:"), "rows are missing or doubled"),
        ("0000000 000000 013000 011000\n0000006\n", "od -A x -t x1"),
        ("00 00 00 16\n00 12 0 00 00", "the group '0' in line 2, byte 6, has an odd number of digits"),
        (REQUEST.hex().replace("6b61", "6b6l", 1), "line 1, column 32 (byte 15) has 'l'"),
        (REQUEST.hex(" ").replace("6b", "6O", 1), "line 1, column 44 (byte 14) has 'O'"),
        ("[0, 0, 300]", "byte 2: a list of bytes"),
        ("<Buffer 00 00 00 16 ... 22 more bytes>", "Node.js has cut this Buffer short (`... 22 more bytes`)"),
    ],
)
def test_invalid_input_is_explained(text: str, says: str):
    with pytest.raises(UsageError) as caught:
        read_bytes(text.encode())
    assert says in str(caught.value)


def test_a_capture_file_says_how_to_get_its_bytes():
    with pytest.raises(UsageError, match="kafkaraw wire read FILE"):
        read_bytes(b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(40))


def test_a_stream_that_tshark_follows_and_a_buffer_of_node_are_read():
    head = "===\nFollow: tcp,hex\nFilter: tcp.stream eq 0\nNode 0: 127.0.0.1:1\nNode 1: 127.0.0.1:2\n"
    rows = [f"{at:08x}  {piece[:8].hex(' ')}  {piece[8:].hex(' ')}  {shown(piece)}" for at, piece in FOLLOWED]
    assert read_bytes(f"{head}{rows[0]}\n\t{rows[0]}\n{rows[1]}\n===\n".encode()) == (
        FOLLOWED[0][1] * 2 + FOLLOWED[1][1],
        "followed stream",
    )
    raw = head.replace("tcp,hex", "tls,raw") + f"{REQUEST.hex()}\n\t{REQUEST.hex()}\n==="
    assert read_bytes(raw.encode())[0] == REQUEST * 2
    assert read_bytes(f"<Buffer {REQUEST.hex(' ')}>".encode()) == (REQUEST, "Node.js Buffer")


FOLLOWED = rows(REQUEST)


@given(st.text(alphabet=st.sampled_from("0123456789abcdefx:|*<>b'\"\\,. []{}()#\nWriteAsync-_=zé"), max_size=200))
@example("':'")  # quoted, of a known form, and no bytes
@settings(max_examples=examples(300), deadline=None)
def test_any_text_gives_bytes_or_a_usage_error(text: str):
    try:
        found, form = read_bytes(text.encode())
    except UsageError:
        return
    assert found and form


@pytest.mark.parametrize(
    "piece", ["0", "00 ", "0x", "00000000: ", "0x0000:  00", "\\x0", "<<", "b'", '"\\', "0,", "[", "ab " * 9, "*\n"]
)
def test_long_input_of_one_kind_takes_no_longer_than_its_length(piece: str):
    """Patterns that try every way of splitting would not end here."""
    for end in ("", "!", "\n"):
        try:
            read_bytes((piece * 5_000 + end).encode())
        except UsageError as error:
            assert str(error)
