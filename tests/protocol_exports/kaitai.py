"""Compile the Kaitai Struct format with Kaitai's own compiler, and compare what its parser reads with our messages.

Start at `compiled` and `assert_same`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterable
from enum import Enum
from functools import cache
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import ArrayOf, Kind, StructOf, spec_of
from kafkaraw.protocol.types import BOOLEAN, BYTES, RECORDS, STRING
from kafkaraw.protocol_exports.kaitai import format_of
from tests.java_options import cache_folder, made_once

COMPILER = "kaitai-struct-compiler@0.11.0"
PROGRAM = """
const fs = require("fs"), compiler = require("kaitai-struct-compiler"), [_, __, format, folder] = process.argv;
compiler.compile("python", JSON.parse(fs.readFileSync(format)), { importYaml: () => Promise.reject() }, false).then(
  files => { for (const name in files) fs.writeFileSync(folder + "/" + name, files[name]); },
  error => { console.error(error.message || error); process.exit(1); });
"""


@cache
def why_no_kaitai() -> str | None:
    """Why Kaitai's compiler cannot run here, or None. The first call fetches it, once per user."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "Kaitai's compiler needs Node.js and npm (apt-get install npm)"
    try:
        _compiler()
    except (OSError, subprocess.SubprocessError) as error:
        return f"npm cannot fetch {COMPILER}: {error}"
    return None


def _compiler() -> Path:
    """The folder in which Node.js finds the compiler."""
    folder = cache_folder() / COMPILER.replace("@", "-")
    with made_once(folder) as scratch:
        if scratch is not None:
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(scratch), COMPILER]
            subprocess.run(command, check=True, capture_output=True, timeout=100)
    return folder


def compiled(apis: Iterable[Api], folder: Path) -> Any:
    """The class of the parser of some APIs."""
    (folder / "kafka.json").write_text(json.dumps(format_of(apis)))
    program = folder / "compile.js"
    program.write_text(PROGRAM)
    done = subprocess.run(
        ["node", str(program), str(folder / "kafka.json"), str(folder)],
        env={"NODE_PATH": str(_compiler() / "node_modules")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return _imported(folder / "kafka.py").Kafka


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_of_kaitai", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stream(data: bytes) -> Any:
    from kaitaistruct import KaitaiStream

    return KaitaiStream(BytesIO(data))


def assert_same(message: object, parsed: Any, version: int, path: str) -> None:
    """Compare a message or structure with what the parser has read; batches are left out."""
    tags = {field.tag.value: field.value for field in parsed.tagged_fields.fields} if parsed.is_flexible else {}
    for field in spec_of(type(message)).fields:
        if not field.versions.includes(version):
            continue
        value, here = getattr(message, field.name), f"{path}.{field.name}"
        if not field.is_tagged(version):
            _assert_value(field.kind, field.name, value, parsed, version, here)
        elif field.tag in tags:
            _assert_value(field.kind, field.name, value, tags.pop(field.tag), version, here)
        else:  # a tagged field at its default has no bytes
            assert value == field.default or value in ([], None) or isinstance(field.kind, StructOf), here
    assert tags == (getattr(message, "unknown_tagged_fields", None) or {}), path


def _assert_value(kind: Kind, name: str, value: Any, owner: Any, version: int, path: str) -> None:
    parsed = getattr(owner, name, None)
    if isinstance(kind, ArrayOf):
        assert getattr(owner, f"{name}_count").value == (-1 if value is None else len(value)), path
        for i, each in enumerate(value or []):
            _assert_element(kind.element, each, parsed[i], version, f"{path}[{i}]")
    elif isinstance(kind, StructOf) and value is None:
        assert parsed is None, path
    else:
        _assert_element(kind, value, parsed, version, path)


def _assert_element(kind: Kind, value: Any, parsed: Any, version: int, path: str) -> None:
    if isinstance(kind, StructOf):
        assert_same(value, parsed, version, path)
    elif kind in (STRING, BYTES):
        assert getattr(parsed, "value", None) == value, path
    elif kind is RECORDS:
        assert (parsed.size.value >= 0) == (value is not None), path
    else:
        number = parsed.value if isinstance(parsed, Enum) else parsed
        assert (bool(number) if kind is BOOLEAN else number) == value, path
