"""The declaration of one of Kafka's configurations, and the check of its type."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkaraw.broker.settings import invalid, problem_with
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.config_codes import ConfigType


class UpdateMode(Enum):
    """Whether a broker's configuration can change while it runs.

    Members: READ_ONLY cannot; PER_BROKER can for one broker; CLUSTER_WIDE can for one and for all.
    """

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE


@dataclass(frozen=True, slots=True)
class Declared:
    """One configuration of Kafka 4.3.

    Attributes:
        name: Kafka's name for it.
        kind: the type of its value.
        default: Kafka's default, as text; None when there is none.
        doc: what it does, in one line.
        mode: whether it can change while the broker runs.
    """

    name: str
    kind: ConfigType
    default: str | None
    doc: str
    mode: UpdateMode = READ_ONLY

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is a secret, which responses never contain."""
        return self.kind is ConfigType.PASSWORD


def check_type(declared: Declared, value: str) -> None:
    """Check that a text reads as the configuration's type; limits are not known here.

    Raises:
        ConfigError: it does not.
    """
    problem = problem_with(declared.kind, value)
    if problem:
        raise invalid(declared.name, value, problem)
