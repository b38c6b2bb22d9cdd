"""
mulligan: a workflow of function nodes, worked by the threads of one process, its log on Redis.

The run's task carries each step itself, in place, since only one is ready at a time.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path

from serving import serve

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.schemas.plan import Plan
from mulligan.settings import Settings

THREADS = 8
WAIT_S = 300.0


MOMENT = """
name: moment
nodes:
  - {id: n, kind: function, call: "ours:moment"}
"""


def step(input: int) -> int:  # noqa: A002 - the name of a run's input
    """What is measured does nothing."""
    return input


def moment() -> float:
    """When it ran."""
    return time.time()


class Ours:
    """A client, and a worker in the same process."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        settings = Settings(redis_url=url, data_dir=folder)
        self.client = Client(settings)
        self._runtime = assemble(settings)
        self._ids = count()
        self._moment = self._plan("moment", MOMENT)
        self.stack = ExitStack()
        self.stack.callback(self.client.close)
        self.stack.callback(self._runtime.close)
        self.stack.enter_context(working(self._runtime, threads=THREADS, drain_s=5))

    @cache  # noqa: B019 - one object a process
    def plan(self, steps: int) -> Plan:
        """A chain of so many steps."""
        lines = ["name: chain", "nodes:"]
        for number in range(steps):
            needs = f", needs: [n{number - 1}]" if number else ""
            lines.append(f'  - {{id: n{number}, kind: function, call: "ours:step"{needs}}}')
        return self._plan(f"chain{steps}", "\n".join(lines))

    def _plan(self, name: str, text: str) -> Plan:
        path = self._folder / f"{name}.yaml"
        path.write_text(text)
        return self.client.plan(str(path))

    def chain(self, steps: int, chains: int) -> list[float]:
        """From the first request to the end of all."""
        plan = self.plan(steps)
        began_s = time.perf_counter()
        runs = [self._ask(plan) for _ in range(chains)]
        for run in runs:
            self.client.wait(run, timeout_s=WAIT_S)
        return [time.perf_counter() - began_s]

    def hop(self) -> list[float]:
        """From a request to its first step, by one clock."""
        sent_s = time.time()
        run = self._ask(self._moment)
        self.client.wait(run, timeout_s=WAIT_S)
        return [self.client.result(run) - sent_s]

    def _ask(self, plan: Plan) -> str:
        return self.client.enqueue(plan, 1, run_id=f"bench{next(self._ids)}")


def main() -> None:
    """`ours.py URL FOLDER`"""
    ours = Ours(sys.argv[1], Path(sys.argv[2]))
    with ours.stack:
        serve({"chain": ours.chain, "hop": ours.hop})


if __name__ == "__main__":
    main()
