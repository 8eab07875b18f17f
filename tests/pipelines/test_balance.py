"""The balance of a flow compares counts that were made in different places."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow.parquet as pq

from kafkaraw.pipelines.balance import CountsTable, FlowNumbers, balance_of, imbalance_text


@dataclass
class Numbers:
    flow: str
    totals: dict[str, dict[str, int]]
    positions: dict[tuple[str, str], int] = field(default_factory=dict)


def flows(*, written: int = 6, letters: int = 3, letters_at: int = 10) -> list[FlowNumbers]:
    return [
        Numbers(
            "clean",
            {
                "records.orders": {"records": 10, "undecodable": 1, "tombstones": 1, "replayed": 0},
                "expectations.orders": {"rows": 9, "dropped": 0, "quarantined": 2, "unmet.quarantine.positive": 2},
                "expectations.clean": {"rows": 7, "dropped": 1, "quarantined": 0, "unmet.drop.has an id": 1},
                "kafkaraw.written": {"rows": written},
            },
            {("orders", "0"): 10},
        ),
        Numbers("dead_letters_of_orders", {"kafkaraw.written": {"rows": letters}}, {("orders", "0"): letters_at}),
        Numbers("reads_a_table", {"kafkaraw.written": {"rows": 7}}),
    ]


def test_records_are_rows_dropped_dead_letters_or_left_out():
    (balance,) = balance_of(flows())
    assert balance.is_balanced
    assert str(balance) == "clean: 10 records = 6 rows out + 1 dropped + 3 dead letters + 0 left out by functions"


def test_rows_and_dead_letters_that_are_not_written_are_missing():
    (lost,) = balance_of(flows(written=5))
    assert (lost.missing_rows, lost.is_balanced) == (1, False) and "1 judged rows are not written" in str(lost)
    (twice,) = balance_of(flows(written=8))
    assert (twice.missing_rows, twice.is_balanced) == (-2, False)
    (lost,) = balance_of(flows(letters=1))
    assert (lost.missing_letters, lost.is_balanced) == (2, False) and "2 dead letters are not written" in str(lost)


def test_dead_letters_are_compared_when_their_query_is_not_behind():
    (balance,) = balance_of(flows(letters=1, letters_at=9))
    assert balance.is_balanced


def test_a_view_that_is_read_on_two_paths_has_its_dead_letters_once():
    clean, *others = flows()
    clean.totals |= {"records.other/orders": {"records": 10, "undecodable": 3}}
    (balance,) = balance_of([clean, *others])
    assert balance.is_balanced, str(balance)


def test_an_imbalance_names_flow_numbers_and_remedy():
    (lost,) = balance_of(flows(written=5))
    assert imbalance_text(lost) == (
        "the counts of a flow do not add up: clean: 10 records = 5 rows out + 1 dropped + 3 dead letters + 1 left out "
        "by functions; 1 judged rows are not written. Compute its table again with --full-refresh, or read the records "
        "again with `kafkaraw pipelines checkpoint rewind clean`"
    )
    (twice,) = balance_of(flows(written=8))
    assert "2 rows more are written than were judged" in imbalance_text(twice)
    (lost,) = balance_of(flows(letters=1))
    assert "checkpoint rewind dead_letters_of_NAME --to earliest`" in imbalance_text(lost)


def test_counts_of_expectations_are_a_parquet_file(tmp_path):
    table = CountsTable(tmp_path / "expectations")
    table.write([])
    assert not (tmp_path / "expectations").exists()
    table.write(flows())
    (file,) = (tmp_path / "expectations").iterdir()
    assert pq.read_table(file).to_pylist() == [
        {
            "flow": "clean",
            "dataset": "orders",
            "expectation": "positive",
            "action": "quarantine",
            "rows": 9,
            "unmet": 2,
        },
        {"flow": "clean", "dataset": "clean", "expectation": "has an id", "action": "drop", "rows": 7, "unmet": 1},
    ]
