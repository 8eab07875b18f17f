"""The types of the settings: the names of the configuration classes, with types whose values the clients accept."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from kafkaraw.client.settings import build, settings_of
from kafkaraw.client.settings_types import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    SecuritySettings,
    ShareConsumerSettings,
)
from kafkaraw.light_classes import fields
from kafkaraw.records.partitioning import PARTITIONERS, PartitionerName
from kafkaraw.schemas.registry_config import RegistryConfig
from kafkaraw.schemas.settings_types import RegistrySettings
from tests.cases import Cases

KINDS = {
    ClientConfig: ClientSettings,
    AdminConfig: AdminSettings,
    ProducerConfig: ProducerSettings,
    ConsumerConfig: ConsumerSettings,
    ShareConsumerConfig: ShareConsumerSettings,
    RegistryConfig: RegistrySettings,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_types_have_every_setting_and_no_other_name(kind):
    apart = {"url"} if kind is RegistryConfig else set()
    assert set(get_type_hints(KINDS[kind])) == set(settings_of(kind)) - apart


def test_settings_of_security_can_be_shared_by_clients_of_several_clusters():
    assert "bootstrap_servers" not in get_type_hints(SecuritySettings)
    assert {"security_protocol", "sasl_password", "ssl_cafile"} <= set(get_type_hints(SecuritySettings))


def values_of(accepted: Any, default: object, minimum: int | None) -> Iterator[object]:
    """Values of a type, of which the client must accept each."""
    if get_origin(accepted) is Literal:
        yield from get_args(accepted)
    elif accepted is NoneType:
        yield None
    elif accepted is bool:
        yield from (True, False)
    elif accepted is int:
        yield default if isinstance(default, int) else minimum
    elif get_origin(accepted) is not None:
        for part in get_args(accepted):
            if get_origin(part) is Literal or part in (NoneType, bool, int):
                yield from values_of(part, default, minimum)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_client_accepts_values_of_the_types(kind):
    hints = get_type_hints(KINDS[kind])
    defaults = {field.name: field.default for field in fields(kind)}
    with Cases() as case:
        for name, about in settings_of(kind).items():
            for value in values_of(hints.get(name), defaults[name], about.minimum):
                with case(f"{name}={value!r}"):
                    build(kind, {name: value})


def test_every_partitioner_has_a_name_in_the_type():
    assert get_args(PartitionerName) == tuple(PARTITIONERS)
