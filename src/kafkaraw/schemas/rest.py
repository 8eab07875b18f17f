"""The registry's REST API: each endpoint as a `Call`, and what an answer means. Pure.

A function per endpoint returns a `Call`: method, path, query, body, and how to read the answer. `answer_of` turns a
status and bytes into the call's result, or raises the error that fits, with the registry's code and what to do.
The client sends calls; nothing here knows about connections. Must not do I/O. Start at `register` and `answer_of`.

Source: Confluent's openapi description and `rest/exceptions/Errors.java`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    NotARegistryError,
    RegistryAuthenticationError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
from kafkaraw.schemas.model import Mode, RegisteredSchema, Schema, SubjectConfig

T = TypeVar("T")
Query: TypeAlias = tuple[tuple[str, str], ...]

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ACCEPTED: Final = f"{MEDIA_TYPE}, application/vnd.schemaregistry+json, application/json"
LATEST: Final = "latest"
_RETRIABLE_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_MESSAGE_CHARACTERS_MAX: Final = 2000
_SHOWN_CHARACTERS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request to the registry.

    Attributes:
        about: what it does, in words, for errors: "register a schema for subject 'x'".
        method: HTTP method.
        path: path below the registry's URL, quoted.
        read: turns the JSON of the answer into the result; raises ValueError if it has another form.
        query: names and values.
        body: the JSON to send; None without a body.
    """

    about: str
    method: str
    path: str
    read: Callable[[Any], T]
    query: Query = ()
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        url: of the request, without query.
        status: HTTP status.
        content_type: the header; empty without one.
        content: the body.
    """

    url: str
    status: int
    content_type: str
    content: bytes


# -- reading answers


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"a number, not {value!r:.60}")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"a text, not {value!r:.60}")


def _object(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError(f"an object, not {value!r:.60}")


def _list(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError(f"an array, not {value!r:.60}")
        return tuple(map(read, value))

    return read_all


def _field(name: str, read: Callable[[Any], T]) -> Callable[[Any], T]:
    def read_field(value: object) -> T:
        found = _object(value)
        if name not in found:
            raise ValueError(f"a field {name!r}, which is missing in {value!r:.60}")
        return read(found[name])

    return read_field


def _nothing(value: object) -> None:
    return None


def _anything(value: object) -> Any:  # noqa: ANN401 - JSON
    return value


_names: Final = _list(_text)
_numbers: Final = _list(_integer)


def _registered(
    *,
    subject: str | None = None,
    version: int | None = None,
    schema_id: int | None = None,
    schema: Schema | None = None,
) -> Callable[[Any], RegisteredSchema]:
    """Return the reader of a schema; the arguments are what the request has said and the answer may leave out."""

    def read(value: object) -> RegisteredSchema:
        fields = _object(value)
        guid = fields.get("guid")
        named, numbered = fields.get("subject"), fields.get("version")
        found = Schema.from_json(fields) if schema is None or "schema" in fields else schema
        return RegisteredSchema(
            subject if named is None else _text(named),
            version if numbered is None else _integer(numbered),
            _integer(fields.get("id", schema_id)),
            None if guid is None else _text(guid),
            found,
            bool(fields.get("deleted", False)),
        )

    return read


def _incompatibilities(value: object) -> tuple[str, ...]:
    fields = _object(value)
    messages = fields.get("messages") or ()
    if _field("is_compatible", bool)(fields):
        return ()
    return tuple(map(_text, messages)) or ("the registry gives no reason",)


# -- endpoints


def _flags(**given: bool) -> Query:
    return tuple((name, "true") for name, is_set in given.items() if is_set)


def _of_context(subject: str | None) -> Query:
    """Return the parameter that says in whose context an id is."""
    return () if subject is None else (("subject", subject),)


def _below(*parts: str | int) -> str:
    """Return a path.

    Raises:
        UsageError: a name is one of the two that HTTP removes from paths: the request would be about something else.
    """
    if "." in parts or ".." in parts:
        raise UsageError(
            "a subject or GUID cannot be '.' or '..': HTTP would remove it from the path; choose another name"
        )
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def schema_types() -> Call[tuple[str, ...]]:
    """`GET /schemas/types`."""
    return Call("list the schema types", "GET", "/schemas/types", _names)


def contexts() -> Call[tuple[str, ...]]:
    """`GET /contexts`."""
    return Call("list contexts", "GET", "/contexts", _names)


def subjects(prefix: str, *, deleted: bool, deleted_only: bool) -> Call[tuple[str, ...]]:
    """`GET /subjects`."""
    query = ((("subjectPrefix", prefix),) if prefix else ()) + _flags(deleted=deleted, deletedOnly=deleted_only)
    return Call("list subjects", "GET", "/subjects", _names, query)


def versions(subject: str, *, deleted: bool, deleted_only: bool) -> Call[tuple[int, ...]]:
    """`GET /subjects/{subject}/versions`."""
    query = _flags(deleted=deleted, deletedOnly=deleted_only)
    return Call(
        f"list versions of subject {subject!r}", "GET", _below("subjects", subject, "versions"), _numbers, query
    )


def schemas(prefix: str, *, deleted: bool, latest_only: bool) -> Call[tuple[RegisteredSchema, ...]]:
    """`GET /schemas`."""
    query = ((("subjectPrefix", prefix),) if prefix else ()) + _flags(deleted=deleted, latestOnly=latest_only)
    return Call("list schemas", "GET", "/schemas", _list(_registered()), query)


def schema_by_id(schema_id: int, subject: str | None) -> Call[RegisteredSchema]:
    """`GET /schemas/ids/{id}`."""
    about = f"get the schema with id {schema_id}"
    path = _below("schemas", "ids", schema_id)
    return Call(about, "GET", path, _registered(schema_id=schema_id), _of_context(subject))


def subjects_of_id(schema_id: int, subject: str | None, *, deleted: bool) -> Call[tuple[str, ...]]:
    """`GET /schemas/ids/{id}/subjects`."""
    about = f"list subjects of schema id {schema_id}"
    query = _of_context(subject) + _flags(deleted=deleted)
    return Call(about, "GET", _below("schemas", "ids", schema_id, "subjects"), _names, query)


def versions_of_id(schema_id: int, subject: str | None, *, deleted: bool) -> Call[tuple[tuple[str, int], ...]]:
    """`GET /schemas/ids/{id}/versions`."""

    def read(value: object) -> tuple[str, int]:
        return _field("subject", _text)(value), _field("version", _integer)(value)

    about = f"list versions of schema id {schema_id}"
    query = _of_context(subject) + _flags(deleted=deleted)
    return Call(about, "GET", _below("schemas", "ids", schema_id, "versions"), _list(read), query)


def schema_by_guid(guid: str) -> Call[RegisteredSchema]:
    """`GET /schemas/guids/{guid}`. The answer of some registries has no id: then it is -1."""

    def read(value: object) -> RegisteredSchema:
        found = _registered(schema_id=-1)(value)
        return RegisteredSchema(found.subject, found.version, found.id, found.guid or guid, found.schema, found.deleted)

    return Call(f"get the schema with GUID {guid}", "GET", _below("schemas", "guids", guid), read)


def ids_of_guid(guid: str) -> Call[tuple[tuple[str, int], ...]]:
    """`GET /schemas/guids/{guid}/ids`: pairs of context and id."""

    def read(value: object) -> tuple[str, int]:
        return _field("context", _text)(value), _field("id", _integer)(value)

    return Call(f"list ids of schema GUID {guid}", "GET", _below("schemas", "guids", guid, "ids"), _list(read))


def version(subject: str, number: int | str, *, deleted: bool) -> Call[RegisteredSchema]:
    """`GET /subjects/{subject}/versions/{version}`."""
    about = f"get version {number} of subject {subject!r}"
    path = _below("subjects", subject, "versions", number)
    return Call(about, "GET", path, _registered(subject=subject), _flags(deleted=deleted))


def referenced_by(subject: str, number: int | str) -> Call[tuple[int, ...]]:
    """`GET /subjects/{subject}/versions/{version}/referencedby`."""
    about = f"list schemas that reference version {number} of subject {subject!r}"
    return Call(about, "GET", _below("subjects", subject, "versions", number, "referencedby"), _numbers)


def latest_with_metadata(subject: str, properties: Mapping[str, str], *, deleted: bool) -> Call[RegisteredSchema]:
    """`GET /subjects/{subject}/metadata`."""
    query = tuple(pair for key, value in properties.items() for pair in (("key", key), ("value", value)))
    wanted = ", ".join(f"{key}={value}" for key, value in properties.items())
    about = f"get the latest version of subject {subject!r} with {wanted}"
    path = _below("subjects", subject, "metadata")
    return Call(about, "GET", path, _registered(subject=subject), query + _flags(deleted=deleted))


def register(subject: str, schema: Schema, *, normalize: bool, body: Mapping[str, Any]) -> Call[RegisteredSchema]:
    """`POST /subjects/{subject}/versions`. `body` has more fields: `id` and `version` in mode IMPORT."""
    read = _registered(subject=subject, schema=schema)
    about = f"register a schema for subject {subject!r}"
    path = _below("subjects", subject, "versions")
    return Call(about, "POST", path, read, _flags(normalize=normalize), schema.to_json() | dict(body))


def lookup(subject: str, schema: Schema, *, normalize: bool, deleted: bool) -> Call[RegisteredSchema]:
    """`POST /subjects/{subject}`."""
    read = _registered(subject=subject, schema=schema)
    about = f"look up a schema of subject {subject!r}"
    query = _flags(normalize=normalize, deleted=deleted)
    return Call(about, "POST", _below("subjects", subject), read, query, schema.to_json())


def delete_subject(subject: str, *, permanent: bool) -> Call[tuple[int, ...]]:
    """`DELETE /subjects/{subject}`."""
    query = _flags(permanent=permanent)
    return Call(f"delete subject {subject!r}", "DELETE", _below("subjects", subject), _numbers, query)


def delete_version(subject: str, number: int | str, *, permanent: bool) -> Call[int]:
    """`DELETE /subjects/{subject}/versions/{version}`."""
    about = f"delete version {number} of subject {subject!r}"
    path = _below("subjects", subject, "versions", number)
    return Call(about, "DELETE", path, _integer, _flags(permanent=permanent))


def incompatibilities(
    subject: str, schema: Schema, number: int | str | None, *, normalize: bool
) -> Call[tuple[str, ...]]:
    """`POST /compatibility/subjects/{subject}/versions`, or with a version behind it."""
    path = _below("compatibility", "subjects", subject, "versions", *([] if number is None else [number]))
    about = f"check the compatibility of a schema with subject {subject!r}"
    query = _flags(verbose=True, normalize=normalize)
    return Call(about, "POST", path, _incompatibilities, query, schema.to_json())


def _of_subject(what: str, subject: str | None) -> tuple[str, str]:
    where = "the registry" if subject is None else f"subject {subject!r}"
    return where, _below(what) if subject is None else _below(what, subject)


def config(subject: str | None, *, default_to_global: bool) -> Call[SubjectConfig]:
    """`GET /config` and `GET /config/{subject}`."""
    where, path = _of_subject("config", subject)
    query = _flags(defaultToGlobal=default_to_global and subject is not None)
    return Call(f"get the configuration of {where}", "GET", path, SubjectConfig.from_json, query)


def set_config(subject: str | None, changed: SubjectConfig) -> Call[SubjectConfig]:
    """`PUT /config` and `PUT /config/{subject}`."""
    where, path = _of_subject("config", subject)
    return Call(f"change the configuration of {where}", "PUT", path, SubjectConfig.from_json, (), changed.to_json())


def delete_config(subject: str | None) -> Call[SubjectConfig]:
    """`DELETE /config` and `DELETE /config/{subject}`; the answer is what was set, in one of two forms."""
    where, path = _of_subject("config", subject)

    def read(value: object) -> SubjectConfig:
        return SubjectConfig.from_json({"compatibility": value} if isinstance(value, str) else value)

    return Call(f"delete the configuration of {where}", "DELETE", path, read)


def _mode(value: object) -> Mode:
    name = _field("mode", _text)(value)
    if name not in Mode.__members__:
        raise ValueError(f"one of {', '.join(Mode)}, not {name!r:.60}")
    return Mode(name)


def mode(subject: str | None, *, default_to_global: bool) -> Call[Mode]:
    """`GET /mode` and `GET /mode/{subject}`."""
    where, path = _of_subject("mode", subject)
    query = _flags(defaultToGlobal=default_to_global and subject is not None)
    return Call(f"get the mode of {where}", "GET", path, _mode, query)


def set_mode(new: Mode, subject: str | None, *, force: bool) -> Call[Mode]:
    """`PUT /mode` and `PUT /mode/{subject}`."""
    where, path = _of_subject("mode", subject)
    return Call(f"change the mode of {where}", "PUT", path, _mode, _flags(force=force), {"mode": new.value})


def delete_mode(subject: str | None) -> Call[Mode]:
    """`DELETE /mode` and `DELETE /mode/{subject}`; the answer is the mode that was set."""
    where, path = _of_subject("mode", subject)
    return Call(f"delete the mode of {where}", "DELETE", path, _mode)


def exporters() -> Call[tuple[str, ...]]:
    """`GET /exporters`."""
    return Call("list exporters", "GET", "/exporters", _names)


def exporter(name: str, part: str = "") -> Call[Mapping[str, Any]]:
    """`GET /exporters/{name}`, or its `status` or `config`."""
    path = _below("exporters", name, *([part] if part else []))
    return Call(f"get exporter {name!r}", "GET", path, _object)


def create_exporter(described: Mapping[str, Any]) -> Call[str]:
    """`POST /exporters`."""
    return Call("create an exporter", "POST", "/exporters", _field("name", _text), (), described)


def change_exporter(name: str, changed: Mapping[str, Any] | None, part: str = "") -> Call[str]:
    """`PUT /exporters/{name}`, or below it `config`, `pause`, `resume` and `reset`."""
    path = _below("exporters", name, *([part] if part else []))
    return Call(f"{part or 'change'} exporter {name!r}", "PUT", path, _field("name", _text), (), changed)


def delete_exporter(name: str) -> Call[None]:
    """`DELETE /exporters/{name}`."""
    return Call(f"delete exporter {name!r}", "DELETE", _below("exporters", name), _nothing)


def _typed(resource_type: str | None, association_types: Sequence[str]) -> Query:
    kind: Query = () if resource_type is None else (("resourceType", resource_type),)
    return (*kind, *(("associationType", name) for name in association_types))


def associations(
    namespace: str, name: str, resource_type: str | None, association_types: Sequence[str]
) -> Call[tuple[Mapping[str, Any], ...]]:
    """`GET /associations/resources/{namespace}/{name}`."""
    path = _below("associations", "resources", namespace, name)
    query = _typed(resource_type, association_types)
    return Call(f"list associations of resource {name!r}", "GET", path, _list(_object), query)


def associations_of_subject(
    subject: str, resource_type: str | None, association_types: Sequence[str]
) -> Call[tuple[Mapping[str, Any], ...]]:
    """`GET /associations/subjects/{subject}`."""
    path = _below("associations", "subjects", subject)
    query = _typed(resource_type, association_types)
    return Call(f"list associations of subject {subject!r}", "GET", path, _list(_object), query)


def create_association(described: Mapping[str, Any]) -> Call[Mapping[str, Any]]:
    """`POST /associations`."""
    return Call("create an association", "POST", "/associations", _object, (), described)


def change_association(resource_id: str, described: Mapping[str, Any]) -> Call[Mapping[str, Any]]:
    """`PUT /associations/resources/{id}`."""
    path = _below("associations", "resources", resource_id)
    return Call(f"change associations of resource {resource_id!r}", "PUT", path, _object, (), described)


def delete_associations(
    resource_id: str, resource_type: str | None, association_types: Sequence[str], *, cascade: bool
) -> Call[None]:
    """`DELETE /associations/resources/{id}`."""
    query = (*_typed(resource_type, association_types), ("cascadeLifecycle", str(cascade).lower()))
    path = _below("associations", "resources", resource_id)
    return Call(f"delete associations of resource {resource_id!r}", "DELETE", path, _nothing, query)


# Encryption keys, of the DEK registry: a key encryption key (KEK) is in a key management system, and the data
# encryption keys (DEK) of subjects are kept encrypted with it.


def _keys(*parts: str | int) -> str:
    return _below("dek-registry", "v1", "keks", *parts)


def _dek(kek: str, subject: str, version: int | str | None, *parts: str) -> str:
    return _keys(kek, "deks", subject, *([] if version is None else ["versions", version]), *parts)


def _algorithm(algorithm: str | None) -> Query:
    return () if algorithm is None else (("algorithm", algorithm),)


def keks(*, deleted: bool) -> Call[tuple[str, ...]]:
    """`GET /dek-registry/v1/keks`."""
    return Call("list key encryption keys", "GET", _keys(), _names, _flags(deleted=deleted))


def kek(name: str, *, deleted: bool) -> Call[Mapping[str, Any]]:
    """`GET /dek-registry/v1/keks/{name}`."""
    return Call(f"get key encryption key {name!r}", "GET", _keys(name), _object, _flags(deleted=deleted))


def create_kek(described: Mapping[str, Any]) -> Call[Mapping[str, Any]]:
    """`POST /dek-registry/v1/keks`."""
    return Call("create a key encryption key", "POST", _keys(), _object, (), described)


def change_kek(name: str, changed: Mapping[str, Any]) -> Call[Mapping[str, Any]]:
    """`PUT /dek-registry/v1/keks/{name}`."""
    return Call(f"change key encryption key {name!r}", "PUT", _keys(name), _object, (), changed)


def delete_kek(name: str, *, permanent: bool) -> Call[None]:
    """`DELETE /dek-registry/v1/keks/{name}`."""
    about = f"delete key encryption key {name!r}"
    return Call(about, "DELETE", _keys(name), _nothing, _flags(permanent=permanent))


def undelete_kek(name: str) -> Call[None]:
    """`POST /dek-registry/v1/keks/{name}/undelete`."""
    return Call(f"restore key encryption key {name!r}", "POST", _keys(name, "undelete"), _nothing)


def deks(kek: str, *, deleted: bool) -> Call[tuple[str, ...]]:
    """`GET /dek-registry/v1/keks/{name}/deks`."""
    about = f"list data encryption keys of {kek!r}"
    return Call(about, "GET", _keys(kek, "deks"), _names, _flags(deleted=deleted))


def dek_versions(kek: str, subject: str, algorithm: str | None, *, deleted: bool) -> Call[tuple[int, ...]]:
    """`GET /dek-registry/v1/keks/{name}/deks/{subject}/versions`."""
    about = f"list versions of the data encryption key of {subject!r}"
    query = _algorithm(algorithm) + _flags(deleted=deleted)
    return Call(about, "GET", _dek(kek, subject, None, "versions"), _numbers, query)


def dek(
    kek: str, subject: str, version: int | str | None, algorithm: str | None, *, deleted: bool
) -> Call[Mapping[str, Any]]:
    """`GET /dek-registry/v1/keks/{name}/deks/{subject}`, or with `/versions/{version}` behind it."""
    about = f"get the data encryption key of {subject!r}"
    query = _algorithm(algorithm) + _flags(deleted=deleted)
    return Call(about, "GET", _dek(kek, subject, version), _object, query)


def create_dek(kek: str, subject: str, described: Mapping[str, Any]) -> Call[Mapping[str, Any]]:
    """`POST /dek-registry/v1/keks/{name}/deks/{subject}`."""
    about = f"create a data encryption key of {subject!r}"
    return Call(about, "POST", _dek(kek, subject, None), _object, (), {**described, "subject": subject})


def delete_dek(
    kek: str, subject: str, version: int | str | None, algorithm: str | None, *, permanent: bool
) -> Call[None]:
    """`DELETE /dek-registry/v1/keks/{name}/deks/{subject}`, or with `/versions/{version}` behind it."""
    about = f"delete the data encryption key of {subject!r}"
    query = _algorithm(algorithm) + _flags(permanent=permanent)
    return Call(about, "DELETE", _dek(kek, subject, version), _nothing, query)


def undelete_dek(kek: str, subject: str, version: int | str | None, algorithm: str | None) -> Call[None]:
    """`POST .../deks/{subject}/undelete`, or with `/versions/{version}` in front of `/undelete`."""
    about = f"restore the data encryption key of {subject!r}"
    return Call(about, "POST", _dek(kek, subject, version, "undelete"), _nothing, _algorithm(algorithm))


def registry_id() -> Call[str]:
    """`GET /v1/metadata/id`."""
    return Call("get the registry's id", "GET", "/v1/metadata/id", _field("id", _text))


def any_request(method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None) -> Call[Any]:
    """Any endpoint that has no function here, such as `/catalog`; the result is the answer's JSON."""
    return Call(f"{method} {path}", method, path, _anything, tuple(query.items()), body)


# -- what an answer means

_TO_DO: Final[Mapping[int, tuple[type[RegistryError], str]]] = {
    40401: (
        SubjectNotFoundError,
        "register a schema first, or fix the name; `kafkaraw schemas list` lists the subjects",
    ),
    40402: (VersionNotFoundError, "`kafkaraw schemas list SUBJECT` lists the versions"),
    40403: (SchemaNotFoundError, "register the schema, or check that the data comes from this registry and context"),
    40404: (SubjectNotFoundError, "it is deleted softly: register it again, or delete it with permanent=True"),
    40405: (RegistryError, "delete it softly first (permanent=False), then permanently"),
    40406: (VersionNotFoundError, "it is deleted softly: register it again, or delete it with permanent=True"),
    40407: (RegistryError, "delete it softly first (permanent=False), then permanently"),
    40408: (RegistryError, "the subject has the level of the registry; set one, or ask with default_to_global=True"),
    40409: (RegistryError, "the subject has the mode of the registry; set one, or ask with default_to_global=True"),
    42201: (InvalidSchemaError, "fix the schema; schema_type and references must fit, too"),
    42202: (RegistryError, 'a version is a number from 1, or "latest"'),
    42203: (RegistryError, "a level is one of CompatibilityLevel"),
    42204: (RegistryError, "a mode is one of Mode"),
    42205: (
        RegistryError,
        "the mode of the subject or the registry forbids it; `kafkaraw schemas mode` shows and sets it",
    ),
    42206: (RegistryError, "delete the schemas that reference it first; referenced_by() lists their ids"),
    42207: (RegistryError, "the id belongs to another schema; register without an id, or with the schema's own"),
    42208: (RegistryError, "fix the subject's name"),
    42209: (RegistryError, "the schema is larger than the registry allows"),
    42210: (InvalidSchemaError, "fix the rules of the schema"),
    42211: (RegistryError, "delete the subjects of the context first"),
    50001: (RegistryUnavailableError, "the registry cannot use its store; look at its log, and try again"),
    50002: (RegistryUnavailableError, "the registry did not finish in time; try again"),
    50003: (RegistryUnavailableError, "the registry cannot reach its primary; try again"),
    50004: (RegistryUnavailableError, "the registry has no primary at the moment; try again"),
}


def answer_of(call: Call[T], answer: Answer) -> T:
    """Return the result of a call.

    Raises:
        RegistryError: the registry refuses the call, or this is no registry; the class says what can be done.
    """
    try:
        value = json.loads(answer.content) if answer.content.strip() else None
        is_json = bool(answer.content.strip())
    except (ValueError, RecursionError):
        value, is_json = None, False
    if answer.status >= 400:
        raise _refusal(call, answer, value if isinstance(value, dict) else {}, is_json=is_json)
    if answer.status == 204:
        value, is_json = {}, True
    if not is_json or answer.status >= 300:
        raise _not_a_registry(call, answer, f"HTTP status {answer.status} and {_kind_of(answer)}")
    try:
        return call.read(value)
    except ValueError as error:
        raise _not_a_registry(call, answer, f"JSON of another form, which should have {error}") from None


def _refusal(call: Call[Any], answer: Answer, fields: Mapping[str, Any], *, is_json: bool) -> RegistryError:
    code = fields.get("error_code")
    code = code if isinstance(code, int) else None
    said = _readable(fields.get("message")) or f"HTTP status {answer.status}"
    place: dict[str, Any] = {"status": answer.status, "error_code": code, "url": answer.url}
    start = f"cannot {call.about} at {answer.url}: {said}"
    start += f" (error code {code})" if code is not None and str(code) not in said else ""
    if answer.status == 401:
        return RegistryAuthenticationError(
            f"{start}; the registry wants credentials, or others: basic_auth=(user, password), bearer_token=... or "
            "oauth_...; or a client certificate",
            **place,
        )
    if answer.status == 403:
        return RegistryAuthorizationError(f"{start}; ask for permission, or use another user", **place)
    if answer.status == 409:
        start = f"cannot {call.about} at {answer.url}: {said.partition(', details: [')[0]}"
        messages = _details_of(fields.get("message"))
        reasons = "".join(f"\n  {reason}" for reason in readable_reasons(messages))
        return IncompatibleSchemaError(
            f"{start} (error code {code}); change the schema, or the compatibility level{reasons and ':'}{reasons}",
            messages=messages,
            **place,
        )
    if code is not None and code in _TO_DO:
        kind, to_do = _TO_DO[code]
        return kind(f"{start}; {to_do}", **place)
    if answer.status in _RETRIABLE_STATUS or answer.status >= 500:
        return RegistryUnavailableError(f"{start}; try again later", **place)
    if answer.status in (404, 405) and code in (None, answer.status):
        return _not_a_registry(call, answer, f"HTTP status {answer.status} and {_kind_of(answer)}")
    return RegistryError(start, **place)


def _not_a_registry(call: Call[Any], answer: Answer, what: str) -> NotARegistryError:
    return NotARegistryError(
        f"cannot {call.about}: {answer.url} answers with {what}; is this the URL of a schema registry, with its path?",
        status=answer.status,
        url=answer.url,
    )


def _kind_of(answer: Answer) -> str:
    kind = answer.content_type.partition(";")[0].strip() or "no content type"
    return f"{kind}: {_readable(answer.content.decode('utf-8', 'replace'), _SHOWN_CHARACTERS_MAX) or 'nothing'}"


def _readable(text: object, characters_max: int = _MESSAGE_CHARACTERS_MAX) -> str:
    """Return a text of the registry on one line, without characters that control a terminal, and bounded."""
    if not isinstance(text, str):
        return ""
    shown = "".join(it if it.isprintable() else " " for it in text[: characters_max * 2])
    shown = re.sub(r" {2,}", " ", shown).strip()
    return shown if len(shown) <= characters_max else shown[:characters_max] + "..."


def _details_of(message: object) -> tuple[str, ...]:
    """Return the parts in braces behind `details: [`, one for each violated rule."""
    if not isinstance(message, str):
        return ()
    text = message.partition("details: [")[2]
    found, depth, start = [], 0, 0
    for at, character in enumerate(text[:1_000_000]):
        if character == "{":
            start, depth = (at if depth == 0 else start), depth + 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                found.append(_readable(text[start + 1 : at]))
        elif character == "]" and depth == 0:
            break
    return tuple(found)


_RULE: Final = re.compile(r"errorType: ?'(\w+)', description: ?'(.*)', additionalInfo: ?'.*'", re.DOTALL)


def readable_reasons(messages: Sequence[str]) -> tuple[str, ...]:
    """Return the messages of an incompatibility for people: rules and paths, the version compared with, the level.

    Source: the texts of Confluent's `AbstractSchemaRegistry.isCompatibleWithPrevious`; others stay as they are.
    """
    found, versions, level = [], "", ""
    for message in messages:
        text = message.strip().removeprefix("{").removesuffix("}")
        if rule := _RULE.fullmatch(text):
            found.append(f"{rule[1]}: {rule[2]}")
        elif text.startswith("oldSchemaVersion:"):
            versions = f"compared with version {text.partition(':')[2].strip()}"
        elif text.startswith("validateFields:"):
            level = f"level {text.rpartition(':')[2].strip(' {}' + chr(39))}"
        elif not text.startswith("oldSchema:"):
            found.append(text)
    about = ", ".join(part for part in (versions, level) if part)
    return (*found, f"({about})") if about else tuple(found)


def redirect_of(call: Call[Any], answer: Answer, location: str) -> str:
    """Return the URL of a redirect that may be followed: the same scheme, host and port, and the same method.

    Raises:
        NotARegistryError: the redirect leads elsewhere: credentials are not sent to another host.
    """
    target = urljoin(answer.url, location)
    try:
        before, after = urlsplit(answer.url), urlsplit(target)
        is_same = (before.scheme, before.hostname, before.port) == (after.scheme, after.hostname, after.port)
    except ValueError:
        after, is_same = urlsplit(""), False
    if is_same and after.username is None and (call.method == "GET" or answer.status in (307, 308)):
        return target
    shown = _readable(f"{after.scheme}://{after.netloc.rpartition('@')[2]}{after.path}", 200)
    raise NotARegistryError(
        f"cannot {call.about}: {answer.url} redirects to {shown}, which is not followed, because credentials would be "
        "sent there; if that is the registry, give its URL",
        status=answer.status,
        url=answer.url,
    )


def nearest(name: str, known: Sequence[str]) -> str:
    """Return ", did you mean ...?" for a subject that does not exist; empty without a similar one."""
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
