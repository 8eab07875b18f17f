"""The generated pages of docs/reference are current, and have everything that they are about."""

from __future__ import annotations

import re
from functools import cache

import pytest

pytest.importorskip("pyspark")  # the pages have the names of kafkaraw.spark

from docs.generate.__main__ import REFERENCE, existing, pages
from docs.generate.loggers import loggers
from kafkaraw.broker.configs.config import BROKER_SETTINGS
from kafkaraw.broker.configs.kafka_properties import IGNORED, REFUSED
from kafkaraw.client.config import every_setting
from kafkaraw.client.java_names import known_names
from kafkaraw.client.java_spelling import java_names_of
from kafkaraw.spark.options.descriptions import DESCRIPTIONS
from kafkaraw.spark.options.parsing import user_options

REMEDY = "run `make docs`"


@cache
def made() -> dict[str, str]:
    return pages()


def test_there_are_these_pages_and_no_others() -> None:
    assert existing() == set(made()), REMEDY


def test_the_pages_are_current() -> None:
    stale = [name for name, text in made().items() if (REFERENCE / name).read_text(encoding="utf-8") != text]
    assert not stale, REMEDY


def test_every_table_row_has_as_many_cells_as_its_head() -> None:
    for name, page in made().items():
        for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
            widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(widths) == 1, (name, table)


def names_in(page: str) -> set[str]:
    """The names in the first column of the tables of a page."""
    return {
        name for cell in re.findall(r"^\| ([^|]*) \|", made()[page], re.M) for name in re.findall(r"`([^`]+)`", cell)
    }


def test_every_client_setting_and_every_name_of_java_is_there() -> None:
    assert every_setting() <= names_in("client-settings.md")
    page = made()["client-settings.md"]
    missing = [name for name in known_names() - {"interceptors"} if f"`{name}`" not in page]
    ours = {name.replace("_", ".") for name in every_setting()}
    assert [name for name in missing if name not in ours] == []


def test_each_java_name_of_a_setting_is_one_that_a_java_configuration_may_have() -> None:
    named = {name.rpartition(" ")[2] for setting in every_setting() for name in java_names_of(setting)}
    assert named <= known_names()


def test_every_broker_property_is_there() -> None:
    assert BROKER_SETTINGS.keys() | IGNORED | REFUSED <= names_in("broker-properties.md")


def test_every_spark_option_is_described() -> None:
    assert DESCRIPTIONS.keys() == user_options()


@pytest.mark.parametrize(
    ("name", "levels"),
    [("kafkaraw.client.network.pool", "INFO"), ("kafkaraw.spark.lag", "INFO"), ("kafkaraw.wire", "DEBUG")],
)
def test_loggers_are_found_in_the_sources(name: str, levels: str) -> None:
    assert name in loggers()
    assert re.search(rf"^\| `{name}` \|[^|]*{levels}", made()["loggers.md"], re.M)


def test_every_exception_says_when_it_is_raised() -> None:
    sections = re.split(r"^## ", made()["exceptions.md"], flags=re.M)[2:]
    assert len(sections) > 50
    assert [section for section in sections if len(section.splitlines()) < 5] == []
