"""Access control entries survive being written down; a damaged file is refused, never read as fewer entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.acl.stored import read_acls, write_acls
from kafkaraw.errors import ConfigError
from tests.broker.acl.test_authorizer import acls


@given(st.lists(acls, unique=True))
def test_what_was_written_is_read_again(entries):
    assert read_acls(write_acls(entries)) == entries


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 1}', '{"version": 1, "acls": [{}]}', '{"version": 1, "acls": [{"operation": "X"}]}']
)
def test_a_damaged_file_is_refused(text):
    with pytest.raises(ConfigError, match=r"kafkaraw-acls\.json in the data directory is damaged"):
        read_acls(text)


def test_a_newer_file_is_refused():
    with pytest.raises(ConfigError, match="version 2 is not known"):
        read_acls('{"version": 2, "acls": []}')
