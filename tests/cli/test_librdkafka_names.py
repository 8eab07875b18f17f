"""Settings by librdkafka's names: each of them means a setting that our clients have."""

from __future__ import annotations

import pytest

from kafkaraw.cli.librdkafka_names import _NAMES, in_our_names
from kafkaraw.client.config import every_setting


@pytest.mark.parametrize("name", sorted(_NAMES))
def test_each_name_is_a_setting_of_kafkaraw_or_ignored(name: str):
    (meant,) = in_our_names({name: "1"}) or [None]
    assert meant is None or meant.replace(".", "_") in every_setting()


def test_other_names_and_their_order_are_unchanged():
    given = {"client.id": "me", "topic.acks": "1", "linger.ms": "5"}
    assert in_our_names(given) == {"client.id": "me", "acks": "1", "linger.ms": "5"}


def test_values_are_translated():
    assert in_our_names({"security.protocol": "sasl_ssl"}) == {"security.protocol": "SASL_SSL"}
    assert in_our_names({"auto.offset.reset": "smallest"}) == {"auto.offset.reset": "earliest"}
    assert in_our_names({"topic.auto.offset.reset": "error"}) == {"auto.offset.reset": "none"}


def test_security_settings_are_not_ignored():
    assert in_our_names({"enable.ssl.certificate.verification": "false"})  # and is refused as unknown
