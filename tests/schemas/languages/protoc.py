"""protoc, from the package grpcio-tools: what the official compiler makes of `.proto` texts."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any


def compiled(texts: Mapping[str, str], name: str) -> Any:
    """Return the FileDescriptorProto of a file; None if protoc refuses it.

    Args:
        texts: all files, by their names.
        name: the file to compile.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_text(text)
        output = Path(folder, "out.bin")
        include = str(files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{folder}", f"-I{include}", f"--descriptor_set_out={output}", str(Path(folder, name))]
        if protoc.main(arguments) != 0:
            return None
        return FileDescriptorSet.FromString(output.read_bytes()).file[0]


def comparable(file: Any) -> dict[str, Any]:
    """Return a descriptor as dictionaries, without what has no meaning: orders, and what protoc computes from names."""
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(file)
    found["messageType"] = _messages(found.get("messageType", []))
    for extension in found.get("extension", []):
        extension.pop("jsonName", None)
    return found


def _messages(messages: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for message in messages:
        oneofs = [oneof["name"] for oneof in message.pop("oneofDecl", [])]
        fields = message.pop("field", [])
        for field in [*fields, *message.get("extension", [])]:
            field.pop("jsonName", None)
            if "oneofIndex" in field:
                field["oneof"] = oneofs[field.pop("oneofIndex")]
        message["field"] = {field["number"]: field for field in fields}
        message["nestedType"] = _messages(message.pop("nestedType", []))
        found[message["name"]] = message
    return found
