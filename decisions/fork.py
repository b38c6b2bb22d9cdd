"""
A run from the first events of another.

What the other had recorded by then is copied, and is as true in the fork: results stay results, so
no tool runs again that had one. What was under way was left by a worker that is not here, and goes
on by the rules for a lost one: a request is sent again, a `read` or `idempotent` call repeated with
its key, a `write` that had started is of unknown outcome (REC-31).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from mulligan.decisions.reactions import HINT_GRACE_MS
from mulligan.errors import InvalidInput
from mulligan.events import facts
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.payload import Payload, canonical, digest_of, with_payloads
from mulligan.events.store import MAX_EVENTS_OF_NEW_RUN, Append, AsNew, Move
from mulligan.events.tasks import overseer_task, run_task
from mulligan.projections.run import fold
from mulligan.projections.state import ENDED_NODE, RunState

ENDS = (facts.RunCancelRequested, facts.RunCancelled, facts.RunCompleted, facts.RunFailed)
"""From the first of these on a run begins nothing new, and neither would its fork."""


def fork(
    parent: Sequence[Envelope],
    at: int,
    run: str,
    op: str,
    value_of: Callable[[Payload], Any],
) -> Append:
    """
    Ask for `run` as a copy of a run up to and with its event `at`. The same id with the same run
    and version is the same fork. `value_of` reads the payloads of `parent`, which are all of its
    events (at least one more than are copied, if there is one).

    Raises:
        InvalidInput: `at` is none of its versions, within an append, or too late to go on from.
    """
    refuse_version(parent, at)
    copied = parent[:at]
    last = copied[-1]
    forked = facts.RunForked(parent=last.run, at_version=at)
    events = (*(_copy(event, value_of) for event in copied), NewEvent(forked))
    return Append(
        run=run,
        op=op,
        writer=AsNew(digest_of(canonical(["fork", last.run, at]))),
        events=events,
        moves=_under_way(run, copied),
        causation=last.id,
        correlation=parent[0].correlation or last.run,
    )


def refuse_version(parent: Sequence[Envelope], at: int) -> None:
    """Raises InvalidInput: no run could begin from the version; the message says which could."""
    run, versions = parent[0].run, len(parent)
    if not 1 <= at <= versions:
        raise InvalidInput(f"run {run!r} has no version {at}: name one from 1 to {versions}")
    if at + 1 > MAX_EVENTS_OF_NEW_RUN:
        raise InvalidInput(
            f"version {at} of run {run!r} is too far to fork at: "
            f"up to {MAX_EVENTS_OF_NEW_RUN - 1:,} events can be copied"
        )
    before, after = _append_around(parent, at)
    if after != at:
        choice = f"{before} or {after}" if before else f"{after}"
        raise InvalidInput(
            f"version {at} of run {run!r} lies within one append (events {before + 1} to {after} "
            f"were decided together): fork at {choice}"
        )
    ended = next((event for event in parent[:at] if isinstance(event.data, ENDS)), None)
    if ended is not None:
        before, _ = _append_around(parent, ended.version)
        raise InvalidInput(
            f"version {at} of run {run!r} is after its {ended.type} (event {ended.version}), and "
            f"nothing begins after that: fork at {before} or before"
        )


def _append_around(parent: Sequence[Envelope], version: int) -> tuple[int, int]:
    """The last version before the append that holds an event, and the last of that append."""
    op = _op_of(parent[version - 1])
    first = last = version
    while first > 1 and _op_of(parent[first - 2]) == op:
        first -= 1
    while last < len(parent) and _op_of(parent[last]) == op:
        last += 1
    return first - 1, last


def _op_of(event: Envelope) -> str:
    return event.id.rpartition(".")[0]


def _copy(event: Envelope, value_of: Callable[[Payload], Any]) -> NewEvent:
    """An event with the values it names: the store keeps large ones under the fork's own keys."""

    def whole(payload: Payload) -> Payload:
        return payload if payload.inline else replace(payload, value=value_of(payload))

    return NewEvent(with_payloads(event.data, whole), node=event.node, attempt=event.attempt)


def _under_way(run: str, copied: Sequence[Envelope]) -> tuple[Move, ...]:
    """The tasks that were there at the version: the run's, and of whatever has not ended."""
    state = fold(run, copied)
    tasks = [run_task(run), *_of_nodes(state), *_of_agents(state)]
    return tuple(Move(task, "ready", HINT_GRACE_MS) for task in dict.fromkeys(tasks))


def _of_nodes(state: RunState) -> list[str]:
    return [
        state.worker_of(node.id)
        for node in state.nodes.values()
        if node.status != "pending" and node.status not in ENDED_NODE and node.fan_out is None
    ]


def _of_agents(state: RunState) -> list[str]:
    called = [one for one in state.invocations.values() if one.parent is not None and not one.ended]
    repaired = [
        overseer_task(state.run, one.id, one.output_repair.attempt)
        for one in state.invocations.values()
        if one.output_repair is not None and one.output_repair.open and not one.ended
    ]
    return [*(state.worker_of(one.id) for one in called), *repaired]
