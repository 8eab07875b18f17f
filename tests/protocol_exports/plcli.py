"""Run the ImHex pattern with `plcli`, the command line of ImHex's pattern language, and compare what it reads.

Start at `run_pattern` and `assert_same`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, StructOf, spec_of
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name
from kafkaraw.protocol.types import BYTES, RECORDS, STRING, UUID

TIMEOUT_S: Final = 100
FRAMES: Final = "Frames frames @ 0x00;\n"
ERROR_CODE: Final = "ErrorCode::"


def plcli() -> str | None:
    """The program: `PLCLI` of the environment, or `plcli` of the path; None without one."""
    return os.environ.get("PLCLI") or shutil.which("plcli")


def why_no_plcli() -> str | None:
    """Why the pattern cannot run here, or None."""
    if plcli() is None:
        return "needs plcli of github.com/WerWolv/PatternLanguage (docs/how-to/see-kafka-in-other-tools.md says how)"
    return None


def run_pattern(pattern: str, data: bytes, folder: Path) -> dict[str, Any]:
    """Return what a pattern reads from bytes: the tree, without what the pattern hides."""
    program = plcli()
    assert program is not None
    (folder / "kafka.hexpat").write_text(pattern, encoding="utf-8")
    (folder / "frames.bin").write_bytes(data)
    command = [program, "format", "-f", "json", "-v", "-i", folder / "frames.bin", "-p", folder / "kafka.hexpat"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, (said[-2000:], done.stderr[-2000:])
    log, _, tree = said.partition("\n{")
    assert "[ERROR]" not in log and "[WARN]" not in log, log[:2000]
    found: dict[str, Any] = json.loads("{" + tree, strict=False)
    return found


def run_frames(pattern: str, frames: Sequence[tuple[bytes, int, int] | bytes], folder: Path) -> list[dict[str, Any]]:
    """Return what the pattern reads from frames with their prefixes: requests, or responses with key and version."""
    assert pattern.endswith(FRAMES)
    placed, at = [], 0
    for number, frame in enumerate(frames):
        if isinstance(frame, bytes):
            placed.append(f"RequestFrame f{number} @ {at};\n")
            at += len(frame)
        else:
            data, key, version = frame
            placed.append(f"ResponseFrame<{key}, {version}> f{number} @ {at};\n")
            at += len(data)
    whole = b"".join(frame if isinstance(frame, bytes) else frame[0] for frame in frames)
    tree = run_pattern(pattern.removesuffix(FRAMES) + "".join(placed), whole, folder)
    return [tree[f"f{number}"] for number in range(len(frames))]


def assert_same(message: object, parsed: dict[str, Any], version: int, path: str) -> None:
    """Compare a message or structure with what the pattern has read; batches are left out."""
    tags = {int(tag["tag"]): tag for tag in parsed.get("tagged_fields", {}).get("fields", [])}
    for field in spec_of(type(message)).fields:
        if not field.versions.includes(version):
            assert field.name not in parsed, path
            continue
        value, here = getattr(message, field.name), f"{path}.{field.name}"
        if not field.is_tagged(version):
            _assert_value(field, value, parsed, version, here)
        elif field.tag in tags:
            _assert_value(field, value, tags.pop(field.tag), version, here)
        else:  # a tagged field at its default has no bytes
            assert value == field.default or value in ([], None) or isinstance(field.kind, StructOf), here
    unknown = getattr(message, "unknown_tagged_fields", None) or {}
    assert {number: bytes(tag.get("value", [])) for number, tag in tags.items()} == unknown, path


def _assert_value(field: FieldSpec, value: Any, owner: dict[str, Any], version: int, path: str) -> None:
    name = _name_in(owner, field)
    if isinstance(field.kind, ArrayOf):
        assert _length(owner[f"{name}_count"]) == (-1 if value is None else len(value)), path
        elements = owner.get(name, [])
        assert len(elements) == len(value or []), path
        for i, each in enumerate(value or []):
            _assert_element(field.kind.element, each, elements[i], version, f"{path}[{i}]")
    elif isinstance(field.kind, StructOf) and value is None:
        assert name not in owner, path
    else:
        _assert_element(field.kind, value, owner[name], version, path)


def _name_in(owner: dict[str, Any], field: FieldSpec) -> str:
    return f"{field.name}_" if f"{field.name}_" in owner or f"{field.name}__count" in owner else field.name


def _assert_element(kind: Kind, value: Any, parsed: Any, version: int, path: str) -> None:
    if isinstance(kind, StructOf):
        assert_same(value, parsed, version, path)
    elif kind is UUID:
        assert bytes(parsed["value"]) == bytes(value), path
    elif kind is STRING:
        assert _length(parsed) == (-1 if value is None else len(value.encode())), path
        assert parsed.get("value", "") == (value or ""), path
    elif kind is BYTES:
        assert _length(parsed["size"]) == (-1 if value is None else len(value)), path
        assert bytes(parsed.get("value", [])) == (value or b""), path
    elif kind is RECORDS:
        assert _length(parsed["size"]) == (-1 if value is None else len(value)), path
    elif isinstance(parsed, str) and parsed.startswith(ERROR_CODE):
        assert parsed.removeprefix(ERROR_CODE) == (error_name(value) if value in ERROR_TABLE else "???"), path
    else:
        assert parsed == value, path


def _length(parsed: dict[str, Any]) -> int:
    return int(parsed["compact"]) - 1 if "compact" in parsed else int(parsed["plain"])
