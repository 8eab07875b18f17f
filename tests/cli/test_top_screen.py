"""The screen of `kafkaraw top`: what keys do, what is shown in terminals of any size, and that names stay harmless."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import GroupType, TopicPartition
from kafkaraw.cli.top_screen import INTERVALS_S, Screen, Shown, cells
from kafkaraw.cli.top_tables import (
    VIEWS,
    bytes_text,
    count_text,
    duration_text,
    rate_text,
    sorted_rows,
    time_lag_text,
    trend_text,
)
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.monitoring import ClusterStatus, Part, TimeLag, Timeline
from tests.monitoring.snapshots import NODE, directory, group, member, partition, snapshot, topic

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
KEYS = ["up", "down", "pageup", "pagedown", "home", "end", "enter", "escape", "backspace", "tab", "backtab"]
KEYS += [*"btgw123jkm<>sr/ip+-h?x ü", "left", "right", "\x0c", "\x15"]


def cluster(topics: int = 30, groups: int = 12) -> ClusterStatus:
    """A cluster in which topic number n gets n records per second, and group n has a lag of 10 n that grows."""
    timeline = Timeline()
    names = [f"topic-{number:02}" for number in range(topics)]
    for second in (0, 1):
        ends = {TopicPartition(name, 0): 1000 + number * second for number, name in enumerate(names)}
        described = [topic(name, [partition(0, 1, (1, 2), (1,))]) for name in names]
        described.append(topic("__consumer_offsets", [partition(0)], internal=True))
        found = [
            group(
                f"group-{number:02}",
                {TopicPartition(names[0], 0): 1000 - 10 * number - number * second},
                *([member(f"member of {number}", TopicPartition(names[0], 0))] if number % 2 else []),
            )
            for number in range(groups)
        ]
        sizes = {1: (directory(dict.fromkeys(ends, 100)),)}
        nodes = [NODE, BrokerNode(2, "two", 9092, "rack-2")]
        timeline.add(
            snapshot(1_000_000 + second * 1000, ends, topics=described, groups=found, log_dirs=sizes, brokers=nodes)
        )
    status = timeline.status()
    assert status is not None
    return status


STATUS = cluster()
SHOWN = Shown(STATUS, servers="kafka.example:9092", clock="10:33:07")


def text(screen: Screen, shown: Shown = SHOWN, width: int = 120, height: int = 24) -> list[str]:
    return ["".join(words for words, _ in line).rstrip() for line in screen.lines(shown, width, height)]


def pressed(*keys: str, shown: Shown = SHOWN) -> Screen:
    screen = Screen()
    for key in keys:
        text(screen, shown)  # a key is about what is on the screen
        screen.press(key)
    return screen


def names(screen: Screen, shown: Shown = SHOWN) -> list[str]:
    """The words of the table that begin with the name of a topic or a group."""
    return re.findall(r"^ *((?:topic|group)-\d\d|__consumer_offsets)\b", "\n".join(text(screen, shown)), re.MULTILINE)


def selected(screen: Screen, shown: Shown = SHOWN) -> str:
    found = [
        "".join(words for words, _ in line)
        for line in screen.lines(shown, 120, 24)[5:]
        if line and line[0][1] == "selected"
    ]
    assert len(found) <= 1
    return found[0].split()[0] if found else ""


# -- views


def test_topics_are_shown_first_by_rate() -> None:
    lines = text(Screen())
    assert lines[0].startswith("kafkaraw top  kafka.example:9092  Kafka 4.3  controller 1  10:33:07  every 2 s")
    assert "435 records/s" in lines[1] and "31 topics, 31 partitions (30 under-replicated)" in lines[1]
    assert "12 groups, lag 726" in lines[1]
    assert names(Screen())[:3] == ["topic-29", "topic-28", "topic-27"]


@pytest.mark.parametrize(
    ("key", "heading"),
    [
        ("b", "BROKER"),
        ("t", "TOPIC"),
        ("g", "GROUP"),
        ("w", "SEVERITY"),
        ("1", "BROKER"),
        ("2", "TOPIC"),
        ("3", "GROUP"),
    ],
)
def test_keys_switch_views(key: str, heading: str) -> None:
    assert text(pressed(key))[5].split()[0].rstrip("↑↓") == heading


def test_tab_goes_round_the_views() -> None:
    seen = [pressed(*["tab"] * count).place.view.name for count in range(5)]
    assert seen == ["topics", "groups", "problems", "brokers", "topics"]
    assert pressed("backtab").place.view.name == "brokers"


def test_enter_opens_the_partitions_of_the_selected_topic_and_escape_goes_back() -> None:
    screen = pressed("down", "down", "enter")
    assert screen.place.view.name == "partitions" and screen.place.subject == "topic-28"
    assert "> partitions of topic-28" in text(screen)[4]
    screen.press("escape")
    assert screen.place.view.name == "topics" and selected(screen) == "topic-28"


def test_enter_without_a_selection_opens_the_first_row() -> None:
    assert pressed("enter").place.subject == "topic-29"
    assert pressed("b", "enter").place.view.name == "log-dirs"


def test_members_and_partitions_of_a_group_are_one_key_apart() -> None:
    screen = pressed("g", "enter")
    assert (screen.place.view.name, screen.place.subject) == ("group", "group-11")
    screen.press("m")
    assert "member of 11" in "\n".join(text(screen))
    screen.press("m")
    assert screen.place.view.name == "group"
    screen.press("escape")
    assert screen.place.view.name == "groups"
    assert pressed("g", "m").place.view.name == "members"


def test_a_view_says_which_parts_and_which_group_it_needs() -> None:
    assert pressed().parts == {Part.SIZES} and pressed("g").parts == {Part.GROUPS}
    assert pressed("w").parts == set(Part)
    assert pressed("g").focus == () and pressed("g", "enter").focus == ("group-11",)
    assert pressed("g", "m").focus == ("group-11",)


# -- order, filter, selection


def test_sorting_goes_through_the_columns_and_is_reversed() -> None:
    screen = pressed("<", "<")  # RECORDS/S, PARTITIONS, TOPIC
    assert names(screen)[:2] == ["topic-00", "topic-01"]
    assert "TOPIC↑" in text(screen)[5]
    screen.press("r")
    assert names(screen)[:2] == ["topic-29", "topic-28"]


def test_rows_without_a_value_are_last_in_both_directions() -> None:
    rows = STATUS.topics
    view = VIEWS["topics"]
    for descending in (True, False):
        ordered = sorted_rows(view, rows, "LAG", descending=descending)
        assert [row.lag is None for row in ordered] == [False] + [True] * 30


def test_a_typed_text_filters_names_until_escape() -> None:
    screen = pressed(*"/C-1")
    assert names(screen) == [f"topic-{number}" for number in range(19, 9, -1)]
    assert "/C-1_" in text(screen)[4]
    screen.press("backspace")
    screen.press("enter")
    assert len(names(screen)) == 17 and "/C-" in text(screen)[4]
    screen.press("q")
    assert screen.is_done
    screen.press("escape")
    assert screen.place.filter == ""
    screen = pressed("/", "x", "escape")
    assert screen.place.filter == "" and not screen.is_done
    assert any("No name has this text" in line for line in text(pressed(*"/nothing")))


def test_keys_that_come_before_the_next_drawing_concern_the_rows_that_it_shows() -> None:
    screen = pressed()
    text(screen)
    for key in (*"/topic-17", "enter", "enter"):
        screen.press(key)
    assert screen.place.subject == "topic-17"
    screen = pressed("g")
    for key in ("b", "enter"):
        screen.press(key)
    assert screen.place.view.name == "log-dirs"


def test_letters_are_keys_again_when_the_filter_is_complete() -> None:
    screen = pressed("/", "q", "enter")
    assert not screen.is_done
    screen.press("q")
    assert screen.is_done


def test_internal_topics_are_hidden_until_asked_for() -> None:
    assert "__consumer_offsets" not in "\n".join(text(pressed("end")))
    assert "__consumer_offsets" in "\n".join(text(pressed("i", "end")))


def test_the_selection_stays_with_its_row_when_the_order_changes() -> None:
    screen = pressed("down", "down", "down")
    assert selected(screen) == "topic-27"
    screen.press("r")
    assert selected(screen) == "topic-27"


def test_the_selection_moves_on_when_its_row_is_gone() -> None:
    screen = pressed("down", "down", "down")
    fewer = Shown(cluster(topics=27))
    assert selected(screen, fewer) == "topic-24", "the row at its place"
    assert selected(screen, Shown(cluster(topics=1))) == "topic-00"


def test_long_lists_scroll_with_the_selection() -> None:
    screen = pressed("end")
    assert selected(screen) == "topic-00" and names(screen)[0] == "topic-16"
    screen.press("home")
    assert selected(screen) == "topic-29" and names(screen)[0] == "topic-29"
    screen.press("pagedown")
    assert names(screen)[0] in ("topic-29", "topic-28")
    screen.press("up")
    assert selected(screen) == "topic-14"


def test_a_topic_that_is_deleted_while_it_is_shown_says_so_and_leads_back() -> None:
    screen = pressed("enter")
    later = Shown(cluster(topics=5))
    assert "The topic topic-29 does not exist any more, or may not be described." in text(screen, later)
    screen.press("down")
    screen.press("enter")
    screen.press("escape")
    assert names(screen, later)[0] == "topic-04"


# -- pace and state


def test_pause_interval_help_and_quit() -> None:
    screen = pressed("p")
    assert screen.is_paused and "PAUSED" in text(screen)[0]
    screen.press(" ")
    assert not screen.is_paused
    for _ in INTERVALS_S:
        screen.press("+")
    assert screen.interval_s == INTERVALS_S[-1]
    for _ in INTERVALS_S:
        screen.press("-")
    assert screen.interval_s == INTERVALS_S[0] and "every 0.5 s" in text(screen)[0]
    screen.press("h")
    assert text(screen)[0] == "kafkaraw top: keys"
    screen.press("x")
    assert text(screen)[0].startswith("kafkaraw top  ")
    assert pressed("h", "q").is_done and pressed("q").is_done


def test_a_cluster_that_does_not_answer_is_said_with_the_last_numbers() -> None:
    away = Shown(STATUS, error="no broker answers", failed_for_s=70, next_in_s=4)
    lines = text(Screen(), away)
    assert lines[2] == "No answer for 1.2min; trying again in 4s: no broker answers"
    assert names(Screen(), away)[0] == "topic-29"
    never = Shown(error="no broker answers", next_in_s=2)
    assert text(Screen(), never)[2] == "Not connected; trying again in 2s: no broker answers"
    assert text(Screen(), Shown())[2] == "Connecting ..."


def test_snapshots_that_take_long_are_said() -> None:
    assert "snapshots take 3.1 s" in text(Screen(), Shown(STATUS, took_s=3.14))[0]


# -- sizes of terminals


@pytest.mark.parametrize("view", "btgw")
@pytest.mark.parametrize("width", [200, 120, 80, 60, 40, 20, 10, 1])
def test_lines_fit_narrow_terminals_and_the_most_important_columns_stay(view: str, width: int) -> None:
    screen = pressed(view)
    heading = text(screen, width=width)[5]
    if width >= 40:
        first = {"b": "BROKER", "t": "TOPIC", "g": "GROUP", "w": "SEVERITY"}[view]
        assert heading.split()[0].rstrip("↑↓") == first
        assert {"b": "ADDRESS", "t": "RECORDS/S", "g": "LAG", "w": "PROBLEM"}[view] in heading
        assert all(cells(line) <= width for line in text(screen, width=width)[5:-1])
    assert len(heading.split()) == len(set(heading.split()))


def test_a_narrow_terminal_shows_the_open_view_instead_of_all_tabs() -> None:
    screen = pressed("enter")
    assert text(screen, width=120)[4] == " b brokers   t topics   g groups   w problems  > partitions of topic-29"
    assert text(screen, width=50)[4] == " t topics  > partitions of topic-29"


def test_a_wide_terminal_has_all_columns() -> None:
    for key, view in (("b", "brokers"), ("t", "topics"), ("g", "groups")):
        heading = text(pressed(key), width=250)[5]
        assert [word.rstrip("↑↓") for word in heading.split()] == [column.title for column in VIEWS[view].columns]


@pytest.mark.parametrize("height", range(1, 30))
def test_any_height_shows_rows_and_no_more_lines_than_there_are(height: int) -> None:
    lines = text(Screen(), height=height)
    assert len(lines) == height
    if height >= 3:
        assert any("topic-29" in line for line in lines)


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 130), st.integers(1, 40)), max_size=40))
def test_no_sequence_of_keys_and_sizes_breaks_the_screen(steps: list[tuple[str, int, int]]) -> None:
    screen = Screen()
    small = Shown(cluster(topics=1, groups=0))
    for number, (key, width, height) in enumerate(steps):
        shown = (SHOWN, Shown(), small)[number % 3]
        assert len(screen.lines(shown, width, height)) == height
        screen.press(key)


@pytest.mark.parametrize("view", ["topics", "groups", "brokers"])
def test_the_pictures_of_the_guide_have_the_columns_and_keys_of_the_screen(view: str) -> None:
    """`python docs/pictures/top.py` draws them."""
    picture = (PICTURES / f"top-{view}.svg").read_text()
    words = html.unescape(re.sub(r"<[^>]*>", " ", picture.partition("</style>")[2])).replace("\xa0", " ").split()
    headings = {found[1] for word in words if (found := re.fullmatch(r"([A-Z][A-Z/-]+)[↑↓]?", word))}
    assert VIEWS[view].columns[0].title in headings and len(headings) >= 8
    assert headings <= {column.title for column in VIEWS[view].columns}
    assert set(text(pressed(view[0]), width=108)[-1].split()) <= set(words)


# -- hostile names

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07", "a\nb\rc\td", "\x9b31m", "[bold red]markup[/]", "[link=file:///etc/passwd]x[/link]",
    "\u202egnp.exe", "\u200bzero", "漢字" * 30, "e\u0301" * 40, "\x00\x7f", "\ud800", "🙈" * 40, " ", "{}",
)  # fmt: skip


def hostile_cluster(found: Iterable[str]) -> ClusterStatus:
    timeline = Timeline()
    every = list(found)
    keys = [TopicPartition(name, 0) for name in every]
    for second in (0, 1):
        groups = [
            group(name, {key: 0 for key in keys}, member(name, *keys), kind=kind)
            for name, kind in zip(every, [GroupType.CONSUMER, GroupType.SHARE] * len(every), strict=False)
        ]
        ends = dict.fromkeys(keys, 10 + second)
        topics = [topic(name, [partition(0, -1, (1,), ())]) for name in every]
        nodes = [BrokerNode(1, every[0], 9092, every[-1])]
        timeline.add(snapshot(second * 1000, ends, topics=topics, groups=groups, brokers=nodes))
    status = timeline.status()
    assert status is not None
    return status


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("width", [120, 30])
def test_hostile_names_are_shown_as_text(name: str, width: int) -> None:
    shown = Shown(hostile_cluster([name, f"{name}2"]), error=f"broken {name}", servers=name)
    for keys in ("t", "g", "b", "w", ("t", "enter"), ("g", "enter"), ("g", "m"), ("/", name)):
        screen = pressed(*keys, shown=shown)
        for line in screen.lines(shown, width, 24):
            words = "".join(each for each, _ in line)
            assert words.isprintable() or not words, (keys, words)
    screen = pressed(shown=shown)
    assert all(cells("".join(each for each, _ in line)) <= width for line in screen.lines(shown, width, 24)[5:-1])


# -- numbers


@pytest.mark.parametrize(
    ("number", "count", "size"),
    [
        (None, "-", "-"),
        (0, "0", "0B"),
        (999, "999", "999B"),
        (1234, "1,234", "1.23kB"),
        (9_999_999, "9,999,999", "10MB"),
        (12_345_678, "12.3M", "12.3MB"),
        (999_999_999, "1000M", "1000MB"),
        (2.5e15, "2.5P", "2.5PB"),
        (-5, "-5", "-5B"),
    ],
)
def test_numbers_are_short_and_exact_up_to_ten_million(number: float | None, count: str, size: str) -> None:
    assert (count_text(number), bytes_text(number)) == (count, size)


def test_rates_times_and_trends_as_texts() -> None:
    assert [rate_text(each) for each in (None, 0, 0.25, 9.96, 12.4)] == ["-", "0", "0.2", "10.0", "12"]
    assert [duration_text(each) for each in (None, 0, 59, 60, 599, 3600, 86_400 * 3.5, 86_400 * 400)] == [
        "-", "0s", "59s", "1.0min", "10.0min", "1.0h", "3.5d", "400d"
    ]  # fmt: skip
    assert [time_lag_text(each) for each in (None, TimeLag(5, False), TimeLag(90, True))] == ["-", "5s", ">1.5min"]
    assert trend_text(5, None, None) == "-" and trend_text(None, 5, None) == "-"
    assert trend_text(5, 12.0, None) == "+12/s" and trend_text(5, 0, None) == "steady"
    assert trend_text(600, -10.0, 60.0) == "-10/s, 1.0min left"
    assert trend_text(0, 0, None) == "0/s"
