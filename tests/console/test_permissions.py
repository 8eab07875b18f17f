"""ACLs, users and quotas: shown, changed, deleted after confirmation; no password appears."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, QuotaEntity, QuotaName
from kafkaraw.broker import EmbeddedBroker
from tests.console.running import HOSTILE_TEXTS, post, running

SECRET = "s3cret-of-ada"
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password": "pw"}
ACL = {"principal": "User:ada", "permission": "ALLOW", "resource": "TOPIC", "name": "orders", "pattern": "PREFIXED"}


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    """The address of a broker with an authorizer."""
    with EmbeddedBroker(users={"root": "pw", "eve": "pw"}, properties=SECURED) as broker:
        yield broker.bootstrap_servers


def login(servers: str, user: str) -> dict[str, Any]:
    """The settings of a user's clients."""
    return {"bootstrap_servers": servers, **LOGIN, "sasl_username": user}


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def root(secured: str, audit_file: Path) -> Iterator[httpx.Client]:
    settings = login(secured, "root")
    of = {"client": settings, "consumer": settings}
    with running(secured, of=of, allow_writes=True, audit_file=audit_file) as client:
        yield client


@pytest.fixture(scope="module")
def eve(secured: str) -> Iterator[httpx.Client]:
    settings = login(secured, "eve")
    with running(secured, of={"client": settings, "consumer": settings}, allow_writes=True) as client:
        yield client


def test_acls_are_created_shown_and_deleted(root: httpx.Client, secured: str) -> None:
    form = root.get("/c/test/permissions/acl").text
    assert "TRANSACTIONAL_ID" in form and "DESCRIBE_CONFIGS" in form and "MATCH" not in form
    answer = post(root, "/c/test/permissions/acl", **ACL, host="10.0.0.1", operation_READ="1", operation_WRITE="1")
    assert answer.status_code == 303
    page = root.get(answer.headers["location"]).text
    assert "2 ACLs" in page and "orders…" in page and "10.0.0.1" in page
    one = {**ACL, "host": "10.0.0.1", "operation": "READ"}
    facts = root.get("/c/test/permissions/acl/delete", params=one).text
    assert "The ACL ALLOW READ on TOPIC orders… for User:ada is deleted." in facts
    assert post(root, "/c/test/permissions/acl/delete", **one, confirm="User:eve").status_code == 400
    assert post(root, "/c/test/permissions/acl/delete", **one, confirm="User:ada").status_code == 303
    with Admin(**login(secured, "root")) as admin:
        assert [each.operation.name for each in admin.describe_acls() if each.host == "10.0.0.1"] == ["WRITE"]
    assert root.get("/c/test/permissions/acl/delete", params=one).status_code == 404


def test_an_acl_of_the_cluster_has_its_name(root: httpx.Client) -> None:
    given = {**ACL, "resource": "CLUSTER", "name": "", "pattern": "LITERAL", "permission": "DENY"}
    assert post(root, "/c/test/permissions/acl", **given, operation_ALTER="1").status_code == 303
    one = {**given, "operation": "ALTER", "host": "*"}
    assert "is allowed again" in root.get("/c/test/permissions/acl/delete", params=one).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**ACL, "operation_READ": "1", "principal": "ada"}, "must be TYPE:NAME"),
        ({**ACL, "operation_READ": "1", "name": ""}, "needs the name"),
        ({**ACL, "operation_READ": "1", "resource": "ANY"}, "must be one of TOPIC"),
        ({**ACL, "operation_READ": "1", "pattern": "MATCH"}, "must be one of LITERAL"),
        (ACL, "no operation is chosen"),
    ],
)
def test_an_acl_that_cannot_be_is_refused(root: httpx.Client, fields: dict[str, str], said: str) -> None:
    answer = post(root, "/c/test/permissions/acl", **fields)
    assert answer.status_code == 400 and said in answer.text


def test_users_are_created_changed_and_deleted_without_their_password_anywhere(
    root: httpx.Client, secured: str, audit_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pages = []
    given = {"user": "ada", "password": SECRET, "again": SECRET, "mechanism": "SCRAM-SHA-512"}
    pages.append(post(root, "/c/test/permissions/user", **given))
    assert pages[-1].status_code == 303
    pages.append(post(root, "/c/test/permissions/user", **given))
    assert pages[-1].status_code == 400 and "there is a user" in pages[-1].text
    pages.append(post(root, "/c/test/permissions/user", **{**given, "again": SECRET + "x"}))
    assert pages[-1].status_code == 400 and "are different" in pages[-1].text
    pages.append(post(root, "/c/test/permissions/user", **{**given, "iterations": "1", "replace": "1"}))
    assert pages[-1].status_code == 502, pages[-1].text
    changed = {**given, "mechanism": "SCRAM-SHA-256", "replace": "1", "iterations": "8192"}
    pages.append(post(root, "/c/test/permissions/user", **changed))
    assert pages[-1].status_code == 303
    pages.append(root.get("/c/test/permissions"))
    assert "SCRAM-SHA-256 (8,192 iterations)" in pages[-1].text
    pages.append(root.get("/c/test/permissions/user/delete", params={"user": "ada"}))
    assert "SCRAM-SHA-256 and SCRAM-SHA-512" in pages[-1].text
    pages.append(post(root, "/c/test/permissions/user/delete", user="ada", confirm="ada"))
    assert pages[-1].status_code == 303
    pages.append(root.get("/c/test/permissions/user/delete", params={"user": "ada"}))
    assert pages[-1].status_code == 404
    with Admin(**login(secured, "root")) as admin:
        assert "ada" not in admin.describe_user_scram_credentials()
    assert all(SECRET not in page.text for page in pages)
    assert SECRET not in audit_file.read_text() and SECRET not in caplog.text
    actions = [json.loads(line)["action"] for line in audit_file.read_text().splitlines()]
    assert {"create user", "change password", "delete user"} <= set(actions)


def test_quotas_are_set_changed_and_removed(root: httpx.Client, secured: str) -> None:
    of = {"user": "ada", "default_client-id": "1"}
    answer = post(
        root, "/c/test/permissions/quota", **of, quota_producer_byte_rate="1048576", quota_request_percentage="50"
    )
    assert answer.status_code == 303
    page = root.get("/c/test/permissions").text
    assert "user ada, client-id (default)" in page and "producer_byte_rate = 1,048,576" in page
    form = root.get("/c/test/permissions/quota", params=of).text
    assert 'value="1048576"' in form and 'value="50"' in form
    entity = QuotaEntity("ada", QuotaName.DEFAULT)
    assert post(root, "/c/test/permissions/quota", **of, quota_consumer_byte_rate="7").status_code == 303
    with Admin(**login(secured, "root")) as admin:
        assert admin.describe_client_quotas()[entity] == {"consumer_byte_rate": 7.0}
        assert (
            post(root, "/c/test/permissions/quota", ip="127.0.0.1", quota_connection_creation_rate="100").status_code
            == 303
        )
        assert admin.describe_client_quotas()[QuotaEntity(ip="127.0.0.1")] == {"connection_creation_rate": 100.0}
        facts = root.get("/c/test/permissions/quota/delete", params=of).text
        assert "consumer_byte_rate = 7 of user ada, client-id (default) is removed." in facts
        name = "user ada, client-id (default)"
        assert post(root, "/c/test/permissions/quota/delete", **of, confirm="ada").status_code == 400
        assert post(root, "/c/test/permissions/quota/delete", **of, confirm=name).status_code == 303
        assert entity not in admin.describe_client_quotas()
    assert root.get("/c/test/permissions/quota/delete", params=of).status_code == 404


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"quota_producer_byte_rate": "1"}, "needs a user"),
        ({"user": "a", "default_user": "1", "quota_producer_byte_rate": "1"}, "not both"),
        ({"user": "a", "ip": "10.0.0.1", "quota_producer_byte_rate": "1"}, "no user and no client id"),
        ({"user": "a", "quota_producer_byte_rate": "-1"}, "must be a number above 0"),
        ({"user": "a", "quota_producer_byte_rate": "nan"}, "must be a number above 0"),
        ({"user": "a"}, "nothing was changed"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(root: httpx.Client, fields: dict[str, str], said: str) -> None:
    answer = post(root, "/c/test/permissions/quota", **fields)
    assert answer.status_code == 400 and said in answer.text


def test_missing_permissions_are_named(eve: httpx.Client) -> None:
    page = eve.get("/c/test/permissions").text
    assert "User:eve needs DESCRIBE on cluster" in page and "User:eve needs DESCRIBE_CONFIGS on cluster" in page
    answers = (
        (post(eve, "/c/test/permissions/acl", **ACL, operation_READ="1"), "ALTER"),
        (
            post(eve, "/c/test/permissions/user", user="x", password="y", again="y", mechanism="SCRAM-SHA-256"),
            "DESCRIBE",
        ),
        (post(eve, "/c/test/permissions/quota", user="x", quota_producer_byte_rate="1"), "DESCRIBE_CONFIGS"),
    )
    for answer, operation in answers:
        assert answer.status_code == 403
        assert f"needs {operation} on cluster" in answer.text


def test_hostile_names_are_escaped(root: httpx.Client) -> None:
    for text in HOSTILE_TEXTS:
        given = {**ACL, "principal": f"User:{text}", "name": text, "operation_READ": "1"}
        assert post(root, "/c/test/permissions/acl", **given).status_code == 303
        assert post(root, "/c/test/permissions/quota", user=text, quota_producer_byte_rate="1").status_code == 303
        pages = [
            root.get("/c/test/permissions").text,
            root.get("/c/test/permissions/acl/delete", params={**given, "operation": "READ"}).text,
            root.get("/c/test/permissions/quota", params={"user": text}).text,
            root.get("/c/test/permissions/quota/delete", params={"user": text}).text,
            root.get("/c/test/permissions/user", params={"user": text}).text,
        ]
        for page in pages:
            assert "<h1>" in page
            for part in ("<script>alert", "<img src=x", "</textarea><b>"):
                assert part not in page
