"""Delegation tokens for the admin client: create, renew, expire and describe them.

A client authenticates with a token by SCRAM: the token id is the user, the HMAC in base64 is the password, and
`sasl_token_auth=True` says so. A connection that was authenticated so cannot create or renew tokens.
Source: KIP-48, KIP-373; Kafka's Admin.createDelegationToken and its kin.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.client.arguments import instance_of
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kafkaraw.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkaraw.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkaraw.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

_OF_BROKER: Final = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token.

    Attributes:
        token_id: its id, the user name for SCRAM.
        owner: the principal that a client with this token is, such as "User:ada".
        requester: the principal that created it; the owner, or one who may create tokens for the owner.
        renewers: principals that may renew and expire it, besides owner and requester.
        issued_ms: when it was created, in milliseconds since 1970.
        expires_ms: when it expires unless it is renewed, in milliseconds since 1970.
        max_ms: when it expires for good, in milliseconds since 1970.
        hmac: its secret; not shown by `repr`.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password for SCRAM: the HMAC in base64."""
        return b64encode(self.hmac).decode()


class TokenAdmin:
    """The operations on delegation tokens.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        call = "create_delegation_token"
        named = [_principal(renewer, call) for renewer in names_of(renewers)]
        kind, name = (None, None) if owner is None else _principal(owner, call)
        request = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in named],
            max_lifetime_ms=_OF_BROKER if max_lifetime_ms is None else max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = kind, name
        deadline = self._calls.deadline(timeout)

        async def once() -> DelegationToken:
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                what = "create a delegation token" + (f" for {owner}" if owner else "")
                raise failure(answer.error_code, None, what, resource=owner or "", operation="CREATE_TOKENS")
            owned_by = f"{answer.principal_type}:{answer.principal_name}"
            requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
            return DelegationToken(
                answer.token_id,
                owned_by,
                requester if answer.token_requester_principal_name else owned_by,
                tuple(f"{kind}:{name}" for kind, name in named),
                answer.issue_timestamp_ms,
                answer.expiry_timestamp_ms,
                answer.max_timestamp_ms,
                bytes(answer.hmac),
            )

        return await self._calls.retry(once, deadline)

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        request = RenewDelegationTokenRequest(
            hmac=instance_of(hmac, bytes, "renew_delegation_token", "token.hmac"),
            renew_period_ms=_OF_BROKER if renew_period_ms is None else renew_period_ms,
        )
        deadline = self._calls.deadline(timeout)

        async def once() -> int:
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                raise failure(answer.error_code, None, "renew a delegation token")
            return answer.expiry_timestamp_ms

        return await self._calls.retry(once, deadline)

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        request = ExpireDelegationTokenRequest(
            hmac=instance_of(hmac, bytes, "expire_delegation_token", "token.hmac"),
            expiry_time_period_ms=-1 if expiry_period_ms is None else expiry_period_ms,
        )
        deadline = self._calls.deadline(timeout)

        async def once() -> int:
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                raise failure(answer.error_code, None, "expire a delegation token")
            return answer.expiry_timestamp_ms

        return await self._calls.retry(once, deadline)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        wanted = None
        if owners is not None:
            named = [_principal(owner, "describe_delegation_tokens") for owner in names_of(owners)]
            wanted = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in named]
        deadline = self._calls.deadline(timeout)

        async def once() -> list[DelegationToken]:
            answer = await self._calls.ask_any(DescribeDelegationTokenRequest(owners=wanted), deadline)
            if answer.error_code:
                raise failure(answer.error_code, None, "describe the delegation tokens")
            return [_token(one) for one in answer.tokens]

        return await self._calls.retry(once, deadline)


def _principal(text: str, call: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise UsageError(f"{call}: {text!r} is no principal: give its type and name, as in 'User:ada'")
    return kind, name


def _token(one: DescribedDelegationToken) -> DelegationToken:
    owner = f"{one.principal_type}:{one.principal_name}"
    requester = f"{one.token_requester_principal_type}:{one.token_requester_principal_name}"
    return DelegationToken(
        one.token_id,
        owner,
        requester if one.token_requester_principal_name else owner,
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in one.renewers),
        one.issue_timestamp,
        one.expiry_timestamp,
        one.max_timestamp,
        bytes(one.hmac),
    )
