"""
How much `bench/compare.py` measures: minutes for figures to publish, or two minutes for a look.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = 100
"""Of the chain that is alone."""

CHAINS = 20
IDLE_S = 2.0
"""Before a hop: readers that poll have slowed down by then."""


@dataclass(frozen=True)
class Size:
    """
    Rounds of each row, and what is measured in a round.

    Args:
        synced_rounds: rounds of chains whose every step is on the disk.
        steps_of_many: steps of each of many chains.
        hops: requests to idle workers, in a round.
        kills: workers that are killed.
        idle_s: for how long a worker is watched that has nothing to do.
        agents, model_s: agents at once, and the seconds that their model takes.
        events: of the runs that are rebuilt, verified and archived.
        long_run: events of the run that is loaded.
        stored: runs beside which chains are worked.
        starts: of each program.
    """

    rounds: int
    synced_rounds: int
    steps_of_many: int
    hops: int
    kills: int
    idle_s: float
    agents: int
    model_s: float
    events: int
    long_run: int
    stored: tuple[int, ...]
    starts: int


FULL = Size(
    rounds=7,
    synced_rounds=5,
    steps_of_many=100,
    hops=20,
    kills=3,
    idle_s=15.0,
    agents=200,
    model_s=10.0,
    events=1_000_000,
    long_run=10_000,
    stored=(1_000, 10_000, 100_000),
    starts=15,
)
SHORT = Size(
    rounds=1,
    synced_rounds=1,
    steps_of_many=10,
    hops=3,
    kills=1,
    idle_s=4.0,
    agents=50,
    model_s=2.0,
    events=20_000,
    long_run=2_000,
    stored=(100, 1_000),
    starts=3,
)
