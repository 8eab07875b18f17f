"""A test of many cases checks all of them and names those that fail."""

from __future__ import annotations

import pytest

from tests.cases import Cases


def test_each_case_that_fails_is_named():
    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as caught, Cases() as case:
        for number in range(4):
            with case(f"number {number}"):
                assert number % 2, "it is even"
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case number 0"],
        ["in the case number 2"],
    ]


def test_cases_that_hold_raise_nothing():
    with Cases() as case, case("one"):
        pass


def test_there_must_be_cases():
    with pytest.raises(AssertionError, match="there are no cases"), Cases():
        pass
