"""A run never writes to a topic that it has not made."""

from __future__ import annotations

import pytest

from kafkaraw.demo.flights import Flights
from kafkaraw.demo.topics import FLIGHTS_PARTITIONS, Topics, choose_topics
from kafkaraw.errors import UsageError
from kafkaraw.records import partition_for_key


def test_plain_names_are_taken_where_they_are_free():
    topics = choose_topics({"orders"}, None)
    assert [plan.name for plan in topics.plans()] == [
        "flights",
        "delays-by-hour",
        "flights.dead-letters",
        "flights.replays",
        "airlines",
        "airports",
        "planes",
        "weather",
    ]


@pytest.mark.parametrize("existing", ["flights", "weather", "delays-by-hour"])
def test_one_name_that_exists_moves_all_to_the_next_free_prefix(existing: str):
    assert choose_topics({existing}, None) == Topics("demo-2.")
    assert choose_topics({existing, "demo-2.planes"}, None) == Topics("demo-3.")


def test_a_prefix_asked_for_is_used_or_refused():
    assert choose_topics({"flights"}, "mine.") == Topics("mine.")
    with pytest.raises(UsageError, match=r"mine\.flights, mine\.airlines.*--topic-prefix"):
        choose_topics({"mine.flights", "mine.airlines"}, "mine.")


def test_nothing_of_2013_is_deleted_by_retention():
    kept = {plan.name for plan in Topics().plans() if plan.configs.get("retention.ms") == "-1"}
    compacted = {plan.name for plan in Topics().plans() if plan.configs.get("cleanup.policy") == "compact"}
    assert compacted == {"delays-by-hour"}
    assert kept | compacted == {plan.name for plan in Topics().plans()}


def test_partitions_read_in_proportion_stay_well_within_the_time_that_late_flights_have(year: Flights):
    """The premise of the pipeline's watermark: how far ahead of the slowest partition the fastest one gets."""
    place = year.columns.index("carrier")
    departures: dict[int, list[int]] = {}
    for departure, _, line in year.lines:
        carrier = line.split(",")[place].encode()
        departures.setdefault(partition_for_key(carrier, FLIGHTS_PARTITIONS), []).append(departure)
    worst_s = 0
    for step in range(1, 200):
        newest = max(times[len(times) * step // 200 - 1] for times in departures.values())
        oldest_unread = min(times[len(times) * step // 200] for times in departures.values())
        worst_s = max(worst_s, newest - oldest_unread)
    assert len(departures) == FLIGHTS_PARTITIONS
    assert 1 < worst_s / 86_400 < 5
