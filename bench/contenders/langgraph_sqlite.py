"""LangGraph with its SQLite checkpointer, which writes before each next step (`sync`)."""

from __future__ import annotations

import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from time import perf_counter
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from serving import serve

THREADS = 8


class State(TypedDict):
    value: int


def step(state: State) -> State:
    """What is measured does nothing."""
    return state


def main() -> None:
    """`langgraph_sqlite.py FILE SYNCHRONOUS`"""
    path, synchronous = sys.argv[1:]
    database = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(database)
    saver.setup()
    database.execute(f"PRAGMA synchronous={synchronous}")
    ids = count()

    @cache
    def graph(steps: int) -> Any:
        builder = StateGraph(State)
        names = [f"n{number}" for number in range(steps)]
        for name in names:
            builder.add_node(name, step)
        for before, after in zip([START, *names], [*names, END], strict=True):
            builder.add_edge(before, after)
        return builder.compile(checkpointer=saver)

    def run(steps: int) -> None:
        config = {"configurable": {"thread_id": f"t{next(ids)}"}, "recursion_limit": steps + 10}
        graph(steps).invoke({"value": 1}, config, durability="sync")

    def chain(steps: int, chains: int) -> list[float]:
        graph(steps)
        began_s = perf_counter()
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(run, [steps] * chains))
        return [perf_counter() - began_s]

    serve({"chain": chain})


if __name__ == "__main__":
    main()
