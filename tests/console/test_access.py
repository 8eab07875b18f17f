"""Whom the console answers, and what it tells browsers: hosts, logins, tokens, headers, read-only."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import httpx
import pytest

from kafkaraw import Admin
from kafkaraw.console.settings import ConsoleSettings
from kafkaraw.errors import ConfigError, NetworkError
from tests.console.running import cluster, post, running, token_of

FORMS = (
    ("/c/test/topics", {"name": "t"}),
    ("/c/test/topics/t/delete", {"confirm": "t"}),
    ("/c/test/topics/t/empty", {"confirm": "t"}),
    ("/c/test/topics/t/config", {"setting": "retention.ms", "value": "1"}),
    ("/c/test/topics/t/partitions", {"count": "9"}),
    ("/c/test/topics/t/send", {"value": "x"}),
    ("/c/test/group/reset", {"id": "g", "confirm": "g", "plan": "t 0 0"}),
    ("/c/test/group/delete", {"id": "g", "confirm": "g"}),
    ("/c/test/permissions/acl", {"principal": "User:a", "operation_READ": "1", "resource": "TOPIC", "name": "t"}),
    ("/c/test/permissions/acl/delete", {"principal": "User:a", "confirm": "User:a"}),
    ("/c/test/permissions/user", {"user": "u", "password": "pw", "again": "pw", "mechanism": "SCRAM-SHA-256"}),
    ("/c/test/permissions/user/delete", {"user": "u", "confirm": "u"}),
    ("/c/test/permissions/quota", {"user": "u", "quota_producer_byte_rate": "1"}),
    ("/c/test/permissions/quota/delete", {"user": "u", "confirm": "user u"}),
    ("/c/test/schema/register", {"subject": "s", "schema": '"string"'}),
    ("/c/test/schema/level", {"level": "NONE"}),
    ("/c/test/schema/delete", {"subject": "s", "confirm": "s"}),
    ("/c/test/transactions/abort", {"id": "t", "confirm": "t"}),
    ("/c/test/dead-letters/confirm", {"action": "replay", "pipeline": "p", "confirm": "p"}),
    ("/c/test/wire", {"action": "start"}),
    ("/c/test/faults", {"rule": "Produce: close"}),
)


@pytest.mark.parametrize(("path", "fields"), FORMS, ids=[path for path, _ in FORMS])
def test_every_change_is_refused_without_allow_writes(console: httpx.Client, path: str, fields: dict[str, str]) -> None:
    answer = console.post(path, data=fields)
    assert answer.status_code == 400
    assert "runs without --allow-writes" in answer.text


@pytest.mark.parametrize(("path", "fields"), FORMS, ids=[path for path, _ in FORMS])
def test_every_change_is_refused_without_the_token(writing: httpx.Client, path: str, fields: dict[str, str]) -> None:
    for token in ("", "0" * 64):
        answer = writing.post(path, data={"token": token, **fields})
        assert answer.status_code == 400
        assert "not one of this console" in answer.text


def test_a_token_of_another_browser_is_refused(writing: httpx.Client) -> None:
    with httpx.Client(base_url=writing.base_url, trust_env=False) as other:
        token = token_of(other)
    assert "not one of this console" in writing.post("/c/test/topics", data={"token": token, "name": "t"}).text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_requests_of_other_sites_change_nothing(writing: httpx.Client, headers: dict[str, str]) -> None:
    answer = writing.post("/c/test/topics", data={"token": token_of(writing), "name": "t"}, headers=headers)
    assert answer.status_code == 403


def test_only_names_of_this_machine_are_answered(console: httpx.Client, servers: str) -> None:
    assert console.get("/c/test/", headers={"host": "evil.example:80"}).status_code == 421
    assert console.get("/c/test/", headers={"host": "localhost:1"}).status_code == 200
    with running(servers, allowed_hosts=["console.example"]) as other:
        assert other.get("/c/test/", headers={"host": "console.example"}).status_code == 200


def test_browsers_run_no_other_scripts(console: httpx.Client) -> None:
    for path in ("/c/test/", "/c/test/topics/none", "/static/console.js", "/nothing"):
        headers = console.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy, path
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert console.get("/c/test/").headers["cache-control"] == "no-store"
    cookie = httpx.get(f"{console.base_url}/c/test/", trust_env=False).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie


def test_other_addresses_need_a_login(servers: str) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ConfigError, match="give a --user"):
            ConsoleSettings([cluster(servers)], host=host)
    ConsoleSettings([cluster(servers)], host="0.0.0.0", users={"ada": "secret"})


def test_a_header_of_a_proxy_needs_its_address(servers: str) -> None:
    with pytest.raises(ConfigError, match="--proxy"):
        ConsoleSettings([cluster(servers)], host="0.0.0.0", user_header="X-User")


def test_users_need_their_password(servers: str) -> None:
    with running(servers, users={"ada": "sécret"}) as client:
        answer = client.get("/c/test/")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert "test" not in answer.text
        assert client.get("/static/console.js").status_code == 401
        for wrong in (("ada", "secret"), ("ada", ""), ("eve", "sécret"), ("", "")):
            assert client.get("/c/test/", auth=httpx.BasicAuth(*wrong)).status_code == 401
        assert client.get("/c/test/", headers={"authorization": "Basic §".encode()}).status_code == 401
        page = client.get("/c/test/", auth=httpx.BasicAuth("ada", "sécret".encode()))
        assert page.status_code == 200 and "ada" in page.text


def test_the_header_is_believed_from_the_proxy_only(servers: str) -> None:
    here, elsewhere = ipaddress.ip_network("127.0.0.1"), ipaddress.ip_network("192.0.2.0/24")
    with running(servers, user_header="X-User", proxies=[here]) as client:
        assert client.get("/c/test/").status_code == 401
        assert "grace" in client.get("/c/test/", headers={"x-user": "grace"}).text
    with running(servers, user_header="X-User", proxies=[elsewhere]) as client:
        assert client.get("/c/test/", headers={"x-user": "grace"}).status_code == 401


def test_each_change_is_in_the_audit_log(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with running(servers, allow_writes=True, users={"ada": "pw"}, audit_file=file) as client:
        client.auth = httpx.BasicAuth("ada", "pw")
        assert post(client, "/c/test/topics", name="audited", partitions="2").status_code == 303
        assert post(client, "/c/test/topics", name="audited").status_code == 502
        assert post(client, "/c/test/topics/audited/send", value="a secret", null_key="1").status_code == 303
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["action"], each["result"]) for each in entries] == [
        ("create topic", "begun"),
        ("create topic", "done"),
        ("create topic", "begun"),
        ("create topic", "failed"),
        ("send a record", "begun"),
        ("send a record", "done"),
    ]
    assert {each["user"] for each in entries} == {"ada"}
    assert "a secret" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    with Admin(bootstrap_servers=servers) as admin:
        assert "audited" in [each.name for each in admin.list_topics()]


def test_an_audit_file_that_cannot_be_written_ends_the_start(servers: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--audit-file"), running(servers, audit_file=tmp_path / "no" / "folder"):
        pass


def test_a_port_in_use_is_named(console: httpx.Client, servers: str) -> None:
    with pytest.raises(NetworkError, match="choose another port"), running(servers, port=console.base_url.port):
        pass


def test_a_large_form_is_refused(writing: httpx.Client) -> None:
    answer = post(writing, "/c/test/topics/t/send", value="x" * (5 << 20))
    assert answer.status_code == 400 and "4 MiB" in answer.text
