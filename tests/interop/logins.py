"""Every way to log in, in the settings of every client: tables for `test_security`. Nothing here talks to anybody."""

from __future__ import annotations

import base64
import json
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from kafkaraw.core.sasl.jaas import MODULE_OF_MECHANISM

USER, PASSWORD = "ada", "opensesame-4711"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True)
class Way:
    """One way to be let in.

    Attributes:
        listener: the broker's listener for it.
        mechanism: how to log in; "" for not at all.
        tls: whether inside TLS.
        mutual: whether with a certificate of the client's own.
    """

    listener: str
    mechanism: str = ""
    tls: bool = False
    mutual: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, [self.mechanism, "mTLS" if self.mutual else "TLS" if self.tls else ""]))

    @property
    def protocol(self) -> str:
        """As in security.protocol."""
        return {
            (True, True): "SASL_SSL",
            (True, False): "SASL_PLAINTEXT",
            (False, True): "SSL",
            (False, False): "PLAINTEXT",
        }[bool(self.mechanism), self.tls]


WAYS = [
    *(Way("LOGIN", mechanism) for mechanism in MECHANISMS),
    Way("TLS", tls=True),
    Way("MUTUAL", tls=True, mutual=True),
    Way("BOTH", "SCRAM-SHA-512", tls=True),
]
LISTENER_PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,MUTUAL:SSL,BOTH:SASL_SSL"


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def as_pkcs8(key: trustme.Blob) -> str:
    """The form of private key that Java reads."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return serialization.load_pem_private_key(key.bytes(), None).private_bytes(*form).decode()


def unsecured_token() -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 5, "exp": now + 600})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


@dataclass(frozen=True)
class Keys:
    """The files of a client: `ca.pem`, `cert.pem`, `key.pem` in a folder."""

    folder: Path

    @classmethod
    def issued_by(cls, authority: trustme.CA, folder: Path) -> Keys:
        mine = authority.issue_cert("client@example.org")
        (folder / "ca.pem").write_text(pem(authority.cert_pem))
        (folder / "cert.pem").write_text(pem(*mine.cert_chain_pems))
        (folder / "key.pem").write_text(as_pkcs8(mine.private_key_pem))
        return cls(folder)

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def text(self, name: str) -> str:
        return (self.folder / f"{name}.pem").read_text()


def ours(way: Way, keys: Keys, password: str = PASSWORD) -> dict[str, object]:
    settings: dict[str, object] = {"security_protocol": way.protocol}
    if way.mechanism:
        settings["sasl_mechanism"] = way.mechanism
        if way.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = unsecured_token
        else:
            settings |= {"sasl_username": USER, "sasl_password": password}
    if way.tls:
        settings["ssl_cadata"] = keys.text("ca")
    if way.mutual:
        settings |= {"ssl_certfile": keys.path("cert"), "ssl_keyfile": keys.path("key")}
    return settings


def librdkafka(way: Way, keys: Keys) -> dict[str, object]:
    settings: dict[str, object] = {"security.protocol": way.protocol}
    if way.mechanism:
        settings["sasl.mechanism"] = way.mechanism
        if way.mechanism == "OAUTHBEARER":
            settings["oauth_cb"] = lambda _: (unsecured_token(), time.time() + 600)
        else:
            settings |= {"sasl.username": USER, "sasl.password": PASSWORD}
    if way.tls:
        settings["ssl.ca.pem"] = keys.text("ca")
    if way.mutual:
        settings |= {"ssl.certificate.pem": keys.text("cert"), "ssl.key.pem": keys.text("key")}
    return settings


def kafka_python(way: Way, keys: Keys) -> dict[str, object]:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return unsecured_token()

    settings = _python_login(way, Tokens())
    if way.tls:
        settings["ssl_cafile"] = keys.path("ca")
    if way.mutual:
        settings |= {"ssl_certfile": keys.path("cert"), "ssl_keyfile": keys.path("key")}
    return settings


def aiokafka(way: Way, keys: Keys) -> dict[str, object]:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return unsecured_token()

    settings = _python_login(way, Tokens())
    if way.tls:
        context = ssl.create_default_context(cadata=keys.text("ca"))
        if way.mutual:
            context.load_cert_chain(keys.path("cert"), keys.path("key"))
        settings["ssl_context"] = context
    return settings


def _python_login(way: Way, tokens: object) -> dict[str, object]:
    settings: dict[str, object] = {"security_protocol": way.protocol}
    if way.mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": tokens}
    elif way.mechanism:
        settings["sasl_mechanism"] = way.mechanism
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    return settings


def java(way: Way, keys: Keys) -> dict[str, str]:
    """Properties, which our own client's `from_properties` reads, too."""
    settings = {"security.protocol": way.protocol}
    if way.mechanism:
        login = f'username="{USER}" password="{PASSWORD}"'
        if way.mechanism == "OAUTHBEARER":
            login = f'unsecuredLoginStringClaim_sub="{USER}"'
        settings["sasl.mechanism"] = way.mechanism
        settings["sasl.jaas.config"] = f"{MODULE_OF_MECHANISM[way.mechanism]} required {login};"
    if way.tls:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": keys.text("ca")}
    if way.mutual:
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": keys.text("cert"),
            "ssl.keystore.key": keys.text("key"),
        }
    return settings


def as_file(properties: dict[str, str], path: Path) -> str:
    """Write properties as Java reads them; returns the path."""
    lines = [f"{name}={value.strip().replace(chr(10), chr(92) + 'n')}\n" for name, value in properties.items()]
    path.write_text("".join(lines))
    return str(path)
