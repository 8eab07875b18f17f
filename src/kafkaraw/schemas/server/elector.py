"""Membership in the group that elects the primary: joins, sends heartbeats, and knows which instance writes.

An instance takes itself for the primary only while the coordinator must still count it as a member: once no heartbeat
was answered for the session timeout, it stops writing by itself, because another one may have been elected. While the
group rebalances, writes wait for the result. Start at `Elector.start` and `Elector._run`.
Source: Confluent's KafkaGroupLeaderElector and SchemaRegistryCoordinator; Kafka's AbstractCoordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.client.config import ClientConfig, parse
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest
from kafkaraw.protocol.messages.leave_group import MemberIdentity as LeavingMember
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkaraw.schemas.server.election import PROTOCOL_NAME, PROTOCOL_TYPE, Choice, Identity, choose_primary
from kafkaraw.schemas.server.service import Leadership

log: logging.Logger = logging.getLogger(__name__)

DEFAULT_GROUP: Final = "schema-registry"
_LAPSE_S: Final = 5.0
"""Added to the rebalance timeout when a JoinGroup response is awaited, as Java's JOIN_GROUP_TIMEOUT_LAPSE."""
_RETRY_S: Final = 0.5
_CHECK_S: Final = 0.05
_MISCONFIGURED_S: Final = 5.0
"""Until a member joins again that found another one with the same URL, in seconds."""
_LEAVE_S: Final = 3.0
_LEAVE_GROUP_KEY, _BATCH_LEAVE_SINCE_VERSION = 13, 3
_LOST_MEMBERSHIP: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """How instances elect the primary.

    Attributes:
        group: the group's name.
        session_timeout_ms: after so long without a heartbeat another instance becomes the primary.
        heartbeat_interval_ms: time between two heartbeats.
        rebalance_timeout_ms: how long instances may take to join again.
        start_timeout_s: how long the first election may take, in seconds.
        wait_s: how long a write waits for the end of an election, or for another primary in place of one that cannot
            be reached, in seconds; more than the session timeout.
    """

    group: str = DEFAULT_GROUP
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    start_timeout_s: float = 60.0
    wait_s: float = 15.0


class Elector(Leadership):
    """One instance's membership in the group.

    Args:
        identity: this instance, as the others reach it.
        client: settings of the Kafka client.
        settings: how instances elect the primary.
        on_primary: called when this instance becomes the primary, before it writes.
    """

    def __init__(
        self,
        identity: Identity,
        client: Mapping[str, object],
        settings: ElectionSettings,
        on_primary: Callable[[], None],
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._on_primary = on_primary
        known = ClientConfig.__dataclass_fields__
        self._engine = Engine(parse(ClientConfig, {name: value for name, value in client.items() if name in known}))
        self._coordinator = Coordinator(self._engine, CoordinatorKind.GROUP, settings.group)
        self._member_id = ""
        self._generation = -1
        self._has_joined = False
        self._choice: Choice | None = None
        self._confirmed_at = 0.0
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None

    # -- what the service asks

    @property
    def is_primary(self) -> bool:
        """Whether this instance was elected, and the coordinator must still count it as a member."""
        chosen = self._choice
        if chosen is None or chosen.primary is None or chosen.primary.url != self._identity.url:
            return False
        silent_s = asyncio.get_running_loop().time() - self._confirmed_at
        return silent_s * 1000 < self._settings.session_timeout_ms

    @property
    def primary_url(self) -> str | None:
        """The URL of the elected instance, if it is another one."""
        chosen = self._choice
        if chosen is None or chosen.primary is None or chosen.primary.url == self._identity.url:
            return None
        return chosen.primary.url

    async def settle(self) -> None:
        """Wait while the group elects, up to `wait_s`."""
        if not self._settled.is_set():
            try:
                await asyncio.wait_for(self._settled.wait(), self._settings.wait_s)
            except TimeoutError:
                log.warning("no primary is elected within %g s", self._settings.wait_s)

    async def has_replaced(self, url: str) -> bool:
        """Wait until another instance than the one of this URL is the primary, up to `wait_s`."""
        end = asyncio.get_running_loop().time() + self._settings.wait_s
        while not self.is_primary and self.primary_url in (None, url):
            if asyncio.get_running_loop().time() >= end:
                return False
            await asyncio.sleep(_CHECK_S)
        return True

    # -- life

    async def start(self) -> None:
        """Join the group, and wait for the first election.

        Raises:
            ConfigError: another instance has the same URL.
            KafkaError: the group cannot be joined within `start_timeout_s`.
        """
        self._task = asyncio.create_task(self._run(), name="registry elector")
        settled = asyncio.ensure_future(self._settled.wait())
        try:
            await asyncio.wait(
                [self._task, settled], timeout=self._settings.start_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            settled.cancel()
        if self._task.done():
            self._task.result()
        if not self._settled.is_set():
            last = "no answer yet" if self._error is None else str(self._error)
            limit = f"{self._settings.start_timeout_s:g} s"
            raise KafkaTimeoutError(f"the group {self._settings.group!r} was not joined within {limit}: {last}")

    async def close(self) -> None:
        """Leave the group, so that another instance becomes the primary at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._choice = None
        if self._member_id:
            try:
                await self._coordinator.once(self._leave_request, timeout=_LEAVE_S)
            except KafkaError as error:
                log.info("leaving the group %r: %s", self._settings.group, error)
        await self._engine.close(_LEAVE_S)

    def _leave_request(self, connection: Connection) -> LeaveGroupRequest:
        group, member_id = self._settings.group, self._member_id
        if connection.version_for(_LEAVE_GROUP_KEY) >= _BATCH_LEAVE_SINCE_VERSION:
            return LeaveGroupRequest(group_id=group, members=[LeavingMember(member_id=member_id)])
        return LeaveGroupRequest(group_id=group, member_id=member_id)

    # -- the group

    async def _run(self) -> None:
        reported = False
        while True:
            try:
                await self._join()
                reported, self._error = False, None
                await self._stay()
            except ConfigError as error:
                if not self._has_joined:
                    raise
                log.error("this instance cannot become the primary, nor send writes on: %s", error)
                await asyncio.sleep(_MISCONFIGURED_S)
            except KafkaError as error:
                (log.info if reported else log.warning)("electing the primary in %r: %s", self._settings.group, error)
                reported, self._error = True, error
                await asyncio.sleep(_RETRY_S)
            self._settled.clear()

    async def _join(self) -> None:
        """Join the group and learn the primary.

        Raises:
            KafkaError: try again.
            ConfigError: two instances have the same URL.
        """
        settings = self._settings
        rebalance_s = settings.rebalance_timeout_ms / 1000
        joined = await self._coordinator.once(
            JoinGroupRequest(
                group_id=settings.group,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=self._identity.encode())],
            ),
            timeout=rebalance_s + _LAPSE_S,
            find_s=rebalance_s,
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return await self._join()
        self._check(joined.error_code)
        self._choice = None  # another instance may be elected and write before this one hears of it
        self._member_id, self._generation = joined.member_id, joined.generation_id
        asked_at = asyncio.get_running_loop().time()
        synced = await self._coordinator.once(
            SyncGroupRequest(
                group_id=settings.group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL_NAME,
                assignments=self._assignments(joined),
            ),
            timeout=rebalance_s + _LAPSE_S,
        )
        self._check(synced.error_code)
        self._take(synced.assignment, asked_at)

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.leader != joined.member_id:
            return []
        identities = {}
        for member in joined.members:
            try:
                identities[member.member_id] = Identity.decode(member.metadata)
            except ValueError as error:
                log.warning("member %s of %r is ignored: %s", member.member_id, self._settings.group, error)
        choice = choose_primary(identities).encode()
        return [SyncGroupRequestAssignment(member_id=it.member_id, assignment=choice) for it in joined.members]

    def _take(self, assignment: bytes, asked_at: float) -> None:
        try:
            choice = Choice.decode(assignment)
        except ValueError as error:
            raise KafkaError(f"the result of the election cannot be read: {error}") from error
        if choice.duplicate_urls:
            raise ConfigError(
                f"another instance of the group {self._settings.group!r} has the URL {self._identity.url}, too, or two "
                "others share one; give each instance a host and a port at which the others reach it"
            )
        # The session began anew with this request at the latest.
        self._confirmed_at = asked_at
        is_elected = choice.primary is not None and choice.primary.url == self._identity.url
        if is_elected:
            self._on_primary()
        self._choice = choice
        self._has_joined = True
        self._settled.set()
        what = "this instance" if is_elected else "none" if choice.primary is None else choice.primary.url
        log.info("primary of %r: %s", self._settings.group, what)

    async def _stay(self) -> None:
        """Send heartbeats until the group rebalances.

        Raises:
            KafkaError: the membership is lost.
        """
        settings = self._settings
        while True:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            sent_at = asyncio.get_running_loop().time()
            try:
                answer = await self._coordinator.once(
                    HeartbeatRequest(
                        group_id=settings.group, generation_id=self._generation, member_id=self._member_id
                    ),
                    timeout=settings.session_timeout_ms / 1000,
                )
            except KafkaError as error:
                log.info("heartbeat to %r: %s", settings.group, error)
                if (sent_at - self._confirmed_at) * 1000 > settings.session_timeout_ms:
                    raise
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if answer.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                continue
            self._check(answer.error_code)
            self._confirmed_at = sent_at

    def _check(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code in _LOST_MEMBERSHIP:
            self._choice, self._generation = None, -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
        raise error_for(code, f"group {self._settings.group!r}", resource=self._settings.group, operation="READ")
