"""The floor under steps on SQLite: one insert and one commit for each."""

from __future__ import annotations

import sqlite3
import sys
from time import perf_counter

from serving import serve

EVENT = '{"id":"aaaaaaaaaaaaaaaa.0","type":"NodeCompleted","node":"n1","data":{"output":{"v":1}}}'


def main() -> None:
    """`sqlite_floor.py FILE SYNCHRONOUS`"""
    path, synchronous = sys.argv[1:]
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS steps (id INTEGER PRIMARY KEY, event TEXT)")

    def chain(steps: int, chains: int) -> list[float]:
        began_s = perf_counter()
        for _ in range(steps * chains):
            database.execute("INSERT INTO steps (event) VALUES (?)", (EVENT,))
        return [perf_counter() - began_s]

    serve({"chain": chain})


if __name__ == "__main__":
    main()
