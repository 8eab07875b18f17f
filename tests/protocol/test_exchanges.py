"""Every request declares the class of its response, for the type checker as for the codec."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.declare import Response


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_type_of_the_response_that_a_request_declares_is_the_one_that_is_decoded(api: Api) -> None:
    assert api.request.exchange() == (api.request, api.response)
    assert issubclass(api.response, Response)


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_messages_are_slotted_beneath_their_base_classes(api: Api) -> None:
    assert "__dict__" not in dir(api.request)
    assert "__dict__" not in dir(api.response)
