"""ListConfigResources: which resources are listed, by type and by version."""

from __future__ import annotations

from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.support import ask, make_state


def state_with_topic() -> BrokerState:
    state = make_state()
    state.controller.configure(ConfigResourceType.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    state.create_topic(Plan("flights", ((0,),), {}))
    return state


def test_all_types_are_listed_if_the_request_names_none():
    found = ask(state_with_topic(), ListConfigResourcesRequest()).config_resources
    assert {(one.resource_type, one.resource_name) for one in found} == {(2, "flights"), (4, "0"), (8, "0"), (32, "g")}


def test_only_the_types_of_the_request_are_listed():
    request = ListConfigResourcesRequest(resource_types=[ConfigResourceType.GROUP])
    assert [one.resource_name for one in ask(state_with_topic(), request).config_resources] == ["g"]


def test_version_0_lists_client_metrics_only():
    assert ask(state_with_topic(), ListConfigResourcesRequest(), 0).config_resources == []


def test_an_unknown_type_is_refused():
    answer = ask(make_state(), ListConfigResourcesRequest(resource_types=[1]))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
