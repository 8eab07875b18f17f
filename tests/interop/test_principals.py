"""Who a client is by its certificate: the same names as Java's and Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.broker.security.distinguished_names import subject_of
from kafkaraw.broker.security.principals import PrincipalMapping
from tests.broker.security.certificates import SEVERAL_VALUES, SUBJECTS, certificate, part
from tests.broker.security.test_principals import RULES
from tests.interop.java_tools import shared_tools

SOURCE = Path(__file__).with_name("PrincipalNames.java")
# The subject that the rules of test_principals are for: "CN=kafka-client,OU=Tests,O=Example,C=CH".
CLIENT = [("2.5.4.6", "CH"), ("2.5.4.10", "Example"), ("2.5.4.11", "Tests"), ("2.5.4.3", "kafka-client")]


@pytest.mark.timeout(120)
def test_subjects_and_rules_give_javas_names() -> None:
    tools = shared_tools()
    from cryptography.x509 import ObjectIdentifier

    client = certificate(*([part(ObjectIdentifier(oid), value)] for oid, value in CLIENT))
    cases = [("DEFAULT", certificate(*parts)) for parts in (*SUBJECTS.values(), SEVERAL_VALUES)]
    cases += [(rules, client) for rules, _ in RULES]
    given = "".join(f"{rules}\t{der.hex()}\n" for rules, der in cases)
    printed = tools.run(SOURCE, given=given)
    ours = []
    for rules, der in cases:
        subject = subject_of(der)
        ours.append(f"{subject}\t{PrincipalMapping(rules).user(subject) if subject else ''}")
    assert ours == printed.splitlines()
