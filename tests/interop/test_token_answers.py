"""Requests about delegation tokens: our broker's answers are Apache Kafka's, and so is what Kafka's own tool says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kafkaraw import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    ResourcePattern,
    ResourceType,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkaraw.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkaraw.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing
from tests.interop.java_tools import run_tool
from tests.interop.raw_client import Closed, RawClient

PASSWORD = "opensesame-4711"
USERS = ("root", "ada", "bob", "eve")
MODULES = "org.apache.kafka.common.security"
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
HOUR_MS = 3_600_000
WAIT_S = 20.0
SETTINGS = {
    "delegation.token.secret.key": "for tests",
    "delegation.token.max.lifetime.ms": str(6 * HOUR_MS),
    "delegation.token.expiry.time.ms": str(2 * HOUR_MS),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:root;User:ANONYMOUS",
}
PERMISSIONS = [
    AclBinding(
        ResourcePattern(ResourceType.USER, "User:ada"), "User:bob", AclOperation.CREATE_TOKENS, AclPermissionType.ALLOW
    ),
    AclBinding(
        ResourcePattern(ResourceType.USER, "User:ada"),
        "User:carl",
        AclOperation.DESCRIBE_TOKENS,
        AclPermissionType.ALLOW,
    ),
]


def properties(ports: dict[str, int]) -> dict[str, str]:
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (*USERS, "carl"))
    addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    return SETTINGS | {
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(address for name, address in addresses.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.login.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[dict[str, str]]]:
    """The addresses of the listeners of Apache Kafka and of our broker."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    names = ("PLAINTEXT", "CONTROLLER", "LOGIN")
    of_kafka, of_ours = (dict(zip(names, free_ports(len(names)), strict=True)) for _ in range(2))
    del of_ours["CONTROLLER"]
    with ExitStack() as stack:
        stack.enter_context(
            ApacheKafka(properties=properties(of_kafka), ports=(of_kafka["PLAINTEXT"], of_kafka["CONTROLLER"]))
        )
        stack.enter_context(EmbeddedBroker(properties={"node.id": 1} | properties(of_ours)))
        both = [{name: f"127.0.0.1:{port}" for name, port in ports.items()} for ports in (of_kafka, of_ours)]
        for addresses in both:
            with Admin(bootstrap_servers=addresses["LOGIN"], **login("root")) as admin:
                admin.create_acls(PERMISSIONS)
                until(lambda admin=admin: len(admin.describe_acls()) == len(PERMISSIONS))
        yield both


def login(user: str) -> dict[str, str]:
    by = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    return by | {"sasl_username": user, "sasl_password": PASSWORD}


def until(is_so: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # another process: there is nothing to wait on


# -- requests ------------------------------------------------------------------------------------------------------


def create(*renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> CreateDelegationTokenRequest:
    named = [renewer.partition(":") for renewer in renewers]
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, _, name in named],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, _, request.owner_principal_name = owner.partition(":")
    return request


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    named = [owner.partition(":") for owner in owners]
    return DescribeDelegationTokenRequest(
        owners=[DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, _, name in named]
    )


EVERY_TOKEN = DescribeDelegationTokenRequest(owners=None)


@dataclass
class Conversation:
    """The same requests to one broker; tokens and times are compared by what they are relative to."""

    addresses: dict[str, str]
    answers: list[Any] = field(default_factory=list)
    tokens: dict[str, Any] = field(default_factory=dict)
    clients: dict[str, RawClient] = field(default_factory=dict)

    def client(self, user: str) -> RawClient:
        if user not in self.clients:
            by_password = user != "PLAINTEXT"
            address = self.addresses["LOGIN" if by_password else "PLAINTEXT"]
            self.clients[user] = RawClient(address, user if by_password else None, PASSWORD)
        return self.clients[user]

    def ask(self, user: str, request: Any, version: int) -> Any:
        answer = self.client(user).ask(request, version)
        self.answers.append((user, request, version, self.comparable(answer)))
        return answer

    def create(self, name: str, user: str, request: CreateDelegationTokenRequest, version: int = 3) -> None:
        answer = self.ask(user, request, version)
        self.tokens[name] = answer
        until(lambda: any(one.token_id == answer.token_id for one in self.client("root").ask(EVERY_TOKEN, 3).tokens))

    def renew(self, name: str, user: str, period_ms: int = -1, version: int = 2) -> None:
        token = self.tokens[name]
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms)
        answer = self.client(user).ask(request, version)
        self._expiry("renew", name, user, period_ms, answer)

    def expire(self, name: str, user: str, period_ms: int, version: int = 2) -> None:
        token = self.tokens[name]
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
        answer = self.client(user).ask(request, version)
        self._expiry("expire", name, user, period_ms, answer)

    def _expiry(self, act: str, name: str, user: str, period_ms: int, answer: Any) -> None:
        token = self.tokens[name]
        told = answer.expiry_timestamp_ms
        if told > 0:
            until(lambda: self._is_told(token.token_id, told, removed=act == "expire" and period_ms < 0))
            told = rounded(told - token.issue_timestamp_ms)
        self.answers.append((act, name, user, period_ms, answer.error_code, told))

    def _is_told(self, token_id: str, told: int, *, removed: bool) -> bool:
        found = [one for one in self.client("root").ask(EVERY_TOKEN, 3).tokens if one.token_id == token_id]
        return not found if removed else bool(found) and found[0].expiry_timestamp == told

    def comparable(self, answer: Any) -> Any:
        if hasattr(answer, "tokens"):
            return answer.error_code, sorted(self._token(one) for one in answer.tokens)
        if hasattr(answer, "token_id"):
            times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
            if answer.error_code == 0:
                times = (0, rounded(times[1] - times[0]), rounded(times[2] - times[0]))
            principals = (answer.principal_type, answer.principal_name)
            requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
            return answer.error_code, principals, requester, times, len(answer.token_id), len(answer.hmac)
        return answer.error_code, answer.expiry_timestamp_ms

    def _token(self, one: Any) -> Any:
        name = next((name for name, known in self.tokens.items() if known.token_id == one.token_id), None)
        renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in one.renewers]
        owner = f"{one.principal_type}:{one.principal_name}"
        requester = f"{one.token_requester_principal_type}:{one.token_requester_principal_name}"
        lasts = (rounded(one.expiry_timestamp - one.issue_timestamp), rounded(one.max_timestamp - one.issue_timestamp))
        return name or "", owner, requester, renewers, lasts, len(one.hmac)


def rounded(time_ms: int) -> float:
    """Hours, since the two brokers are not asked at the same moment."""
    return round(time_ms / HOUR_MS, 1)


def talk(conversation: Conversation) -> None:
    """Create, renew, describe and expire tokens: as owner, requester, renewer and others, with good and bad values."""
    ask = conversation.ask
    for version in (1, 2, 3):
        ask("PLAINTEXT", create(), version)
        ask("PLAINTEXT", EVERY_TOKEN, version)
        ask("ada", describe(), version)
        ask("ada", create("Group:bob"), version)
    for version in (1, 2):
        ask("PLAINTEXT", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version)
        ask("PLAINTEXT", ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), version)
        ask("ada", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version)
        ask("ada", ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1), version)
    conversation.create("own", "ada", create("User:bob", "User:bob", "User:eve"))
    conversation.create("old", "ada", create(lifetime_ms=0), 1)
    conversation.create("short", "ada", create(lifetime_ms=HOUR_MS), 2)
    conversation.create("long", "ada", create(lifetime_ms=1 << 62))
    conversation.create("of ada", "bob", create(owner="User:ada"))
    conversation.create("of another type", "root", create(owner="Group:team"))
    ask("eve", create(owner="User:ada"), 3)
    ask("eve", create("Group:x", owner="User:ada"), 3)
    ask("bob", create(owner="User:eve"), 3)
    conversation.create("of oneself", "eve", create(owner="User:eve"))
    for user in (*USERS, "carl"):
        ask(user, EVERY_TOKEN, 3)
        ask(user, describe("User:ada"), 2)
        ask(user, describe("User:bob", "User:nobody"), 1)
        ask(user, describe("Group:team"), 3)
    for user, period_ms in (("ada", -1), ("bob", 0), ("eve", HOUR_MS), ("carl", -1), ("ada", 9 * HOUR_MS)):
        conversation.renew("own", user, period_ms)
    conversation.renew("short", "ada", 2 * HOUR_MS, 1)
    conversation.renew("of ada", "bob")  # the requester is not a renewer
    conversation.renew("of ada", "ada")
    for user, period_ms in (("carl", -1), ("carl", HOUR_MS), ("eve", HOUR_MS), ("ada", 99 * HOUR_MS), ("bob", -9)):
        conversation.expire("own", user, period_ms)
    conversation.renew("own", "ada")
    conversation.expire("short", "ada", 1 << 62, 1)
    conversation.expire("old", "ada", 0)
    time.sleep(0.01)  # it expires by the clock
    conversation.renew("old", "ada")
    conversation.expire("old", "ada", HOUR_MS)
    ask("ada", EVERY_TOKEN, 3)  # expired, and not removed yet
    conversation.answers += log_in_by_tokens(conversation)
    conversation.expire("old", "ada", -1)
    ask("ada", EVERY_TOKEN, 3)


def log_in_by_tokens(conversation: Conversation) -> list[object]:
    """Log in by tokens, and ask for what such a login may not have."""
    said: list[object] = []
    for name in ("of ada", "of another type", "old", "own"):
        token = conversation.tokens[name]
        client = RawClient(conversation.addresses["LOGIN"])
        said.append((name, _log_in(client, token.token_id, token.hmac)))
        try:
            answer = client.ask(create(), 3)
            said.append((answer.error_code, answer.principal_type, answer.principal_name))
            for request, version in (
                (EVERY_TOKEN, 3),
                (RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1), 2),
                (ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2),
            ):
                said.append(conversation.comparable(client.ask(request, version)))
            said.append(type(client.ask(MetadataRequest(topics=[]), 12)).__name__)
        except Closed:
            said.append("closed")
        client.close()
    return said


def _log_in(client: RawClient, token_id: str, hmac: bytes) -> tuple[int, str | None, float]:
    from base64 import b64encode

    client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    scram = ScramClient("SCRAM-SHA-256", token_id, b64encode(hmac).decode(), "nonce", token=True)
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=scram.step(None)), 2)
    if answer.error_code == 0:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=scram.step(bytes(answer.auth_bytes))), 2)
    return answer.error_code, answer.error_message or None, rounded(answer.session_lifetime_ms)


@pytest.mark.timeout(300)
def test_answers_about_tokens_are_those_of_apache_kafka(brokers: list[dict[str, str]]) -> None:
    of_kafka, of_ours = (Conversation(addresses) for addresses in brokers)
    for conversation in (of_kafka, of_ours):
        talk(conversation)
        for client in conversation.clients.values():
            client.close()
    differing = [
        f"Kafka: {theirs}\nours:  {ours}"
        for theirs, ours in zip(of_kafka.answers, of_ours.answers, strict=True)
        if theirs != ours
    ]
    assert not differing, "\n".join(differing)


COMMANDS = {
    "create": ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
    "create for another": ("--create", "--max-life-time-period", "-1", "--owner-principal", "User:eve"),
    "renew": ("--renew", "--renew-time-period", "-1", "--hmac", "HMAC"),
    "renew what is no token": ("--renew", "--renew-time-period", "-1", "--hmac", "aGVsbG8="),
    "describe": ("--describe", "--owner-principal", "User:ada"),
    "expire": ("--expire", "--expiry-time-period", "-1", "--hmac", "HMAC"),
    "expire again": ("--expire", "--expiry-time-period", "-1", "--hmac", "HMAC"),
}


Run: TypeAlias = "tuple[bool, object]"
"""Whether a command of Kafka's tool succeeded, and its text without ids, times and traces."""


def tool_runs(address: str, config: Path, expected: dict[str, Run] | None = None) -> dict[str, Run]:
    """Return what Kafka's tool answers to each command.

    Args:
        address: of the broker.
        config: the tool's properties.
        expected: each command but the first is repeated until it has this result, for `WAIT_S`: Apache Kafka learns
            of a change after it has answered the request for it.
    """
    runs: dict[str, Run] = {}
    hmac = ""
    for name, command in COMMANDS.items():
        arguments = [hmac if argument == "HMAC" else argument for argument in command]
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                text = run_tool(TOOL, "--bootstrap-server", address, "--command-config", str(config), *arguments)
            except AssertionError as error:
                runs[name] = (False, failure_in(str(error)))
            else:
                runs[name] = (True, words_of(text))
            repeated = expected is not None and name != "create" and runs[name] != expected[name]
            if not repeated or time.monotonic() > deadline:
                break
        if name == "create":
            hmac = re.findall(r"\S{80,}", text)[0]
    return runs


def words_of(text: str) -> list[str]:
    """Return the lines without ids, times and HMACs; tokens are in no order."""
    return sorted(re.sub(r"\S*\d\S*|\S{20,}", "", text).splitlines())


def failure_in(text: str) -> str:
    """Return the class of the error that the tool ended with."""
    return " ".join(dict.fromkeys(re.findall(r"\w+Exception", text)))


@pytest.mark.timeout(300)
def test_kafka_delegation_tokens_says_the_same_as_at_apache_kafka(
    brokers: list[dict[str, str]], tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    module = f'{MODULES}.plain.PlainLoginModule required username="ada" password="{PASSWORD}";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n")
    of_kafka, of_ours = (addresses["LOGIN"] for addresses in brokers)
    ours = tool_runs(of_ours, config)
    assert ours == tool_runs(of_kafka, config, ours)
    assert [succeeds for succeeds, _ in ours.values()] == [True, False, True, False, True, True, False]
