"""What instances say in their group, and who becomes the primary: the JSON of Confluent's registry."""

from __future__ import annotations

import json

import pytest

from kafkaraw.schemas.server.election import Choice, Identity, choose_primary


def test_an_identity_has_the_json_of_confluents_registry() -> None:
    identity = Identity("http", "registry-1", 8081)
    assert json.loads(identity.encode()) == {
        "version": 1,
        "host": "registry-1",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
        "leader": False,
    }
    assert Identity.decode(identity.encode()) == identity
    assert identity.url == "http://registry-1:8081"
    assert Identity("https", "::1", 8081).url == "https://[::1]:8081"


def test_an_identity_of_an_older_registry_is_read() -> None:
    found = Identity.decode(b'{"version":1,"host":"a","port":8081,"master_eligibility":false}')
    assert found == Identity("http", "a", 8081, eligible=False)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"host":1,"port":2}', b'{"host":"a","port":"b"}', b"\xff"])
def test_what_is_no_identity_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Identity.decode(data)


def test_the_eligible_member_with_the_first_url_becomes_the_primary() -> None:
    members = {
        "m1": Identity("http", "c", 8081),
        "m2": Identity("http", "b", 8081),
        "m3": Identity("http", "a", 8081, eligible=False),
    }
    choice = choose_primary(members)
    assert (choice.primary, choice.member_id, choice.duplicate_urls) == (members["m2"], "m2", False)
    fields = json.loads(choice.encode())
    assert (fields["version"], fields["error"], fields["master"]) == (1, 0, "m2")
    assert fields["master_identity"]["host"] == "b"
    assert Choice.decode(choice.encode()) == choice


def test_no_member_is_eligible() -> None:
    choice = choose_primary({"m": Identity("http", "a", 8081, eligible=False)})
    assert json.loads(choice.encode()) == {"version": 1, "error": 0}
    assert Choice.decode(choice.encode()).primary is None


def test_two_members_with_one_url_are_reported() -> None:
    choice = choose_primary({"m1": Identity("http", "a", 8081), "m2": Identity("http", "a", 8081)})
    assert json.loads(choice.encode())["error"] == 1
    assert Choice.decode(choice.encode()).duplicate_urls
