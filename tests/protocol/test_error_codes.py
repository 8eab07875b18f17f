"""Error codes: complete, and turned into the exception that tells the caller what to do."""

from __future__ import annotations

import pickle

import pytest

from kafkaraw.errors import AuthenticationError, AuthorizationError, BrokerError, RetriableBrokerError, RetriableError
from kafkaraw.protocol.error_codes import ERROR_TABLE, ErrorCode, error_for, error_name, is_retriable


def test_every_code_from_minus_one_to_133_has_a_meaning() -> None:
    assert sorted(ERROR_TABLE) == list(range(-1, 134))
    assert all(row.meaning for row in ERROR_TABLE.values())


def test_a_retriable_code_becomes_a_retriable_error() -> None:
    error = error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "topic-0")
    assert isinstance(error, RetriableBrokerError)
    assert isinstance(error, RetriableError)
    assert (error.code, error.name, error.retriable) == (6, "NOT_LEADER_OR_FOLLOWER", True)
    assert "topic-0" in str(error)


def test_refusals_have_kinds_of_their_own() -> None:
    assert isinstance(error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED), AuthorizationError)
    assert isinstance(error_for(ErrorCode.SASL_AUTHENTICATION_FAILED), AuthenticationError)
    assert not isinstance(error_for(ErrorCode.INVALID_CONFIG), RetriableError)


def test_an_unknown_code_is_an_error_too() -> None:
    error = error_for(999)
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, is_retriable(999), error_name(999)) == (999, "UNKNOWN_CODE", False, "UNKNOWN_CODE")


@pytest.mark.parametrize("code", [3, 29, 40])
def test_broker_errors_survive_pickling(code: int) -> None:
    error = error_for(code, "here")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code) == (type(error), str(error), code)
