"""Our grammars against those that Apache Kafka prints into its own documentation."""

from __future__ import annotations

import html
import re
import subprocess

import pytest

from kafkaraw.protocol.describe import grammar_of, messages_named
from tests.interop.apache_kafka import fetch_jars
from tests.java_options import QUICK_JVM
from tests.protocol.oracle.apache import why_no_oracle

pytestmark = pytest.mark.skipif(why_no_oracle() is not None, reason=why_no_oracle() or "")


def apaches_grammars() -> dict[tuple[str, int], str]:
    """The grammars in the page that Apache's jar generates, by message and version."""
    command = ["java", "-Xmx256M", *QUICK_JVM, "-cp", f"{fetch_jars()}/*", "org.apache.kafka.common.protocol.Protocol"]
    page = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found: dict[tuple[str, int], str] = {}
    for block in re.findall(r"<pre>(.*?)</pre>", page, re.S):
        text = html.unescape(block)
        match = re.match(r"(\w+) (Request|Response) \(Version: (\d+)\)", text)
        if match:
            found[match[1] + match[2], int(match[3])] = text
    return found


def as_apache(grammar: str) -> str:
    """Apache prints a tagged array without its brackets; ours keep them, because they are part of the type."""
    return re.sub(r"\??[\[(](\w+)[\])](<tag)", r"\1\2", grammar)


def test_the_grammar_of_every_published_version_is_apaches():
    theirs = apaches_grammars()
    assert len(theirs) > 500
    for (name, version), grammar in theirs.items():
        (cls,) = messages_named(name)
        assert as_apache(grammar_of(cls, version)) == grammar
