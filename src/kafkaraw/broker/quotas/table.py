"""`QuotaTable`: the quotas that clients have set for the whole cluster, and the quota that applies to a client.

An entity is a user, a client id, both, or an address; each by name, or None for the default of all entities without
their own quota. Rules and messages are those of Kafka's ClientQuotaControlManager and ClientQuotasImage (KIP-546,
KIP-612).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.settings import LONG_MAX
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkaraw.protocol.messages.alter_client_quotas import AlterClientQuotasRequestEntryData, OpData
    from kafkaraw.protocol.messages.describe_client_quotas import ComponentData

QUOTAS_FILE: Final = "kafkaraw-client-quotas.json"
FORMAT_VERSION: Final = 1
USER, CLIENT_ID, IP = "user", "client-id", "ip"
_INT_MAX: Final = (1 << 31) - 1
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_FRACTION: Final = 1e-6

Entity = tuple[tuple[str, str | None], ...]
"""Names by type, sorted by type; None is the default."""


class QuotaKey(Enum):
    """What can be bounded, under Kafka's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


# Key -> the largest value, and its name, when only whole numbers are allowed; None for any number.
_WHOLE: Final[Mapping[QuotaKey, tuple[int, str] | None]] = {
    QuotaKey.PRODUCE: (LONG_MAX, "a LONG"),
    QuotaKey.FETCH: (LONG_MAX, "a LONG"),
    QuotaKey.REQUEST: None,
    QuotaKey.MUTATION: None,
    QuotaKey.CONNECTION: (_INT_MAX, "an INT"),
}


class Bound(NamedTuple):
    """A quota that applies to a client.

    Attributes:
        value: limit per second.
        user: the user that it applies to; None for a quota of a client id with any user.
        client_id: the client id that it applies to; None for a quota of a user with any client id.
    """

    value: float
    user: str | None
    client_id: str | None


_BUCKETS: Final = 16
"""Of the HashMap in which Kafka has the changes of an entity; in its order they are made."""


class Outcome(NamedTuple):
    """What became of one entity's changes."""

    entity: Entity
    code: ErrorCode
    message: str | None


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return names by type, in a fixed order; of a duplicate type the last one counts, as in Kafka."""
    return tuple(sorted(dict(parts).items()))


class QuotaTable:
    """The quotas of a cluster.

    Args:
        save: writes the text of all quotas down; may raise OSError.
    """

    def __init__(self, save: Callable[[str], None]) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._save = save

    @property
    def stored(self) -> Mapping[Entity, Mapping[str, float]]:
        """All quotas, by entity and key."""
        return self._quotas

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def bound(self, key: QuotaKey, user: str, client_id: str) -> Bound | None:
        """The quota that counts for a client; the most specific one does."""
        for entity, owner, of_client in _precedence(user, client_id):
            value = self._quotas.get(entity, {}).get(key.value)
            if value is not None:
                return Bound(value, owner, of_client)
        return None

    def connection_rate(self, address: str) -> float | None:
        """How many connections a second may come from an address; None for any number."""
        for entity in (((IP, address),), ((IP, None),)):
            value = self._quotas.get(entity, {}).get(QuotaKey.CONNECTION.value)
            if value is not None:
                return value
        return None

    def alter(self, entries: Iterable[AlterClientQuotasRequestEntryData], *, validate_only: bool) -> list[Outcome]:
        """Set and remove quotas; entities in error do not stop the others."""
        outcomes: dict[Entity, Outcome] = {}
        changed = {entity: dict(values) for entity, values in self._quotas.items()}
        for entry in entries:
            entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
            try:
                if entity in outcomes or len({op.key for op in entry.ops}) < len(entry.ops):
                    raise _refuse(f"Ignoring duplicate entity {entity_text(entity)}")
                _check(entity, entry.ops)
            except ApiError as error:
                outcomes[entity] = Outcome(entity, error.code, error.message)
                continue
            _apply(changed, entity, sorted(entry.ops, key=lambda op: _java_hash(op.key) % _BUCKETS))
            outcomes[entity] = Outcome(entity, ErrorCode.NONE, None)
        if not validate_only and changed != self._quotas and not self._replace(changed):
            failure = (ErrorCode.KAFKA_STORAGE_ERROR, "the quotas could not be stored")
            return [Outcome(one.entity, *failure) if one.code is ErrorCode.NONE else one for one in outcomes.values()]
        return list(outcomes.values())

    def _replace(self, quotas: dict[Entity, dict[str, float]]) -> bool:
        try:
            self._save(quotas_text(quotas))
        except OSError:
            return False
        self._quotas = quotas
        return True

    def describe(
        self, components: Iterable[ComponentData], *, strict: bool
    ) -> list[tuple[Entity, Mapping[str, float]]]:
        """The quotas of the entities that a filter lets through.

        Raises:
            ApiError: the filter contradicts itself, or asks for a type that is not known.
        """
        exact, types = _filter(components)

        def wanted(entity: Entity) -> bool:
            names = dict(entity)
            if strict and len(names) != len(exact) + len(types):
                return False
            fits = all(kind in names and names[kind] == name for kind, name in exact.items())
            return fits and types <= set(names)

        return [(entity, dict(values)) for entity, values in self._quotas.items() if wanted(entity)]

    def load(self, text: str) -> None:
        """Take in what `save` was given earlier.

        Raises:
            ConfigError: it is damaged, or of a newer version.
        """
        try:
            content = json.loads(text)
            if content["version"] != FORMAT_VERSION:
                version = content["version"]
                raise ConfigError(f"{QUOTAS_FILE}: version {version} is not known, only {FORMAT_VERSION} is")
            self._quotas = {
                entity_of(row["entity"].items()): {str(key): float(value) for key, value in row["quotas"].items()}
                for row in content["entities"]
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"{QUOTAS_FILE} in the data directory is damaged: {error}") from error


def in_kafkas_order(keys: Iterable[str]) -> list[str]:
    """Return the keys of an entity's quotas in Kafka's order, which is that of a java.util.HashMap.

    Args:
        keys: in the order in which they were set.
    """
    ordered = list(keys)
    buckets = 4
    while len(ordered) > buckets * 3 // 4:
        buckets *= 2
    return sorted(ordered, key=lambda key: _java_hash(key) % buckets)


def _java_hash(text: str) -> int:
    """A string's hash code, spread as HashMap spreads it."""
    number = 0
    for char in text:
        number = (31 * number + ord(char)) & 0xFFFFFFFF
    return number ^ number >> 16


def _precedence(user: str, client_id: str) -> Iterator[tuple[Entity, str | None, str | None]]:
    """Return the entities whose quota may apply to a client, most specific first, with the counted user and client."""
    for owner in (user, None):
        for client in (client_id, None) if client_id else ():
            yield ((CLIENT_ID, client), (USER, owner)), user, client_id
        yield ((USER, owner),), user, None
    for client in (client_id, None) if client_id else ():
        yield ((CLIENT_ID, client),), None, client_id


def _refuse(message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> ApiError:
    return ApiError(code, message)


def _check(entity: Entity, ops: Iterable[OpData]) -> None:
    allowed = _keys_for(entity)
    for op in ops:
        if op.remove:
            continue
        key = next((key for key in allowed if key.value == op.key), None)
        if key is None:
            raise _refuse(f"Invalid configuration key {op.key}")
        if op.value <= 0:
            raise _refuse(f"Quota {op.key} must be greater than 0")
        whole = _WHOLE[key]
        if whole is not None and op.value > whole[0]:
            raise _refuse(f"Proposed value for {op.key} is too large for {whole[1]}.")
        if whole is not None and op.value % 1 > _FRACTION:
            raise _refuse(f"{op.key} cannot be a fractional value.")


def _keys_for(entity: Entity) -> frozenset[QuotaKey]:
    """What can be bounded for an entity."""
    if not entity:
        raise _refuse("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _refuse(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refuse(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return frozenset(QuotaKey) - {QuotaKey.CONNECTION}
    if len(names) > 1:
        # Two words without a space between them, as Kafka has it.
        raise _refuse("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if names[IP] is not None and not _is_address(names[IP]):
        raise _refuse(f"{names[IP]} is not a valid IP or resolvable host.")
    return frozenset({QuotaKey.CONNECTION})


def _is_address(text: str | None) -> bool:
    import ipaddress  # only for the quotas of addresses

    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def _apply(quotas: dict[Entity, dict[str, float]], entity: Entity, ops: Iterable[OpData]) -> None:
    values = quotas.setdefault(entity, {})
    for op in ops:
        if op.remove:
            values.pop(op.key, None)
        else:
            values[op.key] = op.value
    if not values:
        del quotas[entity]


def _filter(components: Iterable[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """What must be named so, and which types must be there."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _refuse("Invalid empty entity type.")
        if kind in exact or kind in types:
            raise _refuse(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (IP, USER, CLIENT_ID):
            raise _refuse(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        if component.match_type == _EXACT:
            if component.match is None:
                raise _refuse("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = component.match
        elif component.match_type in _NAMELESS:
            if component.match is not None:
                raise _refuse(
                    f"Request specified {_NAMELESS[component.match_type]}, but also specified a match string."
                )
            if component.match_type == _DEFAULT:
                exact[kind] = None
            else:
                types.add(kind)
        else:
            raise _refuse(f"Unknown match type {component.match_type}")
    if IP in {*exact, *types} and {USER, CLIENT_ID} & {*exact, *types}:
        raise _refuse(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return exact, types


_NAMELESS: Final = {_DEFAULT: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}


def entity_text(entity: Entity) -> str:
    """An entity as Kafka prints it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def quotas_text(quotas: Mapping[Entity, Mapping[str, float]]) -> str:
    """Return what `QuotaTable.load` reads."""
    rows = [{"entity": dict(entity), "quotas": dict(values)} for entity, values in quotas.items()]
    return json.dumps({"version": FORMAT_VERSION, "entities": rows}, indent=1) + "\n"
