"""Logins by password: nonces that nobody can guess, and hashing that does not hold up the client's loop."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading

import pytest

from kafkaraw import Admin, AsyncAdmin, ScramPassword
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.credentials.choice import credentials_for
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.sasl.scram import ITERATIONS_AT_ONCE_MAX
from kafkaraw.errors import AuthenticationError
from kafkaraw.net import AsyncioNetwork, SystemClock
from kafkaraw.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

MECHANISM = "SCRAM-SHA-512"
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": MECHANISM}
ADA = {"sasl_username": "ada", "sasl_password": "opensesame"}
ROOT = {"sasl_username": "root", "sasl_password": "s3cret"}


def first_message(rng: random.Random) -> bytes:
    runtime = Runtime(AsyncioNetwork(), SystemClock(), rng)
    config = parse(AdminConfig, {"bootstrap_servers": "b:9092", **LOGIN, **ADA})
    credentials = credentials_for(config, Engine.on(config, runtime).runtime)
    assert credentials is not None
    return asyncio.run(credentials.mechanism("b", 1)).step(None)


def test_scram_nonces_do_not_come_from_the_random_source_that_callers_choose() -> None:
    messages = {first_message(random.Random(1)) for _ in range(20)}
    assert len(messages) == 20
    assert all(len(message.partition(b",r=")[2]) == 48 for message in messages)


def test_scram_salts_do_not_come_from_it_either() -> None:
    """Else two users with one password could be seen to have the same one."""

    async def test(cluster: VirtualCluster) -> None:
        runtime = Runtime(cluster.network, cluster.simulation.clock, random.Random(1), lambda count: b"\x07" * count)
        async with AsyncAdmin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            await admin.alter_user_scram_credentials([ScramPassword("ada", MECHANISM, "opensesame")])
        (request,) = [each for each in cluster.requests() if isinstance(each, AlterUserScramCredentialsRequest)]
        assert [bytes(each.salt) for each in request.upsertions] == [b"\x07" * 24]

    on_cluster(test)


class Hashing:
    """Remembers on which threads passwords were hashed, and how often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, str]] = []
        hashed = hashlib.pbkdf2_hmac

        def remembered(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
            self.calls.append((iterations, threading.current_thread().name))
            return hashed(digest, password, salt, iterations)

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", remembered)


def secured_broker() -> EmbeddedBroker:
    properties = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": MECHANISM}
    return EmbeddedBroker(properties=properties, users={"root": "s3cret"})


def test_passwords_with_many_iterations_are_hashed_off_the_clients_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    many = ITERATIONS_AT_ONCE_MAX + 1
    with secured_broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers, **LOGIN, **ROOT) as admin:
            admin.alter_user_scram_credentials([ScramPassword("ada", MECHANISM, "opensesame", iterations=many)])
        hashing = Hashing(monkeypatch)
        with Admin(bootstrap_servers=broker.bootstrap_servers, **LOGIN, **ADA) as admin:
            assert admin.list_topics() is not None
        assert hashing.calls, "nobody has logged in"
        assert set(hashing.calls) == {(many, "kafkaraw-login")}
        with (
            pytest.raises(AuthenticationError, match="invalid credentials"),
            Admin(bootstrap_servers=broker.bootstrap_servers, **LOGIN, **ADA | {"sasl_password": "wrong"}) as admin,
        ):
            admin.list_topics()


def test_a_hash_that_fails_on_its_thread_ends_the_login_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with secured_broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers, **LOGIN, **ROOT) as admin:
            admin.alter_user_scram_credentials([ScramPassword("ada", MECHANISM, "opensesame", iterations=10_000)])

        def forbidden(*_: object) -> bytes:
            raise ValueError("unsupported hash type")

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", forbidden)
        with (
            pytest.raises(AuthenticationError, match=r"the login cannot be computed: .*unsupported hash type"),
            Admin(bootstrap_servers=broker.bootstrap_servers, **LOGIN, **ADA) as admin,
        ):
            admin.list_topics()
