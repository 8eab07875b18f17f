"""CreateAcls, DescribeAcls and DeleteAcls: what is kept, what matches, what is refused."""

from __future__ import annotations

import random

import pytest

from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.state import BrokerState
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkaraw.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest
from tests.broker.support import FixedClock, ask, make_state

ROOT = "User:root"


def secured(storage: MemoryStorage | None = None) -> BrokerState:
    return make_state(storage, authorizer_class_name=STANDARD_AUTHORIZER, super_users=ROOT)


def creation(name="flights", kind=2, pattern=3, principal="User:ada", host="*", operation=3, permission=3):
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def create(state, *creations, version=None):
    return ask(state, CreateAclsRequest(creations=list(creations)), version, principal=ROOT).results


def describe(state, *, kind=1, name=None, pattern=1, version=None, **other):
    wanted = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1} | other
    request = DescribeAclsRequest(
        resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=pattern, **wanted
    )
    return ask(state, request, version, principal=ROOT)


def names(answer):
    return {resource.resource_name for resource in answer.resources}


def delete(state, *wanted):
    filters = [
        DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for name, pattern in wanted
    ]
    return ask(state, DeleteAclsRequest(filters=filters), principal=ROOT).filter_results


def test_what_was_created_is_described_by_resource():
    state = secured()
    results = create(state, creation(), creation(operation=4, permission=2), creation("fl", pattern=4, host="10.0.0.1"))
    assert [(one.error_code, one.error_message) for one in results] == [(ErrorCode.NONE, None)] * 3
    flights, prefixed = describe(state).resources
    assert (flights.resource_name, flights.resource_type, flights.pattern_type) == ("flights", 2, 3)
    assert [(one.operation, one.permission_type) for one in flights.acls] == [(3, 3), (4, 2)]
    assert (prefixed.resource_name, prefixed.pattern_type, prefixed.acls[0].host) == ("fl", 4, "10.0.0.1")


def test_creating_twice_is_no_error_and_changes_nothing():
    state = secured()
    create(state, creation())
    assert create(state, creation(), creation())[0].error_code == ErrorCode.NONE
    assert len(describe(state).resources[0].acls) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (creation("x", kind=4), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (creation(""), "Invalid empty resource name"),
        (creation(principal="ada"), "Could not parse principal from `ada`"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_and_the_others_are_kept(wrong, message):
    state = secured()
    bad, good = create(state, wrong, creation())
    assert (bad.error_code, good.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert bad.error_message.startswith(message)
    assert names(describe(state)) == {"flights"}


@pytest.mark.parametrize("wrong", [{"kind": 1}, {"pattern": 1}, {"pattern": 2}, {"operation": 1}, {"permission": 1}])
def test_what_only_a_filter_may_say_fails_the_whole_request(wrong):
    state = secured()
    results = create(state, creation(), creation(**wrong))
    assert [one.error_code for one in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert not names(describe(state))


@pytest.mark.parametrize("wrong", [{"kind": 99}, {"pattern": 99}, {"operation": 99}, {"permission": 99}])
def test_numbers_without_a_meaning_are_refused(wrong):
    state = secured()
    bad, good = create(state, creation(**wrong), creation())
    assert (bad.error_code, good.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert names(describe(state, operation=99)) == set()


@pytest.mark.parametrize("wrong", [{"kind": 0}, {"pattern": 0}, {"operation": 0}, {"permission": 0}])
def test_unknown_elements_close_the_connection(wrong):
    with pytest.raises(CloseConnectionError, match="unknown elements"):
        create(secured(), creation(**wrong))
    filters = {"kind": "kind", "pattern": "pattern", "operation": "operation", "permission": "permission_type"}
    (name, value), *_ = wrong.items()
    with pytest.raises(CloseConnectionError, match="unknown elements"):
        describe(secured(), **{filters[name]: value})


def test_a_filter_that_matches_finds_literal_prefixed_and_wildcard_entries():
    state = secured()
    create(state, creation("flights"), creation("fl", pattern=4), creation("*"), creation("other"))
    assert names(describe(state, name="flights", pattern=PatternType.MATCH)) == {"flights", "fl", "*"}
    assert names(describe(state, name="flights", pattern=PatternType.ANY)) == {"flights"}
    assert names(describe(state, name="*", pattern=PatternType.LITERAL)) == {"*"}
    assert names(describe(state, kind=ResourceType.GROUP)) == set()
    assert names(describe(state, operation=AclOperation.WRITE)) == set()
    assert names(describe(state, permission_type=AclPermissionType.DENY)) == set()
    assert names(describe(state, principal_filter="User:ada", host_filter="*")) == {"flights", "fl", "*", "other"}


def test_deleting_names_what_each_filter_matched():
    state = secured()
    create(state, creation("flights"), creation("fl", pattern=4), creation("other"))
    matching, literal, nothing = delete(
        state, ("flights", PatternType.MATCH), ("flights", PatternType.LITERAL), ("nowhere", PatternType.ANY)
    )
    assert {one.resource_name for one in matching.matching_acls} == {"flights", "fl"}
    assert {one.resource_name for one in literal.matching_acls} == {"flights"}
    assert nothing.matching_acls == []
    assert names(describe(state)) == {"other"}


def test_entries_are_acted_on_at_once_and_survive_a_restart():
    storage = MemoryStorage()
    state = secured(storage)
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert ask(state, request, principal="User:ada").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create(state, creation("kafka-cluster", kind=ResourceType.CLUSTER, operation=AclOperation.DESCRIBE))
    assert ask(state, request, principal="User:ada").error_code == ErrorCode.NONE
    state.close()
    again = secured(storage)
    assert ask(again, request, principal="User:ada").error_code == ErrorCode.NONE
    delete(again, (None, PatternType.ANY))
    assert ask(again, request, principal="User:ada").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_nodes_of_one_cluster_share_their_entries():
    first = secured()
    second = BrokerState(first.config, MemoryStorage(), FixedClock(), random.Random(2), controller=first.controller)
    create(first, creation("kafka-cluster", kind=ResourceType.CLUSTER, operation=AclOperation.DESCRIBE))
    assert names(describe(second)) == {"kafka-cluster"}
    delete(second, (None, PatternType.ANY))
    assert names(describe(first)) == set()


def test_a_damaged_file_stops_the_broker_from_starting():
    storage = MemoryStorage()
    secured(storage).close()
    storage.write_text("", "kafkaraw-acls.json", "{")
    with pytest.raises(ConfigError, match="damaged"):
        secured(storage)


class FullStorage(MemoryStorage):
    def write_text(self, folder, name, text, *, durable=True, **other):
        if name == "kafkaraw-acls.json":
            raise OSError(28, "No space left on device")
        super().write_text(folder, name, text, durable=durable, **other)


def test_what_cannot_be_stored_is_refused_and_not_acted_on():
    state = secured(FullStorage())
    (result,) = create(state, creation())
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in result.error_message
    assert describe(state).resources == []


def test_without_an_authorizer_there_is_nothing_to_change():
    state = make_state()
    assert create(state, creation())[0].error_code == ErrorCode.SECURITY_DISABLED
    assert describe(state).error_code == ErrorCode.SECURITY_DISABLED
    assert delete(state, (None, PatternType.ANY))[0].error_code == ErrorCode.SECURITY_DISABLED
