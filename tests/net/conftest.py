"""Networks to test on: plain TCP, and TLS with a certificate made for the occasion."""

from __future__ import annotations

import ssl

import pytest
import trustme

from kafkaraw.net import AsyncioNetwork


@pytest.fixture(scope="module")
def tls_network() -> AsyncioNetwork:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return AsyncioNetwork(dial_tls=client, listen_tls=server)


@pytest.fixture(params=["plain", "tls"])
def network(request: pytest.FixtureRequest, tls_network: AsyncioNetwork) -> AsyncioNetwork:
    return AsyncioNetwork() if request.param == "plain" else tls_network
