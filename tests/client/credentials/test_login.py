"""Logins of a client on virtual time: when they are made, renewed, refused and given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.client.admin import AsyncAdmin
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import AuthenticationError, ClosedError, KafkaError, NetworkError
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

OAUTH = {"sasl_enabled_mechanisms": "OAUTHBEARER", "sasl_oauthbearer_unsecured_enable": "true"}


class Tokens:
    """A token endpoint as a function: each call takes `seconds` and gives a token that lives for `lifetime_s`."""

    def __init__(self, cluster: VirtualCluster, lifetime_s: float = 3600) -> None:
        self.cluster = cluster
        self.lifetime_s = lifetime_s
        self.seconds = 0.0
        self.given: list[float] = []
        self.subject = "ada"

    async def __call__(self) -> str:
        await asyncio.sleep(self.seconds)
        self.given.append(self.cluster.now)
        return unsecured_token(self.subject, self.cluster.simulation.clock.time_ms() / 1000, self.lifetime_s)


def admin_of(cluster: VirtualCluster, tokens: Callable[[], Awaitable[str]], **settings: object) -> AsyncAdmin:
    return AsyncAdmin(
        bootstrap_servers=BOOTSTRAP,
        runtime=cluster.runtime,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=tokens,
        **settings,
    )


def with_logins(test: Callable[[VirtualCluster], Awaitable[None]], **properties: object) -> None:
    on_cluster(test, listeners=f"SASL_PLAINTEXT://{BOOTSTRAP}", **OAUTH, **properties)


def handshakes(cluster: VirtualCluster) -> int:
    return sum(sent.by == "client" and sent.data[4:6] == b"\0\x11" for sent in cluster.network.history)


def connections(cluster: VirtualCluster) -> int:
    return sum(sent.by == "client" and sent.data[4:6] == b"\0\x12" for sent in cluster.network.history)


def test_a_login_is_renewed_in_place_for_as_long_as_the_client_lives() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster)
        async with admin_of(cluster, tokens) as admin:
            for _ in range(60):
                await admin.list_topics()
                await asyncio.sleep(1)
            metrics = admin.metrics()
        assert connections(cluster) == 1
        assert handshakes(cluster) == len(tokens.given) >= 6
        gaps = [after - before for before, after in zip(tokens.given, tokens.given[1:], strict=False)]
        assert all(8.5 <= gap <= 10.5 for gap in gaps)
        assert all(node["requests_failed"] == 0 for node in metrics.values())

    with_logins(test, connections_max_reauth_ms=10_000)


def test_a_tokens_own_end_bounds_the_login() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster, lifetime_s=30)
        async with admin_of(cluster, tokens) as admin:
            for _ in range(100):
                await admin.list_topics()
                await asyncio.sleep(1)
        assert connections(cluster) == 1
        assert len(tokens.given) == 4

    with_logins(test)


def test_requests_wait_while_a_token_is_fetched() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster)
        async with admin_of(cluster, tokens) as admin:
            await admin.list_topics()
            await asyncio.sleep(20)
            tokens.seconds, began = 3, cluster.now
            await asyncio.gather(*(admin.list_topics() for _ in range(10)))
            assert cluster.now - began == pytest.approx(3, abs=0.2)
        assert len(tokens.given) == 2

    with_logins(test, connections_max_reauth_ms=10_000)


def test_a_refused_renewal_is_one_authentication_error_and_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster)
        async with admin_of(cluster, tokens) as admin:
            await admin.list_topics()
            await asyncio.sleep(20)
            tokens.subject = "eve"
            with caplog.at_level(logging.DEBUG), pytest.raises(AuthenticationError, match="re-authentication failed"):
                await admin.list_topics()
            assert caplog.text.count("state to FAILED") == 1
            assert connections(cluster) == 1
            await admin.list_topics()  # as somebody else, on a new connection
        assert connections(cluster) == 2

    with_logins(test, connections_max_reauth_ms=10_000)


def test_an_expired_token_is_refused_once() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster, lifetime_s=-5)
        async with admin_of(cluster, tokens) as admin:
            with pytest.raises(AuthenticationError, match="has expired"):
                await admin.list_topics()
        assert len(tokens.given) == 1

    with_logins(test)


def test_a_token_that_does_not_come_fails_within_the_time_for_connecting() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster)
        tokens.seconds = 1000
        async with admin_of(cluster, tokens, socket_connection_setup_timeout_ms=2000) as admin:
            with pytest.raises(
                NetworkError, match=r"credentials \(token or ticket\) for .* were not available within 2 s"
            ):
                await admin.list_topics(timeout=60)
            assert cluster.now == pytest.approx(2, abs=0.1)
        assert handshakes(cluster) == 0

    with_logins(test)


def test_closing_in_the_middle_of_a_renewal_ends_the_call_at_once() -> None:
    for moment in (0.0005, 0.001, 0.002, 0.5, 1.0, 1.001, 1.002, 1.003):

        async def test(cluster: VirtualCluster, moment: float = moment) -> None:
            tokens = Tokens(cluster)
            admin = admin_of(cluster, tokens)
            await admin.list_topics()
            await asyncio.sleep(20)
            tokens.seconds = 1
            call = asyncio.ensure_future(admin.list_topics())
            await asyncio.sleep(moment)
            await admin.close()
            closed_at = cluster.now
            with pytest.raises(ClosedError):
                await call
            assert cluster.now == closed_at
            await asyncio.sleep(5)
            assert len(asyncio.all_tasks()) == 1

        with_logins(test, connections_max_reauth_ms=10_000)


def test_a_link_cut_in_a_renewal_is_dialled_again() -> None:
    async def test(cluster: VirtualCluster) -> None:
        tokens = Tokens(cluster)
        async with admin_of(cluster, tokens) as admin:
            await admin.list_topics()
            await asyncio.sleep(20)
            tokens.seconds = 1
            call = asyncio.ensure_future(admin.list_topics())
            await asyncio.sleep(0.5)
            cluster.cut()
            await call
        assert connections(cluster) == 2

    with_logins(test, connections_max_reauth_ms=10_000)


def test_a_broker_of_kafka_0_11_takes_tokens_without_headers() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with admin_of(cluster, Tokens(cluster)) as admin:
            assert await admin.list_topics() == []
        assert handshakes(cluster) == 1

    with_logins(test, max_versions="0.11")


def test_a_broker_of_kafka_0_11_refuses_by_closing_the_connection() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with admin_of(cluster, Tokens(cluster, lifetime_s=-5)) as admin:
            with pytest.raises(KafkaError, match="brokers before Kafka") as refused:
                await admin.list_topics()
        assert isinstance(refused.value, AuthenticationError)
        assert handshakes(cluster) == 1

    with_logins(test, max_versions="0.11")
