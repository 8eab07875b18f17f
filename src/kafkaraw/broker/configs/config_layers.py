"""The effective value of a configuration and the values that it overrides, as DescribeConfigs returns them.

Four layers, the first that has a value wins: set for the broker while it runs, set for all brokers while they run,
given at the start, built in. A topic or group has one more in front. Pure: handlers give it the layers.
Source: kafka.server.{ConfigHelper, DynamicBrokerConfig} of Kafka 4.3; KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.broker.configs.config import BROKER_SETTINGS, COARSER, BrokerConfig
from kafkaraw.broker.configs.kafka_configs import BROKER_CONFIGS
from kafkaraw.broker.configs.kafka_configs.declared import CLUSTER_WIDE, READ_ONLY, Declared
from kafkaraw.broker.configs.kafka_configs.groups import GROUP_CONFIGS
from kafkaraw.broker.configs.kafka_configs.network import CLIENT_METRICS_CONFIGS
from kafkaraw.broker.configs.topic_config import BROKER_PROPERTY, TOPIC_SETTINGS
from kafkaraw.broker.settings import Setting, to_text
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.config_codes import ConfigSource, ConfigType

_FAMILIES = [(BROKER_PROPERTY[topic], *(name for name, _ in coarser)) for topic, coarser in COARSER.items()]
_BEHIND = {name: family[position + 1 :] for family in _FAMILIES for position, name in enumerate(family)}
"""The configurations that Kafka shows behind one that has a value (`DynamicBrokerConfig.brokerConfigSynonyms`)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One value of a configuration: under which name it was given, and where. A secret's value is None."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration as it is shown.

    Attributes:
        declared: what is known about it.
        value: the one in force; None when there is none, or when it is a secret.
        source: where that value comes from.
        read_only: whether it cannot change while the broker runs.
        layers: the values that were given, the one in force first.
        is_sensitive: whether the value is, or may be, a secret.
    """

    declared: Declared
    value: str | None
    source: ConfigSource
    read_only: bool
    layers: tuple[Layer, ...]
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The layers of one broker's configuration.

    Attributes:
        own: set for this broker while it runs.
        cluster: set for all brokers while they run.
        given: given at the start.
    """

    own: Mapping[str, str]
    cluster: Mapping[str, str]
    given: Mapping[str, str]

    @classmethod
    def of(cls, config: BrokerConfig, own: Mapping[str, str], cluster: Mapping[str, str]) -> BrokerLayers:
        """The layers of a broker that was started with `config`."""
        return cls(own, cluster, given_at_start(config))

    def layers(self, name: str) -> tuple[Layer, ...]:
        """The values of one configuration, the one in force first; behind a value, those of coarser configurations."""
        own = self._layers_of(name)
        behind = _BEHIND.get(name, ()) if own else ()
        return own + tuple(layer for coarser in behind for layer in self._layers_of(coarser))

    def _layers_of(self, name: str) -> tuple[Layer, ...]:
        declared = BROKER_CONFIGS.get(name)
        secret = declared is None or declared.is_sensitive
        found = (
            (self.own.get(name), ConfigSource.DYNAMIC_BROKER),
            (self.cluster.get(name), ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.given.get(name), ConfigSource.STATIC_BROKER),
            (None if declared is None else default_of(declared), ConfigSource.DEFAULT),
        )
        return tuple(Layer(name, None if secret else value, source) for value, source in found if value is not None)


def given_at_start(config: BrokerConfig) -> dict[str, str]:
    """What a broker was started with, as text; what it had to choose for itself counts as given, too."""
    given = {name: to_text(value) for name, value in config.properties.items()}
    given["node.id"] = given["broker.id"] = str(config.node_id)
    given["process.roles"] = "broker,controller"
    given["listeners"] = ",".join(map(str, config.listeners))
    given["advertised.listeners"] = ",".join(map(str, config.advertised_listeners))
    return given


def default_of(declared: Declared) -> str | None:
    """The value when none is given: Kafka's, except where this broker acts on another one."""
    setting = BROKER_SETTINGS.get(declared.name)
    return declared.default if setting is None or declared.default is None else to_text(setting.default)


def broker_entries(layers: BrokerLayers) -> list[Entry]:
    """Every configuration of a broker. What is not Kafka's is shown without its value, which may be a secret."""
    names = sorted({*BROKER_CONFIGS, *layers.own, *layers.cluster, *layers.given})
    return [_broker_entry(name, layers.layers(name)) for name in names]


def cluster_entries(cluster: Mapping[str, str]) -> list[Entry]:
    """What is set for all brokers while they run."""
    layers = BrokerLayers({}, cluster, {})
    return [_broker_entry(name, layers.layers(name)[:1]) for name in sorted(cluster)]


def _broker_entry(name: str, layers: tuple[Layer, ...]) -> Entry:
    declared = BROKER_CONFIGS.get(name) or Declared(name, ConfigType.UNKNOWN, None, "")
    secret = declared.is_sensitive or declared.kind is ConfigType.UNKNOWN
    entry = _entry(declared, layers)
    return replace(entry, read_only=declared.mode is READ_ONLY, is_sensitive=secret)


def _entry(declared: Declared, layers: tuple[Layer, ...]) -> Entry:
    first = layers[0] if layers else Layer(declared.name, None, ConfigSource.DEFAULT)
    return Entry(declared, first.value, first.source, False, layers)


def topic_entries(own: Mapping[str, str], broker: BrokerLayers, config: BrokerConfig) -> list[Entry]:
    """Every configuration of a topic.

    Args:
        own: those given for it.
        broker: the layers of the broker's configuration, whose topic defaults are next.
        config: the broker's configuration in force.
    """
    rows = []
    for name, setting in sorted(TOPIC_SETTINGS.items()):
        declared = topic_declaration(setting)
        behind = broker.layers(BROKER_PROPERTY[name]) if name in BROKER_PROPERTY else ()
        if name in own:
            rows.append(_entry(declared, (*_given(name, own, ConfigSource.DYNAMIC_TOPIC), *behind)))
        else:
            # The value may follow from a coarser one, such as log.retention.hours, that is not shown behind it.
            source = behind[0].source if behind else ConfigSource.DEFAULT
            rows.append(Entry(declared, to_text(config.topic_defaults[name]), source, False, behind))
    return rows


def topic_declaration(setting: Setting) -> Declared:
    """A topic's setting, declared as the broker's configurations are."""
    return Declared(setting.name, setting.kind, to_text(setting.default), setting.doc, CLUSTER_WIDE)


def group_entries(own: Mapping[str, str], broker: BrokerLayers) -> list[Entry]:
    """Every configuration of a group; most follow the broker's configuration of the same name with `group.` before."""
    entries = []
    for name, declared in GROUP_CONFIGS.items():
        behind = broker.layers(f"group.{name}") or (Layer(name, declared.default, ConfigSource.DEFAULT),)
        entries.append(_entry(declared, (*_given(name, own, ConfigSource.GROUP), *behind)))
    return entries


def client_metrics_entries(own: Mapping[str, str]) -> list[Entry]:
    """Every configuration of a subscription to client metrics."""
    entries = []
    for name, declared in CLIENT_METRICS_CONFIGS.items():
        given = _given(name, own, ConfigSource.CLIENT_METRICS) or (Layer(name, declared.default, ConfigSource.DEFAULT),)
        entries.append(Entry(declared, given[0].value, given[0].source, False, ()))
    return entries


def _given(name: str, own: Mapping[str, str], source: ConfigSource) -> tuple[Layer, ...]:
    return (Layer(name, own[name], source),) if name in own else ()
