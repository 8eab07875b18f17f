"""Client quotas: set, remove, describe (KIP-546, KIP-612)."""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.arguments import instance_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import alter_client_quotas, describe_client_quotas
from kafkaraw.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkaraw.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest

_EXACT: Final = 0


class QuotaName(Enum):
    """Names that stand for several entities."""

    DEFAULT = "default"
    """All entities without a quota of their own."""
    ANY = "any"
    """For filters: every name, and the default."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, a user with a client id, or an address. None: not part of it.

    Attributes:
        user: the user's name, without "User:".
        client_id: the client id.
        ip: an address, for the rate of new connections.
    """

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None

    def parts(self) -> dict[str, str | QuotaName]:
        """Return the parts of the entity, under Kafka's names."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}


_EXAMPLE: Final = "QuotaEntity(user='ada')"
_MATCH_TYPES: Final = {QuotaName.DEFAULT: 1, QuotaName.ANY: 2}


class QuotaAdmin:
    """The operations on client quotas.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        if not isinstance(quotas, Mapping):
            raise UsageError(
                f"alter_client_quotas({quotas!r:.80}): give quotas by entity, as in {{{_EXAMPLE}: {{...}}}}"
            )
        for entity in quotas:
            instance_of(entity, QuotaEntity, "alter_client_quotas", _EXAMPLE)
        wanted = {entity: _entity(entity) for entity in quotas}
        deadline = self._calls.deadline(timeout)

        async def once(entities: Sequence[QuotaEntity]) -> dict[QuotaEntity, KafkaError]:
            request = AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.AlterClientQuotasRequestEntryData(
                        entity=wanted[entity], ops=_operations(quotas[entity])
                    )
                    for entity in entities
                ],
                validate_only=validate_only,
            )
            answer = await self._calls.ask_controller(request, deadline)
            failures: dict[QuotaEntity, KafkaError] = {}
            for result in answer.entries:
                if result.error_code:
                    entity = _of_parts((part.entity_type, part.entity_name) for part in result.entity)
                    failures[entity] = failure(
                        result.error_code, result.error_message, f"alter quotas of {entity}", operation="ALTER_CONFIGS"
                    )
            return failures

        await self._calls.each(wanted, once, deadline)

    async def describe_client_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        request = DescribeClientQuotasRequest(components=_filter(matching or QuotaEntity()), strict=strict)
        deadline = self._calls.deadline(timeout)

        async def once() -> dict[QuotaEntity, Mapping[str, float]]:
            answer = await self._calls.ask_any(request, deadline)
            if answer.error_code != ErrorCode.NONE:
                raise failure(
                    answer.error_code, answer.error_message, "describe client quotas", operation="DESCRIBE_CONFIGS"
                )
            return {
                _of_parts((part.entity_type, part.entity_name) for part in entry.entity): {
                    value.key: value.value for value in entry.values
                }
                for entry in answer.entries or ()
            }

        return await self._calls.retry(once, deadline)


def _entity(entity: QuotaEntity) -> list[alter_client_quotas.EntityData]:
    parts = entity.parts()
    if QuotaName.ANY in parts.values():
        raise UsageError(f"{entity}: quotas are set for a name, or for QuotaName.DEFAULT")
    return [
        alter_client_quotas.EntityData(entity_type=kind, entity_name=name if isinstance(name, str) else None)
        for kind, name in parts.items()
    ]


def _operations(quotas: Mapping[str, float | None]) -> list[alter_client_quotas.OpData]:
    return [
        alter_client_quotas.OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
        for key, value in quotas.items()
    ]


def _filter(matching: QuotaEntity) -> list[describe_client_quotas.ComponentData]:
    return [
        describe_client_quotas.ComponentData(
            entity_type=kind,
            match_type=_MATCH_TYPES[name] if isinstance(name, QuotaName) else _EXACT,
            match=name if isinstance(name, str) else None,
        )
        for kind, name in matching.parts().items()
    ]


def _of_parts(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    names = {kind: QuotaName.DEFAULT if name is None else name for kind, name in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))
