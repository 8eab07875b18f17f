"""`sasl.jaas.config` is parsed and never executed (CVE-2023-25194)."""

from __future__ import annotations

import pytest

from kafkaraw.client.jaas import settings_of_jaas
from kafkaraw.errors import ConfigError

MODULES = "org.apache.kafka.common.security"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            f'{MODULES}.plain.PlainLoginModule required username="ada" password="a;b=\\"c\\\\";',
            {"sasl_username": "ada", "sasl_password": 'a;b="c\\'},
        ),
        (
            f"{MODULES}.scram.ScramLoginModule REQUIRED\n  username='ada'\n  password=plain\n;",
            {"sasl_username": "ada", "sasl_password": "plain"},
        ),
        (
            'ScramLoginModule required username="id" password="hmac" tokenauth="true";',
            {"sasl_username": "id", "sasl_password": "hmac", "sasl_token_auth": "true"},
        ),
        (
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="a b" ;',
            {
                "sasl_oauthbearer_client_id": "me",
                "sasl_oauthbearer_client_secret": "s",
                "sasl_oauthbearer_scope": "a b",
            },
        ),
        (f"{MODULES}.oauthbearer.OAuthBearerLoginModule required ;", {}),
        (
            'OAuthBearerLoginModule required extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";',
            {"sasl_oauthbearer_extensions": "logicalCluster=lkc-1,identityPoolId=pool-2"},
        ),
        (
            'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true serviceName="kafka";',
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"},
        ),
        ("software.amazon.msk.auth.iam.IAMLoginModule required;", {"sasl_mechanism": "AWS_MSK_IAM"}),
    ],
)
def test_the_known_modules_become_settings(text: str, settings: dict[str, str]):
    assert settings_of_jaas(text, "") == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";', "JndiLoginModule"),
        ('PlainLoginModule required username="ada" password="s3cret"', "not of the form"),
        ('OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="s3cret";', "token.endpoint.url"),
        ('OAuthBearerLoginModule required clientId="a" extension_x="s3cret,y";', "extension"),
        ('IAMLoginModule required awsProfileName="s3cret";', "AWS_PROFILE"),
    ],
)
def test_cve_2023_25194_anything_else_is_refused_and_shows_no_secret(text: str, words: str):
    with pytest.raises(ConfigError, match=words) as refused:
        settings_of_jaas(text, "")
    assert "s3cret" not in str(refused.value)
