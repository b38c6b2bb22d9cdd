"""
What can be wrong with a history, each kind by its name.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Invariant = Literal[
    "append_lost",
    "append_doubled",
    "append_disordered",
    "stale_fence",
    "effect_doubled",
    "effect_unannounced",
    "effect_invented",
    "effect_denied",
    "allowance_exceeded",
    "allowance_reset",
    "feed_skipped",
    "feed_doubled",
    "feed_disordered",
    "run_stalled",
    "progress_lost",
    "history_impossible",
    "fold_differs",
]
"""
What must always be true, named by how it fails:

- `append_lost`: what was acknowledged is not in the log, or a version is missing.
- `append_doubled`: an event is in the log twice.
- `append_disordered`: versions don't rise, an append is torn apart, or what one writer was
  acknowledged in one order stands there in another.
- `stale_fence`: an append was taken from a worker whose task another had claimed since.
- `effect_doubled`: a `write` was started, or seen by the world, more often than somebody allowed.
- `effect_unannounced`: the world saw what no log had announced.
- `effect_invented`: the log tells of success, and the world has not seen it.
- `effect_denied`: the log says that nothing was done, and the world has seen it.
- `allowance_exceeded`: more attempts, rounds or money than there were, or after exhaustion.
- `allowance_reset`: a count of what is used went back without a refund or a resume.
- `feed_skipped`, `feed_doubled`, `feed_disordered`: events that the feed does not name, names
  twice, or in an order other than the log's.
- `run_stalled`: at rest, and neither ended nor waiting for a named reason.
- `progress_lost`: what had its result was begun again.
- `history_impossible`: another step that no run takes.
- `fold_differs`: what is folded or stored is not what the events say.
"""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: the invariant that it breaks, what, and with which run."""

    invariant: Invariant
    told: str
    run: str = ""

    @property
    def line(self) -> str:
        """What is wrong, where the run is known."""
        return f"{self.invariant}: {self.told}"

    def __str__(self) -> str:
        return f"{self.run}: {self.line}" if self.run else self.line
