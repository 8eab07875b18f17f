"""The Avro codec in use: `_avro_codec` as compiled, or the same source as plain Python.

Without a C compiler the install has no compiled module, and KAFKARAW_IMPL=python ignores it, as for `records`. Must not
contain more than the choice.
"""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from kafkaraw.records import IMPLEMENTATION
from kafkaraw.schemas.serializers import _avro_codec


def plain_codec() -> ModuleType:
    """Load the codec from its source, even if it is compiled."""
    name = "kafkaraw.schemas.serializers._avro_codec_plain"
    spec = spec_from_loader(name, SourceFileLoader(name, str(Path(__file__).with_name("_avro_codec.py"))))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


codec: ModuleType = plain_codec() if IMPLEMENTATION == "python" and _avro_codec.COMPILED else _avro_codec

AvroMismatchError: type[Exception] = codec.AvroMismatchError
"""What `codec.encode` and `codec.decode` raise."""
