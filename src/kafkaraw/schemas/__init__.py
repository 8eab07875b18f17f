"""Schemas in a registry: client, serializers, Arrow columns, and a registry to run.

The public names, each imported when it is first asked for: a program that uses Avro needs no package for Protobuf.
`pip install kafkaraw[schemas]` installs what client and serializers need, `kafkaraw[registry]` the registry as well.
Start at docs/how-to/schemas.md.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from kafkaraw.schemas.arrow.decode import decode_arrow as decode_arrow
    from kafkaraw.schemas.arrow.encode import encode_arrow as encode_arrow
    from kafkaraw.schemas.blocking import Registry as Registry
    from kafkaraw.schemas.client import AsyncRegistry as AsyncRegistry
    from kafkaraw.schemas.errors import FramingError as FramingError
    from kafkaraw.schemas.errors import IncompatibleSchemaError as IncompatibleSchemaError
    from kafkaraw.schemas.errors import InvalidSchemaError as InvalidSchemaError
    from kafkaraw.schemas.errors import NotARegistryError as NotARegistryError
    from kafkaraw.schemas.errors import RegistryAuthenticationError as RegistryAuthenticationError
    from kafkaraw.schemas.errors import RegistryAuthorizationError as RegistryAuthorizationError
    from kafkaraw.schemas.errors import RegistryError as RegistryError
    from kafkaraw.schemas.errors import RegistryTimeoutError as RegistryTimeoutError
    from kafkaraw.schemas.errors import RegistryUnavailableError as RegistryUnavailableError
    from kafkaraw.schemas.errors import SchemaNotFoundError as SchemaNotFoundError
    from kafkaraw.schemas.errors import SchemaParseError as SchemaParseError
    from kafkaraw.schemas.errors import SchemaReferenceError as SchemaReferenceError
    from kafkaraw.schemas.errors import SubjectNotFoundError as SubjectNotFoundError
    from kafkaraw.schemas.errors import VersionNotFoundError as VersionNotFoundError
    from kafkaraw.schemas.framing import Framed as Framed
    from kafkaraw.schemas.framing import Framing as Framing
    from kafkaraw.schemas.framing import read_frame as read_frame
    from kafkaraw.schemas.model import CompatibilityLevel as CompatibilityLevel
    from kafkaraw.schemas.model import Metadata as Metadata
    from kafkaraw.schemas.model import Mode as Mode
    from kafkaraw.schemas.model import RegisteredSchema as RegisteredSchema
    from kafkaraw.schemas.model import RuleSet as RuleSet
    from kafkaraw.schemas.model import Schema as Schema
    from kafkaraw.schemas.model import SchemaBundle as SchemaBundle
    from kafkaraw.schemas.model import SchemaReference as SchemaReference
    from kafkaraw.schemas.model import SchemaType as SchemaType
    from kafkaraw.schemas.model import SubjectConfig as SubjectConfig
    from kafkaraw.schemas.registry_config import RegistryConfig as RegistryConfig
    from kafkaraw.schemas.serializers.avro import AvroDeserializer as AvroDeserializer
    from kafkaraw.schemas.serializers.avro import AvroSerializer as AvroSerializer
    from kafkaraw.schemas.serializers.classes import json_schema_of as json_schema_of
    from kafkaraw.schemas.serializers.classes import schema_of as schema_of
    from kafkaraw.schemas.serializers.common import UnreadableError as UnreadableError
    from kafkaraw.schemas.serializers.confluent_names import from_confluent as from_confluent
    from kafkaraw.schemas.serializers.json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
    from kafkaraw.schemas.serializers.json_schema import JsonSchemaSerializer as JsonSchemaSerializer
    from kafkaraw.schemas.serializers.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from kafkaraw.schemas.serializers.protobuf import ProtobufSerializer as ProtobufSerializer
    from kafkaraw.schemas.server.embedded import EmbeddedRegistry as EmbeddedRegistry
    from kafkaraw.schemas.server.settings import TlsSettings as TlsSettings
    from kafkaraw.schemas.settings_types import RegistrySettings as RegistrySettings
    from kafkaraw.schemas.subjects import AssociatedName as AssociatedName

_HOMES = {
    "kafkaraw.schemas.arrow.decode": ("decode_arrow",),
    "kafkaraw.schemas.arrow.encode": ("encode_arrow",),
    "kafkaraw.schemas.blocking": ("Registry",),
    "kafkaraw.schemas.client": ("AsyncRegistry",),
    "kafkaraw.schemas.errors": (
        "FramingError",
        "IncompatibleSchemaError",
        "InvalidSchemaError",
        "NotARegistryError",
        "RegistryAuthenticationError",
        "RegistryAuthorizationError",
        "RegistryError",
        "RegistryTimeoutError",
        "RegistryUnavailableError",
        "SchemaNotFoundError",
        "SchemaParseError",
        "SchemaReferenceError",
        "SubjectNotFoundError",
        "VersionNotFoundError",
    ),
    "kafkaraw.schemas.model": (
        "CompatibilityLevel",
        "Metadata",
        "Mode",
        "RegisteredSchema",
        "RuleSet",
        "Schema",
        "SchemaBundle",
        "SchemaReference",
        "SchemaType",
        "SubjectConfig",
    ),
    "kafkaraw.schemas.registry_config": ("RegistryConfig",),
    "kafkaraw.schemas.server.embedded": ("EmbeddedRegistry",),
    "kafkaraw.schemas.server.settings": ("TlsSettings",),
    "kafkaraw.schemas.framing": ("Framed", "Framing", "read_frame"),
    "kafkaraw.schemas.serializers.avro": ("AvroDeserializer", "AvroSerializer"),
    "kafkaraw.schemas.serializers.classes": ("json_schema_of", "schema_of"),
    "kafkaraw.schemas.serializers.common": ("UnreadableError",),
    "kafkaraw.schemas.serializers.confluent_names": ("from_confluent",),
    "kafkaraw.schemas.serializers.json_schema": ("JsonSchemaDeserializer", "JsonSchemaSerializer"),
    "kafkaraw.schemas.serializers.protobuf": ("ProtobufDeserializer", "ProtobufSerializer"),
    "kafkaraw.schemas.settings_types": ("RegistrySettings",),
    "kafkaraw.schemas.subjects": ("AssociatedName",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
