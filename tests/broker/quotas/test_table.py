"""Which quotas can be set, for whom, and which of them counts."""

from __future__ import annotations

import itertools

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.quotas.table import QUOTAS_FILE, QuotaKey, QuotaTable, in_kafkas_order
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import alter_client_quotas as altering
from kafkaraw.protocol.messages import describe_client_quotas as describing
from tests.broker.support import ask, make_state

DEFAULT = None
EXACT, IS_DEFAULT, ANY = 0, 1, 2


def entry(entity: dict[str, str | None], **quotas: float | None):
    return altering.AlterClientQuotasRequestEntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            altering.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in quotas.items()
        ],
    )


def client(user: str | None = "", client_id: str | None = "", ip: str | None = "") -> dict[str, str | None]:
    """An entity; None is the default, "" for what it has not."""
    parts = {"user": user, "client-id": client_id, "ip": ip}
    return {kind: name for kind, name in parts.items() if name != ""}


def alter(state, *entries, validate_only: bool = False) -> list[tuple[ErrorCode, str | None]]:
    answer = ask(state, altering.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only))
    return [(ErrorCode(one.error_code), one.error_message) for one in answer.entries]


def describe(state, *components: tuple[str, int, str | None], strict: bool = False):
    parts = [describing.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = ask(state, describing.DescribeClientQuotasRequest(components=parts, strict=strict))
    if answer.error_code:
        assert answer.entries is None
        return ErrorCode(answer.error_code), answer.error_message
    return [
        ({part.entity_type: part.entity_name for part in one.entity}, {value.key: value.value for value in one.values})
        for one in answer.entries
    ]


DONE = (ErrorCode.NONE, None)
# Kafka's order, the most specific first.
PRECEDENCE = [
    client("ada", "app"),
    client("ada", DEFAULT),
    client("ada"),
    client(DEFAULT, "app"),
    client(DEFAULT, DEFAULT),
    client(DEFAULT),
    client(client_id="app"),
    client(client_id=DEFAULT),
]


@pytest.mark.parametrize("count", range(1, len(PRECEDENCE) + 1))
def test_the_most_specific_quota_counts(count: int):
    state = make_state()
    present = PRECEDENCE[-count:]
    alter(state, *(entry(entity, producer_byte_rate=at + 1) for at, entity in enumerate(present)))
    bound = state.throttling.table.bound(QuotaKey.PRODUCE, "ada", "app")
    assert bound.value == 1
    assert (bound.user is not None, bound.client_id is not None) == ("user" in present[0], "client-id" in present[0])


def test_a_quota_for_something_else_does_not_count():
    state = make_state()
    alter(state, entry(client("ada"), consumer_byte_rate=5), entry(client("bob"), producer_byte_rate=5))
    assert state.throttling.table.bound(QuotaKey.PRODUCE, "ada", "app") is None


def test_quotas_outlive_the_broker():
    storage = MemoryStorage()
    state = make_state(storage)
    alter(state, entry(client("ada", DEFAULT), producer_byte_rate=1024, request_percentage=12.5))
    state.close()
    assert describe(make_state(storage)) == [
        ({"client-id": None, "user": "ada"}, {"producer_byte_rate": 1024, "request_percentage": 12.5})
    ]


def test_a_removed_quota_is_gone_and_one_that_is_not_there_may_be_removed():
    state = make_state()
    alter(state, entry(client("ada"), producer_byte_rate=1, consumer_byte_rate=2))
    assert alter(state, entry(client("ada"), producer_byte_rate=None, request_percentage=None)) == [DONE]
    assert describe(state) == [({"user": "ada"}, {"consumer_byte_rate": 2})]
    alter(state, entry(client("ada"), consumer_byte_rate=None))
    assert describe(state) == []
    assert not state.throttling.active


def test_validating_changes_nothing():
    state = make_state()
    assert alter(state, entry(client("ada"), producer_byte_rate=1), validate_only=True) == [DONE]
    assert describe(state) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (entry({}, producer_byte_rate=1), "Invalid empty client quota entity"),
        (entry({"group": "g"}, producer_byte_rate=1), "Unhandled client quota entity type: group"),
        (entry({"user": ""}, producer_byte_rate=1), "Empty user not supported"),
        (entry(client("ada"), speed=1), "Invalid configuration key speed"),
        (entry(client("ada"), connection_creation_rate=1), "Invalid configuration key connection_creation_rate"),
        (entry(client(ip="10.0.0.1"), producer_byte_rate=1), "Invalid configuration key producer_byte_rate"),
        (entry(client("ada"), producer_byte_rate=0), "Quota producer_byte_rate must be greater than 0"),
        (entry(client("ada"), producer_byte_rate=1.5), "producer_byte_rate cannot be a fractional value."),
        (
            entry(client("ada"), consumer_byte_rate=1e19),
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            entry(client(ip="10.0.0.1"), connection_creation_rate=1e10),
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            entry(client("ada", ip="10.0.0.1"), connection_creation_rate=1),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (entry(client(ip="nowhere!"), connection_creation_rate=1), "nowhere! is not a valid IP or resolvable host."),
    ],
)
def test_a_bad_change_is_refused_and_the_others_are_made(changed, words: str):
    state = make_state()
    good = entry(client("bob"), producer_byte_rate=7)
    assert alter(state, changed, good) == [(ErrorCode.INVALID_REQUEST, words), DONE]
    assert describe(state) == [({"user": "bob"}, {"producer_byte_rate": 7})]


def test_an_entity_can_be_changed_once_in_a_request_only():
    state = make_state()
    twice = (ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})")
    first = entry(client(DEFAULT), producer_byte_rate=1)
    assert alter(state, first, entry(client(DEFAULT), producer_byte_rate=2)) == [twice]
    assert describe(state) == [({"user": None}, {"producer_byte_rate": 1})]
    double = entry(client(DEFAULT), producer_byte_rate=3)
    double.ops *= 2
    assert alter(state, double) == [twice]


def test_a_filter_picks_entities():
    state = make_state()
    entities = [client("ada"), client("ada", "app"), client(DEFAULT), client(client_id="app"), client(ip="10.0.0.1")]
    keys = itertools.chain(["producer_byte_rate"] * 4, ["connection_creation_rate"])
    alter(state, *(entry(entity, **{key: 1}) for entity, key in zip(entities, keys, strict=True)))

    def picked(*components: tuple[str, int, str | None], strict: bool = False) -> list[int]:
        return [entities.index(entity) for entity, _ in describe(state, *components, strict=strict)]

    assert picked() == [0, 1, 2, 3, 4]
    assert picked(("user", EXACT, "ada")) == [0, 1]
    assert picked(("user", EXACT, "ada"), strict=True) == [0]
    assert picked(("user", IS_DEFAULT, None)) == [2]
    assert picked(("user", ANY, None)) == [0, 1, 2]
    assert picked(("user", ANY, None), ("client-id", EXACT, "app"), strict=True) == [1]
    assert picked(("ip", ANY, None)) == [4]
    assert picked(strict=True) == []


@pytest.mark.parametrize(
    ("components", "code", "words"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("user", EXACT, "x"), ("user", ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [("user", EXACT, None)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", ANY, "x")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        ),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(components, code: ErrorCode, words: str):
    assert describe(make_state(), *components) == (code, words)


def test_what_cannot_be_written_down_does_not_count():
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    table = QuotaTable(full)
    bad, good = entry({}, producer_byte_rate=1), entry(client("ada"), producer_byte_rate=1)
    outcomes = table.alter([bad, good], validate_only=False)
    assert [one.code for one in outcomes] == [ErrorCode.INVALID_REQUEST, ErrorCode.KAFKA_STORAGE_ERROR]
    assert not table


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 7}'])
def test_a_damaged_file_is_named(text: str):
    storage = MemoryStorage()
    storage.write_text("", QUOTAS_FILE, text)
    with pytest.raises(ConfigError, match=QUOTAS_FILE):
        make_state(storage)


RATE, READ, SHARE, CHANGES = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


@pytest.mark.parametrize(
    ("was_set", "told"),
    [
        ([SHARE], [SHARE]),
        ([SHARE, RATE], [SHARE, RATE]),
        ([RATE, SHARE], [RATE, SHARE]),
        ([CHANGES, READ], [READ, CHANGES]),
        ([RATE, CHANGES, READ], [READ, CHANGES, RATE]),
        ([SHARE, READ, RATE], [READ, SHARE, RATE]),
        ([SHARE, READ, CHANGES, RATE], [RATE, READ, CHANGES, SHARE]),
    ],
)
def test_quotas_of_an_entity_are_described_in_kafkas_order(was_set: list[str], told: list[str]):
    """As Apache Kafka 4.3 answered when it was asked."""
    assert in_kafkas_order(was_set) == told
    state = make_state()
    for key in was_set:
        assert alter(state, entry({"user": "ada"}, **{key: 5.0})) == [DONE]
    ((_, values),) = describe(state)
    assert list(values) == told


def test_quotas_set_at_once_are_set_in_kafkas_order():
    state = make_state()
    assert alter(state, entry({"user": "ada"}, **{RATE: 1024.0, SHARE: 12.5})) == [DONE]
    ((_, values),) = describe(state)
    assert list(values) == [SHARE, RATE]
