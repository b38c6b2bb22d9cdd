"""
Whether what a log tells, its feed, its writers and the world outside agree: for tests of your own
workflows, however badly their workers were treated.

    >>> from mulligan import Workflow
    >>> from mulligan.testing.checker import Effect, check
    >>> from mulligan.testing.in_memory import InMemory
    >>> from mulligan.testing.journal import Journal, journaled
    >>> from mulligan.testing.scripted_provider import ScriptedProvider
    >>> flow = Workflow("greet", model="any")
    >>> _ = flow.agent("greet", prompt="Greet {input}.", output={"type": "object"})
    >>> journal = Journal()
    >>> world = InMemory(
    ...     provider=ScriptedProvider([{"says": "Hello"}]),
    ...     meddle=lambda store: journaled(store, journal),
    ... )
    >>> world.run(flow, "you").status
    'completed'
    >>> check(world.store, journal=journal.entries(), effects=[])
    []
    >>> for problem in check(world.store, effects=[Effect("run:mail")]):
    ...     print(problem)
    effect_unannounced: run:mail was seen 1 times, and is in no log

`docs/testing.md` tells how the parts of `mulligan.testing` go together.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from mulligan.errors import EventUnreadable, FeedTrimmed
from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.store import EventStore, FeedEntry, Row
from mulligan.projections.feed_history import feed_problems, follower_problems
from mulligan.projections.problem import Problem
from mulligan.projections.rows import STORED, Rows
from mulligan.projections.run import fold
from mulligan.projections.verify import problems_of
from mulligan.testing.journal import Acknowledged, Entry, Taken
from mulligan.testing.witness import Effect, Witness

PAGE = 10_000
FAR = sys.maxsize
"""Beyond any version."""


def check(
    store: EventStore,
    *,
    journal: Iterable[Entry] = (),
    effects: Iterable[Effect] | None = None,
    covers: Collection[str] | None = None,
    at_rest: bool = True,
) -> list[Problem]:
    """
    Everything that is wrong with a server's runs, by the name of the invariant that it breaks (see
    `mulligan.projections.problem.Invariant`); empty if nothing is.

    Args:
        store: the log: its runs, its index, its rows, its feed (`Client.store` reads those of
            archived runs too).
        journal: what its users were acknowledged (`mulligan.testing.journal`). Without it, what
            is lost from the end of a run, or was appended under a stale fence, can't be seen.
        effects: what the world saw, by key; None: nobody looked. All effects there are of the
            tools (by name) and function nodes (by id) that `covers` names; None: of each `write`.
        at_rest: whether all work was done that could be; then each run has ended, or waits for a
            named reason.
    """
    rows = dict(store.runs())
    histories, found = _histories(store, rows)
    for run, events in histories.items():
        found += problems_of(store, run, events)
        found += _rest_problems(run, rows[run], events) if at_rest else ()
    found += _feed_problems(store, rows)
    readable = [entry for entry in journal if entry.run in histories or entry.run not in rows]
    found += journal_problems(histories, readable)
    if effects is not None:
        witness = Witness(effects, covers)
        for run, events in histories.items():
            witness.take(run, events)
        found += witness.problems()
    return found


def _histories(
    store: EventStore, runs: Iterable[str]
) -> tuple[dict[str, list[Envelope]], list[Problem]]:
    """The runs' events, and of which of them there is no reading."""
    histories: dict[str, list[Envelope]] = {}
    found: list[Problem] = []
    for run in runs:
        try:
            histories[run] = store.read(run)
        except EventUnreadable as error:
            found.append(Problem("append_lost", str(error), run))
    return histories, found


# --- Rest ----------------------------------------------------------------------------------------


def _rest_problems(run: str, row: Row, events: Sequence[Envelope]) -> Iterable[Problem]:
    state = fold(run, events)
    if row.phase in ("closed", "archived"):
        if not state.ended:
            yield Problem("run_stalled", f"it is {row.phase}, and its log does not end", run)
    elif state.status != "paused" or state.reason is None:
        yield Problem("run_stalled", f"it is {state.status}, and nothing moves", run)


# --- The feed ------------------------------------------------------------------------------------


def _feed_problems(store: EventStore, rows: dict[str, Row]) -> list[Problem]:
    found: list[Problem] = []
    for partition in range(store.partitions()):
        entries, trimmed = _entries(store, partition)
        versions = {
            run: row.version
            for run, row in rows.items()
            if partition_of(run, store.partitions()) == partition
        }
        found += feed_problems(entries, versions, trimmed=trimmed)
        for stored in STORED:
            checkpoint = store.checkpoint(stored.name, partition)
            live = [entry for entry in entries if not _is_archived(rows.get(entry.run))]
            found += follower_problems(
                stored.name, checkpoint, _reached(store, stored, partition), live
            )
    return found


def _is_archived(row: Row | None) -> bool:
    """Then its rows are with it, or are not kept at all."""
    return row is not None and row.phase == "archived"


def _reached(store: EventStore, stored: Rows, partition: int) -> dict[str, int]:
    """How far a projection's rows have come, but those that wait for a newer code."""
    rows = {
        run: stored.decode(row) for run, row in store.rows(stored.name, partition).items() if row
    }
    return {run: FAR if row.unreadable else row.version for run, row in rows.items()}


def _entries(store: EventStore, partition: int) -> tuple[list[FeedEntry], bool]:
    """A partition's references, and whether the beginning is missing."""
    entries: list[FeedEntry] = []
    after, trimmed = "0", False
    while True:
        try:
            page = store.feed(partition, after, limit=PAGE)
        except FeedTrimmed as gap:
            after, trimmed = gap.trimmed, True
            continue
        if not page:
            return entries, trimmed
        entries += page
        after = page[-1].id


# --- What was acknowledged -----------------------------------------------------------------------


def journal_problems(
    histories: Mapping[str, Sequence[Envelope]], journal: Sequence[Entry]
) -> list[Problem]:
    """
    What is wrong between what the users of a log were told and the histories of its runs. Every
    append that was acknowledged is there, once, whole, in the order in which its writer was
    acknowledged; and none is of a task's holder after another had claimed the task.
    """
    places = {run: _places(events) for run, events in histories.items()}
    holders = _holders(journal)
    reached: dict[tuple[str, str], int] = {}
    found: list[Problem] = []
    seen: set[str] = set()
    for entry in journal:
        if not isinstance(entry, Acknowledged) or entry.op in seen:
            continue
        seen.add(entry.op)
        found += _is_there(entry, places.get(entry.run))
        versions = places.get(entry.run, {}).get(entry.op)
        if versions:
            of = entry.by, entry.run
            if versions[0] <= reached.get(of, 0):
                told = f"{entry.op} stands before what {entry.by} was acknowledged earlier"
                found.append(Problem("append_disordered", told, entry.run))
            reached[of] = versions[-1]
            found += _fence_problems(entry, versions[0], holders.get(entry.task, []))
    return found


def _places(events: Iterable[Envelope]) -> dict[str, list[int]]:
    """By operation, the versions of its events."""
    places: dict[str, list[int]] = {}
    for event in events:
        places.setdefault(event.id.rpartition(".")[0], []).append(event.version)
    return places


def _is_there(entry: Acknowledged, places: dict[str, list[int]] | None) -> Iterable[Problem]:
    if places is None:
        yield Problem("append_lost", f"{entry.op} was acknowledged, and there is no run", entry.run)
        return
    versions = places.get(entry.op, [])
    if entry.known and not versions:
        return
    if len(versions) < entry.events:
        told = f"of {entry.op}, {len(versions)} events of {entry.events} acknowledged are there"
        yield Problem("append_lost", told, entry.run)
    elif len(versions) > entry.events:
        told = f"of {entry.op}, {len(versions)} events are there, not {entry.events}"
        yield Problem("append_doubled", told, entry.run)
    if versions and versions != list(range(versions[0], versions[0] + len(versions))):
        yield Problem("append_disordered", f"{entry.op} is torn apart", entry.run)


def _holders(journal: Iterable[Entry]) -> dict[str, list[Taken]]:
    """
    Who claimed each task, in the order in which the server gave it out. Of two claims at the same
    version in the same millisecond nobody knows it; whoever appended is then taken for the later.
    """
    holders: dict[str, list[Taken]] = {}
    for entry in journal:
        if isinstance(entry, Taken):
            holders.setdefault(entry.task, []).append(entry)
    for of in holders.values():
        of.sort(key=_moment)
    return holders


def _moment(taken: Taken) -> tuple[int, int]:
    return taken.version, taken.now_ms


def _fence_problems(
    entry: Acknowledged, version: int, holders: Sequence[Taken]
) -> Iterable[Problem]:
    """
    A claim tells the run's version at its moment, so whoever had claimed the task last below an
    append's version held it then, whatever clocks say.
    """
    before = [taken for taken in holders if taken.version < version]
    mine = [taken for taken in before if taken.token == entry.token]
    if mine and _moment(mine[-1]) < _moment(before[-1]):
        told = f"{entry.op} came of {entry.task} at event {version}, after another had claimed it"
        yield Problem("stale_fence", told, entry.run)


__all__ = ["Effect", "Problem", "check", "journal_problems"]
