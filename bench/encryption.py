"""
What encryption costs: a chain of functions in place, with a payload key and without, in turns on
two servers of their own; then what reading such a run costs, and what the server holds of it.

    $ python bench/encryption.py [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "contenders"))

from ours import Ours

from mulligan.events.payload_keys import new_key
from mulligan.testing.server import ValkeyServer

STEPS = 200
READS = 20
PAUSE_S = 0.005


class Subject:
    """One of the two: a server, a worker's threads, a client."""

    def __init__(self, stack: ExitStack, name: str, keys: str | None) -> None:
        self.name = name
        self._server = stack.enter_context(ValkeyServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.ours = Ours(self._server.url, folder, payload_keys=keys)
        stack.enter_context(self.ours.stack)
        self.alone_ms: list[float] = []
        self.step_ms: list[float] = []
        self.chains_ms: list[float] = []
        self.read_us: list[float] = []

    def measure(self) -> None:
        """One round."""
        self.alone_ms.append(self._alone() * 1e3 / STEPS)
        self.step_ms.append(self.ours.chain(STEPS, 1)[0] * 1e3 / STEPS)
        self.chains_ms.append(self.ours.chain(STEPS // 10, 20)[0] * 1e3 / (2 * STEPS))
        events = len(list(self.ours.client.events("bench0")))
        began_s = time.perf_counter()
        for _ in range(READS):
            self.ours.client.store.read("bench0")
        self.read_us.append((time.perf_counter() - began_s) * 1e6 / READS / events)

    def _alone(self) -> float:
        """Seconds of a chain that nobody follows: only its row in the index is looked at."""
        began_s = time.perf_counter()
        run = self.ours._ask(self.ours.plan(STEPS))
        row = None
        while row is None or row.phase != "closed":
            time.sleep(PAUSE_S)
            row = self.ours.client.store.row(run)
        return time.perf_counter() - began_s

    def event_bytes(self) -> float:
        """What the server holds of an event, all things of its run counted."""
        with self._server.client() as client:
            names = client.keys("*r:bench0")
            return sum(client.memory_usage(name, samples=0) for name in names) / client.xlen(
                names[0]
            )


def main(rounds: int) -> None:
    """Print the least of all rounds, a line a figure: without a key, with one, and their ratio."""
    with ExitStack() as stack:
        subjects = [
            Subject(stack, "in the clear", None),
            Subject(stack, "encrypted", new_key("bench")),
        ]
        for number in range(rounds + 1):
            for one in subjects if number % 2 else reversed(subjects):
                one.measure()
        for what, name in (
            ("a step of a chain, in place, ms", "alone_ms"),
            ("the same, followed meanwhile, ms", "step_ms"),
            ("a step of 20 chains at once, ms", "chains_ms"),
            ("reading an event, µs", "read_us"),
        ):
            clear, encrypted = (min(getattr(one, name)[1:]) for one in subjects)
            _show(what, clear, encrypted)
        _show("memory of an event, bytes", *(one.event_bytes() for one in subjects))


def _show(what: str, clear: float, encrypted: float) -> None:
    print(f"{what:36} {clear:9.3f} {encrypted:9.3f} {encrypted / clear:6.2f} times")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
