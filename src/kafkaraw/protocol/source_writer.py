"""Lines of generated source with their indentation, and the constants that they refer to.

The common part of `decoder_source` and `encoder_source`: each writes one function for one version of a message. The
source is kept in `linecache`, so a traceback or a debugger shows it. Start at `SourceWriter.source`.
"""

from __future__ import annotations

import linecache
import struct
from typing import Any

from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.protocol.declare import FieldSpec, Spec, spec_of

# Arrays of fewer numbers are read and written by a ready-made Struct; longer ones build a format.
SMALL_ARRAY = 16


class CodecError(ValueError):
    """Raised by generated code; always translated before it leaves the package."""


class TooManyElementsError(CodecError):
    """Raised by generated code: the arrays of a message have more elements than the limit."""


def check_versions(spec: Spec, version: int) -> None:
    """Refuse a version that is not declared.

    Raises:
        UnsupportedVersionError: the version is not declared.
    """
    declared = spec.header.versions
    if not declared.includes(version):
        raise UnsupportedVersionError(f"{spec.name} has versions {declared}, not {version}")


class SourceWriter:
    """Lines of source with indentation, and the constants that they refer to."""

    kind = ""
    signature = ""

    def __init__(
        self, cls: type[object], version: int, *, in_steps: bool = False, message: type[object] | None = None
    ) -> None:
        """Prepare the source for one version of a class.

        Args:
            cls: a message, or a structure of `message`.
            version: of the message.
            in_steps: write a generator, which stops after each element of an array.
            message: the message of a structure, which has its versions; None for a message itself.
        """
        self.in_steps = in_steps
        self.spec: Spec = spec_of(cls)
        self.message: Spec = self.spec if message is None else spec_of(message)
        check_versions(self.message, version)
        self.version = version
        self.flexible: bool = self.message.header.flexible.includes(version)
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, object] = {}
        self.counter: int = 0

    def emit(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + line)

    def step(self) -> None:
        """Add a point at which a generator stops."""
        if self.in_steps:
            self.emit("yield")

    def fresh(self, stem: str) -> str:
        """Return a name that no variable has yet."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, stem: str, value: object) -> str:
        """Return the name by which the source refers to a value."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = stem if stem not in self.names else self.fresh(stem + "_")
        self.names[name] = value
        return name

    def struct_method(self, formats: str, method: str) -> str:
        """Return the name by which the source refers to a method of a Struct."""
        name = f"{method}_{formats.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def fields(self, spec: Spec) -> tuple[list[FieldSpec], list[FieldSpec], list[FieldSpec]]:
        """Return the fields that are plain, tagged and absent in this version."""
        plain: list[FieldSpec] = []
        tagged: list[FieldSpec] = []
        absent: list[FieldSpec] = []
        for field in spec.fields:
            if not field.versions.includes(self.version):
                absent.append(field)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                plain.append(field)
        return plain, sorted(tagged, key=lambda field: field.tag or 0), absent

    def body(self) -> None:
        """Write the function's lines."""
        raise NotImplementedError

    def source(self) -> str:
        """Return the source of the whole function."""
        if not self.lines:
            self.step()
            self.body()
        return "\n".join([self.signature, *self.lines]) + "\n"

    def build(self, function: str) -> Any:  # noqa: ANN401 -- a Decoder or an Encoder
        """Compile it."""
        text = self.source()
        filename = f"<kafkaraw {self.spec.name} v{self.version} {self.kind}{' in steps' if self.in_steps else ''}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        namespace: dict[str, Any] = dict(self.names)
        exec(compile(text, filename, "exec"), namespace)
        return namespace[function]
