"""
What must be true of a feed: it names every event of its partition's runs, once, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mulligan.events.store import FeedEntry
from mulligan.projections.problem import Invariant, Problem


def feed_problems(
    entries: Iterable[FeedEntry], versions: Mapping[str, int], *, trimmed: bool = False
) -> list[Problem]:
    """
    What is wrong with a partition's references, oldest first, where its runs are at `versions`.
    Their ids rise, and each run's join up from its first event to its version. Of a `trimmed` feed
    the beginning is missing, and what is left must join up from there.
    """
    found: list[Problem] = []
    reached: dict[str, int] = {}
    last = (0, 0)
    for entry in entries:
        if (here := _place(entry.id)) <= last:
            told = f"the entry {entry.id} follows {last[0]}-{last[1]}"
            found.append(Problem("feed_disordered", told, entry.run))
        last = here
        first = entry.version - entry.count
        before = reached.get(entry.run, first if trimmed else 0)
        if first != before:
            told = f"events {first + 1} to {entry.version} follow event {before}"
            wrong: Invariant = "feed_skipped" if first > before else "feed_doubled"
            found.append(Problem(wrong, told, entry.run))
        reached[entry.run] = max(before, entry.version)
    for run, version in versions.items():
        if reached.get(run, version if trimmed else 0) != version:
            told = f"it leads to event {reached.get(run, 0)}, and the run is at {version}"
            found.append(Problem("feed_skipped", told, run))
    unknown = sorted(reached.keys() - versions.keys())
    return [*found, *(Problem("append_lost", "only the feed knows it", run) for run in unknown)]


def follower_problems(
    projection: str, checkpoint: str, reached: Mapping[str, int], entries: Iterable[FeedEntry]
) -> list[Problem]:
    """
    What a projection has skipped: at its `checkpoint` its rows must have `reached` all that the
    entries up to there refer to.
    """
    passed: dict[str, int] = {}
    for entry in entries:
        if _place(entry.id) <= _place(checkpoint):
            passed[entry.run] = entry.version
    return [
        Problem(
            "feed_skipped",
            f"the rows of {projection} have passed event {version}, and its row is at "
            f"{reached.get(run, 0)}",
            run,
        )
        for run, version in passed.items()
        if reached.get(run, 0) < version
    ]


def _place(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
