"""Run tshark with the exported dissector, and compare what it shows with what kafkaraw decodes.

Start at `dissect`, which returns the frames of a capture, and `expected_values`, which returns the same of our decoder.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from kafkaraw.inspect.frames import FrameKind, Reading, annotate_frame
from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.declare import ArrayOf, StructOf, spec_of
from kafkaraw.protocol.types import BYTES, Primitive, Uuid
from kafkaraw.protocol_exports.wireshark import dissector

Item = tuple[str, str]
"""The name of a filter field, and the value."""

TIMEOUT_S = 110
LEFT_OVER = "left over"
"""What the dissector and our decoder say of bytes behind a message, which brokers ignore."""


def why_no_tshark() -> str | None:
    """Why there is no tshark that can load the dissector, or None."""
    return None if shutil.which("tshark") else "needs tshark (apt-get install tshark)"


@dataclass
class Shown:
    """One frame of Kafka as tshark shows it.

    Attributes:
        title: the line of the frame.
        items: fields in order.
        problems: what is malformed, left over or not decoded.
    """

    title: str
    number: int
    items: list[Item] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run_tshark(script: Path, capture: Path, *arguments: str) -> str:
    command = ["tshark", "-X", f"lua_script:{script}", "-r", str(capture), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Running as user")]
    assert done.returncode == 0 and not complaints, complaints
    return done.stdout


def write_dissector(folder: Path) -> Path:
    """Write the dissector of all APIs; return the file."""
    ((name, text),) = dissector(API_TABLE).items()
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def dissect(script: Path, capture: Path, *arguments: str) -> list[Shown]:
    """Return the frames of a capture, in the order of the packets."""
    shown = []
    pdml = run_tshark(script, capture, "-T", "pdml", "-J", "kafkaraw frame", *arguments)
    for packet in ElementTree.fromstring(pdml).iter("packet"):
        number = int(packet.find(".//field[@name='num']").get("show"))  # type: ignore[union-attr, arg-type]
        for proto in packet.findall("proto"):
            if proto.get("name") == "kafkaraw":
                frame = Shown(proto.get("showname", ""), number)
                frame.items = list(_items(proto, frame.problems))
                shown.append(frame)
            elif proto.get("name") not in ("geninfo", "frame", "eth", "ip", "tcp", "tls", "fake-field-wrapper"):
                shown.append(Shown(proto.get("name", ""), number, problems=[proto.get("showname", "")]))
    return shown


def _items(parent: ElementTree.Element, problems: list[str]) -> Iterator[Item]:
    for element in parent:
        name = element.get("name", "")
        if name == "_ws.expert":
            if element[0].get("name") != "kafkaraw.error":  # an error code of Kafka's is no problem of the dissector
                problems.append(element.get("showname", ""))
            continue
        if name.startswith("kafkaraw.") and element.get("show") is not None:
            yield name, element.get("show", "")
        yield from _items(element, problems)


@cache
def names_without_values() -> frozenset[str]:
    """The filter fields of structures and records, which have no value."""
    names = {"kafkaraw.request", "kafkaraw.response", "kafkaraw.batch", "kafkaraw.record"}
    for api in API_TABLE:
        asked = dict(_kinds(api.request, ""))
        for path, kind in (*asked.items(), *_kinds(api.response, "")):
            if kind in ("struct", "records"):
                # A field that is a number or text in the request has the name in both.
                prefix = api.module if asked.get(path, kind) == kind else f"{api.module}.response"
                names.add(f"kafkaraw.{prefix}{path}")
    return frozenset(names)


@cache
def names_of_floats() -> frozenset[str]:
    """The filter fields whose value tshark rounds."""
    return frozenset(
        f"kafkaraw.{api.module}{path}"
        for api in API_TABLE
        for cls in (api.request, api.response)
        for path, kind in _kinds(cls, "")
        if kind == "float64"
    )


def _kinds(cls: type[object], path: str) -> Iterator[tuple[str, str]]:
    for declared in spec_of(cls).fields:
        kind = declared.kind.element if isinstance(declared.kind, ArrayOf) else declared.kind
        if isinstance(kind, StructOf):
            yield f"{path}.{declared.name}", "struct"
            yield from _kinds(kind.cls, f"{path}.{declared.name}")
        else:
            assert isinstance(kind, Primitive)
            yield f"{path}.{declared.name}", kind.name


IN_BATCHES = ("kafkaraw.batch.", "kafkaraw.record.", "kafkaraw.undecoded")
GENERATED = {
    "kafkaraw.response_in",
    "kafkaraw.response_to",
    "kafkaraw.time",
    "kafkaraw.record.offset",
    "kafkaraw.record.timestamp",
}


def values_of(shown: Shown) -> list[Item]:
    """The values of the message: without structures, batches, and what the dissector adds."""
    left_out = GENERATED | names_without_values()
    return [
        (name, _rounded(value) if name in names_of_floats() else value)
        for name, value in shown.items
        if name not in left_out and not name.startswith(IN_BATCHES) and not value.startswith("record.")
    ]


def expected_values(frame: bytes, api: Api, version: int, kind: FrameKind) -> list[Item]:
    """The same of a frame, from our decoder; batches are left out, and bytes behind the message."""
    annotated = annotate_frame(memoryview(frame), Reading(kind=kind, api=api, version=version, prefixed=True))
    assert annotated.error is None or LEFT_OVER in annotated.error.message, annotated.error
    found: list[Item] = []
    size, header, body = annotated.root.children
    found.append(("kafkaraw.size", str(size.value)))
    found += _expected(header, "kafkaraw")
    found += _expected(body, f"kafkaraw.{api.module}")
    return found


def _expected(parent: Node, path: str) -> Iterator[Item]:
    for node in parent.children:
        name = path if node.name.startswith("[") else f"{path}.{node.name}"
        if node.kind == "tag section":
            if node.value:
                yield "kafkaraw.tagged_fields", str(node.value)
            for tag in node.children:
                if tag.kind == "unknown tagged field":
                    yield "kafkaraw.unknown_tag", _text(tag.value)
                else:
                    yield from _expected(tag, path)
        elif "array" in node.kind:
            if node.value is None:
                yield "kafkaraw.null", name.removeprefix("kafkaraw.")
            else:
                yield "kafkaraw.elements", str(node.value)
                yield from _expected(node, name)
        elif node.spec is not None and node.spec.kind is BYTES and node.value is not None:
            yield name, _text(node.value)
        elif node.children and not node.kind.endswith("records"):
            yield from _expected(node, name)
        elif node.value is None and any("null" in note for note in node.notes):
            yield "kafkaraw.null", name.removeprefix("kafkaraw.")
        elif not node.kind.endswith("records") and (node.spec is None or not isinstance(node.spec.kind, StructOf)):
            yield name, _rounded(node.value) if isinstance(node.value, float) else _text(node.value)


def _rounded(value: object) -> str:
    return f"{float(str(value)):.5g}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Uuid):
        return str(value)
    return value.hex(":") if isinstance(value, bytes) else str(value)
