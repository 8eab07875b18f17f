"""DescribeCluster: the nodes, the controller, and which kinds of endpoint there are."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.broker.support import ask, make_state


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(version: int):
    state = make_state()
    answer = ask(state, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, state.catalog.cluster_id, 0)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(0, "127.0.0.1", 9092)]
    assert answer.cluster_authorized_operations > 0


def test_authorized_operations_are_returned_on_request_only():
    answer = ask(make_state(), DescribeClusterRequest(include_cluster_authorized_operations=False))
    assert answer.cluster_authorized_operations == -(1 << 31)


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_controllers_are_not_asked_here(kind: int, code: ErrorCode):
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
    answer = ask(make_state(), request)
    assert (answer.error_code, answer.brokers) == (code, [])
