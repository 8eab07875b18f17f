"""AWS MSK with IAM against a stand-in for Amazon's signer."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import AuthenticationError, ConfigError

PROPERTIES = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.unsecured.enable": "true",
}


def settings(region: str | None = "eu-central-1") -> dict[str, object]:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM"}
    return login | ({"sasl_aws_msk_region": region} if region else {})


@pytest.fixture
def signed_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    regions: list[str] = []

    def generate_auth_token(region: str) -> tuple[str, int]:
        if region == "nowhere":
            raise LookupError("Unable to locate credentials")
        regions.append(region)
        return unsecured_token("ada", time.time()), int(time.time() * 1000) + 900_000

    package = ModuleType("aws_msk_iam_sasl_signer")
    package.MSKAuthTokenProvider = SimpleNamespace(generate_auth_token=generate_auth_token)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", package)
    return regions


def test_the_signers_token_goes_out_by_oauthbearer_and_is_made_once(signed_for: list[str]):
    with (
        EmbeddedBroker(properties=PROPERTIES) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, **settings()) as admin,
    ):
        admin.list_topics()
        admin.list_topics()
    assert signed_for == ["eu-central-1"]


def test_a_signer_without_credentials_is_an_authentication_error(signed_for: list[str]):
    with (
        EmbeddedBroker(properties=PROPERTIES) as broker,
        pytest.raises(AuthenticationError, match="no token for MSK in 'nowhere': LookupError: Unable to locate"),
    ):
        Admin(bootstrap_servers=broker.bootstrap_servers, **settings("nowhere")).list_topics()


def test_the_region_is_asked_for():
    with pytest.raises(ConfigError, match="needs sasl_aws_msk_region"):
        Admin(bootstrap_servers="127.0.0.1:1", **settings(None))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafkaraw\[msk\]'"):
        Admin(bootstrap_servers="127.0.0.1:1", **settings())
