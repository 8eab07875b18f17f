"""Which member of a classic group reads which partition.

`Assignor` is what one does; each module is one of Java's, with the same result for the same input, so that a mixed
group keeps its assignment when the leader changes. A new one is a file here and a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kafkaraw.core.group.assignors.interface import Assignor as Assignor
from kafkaraw.core.group.assignors.interface import Topics as Topics
from kafkaraw.core.group.assignors.range import RangeAssignor as RangeAssignor
from kafkaraw.core.group.assignors.range import RoundRobinAssignor as RoundRobinAssignor
from kafkaraw.core.group.assignors.sticky import CooperativeStickyAssignor as CooperativeStickyAssignor
from kafkaraw.core.group.assignors.sticky import StickyAssignor as StickyAssignor

ASSIGNORS: Final[Mapping[str, Callable[[], Assignor]]] = MappingProxyType(
    {
        "range": RangeAssignor,
        "roundrobin": RoundRobinAssignor,
        "sticky": StickyAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
)
"""The assignors that a setting may name."""
