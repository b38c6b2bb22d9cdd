"""
mulligan: a workflow of function nodes, worked by the threads of one process, its log on Redis.

The run's task carries each step itself, in place, since only one is ready at a time.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path

from serving import serve

from mulligan.actors import session
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
TO_OTHERS = """
name: others
nodes:
  - {id: a, kind: function, call: "ours:moment"}
  - {id: b, kind: function, call: "ours:moment", needs: [a]}
  - {id: c, kind: function, call: "ours:moment", needs: [a]}
  - {id: apart, kind: function, call: "ours:apart", needs: [a, b, c]}
"""
"""Of two steps that are ready at once a message wakes the second."""

_let_go = threading.Event()


def step(input: int) -> int:  # noqa: A002 - the name of a run's input
    """What is measured does nothing."""
    return input


def moment() -> float:
    """When it ran."""
    return time.time()


def apart(a: float, b: float, c: float) -> float:
    """The seconds from one step to the one that a message has woken, in another thread."""
    return c - a


def hold() -> None:
    """As long as it runs no other node is ready alone, so none is carried in place."""
    _let_go.wait(WAIT_S)
    _let_go.clear()


def let_go(input: int) -> int:  # noqa: A002 - the name of a run's input
    """The last step of the others."""
    _let_go.set()
    return input


class Ours:
    """A client, and a worker in the same process."""

    def __init__(self, url: str, folder: Path, *, payload_keys: str | None = None) -> None:
        self._folder = folder
        settings = Settings(redis_url=url, data_dir=folder, payload_keys=payload_keys)
        self.client = Client(settings)
        self._runtime = assemble(settings)
        self._ids = count()
        self._moment = self._plan("moment", MOMENT)
        self._others = self._plan("others", TO_OTHERS)
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

    @cache  # noqa: B019 - one object a process
    def hopping_plan(self, steps: int) -> Plan:
        """A chain of so many steps beside a node that runs all the while."""
        lines = ["name: hopping", "nodes:", '  - {id: held, kind: function, call: "ours:hold"}']
        for number in range(steps):
            needs = f", needs: [n{number - 1}]" if number else ""
            call = "step" if number < steps - 1 else "let_go"
            lines.append(f'  - {{id: n{number}, kind: function, call: "ours:{call}"{needs}}}')
        return self._plan(f"hopping{steps}", "\n".join(lines))

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

    def hopping(self, steps: int) -> list[float]:
        """As `chain`, where every step is worked by a task of its own."""
        plan = self.hopping_plan(steps)
        began_s = time.perf_counter()
        self.client.wait(self._ask(plan), timeout_s=WAIT_S)
        return [time.perf_counter() - began_s]

    def queueing(self, steps: int) -> list[float]:
        """As `hopping`, where each task is woken by a message, as after a thread's turn."""
        kept, session.TURN_S = session.TURN_S, 0.0
        try:
            return self.hopping(steps)
        finally:
            session.TURN_S = kept

    def between(self) -> list[float]:
        """From a step to the second of those that need it, in another thread."""
        run = self._ask(self._others)
        self.client.wait(run, timeout_s=WAIT_S)
        return [self.client.result(run)]

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
        measures = {"chain": ours.chain, "hopping": ours.hopping, "queueing": ours.queueing}
        serve({**measures, "hop": ours.hop, "between": ours.between})


if __name__ == "__main__":
    main()
