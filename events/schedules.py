"""
Where schedules are in the log: each is a stream of its own, beside those of runs.

A schedule's stream has an id that no run may have. It is no run: lists, projections, archive and
verification are about runs, and its appends are not referred to in the feed. It never ends, so what
its facts came to is written down anew now and then, and what stood before is dropped (`Append`).
"""

from __future__ import annotations

PREFIX = "schedule:"


def schedule_stream(name: str) -> str:
    """The id of a schedule's stream, where a run has its own."""
    return f"{PREFIX}{name}"


def is_schedule(stream: str) -> bool:
    """Whether a stream is that of a schedule, and not of a run."""
    return stream.startswith(PREFIX)


def schedule_name(stream: str) -> str:
    """The schedule whose stream that is."""
    return stream.removeprefix(PREFIX)
