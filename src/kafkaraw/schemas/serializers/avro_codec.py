"""The Avro codec in use: `_avro_codec` as compiled, or the same source as plain Python.

Without a C compiler the install has no compiled module, and KAFKARAW_IMPL=python ignores it, as for `records`. Must not
contain more than the choice.
"""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Final

from kafkaraw.records import IMPLEMENTATION
from kafkaraw.schemas.serializers import _avro_codec

_SOURCE: Final = Path(__file__).with_name("_avro_codec.py")


def plain_codec() -> ModuleType:
    """Load the codec from its source, even if it is compiled."""
    name = "kafkaraw.schemas.serializers._avro_codec_plain"
    spec = spec_from_loader(name, SourceFileLoader(name, str(_SOURCE)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def choose(implementation: str, source: Path) -> ModuleType:
    """Return the codec to use: the compiled one also if its source is not installed, as in wheels of a release.

    Args:
        implementation: "native" or "python".
        source: file with the source of the codec.
    """
    return plain_codec() if implementation == "python" and _avro_codec.COMPILED and source.is_file() else _avro_codec


codec: ModuleType = choose(IMPLEMENTATION, _SOURCE)

AvroMismatchError: type[Exception] = codec.AvroMismatchError
"""What `codec.encode` and `codec.decode` raise."""
