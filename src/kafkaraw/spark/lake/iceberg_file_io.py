"""The file systems of Iceberg tables: pyarrow's, on the driver and in tasks, with what pyiceberg 0.12 lacks for them.

For Azure, pyiceberg prefers another package, adlfs, and passes pyarrow the location as it is: of
`abfss://container@account.dfs.core.windows.net/path`, which all other engines write, pyarrow takes the part before the
first slash for the container. For Google, pyarrow repeats requests for 15 minutes by default, and wants to know when a
token expires. Start at `LakeFileIO`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs
from pyiceberg.io import (
    ADLS_ACCOUNT_KEY,
    ADLS_ACCOUNT_NAME,
    ADLS_ANON,
    ADLS_BLOB_STORAGE_AUTHORITY,
    ADLS_BLOB_STORAGE_SCHEME,
    ADLS_CONNECTION_STRING,
    ADLS_CREDENTIAL,
    ADLS_DFS_STORAGE_AUTHORITY,
    ADLS_DFS_STORAGE_SCHEME,
    ADLS_SAS_TOKEN,
    ADLS_TOKEN,
    GCS_DEFAULT_LOCATION,
    GCS_PROJECT_ID,
    GCS_SERVICE_HOST,
    GCS_TOKEN,
    GCS_TOKEN_EXPIRES_AT_MS,
)
from pyiceberg.io.pyarrow import PyArrowFileIO

from kafkaraw.errors import ConfigError

_AZURE: Final = re.compile(r"(?P<scheme>abfss?|wasbs?)://(?:(?P<container>[^@/]+)@(?P<host>[^/]+))?(?P<path>.*)", re.S)
_AZURE_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_GOOGLE_SCHEMES: Final = frozenset({"gs", "gcs"})
_OF_OTHER_PACKAGES: Final = (ADLS_TOKEN, ADLS_CREDENTIAL, ADLS_ANON)
_GOOGLE_RETRIES_MAX: Final = timedelta(minutes=2)
_TOKEN_LASTS: Final = timedelta(hours=1)


class LakeFileIO(PyArrowFileIO):
    """pyiceberg's file system over pyarrow.

    Args:
        properties: of the catalog and the table, by pyiceberg's names.
    """

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        super().__init__(dict(properties or {}))
        self.fs_by_scheme: Callable[[str, str | None], fs.FileSystem] = lru_cache(self._opened)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, which opens file systems of its own."""
        super().__setstate__(state)
        self.fs_by_scheme = lru_cache(self._opened)

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, Any] | None = None) -> tuple[str, str, str]:
        """Return scheme, authority and path of a location; for Azure, the path begins with the container."""
        found = _AZURE.fullmatch(location)
        if found is None or found["container"] is None:
            return PyArrowFileIO.parse_location(location, dict(properties or {}))
        return found["scheme"], found["host"], found["container"] + found["path"]

    def _opened(self, scheme: str, netloc: str | None = None) -> fs.FileSystem:
        if scheme in _GOOGLE_SCHEMES:
            return _google(self.properties)
        properties = _of_azure(self.properties, netloc or "") if scheme in _AZURE_SCHEMES else self.properties
        return PyArrowFileIO(properties).fs_by_scheme(scheme, netloc)


def _google(properties: Mapping[str, Any]) -> fs.FileSystem:
    """Return Google's file system; without a token, it finds the application's default credentials."""
    given: dict[str, Any] = {"retry_time_limit": _GOOGLE_RETRIES_MAX}
    if token := properties.get(GCS_TOKEN):
        expires_ms = properties.get(GCS_TOKEN_EXPIRES_AT_MS)
        expires = (
            datetime.fromtimestamp(int(expires_ms) / 1000, UTC) if expires_ms else datetime.now(UTC) + _TOKEN_LASTS
        )
        given |= {"access_token": token, "credential_token_expiration": expires}
    if location := properties.get(GCS_DEFAULT_LOCATION):
        given["default_bucket_location"] = location
    if project := properties.get(GCS_PROJECT_ID):
        given["project_id"] = project
    if endpoint := properties.get(GCS_SERVICE_HOST):
        parts = urlsplit(endpoint)
        given |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return fs.GcsFileSystem(**given)


def _of_azure(properties: Mapping[str, Any], authority: str) -> dict[str, Any]:
    """Return the properties with account and services as pyarrow takes them.

    Args:
        properties: as given.
        authority: of the location: `account.dfs.core.windows.net`, or the container if the location names no account.

    Raises:
        ConfigError: no account is named, or the credentials are for another package.
    """
    found = dict(properties)
    unusable = [name for name in _OF_OTHER_PACKAGES if found.get(name)]
    if unusable:
        raise ConfigError(
            f"catalog.{unusable[0]} is for the package adlfs, and files of tables are written by pyarrow: set "
            f"catalog.{ADLS_ACCOUNT_KEY}, catalog.{ADLS_SAS_TOKEN}, or catalog.adls.client-id, client-secret and "
            f"tenant-id; or none, for the default credentials of Azure"
        )
    if connection := found.pop(ADLS_CONNECTION_STRING, None):
        found = _of_connection_string(connection) | found
    account, dot, domain = authority.partition(".")
    if dot:
        found.setdefault(ADLS_ACCOUNT_NAME, account)
        domain = re.sub(r"^(dfs|blob)\.", "", domain)
        found.setdefault(ADLS_BLOB_STORAGE_AUTHORITY, f".blob.{domain}")
        found.setdefault(ADLS_DFS_STORAGE_AUTHORITY, f".dfs.{domain}")
    for name in sorted(found):  # tokens that a catalog issues for one account
        if name.startswith(f"{ADLS_SAS_TOKEN}.") and ADLS_SAS_TOKEN not in found:
            issued_for = name.removeprefix(f"{ADLS_SAS_TOKEN}.").partition(".")[0]
            if found.setdefault(ADLS_ACCOUNT_NAME, issued_for) == issued_for:
                found[ADLS_SAS_TOKEN] = found[name]
    if token := found.get(ADLS_SAS_TOKEN):
        found[ADLS_SAS_TOKEN] = f"?{token.removeprefix('?')}"  # pyarrow appends it to URLs as it is
    if not found.get(ADLS_ACCOUNT_NAME):
        raise ConfigError(
            f"no storage account is named: set the option catalog.{ADLS_ACCOUNT_NAME}, or let the warehouse name it, "
            f"as in abfss://container@account.dfs.core.windows.net/path"
        )
    return found


def _of_connection_string(text: str) -> dict[str, Any]:
    """Return the properties that a connection string of Azure stands for."""
    parts = dict(part.partition("=")[::2] for part in text.split(";") if part)
    found = {
        ADLS_ACCOUNT_NAME: parts.get("AccountName"),
        ADLS_ACCOUNT_KEY: parts.get("AccountKey"),
        ADLS_SAS_TOKEN: parts.get("SharedAccessSignature"),
    }
    scheme, suffix = parts.get("DefaultEndpointsProtocol"), parts.get("EndpointSuffix")
    found |= {ADLS_BLOB_STORAGE_SCHEME: scheme, ADLS_DFS_STORAGE_SCHEME: scheme}
    if suffix:
        found |= {ADLS_BLOB_STORAGE_AUTHORITY: f".blob.{suffix}", ADLS_DFS_STORAGE_AUTHORITY: f".dfs.{suffix}"}
    if endpoint := parts.get("BlobEndpoint"):
        # An emulator has the account in the path, which pyarrow appends itself.
        address = urlsplit(endpoint)
        found |= {ADLS_BLOB_STORAGE_SCHEME: address.scheme, ADLS_DFS_STORAGE_SCHEME: address.scheme}
        found |= {ADLS_BLOB_STORAGE_AUTHORITY: address.netloc, ADLS_DFS_STORAGE_AUTHORITY: address.netloc}
    return {name: value for name, value in found.items() if value}
