"""SCRAM credentials of users: set, remove, describe (KIP-554).

A password is hashed here and never sent; its salt comes from the client's source of randomness.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.core.sasl.scram import ITERATIONS_MIN, MECHANISM_OF_TYPE, TYPE_OF_MECHANISM, salted_password
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaraw.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_SALT_BYTES: Final = 24
_ITERATIONS_MAX: Final = 16_384


@dataclass(frozen=True, slots=True)
class ScramPassword:
    """A password to set, for one mechanism.

    Attributes:
        user: the user's name.
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".
        password: never sent, and not shown.
        iterations: the number of hash iterations; brokers accept 4096 to 16384.
    """

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN


@dataclass(frozen=True, slots=True)
class ScramRemoval:
    """A credential to remove."""

    user: str
    mechanism: str


class UserAdmin:
    """The operations on users.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramPassword | ScramRemoval], *, timeout: float | None = None
    ) -> None:
        by_user: dict[str, list[ScramCredentialDeletion | ScramCredentialUpsertion]] = {}
        for change in changes:
            if not isinstance(change, ScramPassword | ScramRemoval):
                raise UsageError(
                    f"alter_user_scram_credentials: a {type(change).__name__} is neither a ScramPassword nor a "
                    f"ScramRemoval; write ScramPassword(user, mechanism, password)"
                )
            by_user.setdefault(change.user, []).append(self._wire_form(change))
            await asyncio.sleep(0)  # hashing many passwords must not hold up the loop
        deadline = self._calls.deadline(timeout)

        async def once(users: Sequence[str]) -> dict[str, KafkaError]:
            wanted = [change for user in users for change in by_user[user]]
            request = AlterUserScramCredentialsRequest(
                deletions=[change for change in wanted if isinstance(change, ScramCredentialDeletion)],
                upsertions=[change for change in wanted if isinstance(change, ScramCredentialUpsertion)],
            )
            answer = await self._calls.ask_controller(request, deadline)
            return {
                result.user: failure(
                    result.error_code,
                    result.error_message,
                    f"alter the SCRAM credential of user {result.user!r}",
                    operation="ALTER",
                )
                for result in answer.results
                if result.error_code
            }

        await self._calls.each(by_user, once, deadline)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Mapping[str, int]]:
        wanted = None if users is None else names_of(users)
        deadline = self._calls.deadline(timeout)
        found: dict[str, Mapping[str, int]] = {}

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            answer = await self._describe(names if wanted else None, deadline.remaining)
            found.update(
                (one.user, {_mechanism(info.mechanism): info.iterations for info in one.credential_infos})
                for one in answer.results
                if not one.error_code
            )
            return {
                one.user: failure(one.error_code, one.error_message, f"describe user {one.user!r}")
                for one in answer.results
                if one.error_code
            }

        if wanted != []:
            await self._calls.each(wanted or ["all users"], once, deadline)
        return found

    async def _describe(self, users: Sequence[str] | None, timeout: float) -> DescribeUserScramCredentialsResponse:
        named = None if users is None else [UserName(name=user) for user in users]
        request = DescribeUserScramCredentialsRequest(users=named)
        response = await self._calls.engine.request_any(request, timeout=timeout)
        if response.error_code != ErrorCode.NONE:
            raise failure(
                response.error_code, response.error_message, "describe SCRAM credentials", operation="DESCRIBE"
            )
        return response

    def _wire_form(self, change: ScramPassword | ScramRemoval) -> ScramCredentialDeletion | ScramCredentialUpsertion:
        number = TYPE_OF_MECHANISM.get(change.mechanism)
        if number is None:
            raise UsageError(f"{change.mechanism!r} is not a SCRAM mechanism: use {' or '.join(TYPE_OF_MECHANISM)}")
        if isinstance(change, ScramRemoval):
            return ScramCredentialDeletion(name=change.user, mechanism=number)
        salt = self._calls.engine.runtime.entropy(_SALT_BYTES)
        # A number of iterations that the broker refuses is hashed once only: the broker returns the error.
        rounds = change.iterations if ITERATIONS_MIN <= change.iterations <= _ITERATIONS_MAX else 1
        salted = salted_password(change.mechanism, change.password, salt, rounds)
        return ScramCredentialUpsertion(
            name=change.user, mechanism=number, iterations=change.iterations, salt=salt, salted_password=salted
        )


def _mechanism(number: int) -> str:
    return MECHANISM_OF_TYPE.get(number, f"mechanism {number}")
