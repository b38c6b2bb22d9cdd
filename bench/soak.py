"""
Runs under random kills, and whether everything that must be true of them is:

    python bench/soak.py --soak 3 --seed 7

A private Valkey that syncs every append, workers in two groups, a projector and a producer; runs
with tools and functions of every effect class, models that fail, an overseer and repair loops. For
so many minutes workers, their supervisors and writing processes, the projector and the server are
killed, stopped and restarted, also into each other's recovery. Then everything is let come to an
end, an operator saying of each unknown effect what the world has seen, and the history checker
(`mulligan.testing.checker`) looks at it all. It exits with 1 if that finds anything.

The seed fixes what befalls whom and when; what is under way at that moment, the machine decides.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom

from soak_mishaps import TOOK_OVER, Mishaps, resumed_ms
from soak_world import LEASE_MS, Soak, soaking

from mulligan.events import facts
from mulligan.projections.problem import Problem
from mulligan.projections.run import fold

SETTLE_S = 120.0
"""How long everything may take to come to an end once nothing is in the way."""

SHOWN = 20
"""Problems that are printed."""


def soak(minutes: float, seed: int) -> bool:
    """One soak; whether nothing was wrong."""
    with tempfile.TemporaryDirectory() as folder, soaking(Path(folder), Random(seed)) as world:
        mishaps = Mishaps(world)
        until_s = time.monotonic() + 60 * minutes
        while time.monotonic() < until_s:
            world.replace_groups()
            world.ask()
            world.cancel_one()
            mishaps.strike()
            world.operate()
            time.sleep(0.05)
        mishaps.end()
        began_s = time.monotonic()
        world.settle(SETTLE_S)
        settled_s = time.monotonic() - began_s
        problems = world.wrong()
        _print(world, mishaps, seed, settled_s)
        _show(problems, world)
        return not problems


def _print(world: Soak, mishaps: Mishaps, seed: int, settled_s: float) -> None:
    journal = world.journal.entries()
    histories = {run: list(world.client.events(run)) for run in world.runs}
    states = [fold(run, events) for run, events in histories.items()]
    kinds = Counter(type(e.data) for events in histories.values() for e in events)
    unknown = kinds[facts.ToolOutcomeUnknown]
    resumed = resumed_ms(mishaps.kills, mishaps.watch, journal)
    alone = sorted(one.took_ms for one in resumed if not one.disturbed)
    everyone = sorted(one.took_ms for one in resumed)
    ends = Counter(s.status if s.ended else f"{s.status}: {s.reason}" for s in states)
    effects = world.effects()
    verified = sum(
        isinstance(e.data, facts.EffectReconciled) and e.data.by == "verify"
        for events in histories.values()
        for e in events
    )
    lines = {
        "seed": seed,
        "runs": f"{len(states)}  {dict(ends)}",
        "kills": f"{mishaps.happened.total() - mishaps.happened[TOOK_OVER]}  "
        f"{dict(mishaps.happened)}",
        "events": sum(len(events) for events in histories.values()),
        "acknowledged": len(journal),
        "effects": f"{len(effects)}, of {len({effect.key for effect in effects})} calls",
        "unknowns": f"{unknown} of tools; {verified} told by verify, "
        f"{world.reconciled.total()} by the operator {dict(world.reconciled)}",
        "recovery": f"{kinds[facts.AllowanceReserved]} attempts reserved, "
        f"{kinds[facts.AllowanceRefunded]} refunds, {kinds[facts.OutputRepairSucceeded]} overseen, "
        f"{kinds[facts.RepairRoundCompleted]} rounds of repair, {kinds[facts.RunResumed]} resumed",
        "kill→resumed": f"p50 {_share(alone, 0.5)} ms, p99 {_share(alone, 0.99)} ms of "
        f"{len(alone)} tasks with another worker and the server up (lease {LEASE_MS} ms); "
        f"p50 {_share(everyone, 0.5)} ms, p99 {_share(everyone, 0.99)} ms of all {len(everyone)}",
        "settled": f"in {settled_s:.1f} s",
    }
    for name, told in lines.items():
        print(f"{name:<14}{told}", flush=True)


def _share(values: list[int], share: float) -> int | None:
    return values[min(int(share * len(values)), len(values) - 1)] if values else None


def _show(problems: list[Problem], world: Soak) -> None:
    print(f"{'problems':<14}{len(problems)}  {dict(Counter(one.invariant for one in problems))}")
    for problem in problems[:SHOWN]:
        print(f"  {problem}")
    parked = [
        entry for group in (*world.groups, *world.dead) for entry in group.logged("task_parked")
    ]
    for entry in parked[:SHOWN]:
        print(f"  parked: {entry}")


def main() -> None:
    """Read the command line and soak."""
    parser = argparse.ArgumentParser(description="Runs under random kills, checked.")
    parser.add_argument("--soak", type=float, default=3.0, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=None, help="of what befalls whom; default: any")
    given = parser.parse_args()
    if given.soak <= 0:
        parser.error(f"--soak {given.soak:g}: name more than 0 minutes")
    seed = given.seed if given.seed is not None else SystemRandom().randrange(10**6)
    sys.exit(0 if soak(given.soak, seed) else 1)


if __name__ == "__main__":
    main()
