"""File systems of Iceberg tables: locations and credentials of Azure as other engines and catalogs write them."""

from __future__ import annotations

import pickle
import re

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.lake import iceberg_file_io
from kafkaraw.spark.lake.iceberg_file_io import LakeFileIO

HOST = "travel.dfs.core.windows.net"


@pytest.fixture
def opened(monkeypatch) -> dict[str, str]:
    """The properties with which pyiceberg opens a file system."""
    found: dict[str, str] = {}

    class Recorded:
        def __init__(self, properties: dict[str, str]) -> None:
            found.update(properties)

        def fs_by_scheme(self, _scheme: str, _netloc: str | None) -> None:
            """Open nothing."""

    monkeypatch.setattr(iceberg_file_io, "PyArrowFileIO", Recorded)
    return found


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        (f"abfss://lake@{HOST}/a/b c", ("abfss", HOST, "lake/a/b c")),
        (f"wasbs://lake@{HOST}", ("wasbs", HOST, "lake")),
        ("abfs://lake/a", ("abfs", "lake", "lake/a")),
        ("s3://lake/a@b", ("s3", "lake", "lake/a@b")),
        ("/srv/lake/a@b", ("file", "", "/srv/lake/a@b")),
    ],
)
def test_the_path_of_a_location_begins_with_the_container(location, parts):
    assert LakeFileIO.parse_location(location) == parts


def test_a_location_names_the_account_and_its_services(opened):
    LakeFileIO({"adls.account-key": "a2V5"}).fs_by_scheme("abfss", "travel.dfs.core.usgovcloudapi.net")
    assert opened["adls.account-name"] == "travel"
    assert opened["adls.blob-storage-authority"] == ".blob.core.usgovcloudapi.net"
    assert opened["adls.dfs-storage-authority"] == ".dfs.core.usgovcloudapi.net"


@pytest.mark.parametrize("name", ["adls.sas-token", f"adls.sas-token.{HOST}"])
def test_a_signature_begins_with_a_question_mark(opened, name):
    LakeFileIO({name: "se=1&sig=x"}).fs_by_scheme("abfss", HOST)
    assert opened["adls.sas-token"] == "?se=1&sig=x"


def test_a_signature_of_another_account_is_not_used(opened):
    LakeFileIO({"adls.sas-token.other.dfs.core.windows.net": "se=1&sig=x"}).fs_by_scheme("abfss", HOST)
    assert "adls.sas-token" not in opened


def test_a_connection_string_names_account_key_and_address(opened):
    text = "DefaultEndpointsProtocol=https;AccountName=travel;AccountKey=a2V5==;EndpointSuffix=core.windows.net"
    LakeFileIO({"adls.connection-string": text}).fs_by_scheme("abfs", "lake")
    assert opened == {
        "adls.account-name": "travel",
        "adls.account-key": "a2V5==",
        "adls.blob-storage-scheme": "https",
        "adls.dfs-storage-scheme": "https",
        "adls.blob-storage-authority": ".blob.core.windows.net",
        "adls.dfs-storage-authority": ".dfs.core.windows.net",
    }


def test_a_location_without_an_account_is_told_with_the_option():
    with pytest.raises(
        ConfigError, match=re.escape("no storage account is named: set the option catalog.adls.account")
    ):
        LakeFileIO({"adls.account-key": "a2V5"}).fs_by_scheme("abfs", "lake")


@pytest.mark.parametrize("name", ["adls.token", "adls.credential", "adls.anon"])
def test_credentials_for_another_package_are_refused_without_showing_them(name):
    with pytest.raises(ConfigError, match=re.escape(f"catalog.{name} is for the package adlfs")) as told:
        LakeFileIO({name: "Sesam", "adls.account-name": "travel"}).fs_by_scheme("abfs", "lake")
    assert "Sesam" not in str(told.value)


@pytest.mark.parametrize("expires", [{}, {"gcs.oauth2.token-expires-at": "4102444800000"}])
def test_a_token_of_google_is_taken_with_and_without_its_end_also_in_a_task(expires):
    io = pickle.loads(pickle.dumps(LakeFileIO({"gcs.oauth2.token": "x", **expires})))
    assert io.fs_by_scheme("gs", "lake").type_name == "gcs"
