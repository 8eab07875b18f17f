"""The authorizer decides as Kafka's StandardAuthorizer does: cases by rule, and any case against a naive reference."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.acl.authorizer import Authorizer, Client
from kafkaraw.broker.acl.rules import Acl, AclFilter, AclRules
from kafkaraw.protocol.acl_codes import OPERATIONS_OF, AclOperation, AclPermissionType, PatternType, ResourceType

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ADA = Client("User:ada", "10.0.0.1")


def acl(
    name: str = "flights",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    principal: str = "User:ada",
    host: str = "*",
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def allows(*acls: Acl, operation: AclOperation = READ, name: str = "flights", client: Client = ADA) -> bool:
    return Authorizer(AclRules(acls)).allows(client, operation, TOPIC, name)


def test_what_no_entry_allows_is_denied():
    assert not allows()
    assert not allows(acl("other"))
    assert not allows(acl(kind=GROUP))
    assert not allows(acl(principal="User:bob"))
    assert not allows(acl(host="10.0.0.2"))
    assert not allows(acl(operation=WRITE))
    assert allows(acl())
    assert allows(acl(host="10.0.0.1"))


def test_all_principals_and_all_operations_can_be_allowed():
    assert allows(acl(principal="User:*"))
    assert allows(acl(operation=AclOperation.ALL))
    assert not allows(acl(principal="Group:*"))


def test_a_literal_name_is_the_whole_name_and_a_star_is_every_name():
    assert not allows(acl("fl"))
    assert not allows(acl("flights-2"))
    assert allows(acl("*"))


def test_a_prefix_covers_the_names_that_begin_with_it():
    assert allows(acl("fl", pattern=PREFIXED))
    assert allows(acl("flights", pattern=PREFIXED))
    assert not allows(acl("flights-", pattern=PREFIXED))
    assert not allows(acl("*", pattern=PREFIXED))


@pytest.mark.parametrize("denied_as", ["flights", "*"])
def test_denying_wins_over_every_allowing_entry(denied_as):
    generous = acl("*", AclOperation.ALL), acl("f", AclOperation.ALL, pattern=PREFIXED), acl()
    assert allows(*generous)
    assert not allows(*generous, acl(denied_as, permission=DENY))
    assert not allows(*generous, acl("fli", permission=DENY, pattern=PREFIXED, principal="User:*"))
    assert allows(*generous, acl(denied_as, permission=DENY, principal="User:bob"))


@pytest.mark.parametrize("implying", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_reading_writing_deleting_and_altering_imply_describing(implying):
    assert allows(acl(operation=implying), operation=DESCRIBE)
    assert not allows(acl(operation=implying), operation=AclOperation.DESCRIBE_CONFIGS)


def test_altering_configs_implies_describing_them():
    wanted = AclOperation.DESCRIBE_CONFIGS
    assert allows(acl(operation=AclOperation.ALTER_CONFIGS), operation=wanted)
    assert not allows(acl(operation=AclOperation.CREATE), operation=wanted)


def test_denying_reading_does_not_deny_describing():
    entries = acl(operation=AclOperation.ALL), acl(operation=READ, permission=DENY)
    assert allows(*entries, operation=DESCRIBE)
    assert not allows(*entries, operation=READ)


def test_super_users_may_what_is_denied():
    authorizer = Authorizer(AclRules([acl("*", AclOperation.ALL, DENY)]), frozenset({"User:ada"}))
    assert authorizer.allows(ADA, WRITE, TOPIC, "flights")
    assert authorizer.allows_any(ADA, WRITE, TOPIC)
    assert not authorizer.allows(Client("User:bob", "10.0.0.1"), WRITE, TOPIC, "flights")


def test_allow_everyone_holds_for_what_no_entry_is_about():
    rules = AclRules([acl("flights", principal="User:bob"), acl("p", pattern=PREFIXED, principal="User:bob")])
    authorizer = Authorizer(rules, allow_everyone_if_no_acl_found=True)
    assert authorizer.allows(ADA, READ, TOPIC, "other")
    assert not authorizer.allows(ADA, READ, TOPIC, "flights")  # somebody else's entry covers it
    assert not authorizer.allows(ADA, READ, TOPIC, "planes")


def test_authorized_operations_are_bits_numbered_by_operation():
    authorizer = Authorizer(AclRules([acl(operation=WRITE)]))
    assert authorizer.authorized_operations(ADA, TOPIC, "flights") == (1 << WRITE) | (1 << DESCRIBE)
    everything = Authorizer(AclRules([acl("*", AclOperation.ALL)]))
    assert everything.authorized_operations(ADA, TOPIC, "x") == sum(1 << one for one in OPERATIONS_OF[TOPIC])


def allows_any(*acls: Acl) -> bool:
    return Authorizer(AclRules(acls)).allows_any(ADA, WRITE, TOPIC)


def test_permission_on_any_resource_needs_one_that_is_not_denied():
    """The examples of KIP-679."""
    assert allows_any(acl(operation=WRITE))
    assert not allows_any(acl(operation=WRITE), acl(operation=WRITE, permission=DENY))
    assert not allows_any(acl(operation=WRITE), acl("fl", WRITE, DENY, pattern=PREFIXED))
    assert allows_any(acl(operation=WRITE), acl("flights-", WRITE, DENY, pattern=PREFIXED))
    assert allows_any(acl("fl", WRITE, pattern=PREFIXED), acl("flights", WRITE, DENY, pattern=PREFIXED))
    assert not allows_any(acl("*", WRITE), acl("*", WRITE, DENY))
    assert allows_any(acl("*", WRITE), acl("f", WRITE, DENY, pattern=PREFIXED))
    assert not allows_any(acl(operation=READ))


# -- against a naive reference -------------------------------------------------------------------------------------

names = st.text("ab", min_size=1, max_size=3) | st.just("*")
operations = st.sampled_from([op for op in AclOperation if op > AclOperation.ANY])
acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:ada", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    operations,
    st.sampled_from([ALLOW, ALLOW, DENY]),
)


def covered(entry: Acl, kind: ResourceType, name: str) -> bool:
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PREFIXED:
        return name[: len(entry.resource_name)] == entry.resource_name
    return entry.resource_name == name or entry.resource_name == "*"


def operations_covered(entry: Acl) -> set[AclOperation]:
    if entry.operation == AclOperation.ALL:
        return set(AclOperation)
    implied = set()
    if entry.permission_type == ALLOW and entry.operation in (3, 4, 6, 7):
        implied = {DESCRIBE}
    if entry.permission_type == ALLOW and entry.operation == AclOperation.ALTER_CONFIGS:
        implied = {AclOperation.DESCRIBE_CONFIGS}
    return {entry.operation, *implied}


def naive(entries: list[Acl], client: Client, operation: AclOperation, kind: ResourceType, name: str, default: bool):
    about = [entry for entry in entries if covered(entry, kind, name)]
    matching = [
        entry
        for entry in about
        if entry.principal in (client.principal, "User:*")
        and entry.host in (client.host, "*")
        and operation in operations_covered(entry)
    ]
    if any(entry.permission_type == DENY for entry in matching):
        return False
    if matching:
        return True
    return default and not about


@given(st.lists(acls, max_size=8), names, operations, st.booleans(), st.sampled_from([TOPIC, GROUP]))
def test_it_decides_as_the_naive_reference(entries, name, operation, default, kind):
    authorizer = Authorizer(AclRules(entries), allow_everyone_if_no_acl_found=default)
    assert authorizer.allows(ADA, operation, kind, name) == naive(entries, ADA, operation, kind, name, default)


@given(st.lists(acls, max_size=6))
def test_permission_on_any_resource_needs_one_allowed_resource(entries):
    """Sound against trying names, for operations that nothing implies; a pattern may hold a name that was not tried."""
    authorizer = Authorizer(AclRules(entries))
    tried = ["".join(letters) for size in range(1, 5) for letters in itertools.product("abc", repeat=size)]
    found = any(naive(entries, ADA, WRITE, TOPIC, name, default=False) for name in [*tried, "hardcode", "*"])
    if found:
        assert authorizer.allows_any(ADA, WRITE, TOPIC)


@given(st.lists(acls, max_size=8), st.data())
def test_removing_what_was_added_leaves_no_trace(entries, data):
    rules = AclRules(entries)
    gone = data.draw(st.sets(st.sampled_from(entries))) if entries else set()
    for entry in gone:
        rules.remove(entry)
    assert set(rules) == set(entries) - gone
    for name in ("a", "ab", "aba", "*", "b"):
        assert set(rules.applying_to(TOPIC, name)) == {
            entry for entry in set(entries) - gone if covered(entry, TOPIC, name)
        }


# -- filters -------------------------------------------------------------------------------------------------------


def test_an_empty_filter_matches_everything():
    entries = [acl(), acl("fl", WRITE, DENY, pattern=PREFIXED), acl(kind=GROUP)]
    assert AclRules(entries).matching(AclFilter()) == entries


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(resource_name="flights", pattern_type=LITERAL), {"flights"}),
        (AclFilter(resource_name="fl", pattern_type=PREFIXED), {"fl"}),
        (AclFilter(resource_name="fl"), {"fl"}),
        (AclFilter(resource_name="*"), {"*"}),
        (AclFilter(resource_name="flights", pattern_type=PatternType.MATCH), {"flights", "fl", "*"}),
        (AclFilter(resource_name="flap", pattern_type=PatternType.MATCH), {"fl", "*"}),
        (AclFilter(pattern_type=PatternType.MATCH), {"flights", "fl", "*"}),
        (AclFilter(pattern_type=PREFIXED), {"fl"}),
        (AclFilter(resource_type=GROUP), set()),
        (AclFilter(principal="User:ada", host="*", operation=READ, permission_type=ALLOW), {"flights", "fl", "*"}),
        (AclFilter(principal="User:*"), set()),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=AclOperation.ALL), set()),
        (AclFilter(permission_type=DENY), set()),
    ],
)
def test_filters_compare_fields_and_match_finds_what_applies(wanted, found):
    rules = AclRules([acl("flights"), acl("fl", pattern=PREFIXED), acl("*")])
    assert {entry.resource_name for entry in rules.matching(wanted)} == found
