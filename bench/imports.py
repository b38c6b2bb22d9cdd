"""
What it costs to import mulligan, in milliseconds: `python bench/imports.py`.

Each row is a new interpreter, the median of its runs; "above Python" is what the import adds to an
interpreter that does nothing. Take the difference, not the whole: the machine is in both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 15

PROGRAMS = {
    "nothing": "pass",
    "import mulligan": "import mulligan",
    "mulligan.events.facts": "import mulligan.events.facts",
    "mulligan status": "import mulligan.commands.status",
    "a worker process": "import mulligan.actors.assemble",
}


def milliseconds(program: str) -> float:
    """How long a new interpreter takes for `program`."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return 1_000 * (time.perf_counter() - began_s)


def main() -> None:
    """Measure the programs in turns, so that what else the machine does hits all alike."""
    took: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(RUNS):
        for name, program in PROGRAMS.items():
            took[name].append(milliseconds(program))
    floor = statistics.median(took["nothing"])
    print(f"{'':24} {'median':>8} {'above Python':>14}")
    for name, times in took.items():
        median = statistics.median(times)
        print(f"{name:24} {median:8.0f} {median - floor:14.0f}")


if __name__ == "__main__":
    main()
