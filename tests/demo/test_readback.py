"""Which hours count as the worst."""

from __future__ import annotations

from kafkaraw.demo.readback import Hour, worst_hours


def hour(start: str, flights: int, mean: float | None, *, origin: str = "EWR", cancelled: int = 0) -> Hour:
    return Hour(origin, start, flights, cancelled, mean, mean, None if mean is None else int(mean), None)


def test_the_highest_mean_delay_comes_first_and_equal_ones_by_time_and_airport():
    hours = [hour("b", 20, 5.0), hour("a", 20, 50.0, origin="LGA"), hour("a", 20, 50.0, origin="JFK")]
    assert [(one.hour, one.origin) for one in worst_hours(hours, 10)] == [("a", "JFK"), ("a", "LGA"), ("b", "EWR")]
    assert len(worst_hours(hours, 2)) == 2


def test_hours_in_which_few_flights_left_do_not_count_where_there_are_others():
    hours = [hour("a", 1, 900.0), hour("b", 30, 10.0), hour("c", 30, 800.0, cancelled=25)]
    assert [one.hour for one in worst_hours(hours, 10)] == ["b"]


def test_where_only_few_flights_left_all_hours_with_a_departure_count():
    hours = [hour("a", 1, 9.0), hour("b", 2, None, cancelled=2), hour("c", 3, 10.0)]
    assert [one.hour for one in worst_hours(hours, 10)] == ["c", "a"]
