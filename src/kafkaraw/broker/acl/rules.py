"""Access control entries, the ones that apply to a resource, and the ones that match a filter.

`AclRules` is an index: an entry is found by the name of its pattern, so that a look-up costs the length of a name, not
the number of entries. What the entries found mean is decided in `authorizer`.
Source: KIP-290; org.apache.kafka.metadata.authorizer.{StandardAcl, AclCache}, ResourcePatternFilter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.acl_codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType


class Acl(NamedTuple):
    """One ACL: allows or denies a principal an operation on the resources of a pattern.

    Attributes:
        pattern_type: LITERAL (the name, or "*" for all names) or PREFIXED (all names that begin with it).
        principal: such as "User:ada"; "User:*" is every user.
        host: an IP address; "*" is every address.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs to list or delete. None and ANY match every value of a field."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether an ACL matches."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.resource_name is None or applies(acl, self.resource_name)
        return self.pattern_type in (PatternType.ANY, acl.pattern_type) and self.resource_name in (
            None,
            acl.resource_name,
        )


def applies(acl: Acl, name: str) -> bool:
    """Whether the pattern of an entry covers a resource's name; its type is not looked at."""
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


class AclRules:
    """A set of entries.

    Args:
        acls: those that it holds at first.
    """

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._by_pattern: defaultdict[tuple[ResourceType, PatternType, str], dict[Acl, None]] = defaultdict(dict)
        self._prefix_length_max = 0
        for acl in acls:
            self.add(acl)

    def __iter__(self) -> Iterator[Acl]:
        for entries in self._by_pattern.values():
            yield from entries

    def add(self, acl: Acl) -> None:
        """Take in an entry; one that is there already stays as it is."""
        self._by_pattern[_pattern(acl)][acl] = None
        if acl.pattern_type is PatternType.PREFIXED:
            self._prefix_length_max = max(self._prefix_length_max, len(acl.resource_name))

    def remove(self, acl: Acl) -> None:
        """Forget an entry that it has."""
        entries = self._by_pattern[_pattern(acl)]
        del entries[acl]
        if not entries:
            del self._by_pattern[_pattern(acl)]

    def of_type(self, resource_type: ResourceType) -> Iterator[Acl]:
        """The entries for resources of one type."""
        for (kind, _, _), entries in self._by_pattern.items():
            if kind is resource_type:
                yield from entries

    def applying_to(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Return the ACLs whose pattern matches a resource, for all principals."""
        names = [name] if name == WILDCARD else [name, WILDCARD]
        patterns = [(PatternType.LITERAL, literal) for literal in names]
        ends = range(1, min(len(name), self._prefix_length_max) + 1)
        patterns += [(PatternType.PREFIXED, name[:end]) for end in ends]
        for pattern_type, pattern_name in patterns:
            yield from self._by_pattern.get((resource_type, pattern_type, pattern_name), ())

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """The entries that match a filter."""
        return [acl for acl in self if wanted.matches(acl)]


def _pattern(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name
