"""The settings of group members that need more than a type and limits: assignors, and which go together.

`config.py` declares the settings; what is checked here is what Java's ConsumerConfig checks, with words that say what
to change. The functions that use assignors import them: producers and admins have the same table of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.client.config import ConsumerConfig
    from kafkaraw.core.group.assignors import Assignor
    from kafkaraw.core.group.events import GroupSettings

    Strategy = str | type[Assignor]

_JAVA_CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_CLASSIC_ONLY: Final = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
_MEMBERS_ONLY: Final[Mapping[str, object]] = {
    "group_instance_id": None,
    "enable_auto_commit": False,
    "enable_auto_offset_store": True,
    "group_remote_assignor": None,
}
"""Settings that need a group, unless they have these values."""


def parse_strategies(value: object) -> tuple[Strategy, ...]:
    """Read `partition_assignment_strategy`: names, Java's class names, or classes of the user's own.

    Raises:
        ValueError: an entry is none of these.
    """
    from kafkaraw.core.group.assignors import ASSIGNORS

    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, type):
        parts = [parts]
    if not isinstance(parts, list | tuple):
        raise ValueError("must be a list of names, or of classes derived from Assignor")
    strategies = tuple(_strategy(part) for part in parts)
    if not strategies:
        raise ValueError(f"must name at least one of {', '.join(ASSIGNORS)}")
    names = [strategy if isinstance(strategy, str) else strategy.name for strategy in strategies]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two assignors have the name {twice[0]!r}: members identify assignors by `name`")
    return strategies


def _strategy(part: object) -> Strategy:
    from kafkaraw.core.group.assignors import ASSIGNORS, Assignor

    if isinstance(part, type) and issubclass(part, Assignor):
        return _own(part)
    if not isinstance(part, str):
        raise ValueError(f"{part!r} is neither a name nor a class derived from Assignor")
    name = part.strip().removeprefix(_JAVA_PACKAGE)
    name = _JAVA_CLASSES.get(name, name)
    if name not in ASSIGNORS:
        import difflib  # only for the message of an error

        near = difflib.get_close_matches(name.lower(), ASSIGNORS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{part!r} is none of {', '.join(ASSIGNORS)}{hint}")
    return name


def _own(assignor: type[Assignor]) -> type[Assignor]:
    """A class of the user's own, which must be complete."""
    missing = sorted(assignor.__abstractmethods__)
    if missing:
        raise ValueError(f"{assignor.__name__} has no method {missing[0]}()")
    name: object = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{assignor.__name__}.name is {name!r}: it must be the name by which all members know it")
    return assignor


def check_group(config: ConsumerConfig, given: Mapping[str, object]) -> None:
    """Check which settings go together.

    Raises:
        ConfigError: two settings exclude each other, or one has no effect.
    """
    if config.group_id is None:
        idle = [name for name, unused in _MEMBERS_ONLY.items() if name in given and getattr(config, name) != unused]
        if idle:
            raise ConfigError(f"{', '.join(idle)}: no effect without a group_id")
        return
    if not config.group_id:
        raise ConfigError("group_id='' must not be empty; leave it out for a consumer without a group")
    if config.group_instance_id == "":
        raise ConfigError("group_instance_id='' must not be empty; leave it out for a dynamic member")
    if config.group_protocol == "consumer":
        idle = [name for name in _CLASSIC_ONLY if name in given]
        if idle:
            raise ConfigError(
                f"{', '.join(idle)}: no effect with group_protocol='consumer', where the broker decides (see its "
                f"group.consumer settings and group_remote_assignor)"
            )
        return
    if config.group_remote_assignor is not None:
        raise ConfigError("group_remote_assignor: no effect without group_protocol='consumer'")
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise ConfigError(
            f"heartbeat_interval_ms={config.heartbeat_interval_ms} must be less than session_timeout_ms="
            f"{config.session_timeout_ms}, usually a third of it; both are milliseconds"
        )


def member_settings(config: ConsumerConfig) -> GroupSettings:
    """The settings of a member, with assignors of its own."""
    from kafkaraw.core.group.assignors import ASSIGNORS
    from kafkaraw.core.group.events import GroupSettings

    assert config.group_id is not None
    return GroupSettings(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        rack_id=config.client_rack or None,
        assignors=[
            ASSIGNORS[strategy]() if isinstance(strategy, str) else strategy()
            for strategy in config.partition_assignment_strategy
        ],
        server_assignor=config.group_remote_assignor,
    )
