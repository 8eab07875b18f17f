"""Texts of sasl.jaas.config: read, never executed, and never shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.sasl.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse_jaas, parse_module
from kafkaraw.errors import ConfigError

WHAT = "listener.name.x.plain.sasl.jaas.config"


def test_a_module_with_options():
    entry = parse_jaas(f"""{PLAIN_MODULE} required username="broker" user_ada='o;p=e "n"'\n user_bob=plain ;""", WHAT)
    assert entry.module == PLAIN_MODULE
    assert entry.options == {"username": "broker", "user_ada": 'o;p=e "n"', "user_bob": "plain"}


def test_a_module_without_options():
    assert parse_jaas(f"{SCRAM_MODULE} required;", WHAT).options == {}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_every_password_can_be_written(password: str):
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{PLAIN_MODULE} required user_ada="{quoted}";', WHAT).options == {"user_ada": password}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not of the form"),
        (PLAIN_MODULE, "is not of the form"),
        (f"{PLAIN_MODULE} required", "semicolon"),
        (f'{PLAIN_MODULE} required user_ada="opensesame"', "semicolon"),
        (f"{PLAIN_MODULE} needed;", "one of required"),
        (f"{PLAIN_MODULE} required user_ada=;", "option number 1"),
        (f'{PLAIN_MODULE} required a="b" user_ada;', "option number 2"),
        (f'{PLAIN_MODULE} required user_ada="opensesame;', "no partner"),
        (f"{PLAIN_MODULE} required; {SCRAM_MODULE} required;", "more than one"),
    ],
)
def test_what_is_malformed_is_refused_without_showing_it(text: str, words: str):
    with pytest.raises(ConfigError, match=words) as refused:
        parse_jaas(text, WHAT)
    assert WHAT in str(refused.value)
    assert "opensesame" not in str(refused.value)


def test_an_unknown_module_is_refused_with_the_one_to_use():
    text = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil";'
    with pytest.raises(
        ConfigError, match=r"JndiLoginModule is not known.*for OAUTHBEARER use .*OAuthBearerLoginModule"
    ):
        parse_module(text, "OAUTHBEARER", WHAT)
    with pytest.raises(ConfigError, match=f"use {SCRAM_MODULE}"):
        parse_module(f"{OAUTH_MODULE} required;", "SCRAM-SHA-512", WHAT)


def test_repr_shows_no_option():
    assert "opensesame" not in repr(parse_jaas(f'{PLAIN_MODULE} required user_ada="opensesame";', WHAT))
