"""
The page that says how each cell of the fault matrix ended.

`make faults` plays all of it, each cell by real processes on a real server (tests/faults). With
`MULLIGAN_FAULTS=FILE` a line is added to that file for each;
`python -m mulligan.testing.fault_matrix FILE docs/faults.md` writes the tables of that page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import msgspec

from mulligan.events.tasks import KINDS
from mulligan.testing.fault_cells import CELLS, FAULTS, SPOTS, Cell, Result, Spot

LEASE_MS, DEFAULT_LEASE_MS = 1_000, 10_000
"""The lease of the workers in the cells, and of those that are not told another."""

DEFAULT_LEASE = "default lease"
"""The name under which one more kill is told: that of a worker with the default lease."""

WORKERS = (*KINDS, "leases")
"""The actors in which a process that is killed holds its task's lease."""

FINDERS = ("broker", "reconciler")
"""Those in which it holds none: the task is not claimed yet, or let go of."""

BEGIN, END = "<!-- what the matrix gave begins -->", "<!-- and ends -->"


def written(page: str, results: dict[str, Result]) -> str:
    """The page with its table and figures in place of those between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{_table(results)}\n\n{_figures(results)}\n\n{END}{after}"


def _table(results: dict[str, Result]) -> str:
    head = [_columns("actor", "where", *FAULTS), _columns(*["---"] * (len(FAULTS) + 2))]
    return "\n".join([*head, *(_line(spot, results) for spot in SPOTS)])


def _line(spot: Spot, results: dict[str, Result]) -> str:
    outcomes = (results[Cell(spot, fault).id].outcome for fault in FAULTS)
    return _columns(spot.actor, spot.name, *outcomes)


def _columns(*texts: str) -> str:
    return f"| {' | '.join(texts)} |"


def _figures(results: dict[str, Result]) -> str:
    held = [_resumed_ms(results, spot) for spot in SPOTS if spot.actor in WORKERS]
    lost = [_resumed_ms(results, spot) for spot in SPOTS if spot.actor in FINDERS]
    return (
        f"From `kill -9` to the run's next event, by a worker that was started only then, with a "
        f"lease of {LEASE_MS:,} ms: {median(held):,.0f} ms in the median of {len(held)} kills, "
        f"{max(held):,} ms at most; {max(lost):,} ms at most where no lease was held and a wake-up "
        f"was lost. With the default lease of {DEFAULT_LEASE_MS:,} ms: "
        f"{results[DEFAULT_LEASE].resumed_ms:,} ms."
    )


def _resumed_ms(results: dict[str, Result], spot: Spot) -> int:
    resumed_ms = results[Cell(spot, "killed").id].resumed_ms
    assert resumed_ms is not None
    return resumed_ms


def told(page: str) -> dict[str, str]:
    """
    What the page says of each cell, by the cell's id.

    Raises:
        ValueError: it has no line for a spot, or more than one.
    """
    said = {}
    for spot in SPOTS:
        begin = f"| {spot.actor} | {spot.name} | "
        lines = [line for line in page.splitlines() if line.startswith(begin)]
        if len(lines) != 1:
            raise ValueError(f"the page has {len(lines)} lines that begin with {begin!r}")
        outcomes = lines[0].removeprefix(begin).removesuffix(" |").split(" | ")
        for fault, outcome in zip(FAULTS, outcomes, strict=True):
            said[Cell(spot, fault).id] = outcome
    return said


def main() -> None:
    """Write the page named second from the results in the file named first."""
    file, page = Path(sys.argv[1]), Path(sys.argv[2])
    lines = file.read_bytes().splitlines()
    results = {one.cell: one for one in (msgspec.json.decode(line, type=Result) for line in lines)}
    if missing := [name for name in (*(c.id for c in CELLS), DEFAULT_LEASE) if name not in results]:
        sys.exit(f"{file} has no result of {', '.join(missing)}: not all cells passed")
    page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
