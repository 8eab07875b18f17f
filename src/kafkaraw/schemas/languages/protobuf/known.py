"""Files that every Protobuf schema may import without a reference: google/protobuf, google/type and confluent.

They are those of `ProtobufSchema.KNOWN_DEPENDENCIES` of Confluent. Descriptors of Google's files come from the packages
protobuf and googleapis-common-protos. Must not do I/O of its own. Start at `known_file`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_GOOGLE_PROTOBUF: Final = frozenset(
    [
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "source_context",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    ]
)
_GOOGLE_TYPE: Final = frozenset(
    [
        "calendar_period",
        "color",
        "date",
        "datetime",
        "dayofweek",
        "decimal",
        "expr",
        "fraction",
        "interval",
        "latlng",
        "localized_text",
        "money",
        "month",
        "phone_number",
        "postal_address",
        "quaternion",
        "timeofday",
    ]
)

CONFLUENT_FILES: Final = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        option java_package = "io.confluent.protobuf";
        option java_outer_classname = "MetaProto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
          repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        option java_package = "io.confluent.protobuf.type";
        option java_multiple_files = true;
        option java_outer_classname = "DecimalProto";
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        option java_package = "io.confluent.protobuf.type";
        option java_multiple_files = true;
        option java_outer_classname = "VariantProto";
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
}
"""Confluent's files, as texts."""


@cache
def known_file(name: str) -> FileDescriptorProto | None:
    """Return the descriptor of one of Google's files; None for other names, or if its package is not installed."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    folder, _, file = name.rpartition("/")
    stem = file.removesuffix(".proto")
    known = {"google/protobuf": _GOOGLE_PROTOBUF, "google/type": _GOOGLE_TYPE}.get(folder, frozenset())
    if stem not in known or not file.endswith(".proto"):
        return None
    try:
        module = import_module(f"{folder.replace('/', '.')}.{stem}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
