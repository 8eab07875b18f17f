"""CVE-2025-27817: token addresses in a configuration read local files and internal hosts elsewhere."""

from __future__ import annotations

import pytest

from kafkaraw import Admin
from kafkaraw.client.credentials.oidc import url_fault
from kafkaraw.errors import ConfigError


@pytest.mark.parametrize(
    "url", ["https://idp.example/token", "http://localhost:8080/token", "http://127.0.0.1/t", "http://[::1]:81/t"]
)
def test_https_and_this_machine_by_name_are_taken(url: str):
    assert url_fault(url, ()) == ""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "must begin with https"),
        ("ftp://idp.example/token", "must begin with https"),
        ("/token", "must begin with https"),
        ("https:///token", "name a host"),
        ("https://[::1/token", "no URL"),
        ("https://idp.example:99999/token", "no URL"),
        ("http://idp.example/token", "in the clear"),
        ("http://169.254.169.254/latest", "in the clear"),
        ("http://localhost.example/token", "in the clear"),
        ("http://127.0.0.1@idp.example/token", "ends up in logs"),
        ("https://me:secret@idp.example/token", "ends up in logs"),
    ],
)
def test_cve_2025_27817_anything_else_is_refused(url: str, words: str):
    assert words in url_fault(url, ())


def test_with_an_allow_list_only_what_it_has_is_taken():
    allowed = ("https://idp.example/token", "http://idp.internal/token")
    assert [url_fault(url, allowed) for url in allowed] == ["", ""]
    for url in ("https://idp.example/token2", "https://IDP.example/token", "http://localhost/token"):
        assert "allowed_urls" in url_fault(url, allowed)
    assert "must begin with https" in url_fault("file:///etc/passwd", ("file:///etc/passwd",))


def test_a_client_checks_the_address_when_it_is_made():
    settings = {
        "bootstrap_servers": "127.0.0.1:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_client_id": "me",
        "sasl_oauthbearer_client_secret": "s3cret",
    }
    url = "sasl_oauthbearer_token_endpoint_url"
    with pytest.raises(ConfigError, match=f"{url}: it must begin with https"):
        Admin(**settings, **{url: "file:///etc/passwd"})
    with pytest.raises(ConfigError, match="allowed_urls"):
        Admin(
            **settings,
            **{url: "https://idp.example/t"},
            sasl_oauthbearer_allowed_urls="https://idp.example/a, https://idp.example/b",
        )
    with pytest.raises(ConfigError, match="give one of them"):
        Admin(**settings, **{url: "https://idp.example/t"}, sasl_oauth_token_provider=lambda: "x")
    with pytest.raises(ConfigError, match="sasl_oauthbearer_client_secret"):
        Admin(**settings | {"sasl_oauthbearer_client_secret": ""}, **{url: "https://idp.example/t"})
