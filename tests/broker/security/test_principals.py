"""Who a client is by its certificate: its subject in Java's form, and the rules that shorten it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.security.distinguished_names import subject_of
from kafkaraw.broker.security.principals import PrincipalMapping
from kafkaraw.errors import ConfigError, ProtocolError
from tests.broker.security.certificates import SEVERAL_VALUES, SUBJECTS, certificate

NAME = "CN=kafka-client,OU=Tests,O=Example,C=CH"


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_subject_is_written_as_java_writes_it(name: str):
    assert subject_of(certificate(*SUBJECTS[name])) == name


def test_several_values_of_one_part_are_joined():
    assert sorted(subject_of(certificate(*SEVERAL_VALUES)).removeprefix("O=x,").split("+")) == ["CN=ada", "UID=17"]


@given(st.binary(max_size=200))
def test_other_bytes_are_no_certificate(data: bytes):
    with pytest.raises(ProtocolError):
        subject_of(data)


def test_a_certificate_cut_anywhere_is_refused():
    whole = certificate(*SUBJECTS["CN=client,O=Example\\, Inc.,C=CH"])
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            subject_of(whole[:size])


RULES = [
    ("DEFAULT", NAME),
    ("RULE:^CN=(.*?),.*$/$1/", "kafka-client"),
    ("RULE:^CN=(.*?),.*$/$1/U", "KAFKA-CLIENT"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/L", "tests-kafka-client"),
    ("RULE:^CN=other.*$/other/, RULE:^cn=.*/x/,RULE:.*O=(\\w+).*/$1/L , DEFAULT", "example"),
    ("RULE:^CN=other.*$/other/, DEFAULT", NAME),
    ("RULE:^CN=(.*?),.*$/$1@$4/", "kafka-client@$4"),
    ("RULE:^CN=(.*?),.*$/$12/", "kafka-client2"),
    ("RULE:^CN=(.*?),.*$/user\\/$1\\$/", "user/kafka-client$"),
    ("RULE:CN=(kafka)-(client),.*/$0:$1.$2/", f"{NAME}:kafka.client"),
    ("RULE:^CN=(.*?),(X)?.*$/[$2]/", "[]"),
]
"""Rules, and what they make of NAME; an interop test asks Kafka's own SslPrincipalMapper."""


@pytest.mark.parametrize(("rules", "user"), RULES)
def test_the_first_rule_that_matches_gives_the_name(rules: str, user: str):
    assert PrincipalMapping(rules).user(NAME) == user


def test_where_no_rule_matches_there_is_no_name():
    assert PrincipalMapping("RULE:^CN=other.*$/other/").user(NAME) is None
    assert PrincipalMapping("").user(NAME) is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("default", "is not of the form"),
        ("RULE:a/b", "is not of the form"),
        ("RULE:a/b/X", "is not of the form"),
        ("DEFAULT RULE:a/b/", "is not of the form"),
        ("RULE:(a/b/", "not a valid regular expression"),
        ("RULE:a/${who}/", "no group 'who'"),
    ],
)
def test_a_malformed_rule_is_refused(rules: str, words: str):
    with pytest.raises(ConfigError, match=words):
        PrincipalMapping(rules)
