"""Object stores with a bucket, in processes of their own: moto, Azurite from npm, fake-gcs-server from Go's modules.

The last two check credentials; for Amazon another server refuses all. `gcs_server.go.txt` says what it adds to
fake-gcs-server. Each is made once per user, in the user's cache. Start at `amazon`, `azure` and `google`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.interop.downloaded_clients import prepare_go
from tests.java_options import cache_folder, made_once
from tests.spark.lake import object_stores
from tests.spark.lake.object_stores import BUCKET, SECRET_KEY, MissingError, python_with_moto

AZURITE = "azurite@3.37.0"
FAKE_GCS_SERVER = "github.com/fsouza/fake-gcs-server/fakestorage@v1.55.1"
NPM_TIMEOUT_S = 100
FIRST_TIMEOUT_S = 600
"""Of a test that uses a store: the first one may fetch and build it."""
_VERSION = "2021-08-06"  # of Azure's signatures


class Credentials(StrEnum):
    """What a client shows to a store."""

    VALID = "valid"
    WRONG = "wrong"
    EXPIRED = "expired"


class Store(Protocol):
    """An object store with a bucket."""

    url: str
    """Of the bucket."""

    def settings(self, kind: str, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        """Return the options of a format."""

    def environment(self, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        """Return the variables with which packages of fsspec find the store."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nothing may show."""


@dataclass(frozen=True)
class Amazon:
    """A bucket of a server with S3's interface.

    Attributes:
        address: of the server.
        expired: of another one, which refuses all credentials.
    """

    address: str
    expired: str
    url: str = f"s3://{BUCKET}"
    secrets: tuple[str, ...] = (SECRET_KEY,)

    def settings(self, kind: str, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        return object_stores.settings(kind, self.address if credentials is Credentials.VALID else self.expired)

    def environment(self, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        address = self.address if credentials is Credentials.VALID else self.expired
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1"}
        return {**keys, "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def amazon() -> Iterator[Amazon]:
    """Start servers with S3's interface."""
    try:
        python_with_moto()
    except MissingError as missing:
        pytest.skip(f"moto is missing: {missing}")
    with object_stores.running("moto") as address, object_stores.running("expired") as expired:
        yield Amazon(address, expired)


@dataclass(frozen=True)
class Azure:
    """An account of Azurite.

    Attributes:
        address: of the server.
        account: its name.
        key: its key.
        wrong_key: another one.
        url: of the container, as all engines write it.
    """

    address: str
    account: str
    key: str
    wrong_key: str = field(default_factory=lambda: _new_key())

    @property
    def url(self) -> str:
        return f"abfss://{BUCKET}@{self.account}.dfs.core.windows.net"

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.key, self.wrong_key, self._expired_signature.partition("sig=")[2]

    @property
    def endpoint(self) -> str:
        return f"{self.address}/{self.account}"

    @property
    def _expired_signature(self) -> str:
        return self.signature(datetime(2026, 1, 1, tzinfo=UTC))

    def signature(self, expires: datetime) -> str:
        """Return a shared access signature for everything in the account."""
        given = {
            "sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": f"{expires:%Y-%m-%dT%H:%M:%SZ}", "sip": "",
            "spr": "", "sv": _VERSION, "ses": "",
        }  # fmt: skip
        text = "".join(f"{each}\n" for each in (self.account, *given.values()))
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        return urlencode({name: value for name, value in given.items() if value} | {"sig": base64.b64encode(digest)})

    def settings(self, kind: str, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        key, token = ("azure_storage_account_key", "azure_storage_sas_token")
        if kind == "iceberg":
            key, token = "adls.account-key", "adls.sas-token"
        shown = {
            Credentials.VALID: (key, self.key),
            Credentials.WRONG: (key, self.wrong_key),
            Credentials.EXPIRED: (token, self._expired_signature),
        }
        if kind == "delta":
            given = {"azure_storage_endpoint": self.endpoint, "azure_allow_http": "true"}
            return {f"storage.{name}": value for name, value in [*given.items(), shown[credentials]]}
        host = urlsplit(self.address).netloc
        given = {f"adls.{service}-storage-authority": host for service in ("blob", "dfs")}
        given |= {f"adls.{service}-storage-scheme": "http" for service in ("blob", "dfs")}
        return {f"catalog.{name}": value for name, value in [*given.items(), shown[credentials]]}

    def environment(self, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        shown = {
            Credentials.VALID: f"AccountKey={self.key}",
            Credentials.WRONG: f"AccountKey={self.wrong_key}",
            Credentials.EXPIRED: f"SharedAccessSignature={self._expired_signature}",
        }
        account = f"DefaultEndpointsProtocol=http;AccountName={self.account};BlobEndpoint={self.endpoint}"
        return {"AZURE_STORAGE_CONNECTION_STRING": f"{account};{shown[credentials]}"}


def _new_key() -> str:
    return base64.b64encode(os.urandom(64)).decode()


@contextmanager
def azure() -> Iterator[Azure]:
    """Start Azurite with a container."""
    account, key = "lakeaccount", _new_key()
    program = _azurite() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", "0"]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with _running(command, {"AZURITE_ACCOUNTS": f"{account}:{key}"}) as address:
        found = Azure(address, account, key)
        signature = found.signature(datetime.now(UTC) + timedelta(minutes=5))
        put = urllib.request.Request(f"{found.endpoint}/{BUCKET}?restype=container&{signature}", method="PUT")
        urllib.request.urlopen(put, timeout=20).close()
        yield found


def _azurite() -> Path:
    """Return the folder with Azurite; skips the test if it cannot be installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Azurite needs Node.js and npm")
    folder = cache_folder() / AZURITE.replace("@", "-")
    try:
        with made_once(folder) as scratch:
            if scratch is not None:
                command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(scratch), AZURITE]
                subprocess.run(command, check=True, capture_output=True, timeout=NPM_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"npm cannot fetch {AZURITE}: {error}")
    return folder


@dataclass(frozen=True)
class Google:
    """A bucket of Google Cloud Storage.

    Attributes:
        address: of the server.
        folder: has the key files of a service account and of one that the server does not know.
    """

    address: str
    folder: Path
    url: str = f"gs://{BUCKET}"

    @property
    def secrets(self) -> tuple[str, ...]:
        keys = (json.loads(self.key_file(each).read_text())["private_key"] for each in Credentials)
        return "expired-token", "wrong-token", "valid-token", *(key.splitlines()[3] for key in keys)

    def key_file(self, credentials: Credentials) -> Path:
        return self.folder / f"{credentials}.json"

    def settings(self, kind: str, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        if kind == "delta":
            return {"storage.google_service_account": str(self.key_file(credentials))}
        return {"catalog.gcs.service.host": self.address, "catalog.gcs.oauth2.token": f"{credentials}-token"}

    def environment(self, credentials: Credentials = Credentials.VALID) -> dict[str, str]:
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.key_file(credentials)),
            "STORAGE_EMULATOR_HOST": self.address,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # it asks for the layout of buckets by gRPC with TLS
        }


@contextmanager
def google(folder: Path) -> Iterator[Google]:
    """Start a server with a bucket; it knows one service account.

    Args:
        folder: for key files.
    """
    server = prepare_go("fake-gcs-server", Path(__file__).parent / "gcs_server.go.txt", FAKE_GCS_SERVER)
    keys = {each: rsa.generate_private_key(public_exponent=65537, key_size=2048) for each in Credentials}
    public = folder / "public.pem"
    public.write_bytes(
        keys[Credentials.VALID].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with _running([str(server), str(public), BUCKET], {}) as address:
        found = Google(address, folder)
        for credentials, key in keys.items():
            private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            found.key_file(credentials).write_text(json.dumps(_service_account(address, private)))
        yield found


def _service_account(address: str, private_key: str) -> Mapping[str, str]:
    """Return what is in a key file; deltalake takes the address of the store from it, too."""
    return {
        "type": "service_account",
        "project_id": "tests",
        "private_key_id": "1",
        "private_key": private_key,
        "client_email": "lake@tests.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{address}/token",
        "gcs_base_url": address,
    }


@contextmanager
def _running(command: list[str], variables: Mapping[str, str]) -> Iterator[str]:
    """Start a server, and return the address that it prints."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=os.environ | dict(variables), **pipes) as process:
        try:
            for line in process.stdout:
                if found := re.search(r"http://[0-9.]+:\d+", line):
                    yield found[0]
                    return
            raise AssertionError(f"{command[0]} ended with exit code {process.wait()}")
        finally:
            process.kill()
